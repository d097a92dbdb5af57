//! Decimals without floating point: text to whole numbers of 10^-12 on the way in, whole millionths to text on the way out.

use std::fmt;
use std::iter::Sum;

use num_bigint::BigInt;
use num_traits::{Signed, Zero};
use serde::{Serialize, Serializer};

/// Digits after the point that a decimal read by [`parse`] may have.
pub const SCALE: u32 = 12;

/// One, as [`parse`] gives it: `10^12`.
pub const ONE: i128 = 1_000_000_000_000;

/// Digits before the point that a decimal read by [`parse`] may have.
const WHOLE_DIGITS: usize = 18;

/// Reads a decimal such as `2.50` as a whole number of `10^-12`.
///
/// # Errors
/// What was expected, when the text isn't plain digits with at most one point, [`SCALE`] digits after and 18 before it.
pub fn parse(text: &str) -> Result<i128, &'static str> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return Err("a decimal such as 0.25, without sign or exponent");
    }
    if part.len() > SCALE as usize {
        return Err("at most 12 digits after the point");
    }
    if whole.len() > WHOLE_DIGITS {
        return Err("at most 18 digits before the point");
    }
    let padded = format!("{whole}{part:0<width$}", width = SCALE as usize);
    padded.parse().map_err(|_| "a decimal such as 0.25, without sign or exponent")
}

/// Writes a whole number of `10^-12` with at least two digits after the point and no needless zeros.
pub fn format(value: i128) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let value = value.unsigned_abs();
    let one = ONE.unsigned_abs();
    let part = format!("{:012}", value % one);
    let part = part.trim_end_matches('0');
    format!("{sign}{}.{part:0<2}", value / one)
}

/// Writes a whole number of `10^-scale` with all its digits after the point, so that no reader takes it for an integer.
pub fn fixed(value: i128, scale: u8) -> String {
    let one = 10_u128.pow(u32::from(scale));
    let sign = if value < 0 { "-" } else { "" };
    let value = value.unsigned_abs();
    format!("{sign}{}.{:0width$}", value / one, value % one, width = usize::from(scale))
}

/// Reads what [`fixed`] writes.
///
/// # Errors
/// What was expected, when the text isn't a decimal of exactly so many digits after the point.
pub fn parse_fixed(text: &str, scale: u8) -> Result<i128, String> {
    let fault = || format!("a decimal with {scale} digits after the point");
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, part) = digits.split_once('.').ok_or_else(fault)?;
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(part) || part.len() != usize::from(scale) {
        return Err(fault());
    }
    format!("{whole}{part}").parse::<i128>().map(|value| sign * value).map_err(|_| fault())
}

/// An exact number of millionths: of a currency unit, or of a GPU-hour.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Millionths(pub BigInt);

impl Millionths {
    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    /// For people: like [`fmt::Display`], with a comma between thousands.
    pub fn grouped(&self) -> String {
        let text = self.to_string();
        let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let mut out = String::from(sign);
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at) % 3 == 0 {
                out.push(',');
            }
            out.push(digit);
        }
        format!("{out}.{part}")
    }
}

impl fmt::Display for Millionths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let million = BigInt::from(1_000_000);
        let (whole, part) = (self.0.abs() / &million, self.0.abs() % &million);
        let sign = if self.0.is_negative() { "-" } else { "" };
        f.pad(&format!("{sign}{whole}.{:0>6}", part.to_string()))
    }
}

impl Serialize for Millionths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'a> Sum<&'a Self> for Millionths {
    fn sum<I: Iterator<Item = &'a Self>>(parts: I) -> Self {
        Self(parts.map(|part| &part.0).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly() {
        for (text, value) in [
            ("1", ONE),
            ("1.00", ONE),
            ("0.1", ONE / 10),
            ("0.000000000001", 1),
            ("2.500000000000", 5 * ONE / 2),
            ("999999999999999999.999999999999", 999_999_999_999_999_999_999_999_999_999),
        ] {
            assert_eq!(parse(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", "1.2.3", " 1", "0x1", "NaN", "١"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert_eq!(parse("0.1000000000000"), Err("at most 12 digits after the point"));
        assert_eq!(parse("1234567890123456789"), Err("at most 18 digits before the point"));
    }

    #[test]
    fn decimals_are_written_as_people_write_them() {
        for (value, text) in [(0, "0.00"), (ONE, "1.00"), (5 * ONE / 2, "2.50"), (1, "0.000000000001")] {
            assert_eq!(format(value), text);
        }
        let amount = |value: i64| Millionths(BigInt::from(value));
        assert_eq!(amount(51_470_674_158).to_string(), "51470.674158");
        assert_eq!(amount(51_470_674_158).grouped(), "51,470.674158");
        assert_eq!(amount(-1).to_string(), "-0.000001");
        assert_eq!(amount(-123_456_000_000).grouped(), "-123,456.000000");
        assert_eq!(amount(0).grouped(), "0.000000");
    }

    #[test]
    fn a_fixed_scale_is_read_as_it_was_written() {
        for (value, scale, text) in [
            (0, 6, "0.000000"),
            (5_000_000, 6, "5.000000"),
            (-1, 12, "-0.000000000001"),
            (i128::MAX, 1, "17014118346046923173168730371588410572.7"),
        ] {
            assert_eq!(fixed(value, scale), text);
            assert_eq!(parse_fixed(text, scale), Ok(value));
        }
        for text in [
            "",
            "5",
            "5.",
            "5.00000",
            "5.0000000",
            "+5.000000",
            "--5.000000",
            "5,000000",
            "5e1.000000",
            &"9".repeat(40),
        ] {
            assert_eq!(parse_fixed(text, 6), Err("a decimal with 6 digits after the point".to_owned()), "{text:?}");
        }
    }
}
