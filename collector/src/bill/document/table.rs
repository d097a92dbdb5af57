//! A table of a document, and the values in it. A value that is at fault is told and then taken for absent, so that the faults of
//! all others are found too.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use contador_schemas::mapping::Glob;
use jiff::tz::TimeZone;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{currency_code, duration};
use crate::bill::{decimal, period};

/// Longest text, bytes.
const TEXT_MAX: usize = 1 << 10;

/// How a decimal is written.
const DECIMAL: &str = "a decimal in quotes such as \"2.50\", since a TOML number is not exact";

/// Faults that were found so far, each with the byte at which it is.
#[derive(Debug)]
pub struct Faults<'t> {
    text: &'t str,
    found: RefCell<Vec<(usize, String)>>,
}

impl<'t> Faults<'t> {
    /// None yet, of a text.
    pub const fn new(text: &'t str) -> Self {
        Self { text, found: RefCell::new(Vec::new()) }
    }

    /// All of them.
    pub fn into_inner(self) -> Vec<(usize, String)> {
        self.found.into_inner()
    }
}

/// A table of a document.
#[derive(Clone, Copy, Debug)]
pub struct Table<'r> {
    table: &'r DeTable<'r>,
    at: usize,
    /// Its name in messages; empty for the whole document.
    name: &'r str,
    faults: &'r Faults<'r>,
}

impl<'r> Table<'r> {
    /// The whole document.
    pub const fn top(table: &'r DeTable<'r>, faults: &'r Faults<'r>) -> Self {
        Self { table, at: 0, name: "", faults }
    }

    /// Tells a fault of the table as a whole.
    pub fn fault(&self, message: impl Into<String>) {
        self.faults.found.borrow_mut().push((self.at, message.into()));
    }

    /// Tells that the value of a key is not what was expected.
    pub fn wrong(&self, key: &str, expected: &str) {
        let Some(value) = self.table.get(key) else { return self.missing(key, expected) };
        self.at_value(value, &format!("{key}: {}, expected {expected}", shown(value.get_ref())));
    }

    fn at_value(&self, value: &Spanned<DeValue<'_>>, message: &str) {
        self.faults.found.borrow_mut().push((value.span().start, message.to_owned()));
    }

    /// Tells that a key is missing.
    pub fn missing(&self, key: &str, expected: &str) {
        match self.name {
            "" => self.fault(format!("{key}: missing, expected {expected}")),
            name => self.fault(format!("{name}: without {key}, expected {expected}")),
        }
    }

    /// Whether it has a key.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The line at which it begins.
    pub fn line(&self) -> usize {
        super::line(self.faults.text, self.at)
    }

    /// How many faults were found so far, in the whole document.
    pub fn count(&self) -> usize {
        self.faults.found.borrow().len()
    }

