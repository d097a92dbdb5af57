//! Values that a client did not put into a histogram: numbers in a body of JSON, or one a line.
//!
//! A body is taken whole or not at all. Its values are recorded in `hdrhistogram`, in whole microseconds with 3 significant
//! digits. Where some of a cell's values are no whole microseconds, the cell goes on up to the next one, so that all of them
//! are inside. Of aborted requests the values themselves are the lower edges.

use std::fmt;

use contador_schemas::cells::{Cell, Cells, CellsError};
use hdrhistogram::{CreationError, Histogram};
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::params::Params;
use super::unit::Unit;
use crate::owners::label;

/// Greatest value in microseconds.
const MAX_US: f64 = 9_007_199_254_740_992.0;

/// So many different times of aborted requests are kept as they are; of more, the lower edges of 3 digits.
const MAX_EXACT: usize = 4_096;

/// Why a body has no values.
#[derive(Debug, thiserror::Error)]
pub enum ValuesError {
    /// It is not the JSON that is expected.
    #[error("the body is not the JSON that was expected: {0}")]
    Json(String),
    /// It is no text.
    #[error("the body is no UTF-8 at byte {0}, expected a number a line")]
    Text(usize),
    /// A line has no number.
    #[error("line {line} is {shown}, expected a number")]
    Line {
        /// From 1.
        line: usize,
        /// What is there.
        shown: String,
    },
    /// A number is no latency.
    #[error("{list}[{index}] is {value}, expected a number from 0 to {MAX_US} microseconds")]
    Value {
        /// Which list.
        list: &'static str,
        /// Position from 0.
        index: usize,
        /// The number, as it was sent.
        value: f64,
    },
    /// The same of a number that is on a line.
    #[error("line {line} is {value}, expected a number from 0 to {MAX_US} microseconds")]
    LineValue {
        /// From 1.
        line: usize,
        /// The number, as it was sent.
        value: f64,
    },
    /// They can't be kept.
    #[error("the values can't be kept")]
    Cells(#[from] CellsError),
    /// There is no histogram for them.
    #[error("a histogram can't be made")]
    Histogram(#[from] CreationError),
}

impl ValuesError {
    /// The same fault where the numbers are those of [`lines`]: named by its line.
    #[must_use]
    pub fn of_lines(self, body: &[u8]) -> Self {
        let Self::Value { index, value, .. } = self else { return self };
        let line = std::str::from_utf8(body).ok().and_then(|text| told(text).nth(index)).map(|(line, _)| line);
        line.map_or(self, |line| Self::LineValue { line, value })
    }
}

/// Values as they were sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// How long requests took.
    pub values: Vec<f64>,
    /// After which times requests were aborted; `None`: it does not say.
    pub aborted: Option<Vec<f64>>,
}

/// Values as they are kept.
#[derive(Debug, PartialEq)]
pub struct Recorded {
    /// Cells in microseconds that don't overlap.
    pub cells: Cells,
    /// Sum of the values in microseconds.
    pub sum_us: f64,
}

/// Reads an object of JSON: `values`, `aborted`, and the keys of [`Params`], which it may have beside those of the query.
///
/// # Errors
/// [`ValuesError::Json`].
pub fn json(body: &[u8], params: &mut Params) -> Result<Values, ValuesError> {
    let mut values = Values::default();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let read = deserializer.deserialize_map(Object { values: &mut values, params });
    read.and_then(|()| deserializer.end()).map_err(|error| ValuesError::Json(error.to_string()))?;
    Ok(values)
}

/// Reads a number a line; empty lines are left out.
///
/// # Errors
/// [`ValuesError::Text`] and [`ValuesError::Line`].
pub fn lines(body: &[u8]) -> Result<Vec<f64>, ValuesError> {
    let text = std::str::from_utf8(body).map_err(|error| ValuesError::Text(error.valid_up_to()))?;
    told(text)
        .map(|(line, number)| number.parse().map_err(|_| ValuesError::Line { line, shown: label::shown(number) }))
        .collect()
}

/// Lines that are not empty, and the number of each, from 1.
fn told(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty())
}

/// Records how long requests took.
///
/// # Errors
/// [`ValuesError::Value`]; the others don't happen with so few values.
#[expect(clippy::cast_precision_loss, reason = "edges are at most 2^53")]
pub fn record(values: &[f64], unit: Unit) -> Result<Recorded, ValuesError> {
    let (mut all, mut parted) = (histogram()?, histogram()?);
    let (mut sum_us, mut lost) = (0.0_f64, 0.0_f64);
    for us in microseconds("values", values, unit) {
        let us = us?;
        let whole = floor(us);
        all.saturating_record(whole);
        if us.fract() > 0.0 {
            parted.saturating_record(whole);
        }
        // Neumaier's sum: what rounding loses is added up beside it.
        let sum = sum_us + us;
        lost += if sum_us >= us { (sum_us - sum) + us } else { (us - sum) + sum_us };
        sum_us = sum;
    }
    let cells = all.iter_recorded().map(|step| {
        let value = step.value_iterated_to();
        let (lo, hi) = (all.lowest_equivalent(value) as f64, all.highest_equivalent(value));
        let hi = if parted.count_at(value) > 0 { ((hi + 1) as f64).next_down() } else { hi as f64 };
        Cell { lo, hi, n: step.count_since_last_iteration() }
    });
    Ok(Recorded { cells: Cells::new(cells)?, sum_us: sum_us + lost })
}

