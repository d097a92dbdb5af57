//! Rules as TOML, read strictly.
//!
//! ```toml
//! [[owners.rule]]
//! name = "vision"
//! match = { namespace = ["vision-*", "cv"], "k8s.label.team" = "*" }   # all keys, each by one of its patterns
//! set = { department = "research", project = "{k8s.label.team}" }
//!
//! [owners.default]
//! department = "unassigned"
//! ```

use std::collections::HashMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Glob, RESERVED, Rule, Rules, Set, Source, TARGETS, Template};

/// Most rules.
pub const MAX_RULES: usize = 1_000;

/// Most sources of a rule, and most patterns of one of them.
const MAX_CONDITIONS: usize = 64;

/// Longest name of a rule, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// What is wrong, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// Bytes of the text.
    pub span: Range<usize>,
    /// Key, value and what was expected.
    pub reason: String,
}

/// What was read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Read {
    /// The rules and the default.
    pub rules: Rules,
    /// Where each rule is, in their order.
    pub places: Vec<Range<usize>>,
    /// Where the default is.
    pub default: Option<Range<usize>>,
}

type Value<'a> = Spanned<DeValue<'a>>;

fn fault<T>(span: Range<usize>, reason: String) -> Result<T, Fault> {
    Err(Fault { span, reason })
}

/// Reads the values of the keys `owners.rule` and `owners.default`.
///
/// # Errors
/// The first [`Fault`].
pub fn read(rules: Option<&Value<'_>>, default: Option<&Value<'_>>) -> Result<Read, Fault> {
    let mut read = Read::default();
    if let Some(value) = rules {
        let expected = || Fault {
            span: value.span(),
            reason: format!("owners.rule is {}, expected tables, each below [[owners.rule]]", shown(value.get_ref())),
        };
        let list = value.get_ref().as_array().ok_or_else(expected)?;
        if list.len() > MAX_RULES {
            return fault(value.span(), format!("owners.rule has {} rules, expected at most {MAX_RULES}", list.len()));
        }
        let mut names = HashMap::new();
        for item in list.iter() {
            let table = item.get_ref().as_table().ok_or_else(expected)?;
            let (rule, named) = rule(table, &item.span())?;
            let number = read.rules.rules.len() + 1;
            if let Some(first) = names.insert(rule.name.to_string(), number) {
                let reason = format!("name is {:?}, expected another one than that of rule {first}", rule.name);
                return fault(named, reason);
            }
            if let Some(first) = read.rules.rules.iter().find(|first| first.when == rule.when) {
                let reason = format!(
                    "match of rule {:?} is that of rule {:?} before it, expected another one: it would never be reached",
                    rule.name, first.name
                );
                return fault(item.span(), reason);
            }
            read.rules.rules.push(rule);
            read.places.push(item.span());
        }
    }
    if let Some(value) = default {
        read.rules.default = targets("owners.default", value)?;
        read.default = Some(value.span());
    }
    Ok(read)
}

/// The entries in the order of the file, so that the first fault is the first in it.
fn entries<'t, 'a>(table: &'t DeTable<'a>) -> Vec<(&'t str, Range<usize>, &'t Value<'a>)> {
    let mut entries: Vec<_> = table.iter().map(|(name, value)| (name.get_ref().as_ref(), name.span(), value)).collect();
    entries.sort_by_key(|(_, span, _)| span.start);
    entries
}

fn rule(table: &DeTable<'_>, span: &Range<usize>) -> Result<(Rule, Range<usize>), Fault> {
    const KEYS: [&str; 3] = ["name", "match", "set"];
    let (mut name, mut when, mut set) = (None, None, None);
    for (key, at, value) in entries(table) {
        match key {
            "name" => name = Some((named(value)?, value.span())),
            "match" => {
                let mut conditions = Vec::new();
                match value.get_ref() {
                    DeValue::Table(inner) => take_conditions("", inner, &mut conditions)?,
                    other => {
                        return fault(value.span(), format!("match is {}, expected a table of patterns", shown(other)));
                    }
                }
                if conditions.is_empty() || conditions.len() > MAX_CONDITIONS {
                    let reason = format!(
                        "match has {} keys, expected 1 to {MAX_CONDITIONS}; what is meant for all is [owners.default]",
                        conditions.len()
                    );
                    return fault(value.span(), reason);
                }
                conditions.sort_by(|(one, _), (other, _)| one.cmp(other));
                when = Some(conditions);
            }
            "set" => set = Some(targets("set", value)?),
            other => return fault(at, format!("unknown key {other}, expected one of {}", KEYS.join(", "))),
        }
    }
    match (name, when, set) {
        (Some((name, named)), Some(when), Some(set)) => Ok((Rule { name: name.into(), when, set }, named)),
        (None, _, _) => fault(span.clone(), "a rule has no name, expected name = \"…\"".to_owned()),
        (Some((name, _)), None, _) => {
            fault(span.clone(), format!("rule {name:?} has no match, expected a table of patterns"))
        }
        (Some((name, _)), _, None) => {
            fault(span.clone(), format!("rule {name:?} has no set, expected a table of values"))
        }
    }
}

