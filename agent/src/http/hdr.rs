//! HDR histograms as they are sent: V2, or V2 deflated, each as bytes or in base 64
//! (<https://github.com/HdrHistogram/HdrHistogram>, `encodeIntoByteBuffer` and `encodeIntoCompressedByteBuffer`).
//!
//! Everything that a header declares is checked before anything is allocated by it.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contador_schemas::cells::{Cell, Cells, CellsError};
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{DeserializeError, Deserializer};

use super::unit::Unit;

const V2: u32 = 0x1c84_9313;
const V2_DEFLATE: u32 = 0x1c84_9314;

/// Bytes of a V2 header: cookie, payload length, normalising offset, digits, lowest, highest, ratio.
const V2_HEADER_BYTES: usize = 40;

/// Most counts that a histogram may have: 8 MiB of them. 3 digits over the whole 64 bits take 55,296.
const MAX_COUNTS: u64 = 1 << 20;

/// Most cells that hold anything: collectors take no histogram of more than twice as many buckets.
const MAX_CELLS: usize = 65_000;

/// Why a body is no histogram.
#[derive(Debug, thiserror::Error)]
pub enum HdrError {
    /// Neither of the formats.
    #[error(
        "the body begins with {0}, expected an HDR histogram V2 (1c849313) or V2 deflated (1c849314), or its base 64"
    )]
    Cookie(String),
    /// Base 64 that isn't.
    #[error("the body begins like base 64, and is not")]
    Base64(#[source] base64::DecodeError),
    /// The header promises other than what is there.
    #[error("{what} is declared as {declared} bytes, expected {present}")]
    Length {
        /// Which part.
        what: &'static str,
        /// Bytes that the header declares.
        declared: usize,
        /// Bytes that are there.
        present: usize,
    },
    /// It can't be inflated.
    #[error("the body can't be inflated")]
    Inflate(#[source] std::io::Error),
    /// It is longer than allowed.
    #[error("the histogram has more than {0} bytes when inflated")]
    TooLarge(usize),
    /// A field of the header is not what can be read.
    #[error("{field} is {value}, expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What can be read.
        expected: String,
    },
    /// The counts are damaged.
    #[error("the counts are damaged at byte {at}: {reason}")]
    Counts {
        /// Position in the payload.
        at: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// The library refuses it.
    #[error("the histogram can't be read")]
    Library(#[source] DeserializeError),
    /// The counts don't fit.
    #[error("the histogram can't be kept")]
    Cells(#[from] CellsError),
}

/// A histogram's cells in microseconds, in its own layout, and the sum of its values by the middle of each cell.
#[derive(Debug, PartialEq)]
pub struct Decoded {
    /// Its cells.
    pub cells: Cells,
    /// Microseconds.
    pub sum_us: f64,
}

/// Reads a histogram of whole numbers of `unit`; at most `max_bytes` once inflated.
///
/// # Errors
/// [`HdrError`].
pub fn decode(body: &[u8], max_bytes: usize, unit: Unit) -> Result<Decoded, HdrError> {
    let plain;
    let bytes = if body.first() == Some(&b'H') {
        let text: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        plain = STANDARD.decode(text).map_err(HdrError::Base64)?;
        plain.as_slice()
    } else {
        body
    };
    let inflated;
    let v2 = match (number(bytes, 0), bytes) {
        (Some(V2), _) => bytes,
        (Some(V2_DEFLATE), _) => {
            inflated = inflate(bytes, max_bytes)?;
            inflated.as_slice()
        }
        _ => return Err(HdrError::Cookie(hex(bytes))),
    };
    if v2.len() > max_bytes {
        return Err(HdrError::TooLarge(max_bytes));
    }
    check(v2)?;
    let histogram = Deserializer::new().deserialize::<u64, _>(&mut &*v2).map_err(HdrError::Library)?;
    cells(&histogram, unit)
}

fn inflate(bytes: &[u8], max_bytes: usize) -> Result<Vec<u8>, HdrError> {
    let deflated = bytes.get(8..).unwrap_or_default();
    let declared = number(bytes, 4).unwrap_or(0) as usize;
    if declared != deflated.len() {
        return Err(HdrError::Length { what: "the deflated part", declared, present: deflated.len() });
    }
    let mut inflated = Vec::new();
    let most = max_bytes as u64 + 1;
    ZlibDecoder::new(deflated).take(most).read_to_end(&mut inflated).map_err(HdrError::Inflate)?;
    if inflated.len() > max_bytes {
        return Err(HdrError::TooLarge(max_bytes));
    }
    Ok(inflated)
}

/// Checks a V2 histogram's header, and walks through its counts.
fn check(v2: &[u8]) -> Result<(), HdrError> {
    if number(v2, 0) != Some(V2) {
        return Err(HdrError::Cookie(hex(v2)));
    }
    if v2.len() < V2_HEADER_BYTES {
        return Err(HdrError::Length { what: "the header", declared: V2_HEADER_BYTES, present: v2.len() });
    }
    let payload = &v2[V2_HEADER_BYTES..];
    let declared = number(v2, 4).unwrap_or(0) as usize;
    if declared != payload.len() {
        return Err(HdrError::Length { what: "the payload", declared, present: payload.len() });
    }
    let field =
        |field, value: String, expected: &str| Err(HdrError::Field { field, value, expected: expected.to_owned() });
    if let Some(offset) = number(v2, 8).filter(|offset| *offset != 0) {
        return field("the normalising offset", offset.to_string(), "0");
    }
    let digits = number(v2, 12).unwrap_or(0);
    if digits > 5 {
        return field("the number of significant digits", digits.to_string(), "0 to 5");
    }
    let (lowest, highest) = (long(v2, 16), long(v2, 24));
    if lowest == 0 || highest / 2 < lowest {
        return field("the range of values", format!("{lowest} to {highest}"), "1 or more to at least its double");
    }
    let ratio = f64::from_bits(long(v2, 32));
    if ratio.to_bits() != 1.0_f64.to_bits() {
        return field("the ratio of values to integers", ratio.to_string(), "1");
    }
    let counts = counts_of(digits, lowest, highest);
    match counts.filter(|counts| *counts <= MAX_COUNTS) {
        Some(counts) => check_counts(payload, counts),
        None => {
            let shape = format!("{digits} digits from {lowest} to {highest}");
            field("the histogram's shape", shape, "one with at most 1048576 counts")
        }
    }
}

/// How many counts a histogram of this shape has; `None` when it can't exist.
fn counts_of(digits: u32, lowest: u64, highest: u64) -> Option<u64> {
    let sub_buckets = (2 * 10_u64.pow(digits)).next_power_of_two();
    let unit = lowest.ilog2();
    let mut untrackable = sub_buckets.checked_shl(unit).filter(|value| value >> unit == sub_buckets)?;
    let mut buckets = 1;
    while untrackable <= highest {
        buckets += 1;
        match untrackable.checked_mul(2) {
            Some(double) => untrackable = double,
            None => break,
        }
    }
    Some((buckets + 1) * (sub_buckets / 2))
}

/// Walks through zig-zag LEB128 numbers: a positive one is a count, a negative one a run of zeros. At the end of this, no
/// number can lead outside of the counts, and their sum fits.
fn check_counts(payload: &[u8], counts: u64) -> Result<(), HdrError> {
    let (mut at, mut index, mut total) = (0, 0_u64, 0_u64);
    while at < payload.len() {
        let (encoded, length) = varint(&payload[at..]).ok_or(HdrError::Counts { at, reason: "a number has no end" })?;
        let magnitude = encoded >> 1;
        if encoded & 1 == 1 {
            index = index.saturating_add(magnitude.saturating_add(1));
        } else {
            if magnitude > 0 && index >= counts {
                return Err(HdrError::Counts { at, reason: "more counts than the range has" });
            }
            total = total
                .checked_add(magnitude)
                .filter(|total| i64::try_from(*total).is_ok())
                .ok_or(HdrError::Counts { at, reason: "the counts add up to more than 63 bits hold" })?;
            index = index.saturating_add(1);
        }
        if index > MAX_COUNTS * 2 {
            return Err(HdrError::Counts { at, reason: "more counts than the range has" });
        }
        at += length;
    }
    Ok(())
}

/// A number of at most 9 bytes, the ninth with all its 8 bits, and how many bytes it has.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().take(9).enumerate() {
        if index == 8 || byte < 0x80 {
            return Some((value | u64::from(byte) << (7 * index), index + 1));
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
    }
    None
}

#[expect(clippy::cast_precision_loss, reason = "values are at most 2^53; a sum of floats is no exact one anyway")]
fn cells(histogram: &Histogram<u64>, unit: Unit) -> Result<Decoded, HdrError> {
    let field =
        |field, value: u64, expected: String| Err(HdrError::Field { field, value: value.to_string(), expected });
    let mut sum_us = 0.0;
    let mut cells = Vec::new();
    for step in histogram.iter_recorded() {
        let (value, n) = (step.value_iterated_to(), step.count_since_last_iteration());
        let (lo, hi) = (histogram.lowest_equivalent(value), histogram.highest_equivalent(value));
        if hi > unit.most() {
            return field("a value", hi, format!("at most {} {}", unit.most(), unit.words()));
        }
        let (lo, hi) = (unit.microseconds(lo as f64), unit.microseconds(hi as f64));
        sum_us += (lo + (hi - lo) / 2.0) * n as f64;
        cells.push(Cell { lo, hi, n });
        if cells.len() > MAX_CELLS {
            return field("the number of different values", cells.len() as u64, format!("at most {MAX_CELLS}"));
        }
    }
    Ok(Decoded { cells: Cells::new(cells)?, sum_us })
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
