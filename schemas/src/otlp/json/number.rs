//! Numbers, enums and bytes, in all ways in which protobuf's JSON writes them
//! (<https://protobuf.dev/programming-guides/json/>).

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::fields::Number;

/// A value of JSON that is neither a list nor an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told<'a> {
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'a str),
}

/// A number as protobuf writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Written {
    Varint(u64),
    Fixed(u64),
}

/// From here on, a float may stand for another whole number than the one that was written.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// What `told` is as such a number; `None` when it is none.
    pub(super) fn read(self, told: Told<'_>) -> Option<Written> {
        use Written::{Fixed, Varint};
        Some(match self {
            Self::Bool => match told {
                Told::Bool(value) => Varint(value.into()),
                _ => return None,
            },
            Self::Double => Fixed(double(told)?.to_bits()),
            Self::Fixed64 => Fixed(u64::try_from(whole(told)?).ok()?),
            Self::Sfixed64 => Fixed(i64::try_from(whole(told)?).ok()?.cast_unsigned()),
            Self::Int64 => Varint(i64::try_from(whole(told)?).ok()?.cast_unsigned()),
            Self::Uint64 => Varint(u64::try_from(whole(told)?).ok()?),
            Self::Int32 => Varint(i64::from(i32::try_from(whole(told)?).ok()?).cast_unsigned()),
            Self::Uint32 => Varint(u32::try_from(whole(told)?).ok()?.into()),
            Self::Sint32 => {
                let value = i32::try_from(whole(told)?).ok()?;
                Varint(((value << 1) ^ (value >> 31)).cast_unsigned().into())
            }
            Self::Temporality => {
                let value = match told {
                    Told::Text("AGGREGATION_TEMPORALITY_UNSPECIFIED") => 0,
                    Told::Text("AGGREGATION_TEMPORALITY_DELTA") => 1,
                    Told::Text("AGGREGATION_TEMPORALITY_CUMULATIVE") => 2,
                    Told::Text(_) => return None,
                    _ => i32::try_from(whole(told)?).ok()?,
                };
                Varint(i64::from(value).cast_unsigned())
            }
        })
    }

    /// What is expected, for people.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Double => "a number, or \"NaN\", \"Infinity\" or \"-Infinity\"",
            Self::Fixed64 | Self::Uint64 => {
                "a whole number from 0 to 18446744073709551615, as a number or a string of digits"
            }
            Self::Sfixed64 | Self::Int64 => {
                "a whole number from -9223372036854775808 to 9223372036854775807, as a number or a string of digits"
            }
            Self::Int32 | Self::Sint32 => "a whole number from -2147483648 to 2147483647",
            Self::Uint32 => "a whole number from 0 to 4294967295",
            Self::Temporality => {
                "1 or \"AGGREGATION_TEMPORALITY_DELTA\", or 2 or \"AGGREGATION_TEMPORALITY_CUMULATIVE\""
            }
        }
    }
}

/// A whole number, also as text or with a fraction of zero, as `1.0` and `1e3`.
fn whole(told: Told<'_>) -> Option<i128> {
    match told {
        Told::Unsigned(value) => Some(value.into()),
        Told::Signed(value) => Some(value.into()),
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number that a float holds exactly")]
        Told::Float(value) if value.fract() == 0.0 && value.abs() < EXACT => Some(value as i128),
        Told::Text(text) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => text.parse().ok(),
        Told::Bool(_) | Told::Float(_) | Told::Text(_) => None,
    }
}

fn double(told: Told<'_>) -> Option<f64> {
    match told {
        #[expect(clippy::cast_precision_loss, reason = "a float is what is asked for")]
        Told::Unsigned(value) => Some(value as f64),
        #[expect(clippy::cast_precision_loss, reason = "a float is what is asked for")]
        Told::Signed(value) => Some(value as f64),
        Told::Float(value) => Some(value),
        Told::Text("NaN") => Some(f64::NAN),
        Told::Text("Infinity") => Some(f64::INFINITY),
        Told::Text("-Infinity") => Some(f64::NEG_INFINITY),
        Told::Text(text) if text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) => {
            text.parse().ok().filter(|value: &f64| value.is_finite())
        }
        Told::Bool(_) | Told::Text(_) => None,
    }
}

/// Bytes in base64, of the usual alphabet or that for URLs, with padding or without.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    const PADDING: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&STANDARD, PADDING).decode(text.replace('-', "+").replace('_', "/")).ok()
}

/// Bytes in hexadecimal digits.
pub(super) fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