fn named(value: &Value<'_>) -> Result<String, Fault> {
    let name = value
        .get_ref()
        .as_str()
        .filter(|name| !name.trim().is_empty() && name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control));
    match name {
        Some(name) if !RESERVED.contains(&name) => Ok(name.to_owned()),
        _ => {
            let reason = format!(
                "name is {}, expected text of 1 to {MAX_NAME_BYTES} bytes without control characters, other than {}",
                shown(value.get_ref()),
                RESERVED.join(", ")
            );
            fault(value.span(), reason)
        }
    }
}

/// The keys of `match`; those with dots that stand without quotes are tables in tables.
fn take_conditions(within: &str, table: &DeTable<'_>, found: &mut Vec<(Source, Vec<Glob>)>) -> Result<(), Fault> {
    for (key, at, value) in entries(table) {
        let name = if within.is_empty() { key.to_owned() } else { format!("{within}.{key}") };
        if let DeValue::Table(inner) = value.get_ref() {
            take_conditions(&name, inner, found)?;
            continue;
        }
        let source = match Source::parse(&name) {
            Ok(source) => source,
            Err(expected) => return fault(at, format!("unknown key {name}, expected {expected}")),
        };
        if found.iter().any(|(known, _)| *known == source) {
            return fault(at, format!("{name} stands there twice, expected each key once"));
        }
        found.push((source, globs(&name, value)?));
    }
    Ok(())
}

fn globs(name: &str, value: &Value<'_>) -> Result<Vec<Glob>, Fault> {
    let one = |item: &Value<'_>| {
        let expected = "a pattern in quotes, or a list of them";
        let Some(text) = item.get_ref().as_str() else {
            return fault(item.span(), format!("{name} is {}, expected {expected}", shown(item.get_ref())));
        };
        Glob::parse(text).or_else(|expected| fault(item.span(), format!("{name} is {text:?}, expected {expected}")))
    };
    match value.get_ref() {
        DeValue::Array(items) if !items.is_empty() && items.len() <= MAX_CONDITIONS => items.iter().map(one).collect(),
        DeValue::Array(items) => {
            fault(value.span(), format!("{name} has {} patterns, expected 1 to {MAX_CONDITIONS}", items.len()))
        }
        _ => Ok(vec![one(value)?]),
    }
}

/// What is to be set, in the order of [`TARGETS`].
fn targets(what: &str, value: &Value<'_>) -> Result<Vec<Set>, Fault> {
    let DeValue::Table(table) = value.get_ref() else {
        return fault(value.span(), format!("{what} is {}, expected a table of values", shown(value.get_ref())));
    };
    let mut set = Vec::new();
    for (key, at, value) in entries(table) {
        let Some(target) = TARGETS.into_iter().find(|target| *target == key) else {
            return fault(at, format!("unknown key {key}, expected one of {}", TARGETS.join(", ")));
        };
        let Some(text) = value.get_ref().as_str() else {
            return fault(value.span(), format!("{key} is {}, expected text in quotes", shown(value.get_ref())));
        };
        match Template::parse(text) {
            Ok(template) => set.push((target, template)),
            Err(expected) => return fault(value.span(), format!("{key} is {text:?}, expected {expected}")),
        }
    }
    if set.is_empty() {
        return fault(value.span(), format!("{what} is empty, expected one of {}", TARGETS.join(", ")));
    }
    set.sort_by_key(|(target, _)| TARGETS.iter().position(|known| known == target));
    Ok(set)
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Datetime(when) => when.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
