//! The file: TOML, of which every key is known, with the place of each value. Rules of owners, and targets that are scraped, are
//! tables of their own.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use contador_schemas::mapping::read as mapping;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{self, ConfigError, Place};
use super::key::Written;
use super::raw::KEYS;
use super::targets;
use crate::targets::target::Target;

/// What the file says, by path.
pub(super) type Said = HashMap<&'static str, (Written, Range<usize>)>;

/// Keys that hold tables, which their own readers read.
const TABLES: [&str; 3] = ["owners.rule", "owners.default", "scrape.target"];

/// A file that was read.
pub(super) struct Read {
    /// Its keys.
    pub said: Said,
    /// The rules of owners.
    pub rules: mapping::Read,
    /// Whom to scrape, and where each of them is said.
    pub targets: (Vec<Target>, Vec<Range<usize>>),
}

/// Reads the text of `path`.
pub(super) fn read(path: &Path, text: &str) -> Result<Read, ConfigError> {
    let table = DeTable::parse(text).map_err(|error| fault::of_toml(path, text, &error))?;
    let place = Place { path, text };
    let mut said = Said::new();
    take("", table.get_ref(), &place, &mut said)?;
    let [rule, default, target] = TABLES.map(|path| {
        let (within, name) = path.split_once('.')?;
        table.get_ref().get(within)?.get_ref().as_table()?.get(name)
    });
    let rules = mapping::read(rule, default).map_err(|fault| place.fault(&fault.span, fault.reason))?;
    let targets = targets::read(target).map_err(|fault| place.fault(&fault.span, fault.reason))?;
    Ok(Read { said, rules, targets })
}

/// The table that each known key is in, and its name there.
fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEYS.iter().map(|key| key.split()).chain(TABLES.into_iter().filter_map(|path| path.split_once('.')))
}

fn take(within: &str, table: &DeTable<'_>, place: &Place<'_>, said: &mut Said) -> Result<(), ConfigError> {
    // In the order of the file, so that the first fault is the first in it.
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    for (name, value) in entries {
        let path = if within.is_empty() { name.get_ref().to_string() } else { format!("{within}.{}", name.get_ref()) };
        let key = KEYS.iter().find(|key| key.path == path);
        let is_table = known().any(|(table, _)| table == path);
        if TABLES.contains(&path.as_str()) {
            continue;
        }
        match (key, value.get_ref()) {
            (Some(key), _) => _ = said.insert(key.path, (written(value, place), value.span())),
            (None, DeValue::Table(inner)) if is_table => take(&path, inner, place, said)?,
            (None, _) if is_table => {
                let text = source(value, place);
                return Err(place.fault(&value.span(), format!("{path} is {text}, expected a table: [{path}]")));
            }
            (None, _) => return Err(place.fault(&name.span(), unknown(within, name.get_ref()))),
        }
    }
    Ok(())
}

/// An unknown key is answered with the nearest known one of its table.
fn unknown(within: &str, name: &str) -> String {
    let mut candidates: Vec<&str> = Vec::new();
    for (table, own) in known() {
        let candidate = match () {
            () if table == within => own,
            () if within.is_empty() => table,
            () => continue,
        };
        if !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    let near = candidates
        .iter()
        .map(|key| (strsim::damerau_levenshtein(name, key), *key))
        .min()
        .filter(|(distance, key)| *distance <= 2.max(key.len() / 3));
    match near {
        Some((_, key)) => format!("unknown key {name}, expected {key}"),
        None => format!("unknown key {name}, expected one of {}", candidates.join(", ")),
    }
}

fn written(value: &Spanned<DeValue<'_>>, place: &Place<'_>) -> Written {
    let other = || Written::Other(source(value, place));
    match value.get_ref() {
        DeValue::String(text) => Written::Text(text.to_string()),
        DeValue::Boolean(yes) => Written::Flag(*yes),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or_else(|_| other(), Written::Whole)
        }
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>().map_or_else(other, Written::List)
        }
        DeValue::Table(_) => Written::Other("a table".to_owned()),
        DeValue::Float(_) | DeValue::Datetime(_) => other(),
    }
}

/// A value as it stands in the file, on one line.
fn source(value: &Spanned<DeValue<'_>>, place: &Place<'_>) -> String {
    match value.get_ref() {
        DeValue::Table(_) => "a table".to_owned(),
        _ => place.text.get(value.span()).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" "),
    }
}