/// Cells of requests that were aborted after these times.
///
/// # Errors
/// As [`record`].
#[expect(clippy::cast_precision_loss, reason = "edges are at most 2^53")]
pub fn aborted(values: &[f64], unit: Unit) -> Result<Cells, ValuesError> {
    let mut edges = Vec::with_capacity(values.len());
    for us in microseconds("aborted", values, unit) {
        edges.push(us?);
    }
    edges.sort_unstable_by(f64::total_cmp);
    if alike(&edges).count() > MAX_EXACT {
        let digits = histogram()?;
        for edge in &mut edges {
            *edge = digits.lowest_equivalent(floor(*edge)) as f64;
        }
    }
    // A cell is three times as large as its edge: there is one for each that is different, not for each request.
    let cells = alike(&edges).map(|alike| Cell { lo: alike[0], hi: f64::INFINITY, n: alike.len() as u64 });
    Ok(Cells::new(cells)?)
}

/// Those that are the same, of sorted edges.
fn alike(edges: &[f64]) -> impl Iterator<Item = &[f64]> {
    edges.chunk_by(|left, right| left == right)
}

/// 3 significant digits from 1 µs to 2^53 µs.
fn histogram() -> Result<Histogram<u64>, CreationError> {
    Histogram::new_with_bounds(1, 1 << 53, 3)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2^53, as was checked")]
fn floor(us: f64) -> u64 {
    us as u64
}

/// Each value in microseconds. What is as near to a whole number of them as the two roundings of a float can bring it, is that:
/// 1.005 ms are 1005 µs.
fn microseconds(list: &'static str, values: &[f64], unit: Unit) -> impl Iterator<Item = Result<f64, ValuesError>> {
    values.iter().enumerate().map(move |(index, &value)| {
        let us = unit.microseconds(value);
        let near = us.round();
        let us = if unit != Unit::Microseconds && (us - near).abs() <= us * 2.0 * f64::EPSILON { near } else { us };
        if (0.0..=MAX_US).contains(&us) { Ok(us) } else { Err(ValuesError::Value { list, index, value }) }
    })
}

/// The object.
struct Object<'o> {
    values: &'o mut Values,
    params: &'o mut Params,
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with a list of numbers called values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "values" if seen => return Err(A::Error::custom("values is there twice, expected it once")),
                "values" => {
                    seen = true;
                    match map.next_value_seed(Given("values"))? {
                        One::List(values) => self.values.values = values,
                        One::Text(text) => {
                            let shown = label::shown(&text);
                            return Err(A::Error::custom(format!("values is {shown}, expected a list of numbers")));
                        }
                    }
                }
                "aborted" if self.values.aborted.is_some() => {
                    return Err(A::Error::custom("aborted is there twice, expected it once"));
                }
                "aborted" => match map.next_value_seed(Given("aborted"))? {
                    One::List(values) => self.values.aborted = Some(values),
                    One::Text(text) => self.params.set("aborted", &text).map_err(A::Error::custom)?,
                },
                _ => match map.next_value_seed(Given("the key"))? {
                    One::Text(text) => self.params.set(&key, &text).map_err(A::Error::custom)?,
                    One::List(_) => {
                        let shown = label::shown(&key);
                        return Err(A::Error::custom(format!("{shown} is a list, expected text, a number or a flag")));
                    }
                },
            }
        }
        Ok(())
    }
}

/// What a key may have.
enum One {
    List(Vec<f64>),
    Text(String),
}

/// Reads it; of a list with this name.
struct Given(&'static str);

impl<'de> DeserializeSeed<'de> for Given {
    type Value = One;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<One, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Given {
    type Value = One;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text, a number, true, false, or a list of numbers")
    }

    fn visit_str<E>(self, text: &str) -> Result<One, E> {
        Ok(One::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<One, E> {
        Ok(One::Text(flag.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<One, E> {
        Ok(One::Text(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<One, E> {
        Ok(One::Text(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<One, E> {
        Ok(One::Text(number.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<One, A::Error> {
        if self.0 == "the key" {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(One::List(Vec::new()));
        }
        let mut values = Vec::new();
        loop {
            match list.next_element::<f64>() {
                Ok(Some(value)) => values.push(value),
                Ok(None) => return Ok(One::List(values)),
                Err(error) => return Err(A::Error::custom(format!("{}[{}]: {error}", self.0, values.len()))),
            }
        }
    }
}

#[cfg(test)]
mod tests;
