//! What a column may hold: how it becomes a cell of a file, and how the text of a CSV file becomes it again.

mod words;

use std::collections::BTreeMap;

use jiff::Timestamp;
use num_bigint::BigInt;
use num_traits::ToPrimitive;

use crate::bill::decimal::{Millionths, parse_fixed};
use crate::bill::parquet::{Cell, Kind};
pub use words::*;

/// A value of a column.
pub trait Field: Sized {
    /// What the column holds.
    const KIND: Kind;
    /// Whether the column may have no value.
    const NULLABLE: bool = false;
    /// The texts that are allowed; empty where any is.
    const ALLOWED: &'static [&'static str] = &[];

    /// The cell for a file.
    fn cell(&self) -> Cell;

    /// The value of a text of a CSV file; the empty text is no value.
    ///
    /// # Errors
    /// What was expected.
    fn read(text: &str) -> Result<Self, String>;
}

/// A price or a quantity: an exact number of `10^-12`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Trillionths(pub i128);

/// An instant: Unix milliseconds, of which files have whole seconds.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Time(pub i64);

/// Properties by name, a JSON object in files.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Properties(pub BTreeMap<String, String>);

impl Field for String {
    const KIND: Kind = Kind::Text;

    fn cell(&self) -> Cell {
        Cell::Text(self.clone())
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("a text".to_owned()) } else { Ok(text.to_owned()) }
    }
}

impl Field for Millionths {
    const KIND: Kind = Kind::Decimal { scale: 6 };

    /// What has more digits than any file can hold becomes the greatest `i128`, which no writer takes.
    fn cell(&self) -> Cell {
        Cell::Decimal(self.0.to_i128().unwrap_or(i128::MAX))
    }

    fn read(text: &str) -> Result<Self, String> {
        parse_fixed(text, 6).map(|value| Self(BigInt::from(value)))
    }
}

impl Field for Trillionths {
    const KIND: Kind = Kind::Decimal { scale: 12 };

    fn cell(&self) -> Cell {
        Cell::Decimal(self.0)
    }

    fn read(text: &str) -> Result<Self, String> {
        parse_fixed(text, 12).map(Self)
    }
}

impl Field for Time {
    const KIND: Kind = Kind::Timestamp;

    fn cell(&self) -> Cell {
        Cell::Timestamp(self.0)
    }

    fn read(text: &str) -> Result<Self, String> {
        let fault = || "an instant such as 2026-10-01T00:00:00Z".to_owned();
        let read: Timestamp = text.parse().map_err(|_| fault())?;
        let time = Self(read.as_millisecond());
        if instant(time.0) == text { Ok(time) } else { Err(fault()) }
    }
}

/// An instant as FOCUS wants it; instants that no calendar has, as the number.
pub fn instant(ms: i64) -> String {
    Timestamp::from_millisecond(ms)
        .map_or_else(|_| ms.to_string(), |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

impl Field for bool {
    const KIND: Kind = Kind::Boolean;

    fn cell(&self) -> Cell {
        Cell::Boolean(*self)
    }

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "true or false".to_owned())
    }
}

impl Field for Properties {
    const KIND: Kind = Kind::Text;

    fn cell(&self) -> Cell {
        let object = self.0.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        Cell::Text(serde_json::Value::Object(object).to_string())
    }

    fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map(Self).map_err(|_| "a JSON object of texts".to_owned())
    }
}

impl<T: Field> Field for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;
    const ALLOWED: &'static [&'static str] = T::ALLOWED;

    fn cell(&self) -> Cell {
        self.as_ref().map_or(Cell::Null, T::cell)
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { T::read(text).map(Some) }
    }
}