    /// Refuses keys other than these, with the nearest of them.
    pub fn known(&self, keys: &[&str]) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !keys.contains(&name) {
                let message = format!("{name}: unknown key, expected {}{}", keys.join(", "), hint(name, keys));
                self.faults.found.borrow_mut().push((key.span().start, message));
            }
        }
    }

    /// Its keys.
    pub fn keys(&self) -> impl Iterator<Item = &'r str> {
        let table = self.table;
        table.keys().map(|key| key.get_ref().as_ref())
    }

    fn string(&self, key: &str, expected: &str) -> Option<&'r str> {
        let value = self.table.get(key)?;
        let DeValue::String(text) = value.get_ref() else {
            self.wrong(key, expected);
            return None;
        };
        Some(text)
    }

    fn checked(&self, key: &str, text: &str) -> Option<String> {
        let expected = if text.is_empty() {
            "a text that is not empty"
        } else if text.trim() != text {
            "no space at either end"
        } else if text.chars().any(char::is_control) {
            "a text of one line without control characters"
        } else if text.len() > TEXT_MAX {
            "a text of at most 1024 bytes"
        } else {
            return Some(text.to_owned());
        };
        self.wrong(key, expected);
        None
    }

    /// A text of one line that is not empty.
    pub fn text(&self, key: &str) -> Option<String> {
        self.checked(key, self.string(key, "a text in quotes")?)
    }

    /// The same, where there must be one.
    pub fn needed_text(&self, key: &str, expected: &str) -> Option<String> {
        if !self.has(key) {
            self.missing(key, expected);
            return None;
        }
        self.checked(key, self.string(key, expected)?)
    }

    /// A decimal, times `10^12`.
    pub fn decimal(&self, key: &str) -> Option<i128> {
        let read = decimal::parse(self.string(key, DECIMAL)?);
        read.map_err(|expected| self.wrong(key, expected)).ok()
    }

    /// The same, where there must be one; 0 if it is at fault.
    pub fn needed_decimal(&self, key: &str) -> i128 {
        if !self.has(key) {
            self.missing(key, DECIMAL);
        }
        self.decimal(key).unwrap_or_default()
    }

    /// A whole number.
    pub fn whole(&self, key: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let value = self.table.get(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => u32::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok(),
            _ => None,
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            self.wrong(key, &format!("a whole number from {} to {}", range.start(), range.end()));
        }
        number
    }

    /// The same, where there must be one; the least if it is at fault.
    pub fn needed_whole(&self, key: &str, range: RangeInclusive<u32>) -> u32 {
        if !self.has(key) {
            self.missing(key, &format!("a whole number from {} to {}", range.start(), range.end()));
        }
        self.whole(key, range.clone()).unwrap_or(*range.start())
    }

    /// One of several texts.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let expected = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let text = self.string(key, &expected)?;
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
        if found.is_none() {
            self.wrong(key, &format!("{expected}{}", hint(text, &names)));
        }
        found
    }

    /// A duration, milliseconds.
    pub fn duration(&self, key: &str) -> Option<u32> {
        let read = duration::parse(self.string(key, "a duration in quotes such as \"15 minutes\"")?);
        read.map_err(|expected| self.wrong(key, expected)).ok()
    }

    /// An instant, in Unix seconds. A date, and a time without an offset, is meant in the zone.
    pub fn instant(&self, key: &str, zone: &TimeZone) -> Option<u32> {
        let second = instant(self.table.get(key)?.get_ref(), zone);
        if second.is_none() {
            self.wrong(
                key,
                "a date such as 2026-01-01 or a time such as 2026-01-01T00:00:00Z, from 1970 to 2100, without quotes",
            );
        }
        second
    }

    /// The instant from which something is valid; 0, which is always, without one.
    pub fn valid_from(&self, zone: &TimeZone) -> u32 {
        self.instant("valid_from", zone).unwrap_or_default()
    }

    /// Texts of an array, each once.
    pub fn texts(&self, key: &str) -> BTreeSet<String> {
        let mut texts = BTreeSet::new();
        for text in self.array(key, "texts in quotes, in brackets") {
            if let Some(text) = self.checked(key, text)
                && !texts.insert(text.clone())
            {
                self.wrong(key, &format!("{text:?} once"));
            }
        }
        texts
    }

    /// Patterns of an array, in its order.
    pub fn globs(&self, key: &str) -> Vec<Glob> {
        self.array(key, "patterns in quotes, in brackets")
            .into_iter()
            .filter_map(|text| self.pattern(key, text))
            .collect()
    }

    /// A pattern.
    pub fn glob(&self, key: &str) -> Option<Glob> {
        self.pattern(key, self.string(key, "a pattern in quotes")?)
    }

    fn pattern(&self, key: &str, text: &str) -> Option<Glob> {
        Glob::parse(text).map_err(|expected| self.wrong(key, expected)).ok()
    }

    fn array(&self, key: &str, expected: &str) -> Vec<&'r str> {
        let Some(value) = self.table.get(key) else { return Vec::new() };
        let items = value.get_ref().as_array().filter(|items| !items.is_empty());
        let texts =
            items.and_then(|items| items.iter().map(|item| item.get_ref().as_str()).collect::<Option<Vec<_>>>());
        if texts.is_none() {
            self.wrong(key, expected);
        }
        texts.unwrap_or_default()
    }

    /// The table of a key.
    pub fn table(&self, key: &'r str) -> Option<Self> {
        let value = self.table.get(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong(key, "a table");
        }
        // A table under a header begins where that stands.
        Some(Self { table: table?, at: value.span().start, name: key, faults: self.faults })
    }

    /// The tables of a key, each under a header `[[key]]`.
    pub fn tables(&self, key: &'r str) -> Vec<Self> {
        let Some(value) = self.table.get(key) else { return Vec::new() };
        let items = value.get_ref().as_array().filter(|items| !items.is_empty());
        let of = |item: &'r Spanned<DeValue<'r>>| {
            let table = item.get_ref().as_table()?;
            Some(Self { table, at: item.span().start, name: key, faults: self.faults })
        };
        let tables = items.and_then(|items| items.iter().map(of).collect::<Option<Vec<_>>>());
        if tables.is_none() {
            self.at_value(value, &format!("{key}: expected tables, each under [[{key}]]"));
        }
        tables.unwrap_or_default()
    }

    /// The table of a key, or several.
    pub fn one_or_several(&self, key: &'r str) -> Vec<Self> {
        match self.table.get(key).map(Spanned::get_ref) {
            Some(DeValue::Table(_)) => self.table(key).into_iter().collect(),
            _ => self.tables(key),
        }
    }

    /// Its name in messages.
    pub const fn name(&self) -> &'r str {
        self.name
    }

    /// The currency.
    pub fn currency(&self) -> String {
        let code = self.needed_text("currency", "a code of ISO 4217 such as \"EUR\"").unwrap_or_default();
        if !code.is_empty() && currency_code(&code).is_err() {
            self.wrong("currency", "three capitals of ISO 4217 such as EUR");
        }
        code
    }

    /// The time zone in which dates are meant: UTC without one.
    pub fn zone(&self) -> TimeZone {
        let Some(name) = self.text("time_zone") else { return TimeZone::UTC };
        period::zone(&name).unwrap_or_else(|_| {
            self.wrong("time_zone", "a name of the IANA database such as \"Europe/Berlin\"");
            TimeZone::UTC
        })
    }
}

/// The nearest of some names, as a question; nothing if none is near.
fn hint(name: &str, names: &[&str]) -> String {
    let distance = |known: &&&str| strsim::damerau_levenshtein(name, known);
    let near = names.iter().min_by_key(distance).filter(|known| distance(known) <= 3);
    near.map(|known| format!("; did you mean {known}?")).unwrap_or_default()
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Float(number) => number.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Datetime(when) => when.to_string(),
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| shown(item.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        other => format!("a TOML {}", other.type_str()),
    }
}

fn instant(value: &DeValue<'_>, zone: &TimeZone) -> Option<u32> {
    let DeValue::Datetime(when) = value else { return None };
    let text = when.to_string();
    let instant = match (when.date, when.time, when.offset) {
        (Some(_), Some(_), Some(_)) => text.parse::<jiff::Timestamp>().ok()?,
        (Some(_), _, None) => {
            text.parse::<jiff::civil::DateTime>().ok()?.to_zoned_datetime(zone.clone()).ok()?.timestamp()
        }
        _ => return None,
    };
    let second = Some(instant).filter(|instant| instant.subsec_nanosecond() == 0)?.as_second();
    u32::try_from(second).ok().filter(|second| i64::from(*second) * 1_000 <= period::LATEST_MS)
}
