//! One value that a sensor was asked for, with the three ways that asking can end.

use std::borrow::Cow;

use serde::Serialize;

/// One value that a sensor was asked for.
///
/// *Unsupported* (this device cannot tell), *failed* (it should be able to, and did not) and a value of 0 are
/// never mixed up: a missing value is absent from what is sent, and its reason is shown by `contador-agent probe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// The value.
    Value(T),
    /// The device, driver or kernel does not offer this value; with the reason, in lower case.
    Unsupported(Cow<'static, str>),
    /// The value should be there, and reading it went wrong; with the reason, in lower case.
    Failed(Cow<'static, str>),
}

impl<T> Reading<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Unsupported(_) | Self::Failed(_) => None,
        }
    }

    /// The value, if there is one, by copy.
    pub fn get(&self) -> Option<T>
    where
        T: Copy,
    {
        self.value().copied()
    }

    /// Why there is no value: `unsupported (…)` or `failed (…)`.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Value(_) => None,
            Self::Unsupported(reason) => Some(format!("unsupported ({reason})")),
            Self::Failed(reason) => Some(format!("failed ({reason})")),
        }
    }

    /// True when reading the value went wrong, as opposed to its not being offered.
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Applies `f` to the value and keeps the reason of a missing one.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Value(value) => Reading::Value(f(value)),
            Self::Unsupported(reason) => Reading::Unsupported(reason),
            Self::Failed(reason) => Reading::Failed(reason),
        }
    }

    /// Goes on with a reading that depends on this value; the reason of a missing one is kept.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Self::Value(value) => f(value),
            Self::Unsupported(reason) => Reading::Unsupported(reason),
            Self::Failed(reason) => Reading::Failed(reason),
        }
    }
}
