//! A price book as TOML: read strictly, every fault with its file, line, value and what was expected.
//!
//! ```toml
//! currency = "EUR"              # ISO 4217
//! time_zone = "Europe/Berlin"   # where dates without an offset are meant; UTC if absent
//!
//! [[rate]]
//! gpu_model = "NVIDIA H100 80GB HBM3"   # as the driver names it; "*" is every model without a rate of its own
//! hourly = "2.50"                       # a GPU-hour; a string, since a TOML float is not exact
//! valid_from = 2026-01-01               # until the next rate of the same model; always, if absent
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use jiff::tz::TimeZone;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{PriceBook, Rate};
use crate::bill::{decimal, period};

/// Why a price book was refused.
#[derive(Debug, Error)]
pub enum BookError {
    /// It cannot be read.
    #[error("{path}: cannot be read")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It has a fault.
    #[error("{path}:{line}: {message}")]
    Fault {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// Key, value and what was expected.
        message: String,
    },
}

/// Reads the book in a file.
///
/// # Errors
/// [`BookError`] with the first fault.
pub fn read(path: &Path) -> Result<PriceBook, BookError> {
    let name = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&name, &text),
        Err(source) => Err(BookError::Read { path: name, source }),
    }
}

/// Reads a book; `path` is its name in messages.
///
/// # Errors
/// [`BookError::Fault`] with the first fault.
pub fn parse(path: &str, text: &str) -> Result<PriceBook, BookError> {
    book(text).map_err(|(at, message)| BookError::Fault { path: path.to_owned(), line: line(text, at), message })
}

/// Byte in the file, and what is wrong there.
type Fault = (usize, String);

fn line(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    1 + before.split(|byte| *byte == b'\n').count().saturating_sub(1)
}

fn book(text: &str) -> Result<PriceBook, Fault> {
    let document = DeTable::parse(text).map_err(|error| {
        (error.span().map_or(0, |span: Range<usize>| span.start), error.message().replace('\n', ", "))
    })?;
    let top = document.get_ref();
    known(top, &["currency", "time_zone", "rate"])?;
    let currency = string(top, "currency", "a code of ISO 4217 such as \"EUR\"")?
        .ok_or_else(|| (0, "currency: missing, expected a code of ISO 4217 such as \"EUR\"".to_owned()))?;
    if let Err(message) = currency_code(currency.0) {
        return Err((currency.1, message));
    }
    let zone = match string(top, "time_zone", "a name such as \"Europe/Berlin\"")? {
        Some((name, at)) => period::zone(name).map_err(|error| (at, error.to_string()))?,
        None => TimeZone::UTC,
    };
    let zone_name = zone.iana_name().unwrap_or("UTC").to_owned();
    let rates = top.get("rate").ok_or_else(|| (0, "rate: missing, expected at least one [[rate]]".to_owned()))?;
    let expected = || (rates.span().start, "rate: expected tables, each under [[rate]]".to_owned());
    let list = rates.get_ref().as_array().filter(|list| !list.is_empty()).ok_or_else(expected)?;
    let mut book = PriceBook { time_zone: zone_name, ..PriceBook::new(currency.0) };
    let mut lines: BTreeMap<(String, u32), usize> = BTreeMap::new();
    for item in list.iter() {
        let table = item.get_ref().as_table().ok_or_else(expected)?;
        let at = item.span().start;
        let (gpu_model, valid_from, hourly) = rate(table, at, &zone)?;
        if let Some(first) = lines.insert((gpu_model.clone(), valid_from), line(text, at)) {
            let message =
                format!("rate: a second one of {gpu_model:?} from the same instant; the first is on line {first}");
            return Err((at, message));
        }
        book.rates.push(Rate::named(&gpu_model, valid_from, hourly));
    }
    book.rates.sort_by(|a, b| a.key().cmp(&b.key()));
    Ok(book)
}

fn rate(table: &DeTable<'_>, at: usize, zone: &TimeZone) -> Result<(String, u32, i128), Fault> {
    known(table, &["gpu_model", "hourly", "valid_from"])?;
    let missing = |key: &str| (at, format!("rate: without {key}"));
    let (gpu_model, place) =
        string(table, "gpu_model", "a name in quotes, or \"*\"")?.ok_or_else(|| missing("gpu_model"))?;
    if gpu_model.trim() != gpu_model || gpu_model.is_empty() || gpu_model.chars().any(char::is_control) {
        return Err((place, format!("gpu_model: {gpu_model:?}, expected the driver's name of a model, or \"*\"")));
    }
    let expected = "a decimal in quotes such as \"2.50\", since a TOML number is not exact";
    let (hourly, place) = string(table, "hourly", expected)?.ok_or_else(|| missing("hourly"))?;
    let hourly =
        decimal::parse(hourly).map_err(|expected| (place, format!("hourly: {hourly:?}, expected {expected}")))?;
    let valid_from = match table.get("valid_from") {
        Some(value) => instant(value, zone)?,
        None => 0,
    };
    Ok((gpu_model.to_owned(), valid_from, hourly))
}

/// Refuses keys other than these, with the nearest of them.
fn known(table: &DeTable<'_>, keys: &[&str]) -> Result<(), Fault> {
    for key in table.keys() {
        let name: &str = key.get_ref();
        if !keys.contains(&name) {
            let distance = |known: &&&str| strsim::damerau_levenshtein(name, known);
            let near = keys.iter().min_by_key(distance).filter(|known| distance(known) <= 3);
            let hint = near.map(|known| format!("; did you mean {known}?")).unwrap_or_default();
            return Err((key.span().start, format!("{name}: unknown key, expected {}{hint}", keys.join(", "))));
        }
    }
    Ok(())
}

