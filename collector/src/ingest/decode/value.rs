//! Numbers and times of points, checked before they become columns.

use opentelemetry_proto::tonic::metrics::v1::{DataPointFlags, NumberDataPoint, number_data_point::Value};

use super::reject::Reason;

/// Times from this on (Unix nanoseconds, 2100-01-01) are impossible: a `DateTime` or a partition could not hold them.
pub const END_OF_TIME_NS: u64 = 4_102_444_800_000_000_000;

/// The value of a number point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Int(i64),
    /// Any finite number.
    Double(f64),
}

/// The value of `point`; `None` when the sender says that there was none.
///
/// # Errors
/// [`Reason::NoValue`], and [`Reason::NotANumber`] for NaN and infinity.
pub fn number(point: &NumberDataPoint) -> Result<Option<Number>, Reason> {
    if no_recorded_value(point.flags) {
        return Ok(None);
    }
    match point.value {
        None => Err(Reason::NoValue),
        Some(Value::AsInt(value)) => Ok(Some(Number::Int(value))),
        Some(Value::AsDouble(value)) if !value.is_finite() => Err(Reason::NotANumber),
        Some(Value::AsDouble(value)) => Ok(Some(Number::Double(value))),
    }
}

/// Whether a point's flags say that there was no value.
pub fn no_recorded_value(flags: u32) -> bool {
    flags & DataPointFlags::NoRecordedValueMask as u32 != 0
}

/// A point's time in Unix nanoseconds.
///
/// # Errors
/// [`Reason::Time`] for 0 and for what lies beyond [`END_OF_TIME_NS`].
pub fn time(unix_nano: u64) -> Result<i64, Reason> {
    if unix_nano == 0 || unix_nano >= END_OF_TIME_NS {
        return Err(Reason::Time);
    }
    i64::try_from(unix_nano).map_err(|_| Reason::Time)
}

/// A point's start in Unix nanoseconds, `None` when it is unknown.
///
/// # Errors
/// [`Reason::Time`] when it is after `time`.
pub fn start(start_unix_nano: u64, time_unix_nano: u64) -> Result<Option<i64>, Reason> {
    if start_unix_nano > time_unix_nano {
        return Err(Reason::Time);
    }
    if start_unix_nano == 0 { Ok(None) } else { time(start_unix_nano).map(Some) }
}

impl Number {
    /// As a float.
    pub fn f64(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "a float is what is asked for")]
            Self::Int(value) => value as f64,
            Self::Double(value) => value,
        }
    }

    /// A share from 0 to 1.
    ///
    /// # Errors
    /// [`Reason::Negative`], [`Reason::OutOfRange`].
    pub fn share(self) -> Result<f32, Reason> {
        let value = self.f64();
        if value < 0.0 {
            Err(Reason::Negative)
        } else if value > 1.0 {
            Err(Reason::OutOfRange)
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "the column has 32 bits")]
            Ok(value as f32)
        }
    }

    /// A float that is not negative, in 32 bits.
    ///
    /// # Errors
    /// [`Reason::Negative`], [`Reason::NotANumber`].
    pub fn f32(self) -> Result<f32, Reason> {
        let value = self.f64();
        if !value.is_finite() {
            Err(Reason::NotANumber)
        } else if value < 0.0 {
            Err(Reason::Negative)
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "the column has 32 bits")]
            Ok(value as f32)
        }
    }

    /// The nearest whole number of `1 / scale`ths (`scale` 1,000 makes milliseconds of seconds).
    ///
    /// # Errors
    /// [`Reason::Negative`], [`Reason::OutOfRange`], [`Reason::NotANumber`].
    pub fn u64(self, scale: u32) -> Result<u64, Reason> {
        match self {
            Self::Int(value) => {
                let value = u64::try_from(value).map_err(|_| Reason::Negative)?;
                value.checked_mul(u64::from(scale)).ok_or(Reason::OutOfRange)
            }
            Self::Double(value) => {
                let value = (value * f64::from(scale)).round();
                if !value.is_finite() {
                    Err(Reason::NotANumber)
                } else if value < 0.0 {
                    Err(Reason::Negative)
                } else if value >= 18_446_744_073_709_551_616.0 {
                    Err(Reason::OutOfRange)
                } else {
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
                    Ok(value as u64)
                }
            }
        }
    }

    /// As [`Number::u64`], in 32 bits.
    ///
    /// # Errors
    /// As [`Number::u64`].
    pub fn u32(self, scale: u32) -> Result<u32, Reason> {
        u32::try_from(self.u64(scale)?).map_err(|_| Reason::OutOfRange)
    }

    /// Yes for 1, no for 0.
    ///
    /// # Errors
    /// [`Reason::OutOfRange`] for anything else.
    pub fn flag(self) -> Result<bool, Reason> {
        match self {
            Self::Int(0) => Ok(false),
            Self::Int(1) => Ok(true),
            Self::Double(0.0) => Ok(false),
            Self::Double(1.0) => Ok(true),
            _ => Err(Reason::OutOfRange),
        }
    }

    /// The nearest whole number in 16 bits, which may be negative.
    ///
    /// # Errors
    /// [`Reason::OutOfRange`].
    pub fn i16(self) -> Result<i16, Reason> {
        let value = self.f64().round();
        if (-32_768.0..=32_767.0).contains(&value) {
            #[expect(clippy::cast_possible_truncation, reason = "checked above")]
            Ok(value as i16)
        } else {
            Err(Reason::OutOfRange)
        }
    }
}

/// Puts `value` where a column's value belongs. Two different values of one column keep the greater one, so that the
/// order of points does not matter.
///
/// # Errors
/// [`Reason::Conflicting`] for the other one.
pub fn put<T: PartialOrd>(column: &mut Option<T>, value: T) -> Result<(), Reason> {
    match column {
        None => *column = Some(value),
        Some(known) if *known == value => {}
        Some(known) => {
            if value > *known {
                *known = value;
            }
            return Err(Reason::Conflicting);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_times_are_rejected_not_wrapped() {
        assert_eq!(time(0), Err(Reason::Time));
        assert_eq!(time(u64::MAX), Err(Reason::Time));
        assert_eq!(time(i64::MAX as u64), Err(Reason::Time));
        assert_eq!(time(1_700_000_000_000_000_000), Ok(1_700_000_000_000_000_000));
        assert_eq!(start(5, 4), Err(Reason::Time));
        assert_eq!(start(0, 4), Ok(None));
    }

    #[test]
    fn numbers_keep_their_range() {
        assert_eq!(Number::Double(26.19).share(), Err(Reason::OutOfRange));
        assert_eq!(Number::Double(f64::INFINITY).u64(1), Err(Reason::NotANumber));
        assert_eq!(Number::Double(123.456).u64(1_000), Ok(123_456));
        assert_eq!(Number::Int(-1).u64(1), Err(Reason::Negative));
        assert_eq!(Number::Int(4_294_967_296).u32(1), Err(Reason::OutOfRange));
        assert_eq!(Number::Int(i64::MAX).u64(1_000), Err(Reason::OutOfRange));
        assert_eq!(Number::Double(1e30).u64(1), Err(Reason::OutOfRange));
        assert_eq!(Number::Int(-40).i16(), Ok(-40));
        assert_eq!((Number::Int(1).flag(), Number::Double(0.0).flag()), (Ok(true), Ok(false)));
        assert_eq!(
            (Number::Int(2).flag(), Number::Double(0.5).flag()),
            (Err(Reason::OutOfRange), Err(Reason::OutOfRange))
        );
    }
}