/// A string and where it stands.
fn string<'t>(table: &'t DeTable<'_>, key: &str, expected: &str) -> Result<Option<(&'t str, usize)>, Fault> {
    let Some(value) = table.get(key) else { return Ok(None) };
    match value.get_ref() {
        DeValue::String(text) => Ok(Some((text, value.span().start))),
        other => Err((value.span().start, format!("{key}: {}, expected {expected}", shown(other)))),
    }
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Float(number) => number.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::String(text) => format!("{text:?}"),
        other => format!("a TOML {}", other.type_str()),
    }
}

fn instant(value: &Spanned<DeValue<'_>>, zone: &TimeZone) -> Result<u32, Fault> {
    let at = value.span().start;
    let expected =
        "a date such as 2026-01-01 or a time such as 2026-01-01T00:00:00Z, from 1970 to 2100, without quotes";
    let DeValue::Datetime(when) = value.get_ref() else {
        return Err((at, format!("valid_from: {}, expected {expected}", shown(value.get_ref()))));
    };
    let fault = || (at, format!("valid_from: {when}, expected {expected}"));
    let text = when.to_string();
    let second = match (when.date, when.time, when.offset) {
        (Some(_), Some(_), Some(_)) => text.parse::<jiff::Timestamp>().ok(),
        (Some(_), _, None) => {
            let local = text.parse::<jiff::civil::DateTime>().ok();
            local.and_then(|local| local.to_zoned_datetime(zone.clone()).ok()).map(|zoned| zoned.timestamp())
        }
        _ => None,
    };
    let second = second.filter(|instant| instant.subsec_nanosecond() == 0).ok_or_else(fault)?.as_second();
    u32::try_from(second).ok().filter(|second| i64::from(*second) * 1_000 <= period::LATEST_MS).ok_or_else(fault)
}

/// Checks the shape of a currency's code.
///
/// # Errors
/// What was expected.
pub fn currency_code(code: &str) -> Result<(), String> {
    if code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Ok(());
    }
    Err(format!("currency: {code:?}, expected three capitals of ISO 4217 such as EUR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOK: &str = r#"
currency = "EUR"
time_zone = "Europe/Berlin"

[[rate]]
gpu_model = "NVIDIA H100 80GB HBM3"
hourly = "2.50"
valid_from = 2026-10-01

[[rate]]
gpu_model = "*"
hourly = "1"
"#;

    #[test]
    fn a_book_is_read() {
        let book = parse("p.toml", BOOK).unwrap();
        let of = |rate: &Rate| (rate.gpu_model.clone(), rate.valid_from, rate.hourly);
        let rates: Vec<_> = book.rates.iter().map(of).collect();
        let one = decimal::ONE;
        // Midnight of Berlin is 22:00 of the day before in UTC.
        assert_eq!(rates, [("*".into(), 0, one), ("NVIDIA H100 80GB HBM3".into(), 1_790_805_600, one * 5 / 2)]);
        assert_eq!(book.currency, "EUR");
    }

    #[test]
    fn faults_name_the_line_the_value_and_what_was_expected() {
        for (from, to, message) in [
            (
                "\"2.50\"",
                "2.50",
                "p.toml:7: hourly: 2.50, expected a decimal in quotes such as \"2.50\", since a TOML number is not exact",
            ),
            (
                "\"2.50\"",
                "\"-2\"",
                "p.toml:7: hourly: \"-2\", expected a decimal such as 0.25, without sign or exponent",
            ),
            (
                "hourly = \"2",
                "hourley = \"2",
                "p.toml:7: hourley: unknown key, expected gpu_model, hourly, valid_from; did you mean hourly?",
            ),
            ("hourly = \"1\"", "", "p.toml:10: rate: without hourly"),
            ("\"EUR\"", "\"Euro\"", "p.toml:2: currency: \"Euro\", expected three capitals of ISO 4217 such as EUR"),
            ("currency = \"EUR\"", "", "p.toml:1: currency: missing, expected a code of ISO 4217 such as \"EUR\""),
            (
                "Europe/Berlin",
                "Berlin",
                "p.toml:3: time zone \"Berlin\": expected a name of the IANA database such as Europe/Berlin",
            ),
            (
                "2026-10-01",
                "\"2026-10-01\"",
                "p.toml:8: valid_from: \"2026-10-01\", expected a date such as 2026-01-01 or a time such as 2026-01-01T00:00:00Z, from 1970 to 2100, without quotes",
            ),
            (
                "gpu_model = \"*\"",
                "gpu_model = \"NVIDIA H100 80GB HBM3\"\nvalid_from = 2026-10-01T00:00:00+02:00",
                "p.toml:10: rate: a second one of \"NVIDIA H100 80GB HBM3\" from the same instant; the first is on line 5",
            ),
        ] {
            let text = BOOK.replacen(from, to, 1);
            assert_ne!(text, BOOK, "{from}");
            assert_eq!(parse("p.toml", &text).unwrap_err().to_string(), message);
        }
        assert!(
            parse("p.toml", "currency = \"EUR\"\nrate = []\n").unwrap_err().to_string().starts_with("p.toml:2: rate:")
        );
        assert!(parse("p.toml", "currency =\n").unwrap_err().to_string().starts_with("p.toml:1: "));
    }
}
