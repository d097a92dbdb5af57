//! The tables `[[scrape.target]]`, read strictly, and shown.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use contador_schemas::owner::Owner;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::owners::label;
use crate::scrape::presets::{Custom, Preset, Rules};
use crate::targets::target::{self, MAX_LABELS, Target};

/// Most targets of a configuration.
const MAX_TARGETS: usize = 1_024;

/// Most histograms of one target.
const MAX_HISTOGRAMS: usize = 64;

/// Keys of a target.
const KEYS: [&str; 12] = [
    "url",
    "service",
    "environment",
    "model",
    "device",
    "preset",
    "labels",
    "owner",
    "headers",
    "token_file",
    "ca_file",
    "histogram",
];

/// Keys of a histogram of one.
const HISTOGRAM_KEYS: [&str; 7] = ["name", "metric", "unit", "model", "route", "source", "labels"];

/// Fields of an owner that can be said.
pub const OWNER_KEYS: [&str; 4] = ["department", "project", "experiment", "user"];

/// What is wrong, and where.
pub(super) struct Fault {
    pub span: Range<usize>,
    pub reason: String,
}

type Value<'a> = Spanned<DeValue<'a>>;

fn fault<T>(span: Range<usize>, reason: String) -> Result<T, Fault> {
    Err(Fault { span, reason })
}

/// Reads the value of the key `scrape.target`: each target, and where it is.
pub(super) fn read(value: Option<&Value<'_>>) -> Result<(Vec<Target>, Vec<Range<usize>>), Fault> {
    let Some(value) = value else { return Ok((Vec::new(), Vec::new())) };
    let (mut targets, mut places): (Vec<Target>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
    for (table, span) in tables("scrape.target", "[[scrape.target]]", value, MAX_TARGETS)? {
        let target = target(table, &span)?;
        if let Some(first) = targets.iter().position(|known| known.url == target.url) {
            let reason = format!("url is {:?}, expected another one than that of target {}", target.url, first + 1);
            return fault(span, reason);
        }
        targets.push(target);
        places.push(span);
    }
    Ok((targets, places))
}

fn tables<'t, 'a>(
    what: &str,
    head: &str,
    value: &'t Value<'a>,
    most: usize,
) -> Result<Vec<(&'t DeTable<'a>, Range<usize>)>, Fault> {
    let expected = |span: Range<usize>, value: &DeValue<'_>| Fault {
        span,
        reason: format!("{what} is {}, expected tables, each below {head}", shown(value)),
    };
    let list = value.get_ref().as_array().ok_or_else(|| expected(value.span(), value.get_ref()))?;
    if list.len() > most {
        return fault(value.span(), format!("{what} has {} tables, expected at most {most}", list.len()));
    }
    let one = |item: &'t Value<'a>| {
        let table = item.get_ref().as_table().ok_or_else(|| expected(item.span(), item.get_ref()))?;
        Ok((table, item.span()))
    };
    list.iter().map(one).collect()
}

fn target(table: &DeTable<'_>, span: &Range<usize>) -> Result<Target, Fault> {
    let mut target = Target::default();
    for (key, at, value) in entries(table) {
        match key {
            "url" => {
                let url = value.get_ref().as_str().ok_or(target::EXPECTED_URL).and_then(target::url);
                target.url = url.or_else(|expected| wrong("url", value, expected))?;
            }
            "service" => target.service = text(key, value)?,
            "environment" => target.environment = text(key, value)?,
            "model" => target.model = text(key, value)?,
            "device" => target.device = text(key, value)?,
            "preset" => target.preset = preset(value)?,
            "labels" => target.labels = texts(key, value, |name| target::is_label(name).then_some(()))?,
            "headers" => target.headers = headers(value)?,
            "owner" => target.owner = owner(value)?,
            "token_file" => target.token_file = Some(file(key, value)?),
            "ca_file" => target.ca_file = Some(file(key, value)?),
            "histogram" => target.histograms = histograms(value)?,
            other => return fault(at, unknown(other, &KEYS)),
        }
    }
    if target.url.is_empty() {
        return fault(span.clone(), format!("a target has no url, expected {}", target::EXPECTED_URL));
    }
    Ok(target)
}

/// The entries in the order of the file, so that the first fault is the first in it.
fn entries<'t, 'a>(table: &'t DeTable<'a>) -> Vec<(&'t str, Range<usize>, &'t Value<'a>)> {
    let mut entries: Vec<_> = table.iter().map(|(name, value)| (name.get_ref().as_ref(), name.span(), value)).collect();
    entries.sort_by_key(|(_, span, _)| span.start);
    entries
}

/// An unknown key is answered with the nearest known one.
fn unknown(name: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|key| (strsim::damerau_levenshtein(name, key), *key)).min();
    match nearest.filter(|(distance, key)| *distance <= 2.max(key.len() / 3)) {
        Some((_, key)) => format!("unknown key {name}, expected {key}"),
        None => format!("unknown key {name}, expected one of {}", known.join(", ")),
    }
}

fn wrong<T>(key: &str, value: &Value<'_>, expected: &str) -> Result<T, Fault> {
    fault(value.span(), format!("{key} is {}, expected {expected}", shown(value.get_ref())))
}

fn text(key: &str, value: &Value<'_>) -> Result<String, Fault> {
    match value.get_ref().as_str() {
        Some(text) if !text.trim().is_empty() && label::is_valid(text) => Ok(text.to_owned()),
        _ => wrong(key, value, label::EXPECTED),
    }
}

fn file(key: &str, value: &Value<'_>) -> Result<PathBuf, Fault> {
    match value.get_ref().as_str() {
        Some(text) if !text.is_empty() => Ok(PathBuf::from(text)),
        _ => wrong(key, value, "a file"),
    }
}

fn preset(value: &Value<'_>) -> Result<Option<Preset>, Fault> {
    let names = Preset::ALL.map(Preset::name).join(", ");
    match value.get_ref().as_str() {
        Some("auto") => Ok(None),
        Some(name) if name.parse::<Preset>().is_ok() => Ok(name.parse().ok()),
        _ => wrong("preset", value, &format!("auto or one of {names}")),
    }
}

/// A table of texts, of names that are allowed.
fn texts(
    key: &str,
    value: &Value<'_>,
    allowed: impl Fn(&str) -> Option<()>,
) -> Result<BTreeMap<String, String>, Fault> {
    let Some(table) = value.get_ref().as_table() else { return wrong(key, value, "a table of texts") };
    if table.len() > MAX_LABELS {
        return fault(value.span(), format!("{key} has {} entries, expected at most {MAX_LABELS}", table.len()));
    }
    let one = |(name, at, value): (&str, Range<usize>, &Value<'_>)| match allowed(name) {
        Some(()) => Ok((name.to_owned(), text(&format!("{key}.{name}"), value)?)),
        None => fault(at, format!("a name in {key} is {name:?}, expected letters, digits, _ . - and /")),
    };
    entries(table).into_iter().map(one).collect()
}

fn headers(value: &Value<'_>) -> Result<BTreeMap<String, String>, Fault> {
    let is_one = |name: &str| http::HeaderName::try_from(name).is_ok().then_some(());
    texts("headers", value, is_one)
}

fn owner(value: &Value<'_>) -> Result<Owner, Fault> {
    let Some(table) = value.get_ref().as_table() else { return wrong("owner", value, "a table of texts") };
    let mut owner = Owner::default();
    for (key, at, value) in entries(table) {
        let Some(field) = OWNER_KEYS.into_iter().find(|field| *field == key) else {
            return fault(at, unknown(key, &OWNER_KEYS));
        };
        owner.set(field, &text(&format!("owner.{key}"), value)?);
    }
    Ok(owner)
}

fn histograms(value: &Value<'_>) -> Result<Vec<Custom>, Fault> {
    let mut found = Vec::new();
    for (table, span) in tables("histogram", "[[scrape.target.histogram]]", value, MAX_HISTOGRAMS)? {
        let mut one = Custom::default();
        for (key, at, value) in entries(table) {
            match key {
                "name" => one.family = text(key, value)?,
                "metric" => one.metric = text(key, value)?,
                "unit" => one.unit = text(key, value)?,
                "model" => one.model = text(key, value)?,
                "route" => one.route = text(key, value)?,
                "source" => one.source = list(key, value)?,
                "labels" => one.labels = texts(key, value, |name| target::is_label(name).then_some(()))?,
                other => return fault(at, unknown(other, &HISTOGRAM_KEYS)),
            }
        }
        found.push(one);
        // Each is told where it is.
        if let Err(error) = Rules::new(&[], &found) {
            return fault(span, error.to_string());
        }
    }
    Ok(found)
}

fn list(key: &str, value: &Value<'_>) -> Result<Vec<String>, Fault> {
    let Some(items) = value.get_ref().as_array().filter(|items| items.len() <= MAX_LABELS) else {
        return wrong(key, value, &format!("a list of at most {MAX_LABELS} names of labels"));
    };
    items.iter().map(|item| text(key, item)).collect()
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => label::shown(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Datetime(when) => when.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A table of texts, where there are any.
fn shown_table(key: &str, all: &BTreeMap<String, String>) -> String {
    let all: Vec<String> = all.iter().map(|(name, value)| format!("{} = {}", quoted(name), quoted(value))).collect();
    if all.is_empty() { String::new() } else { format!("{key} = {{ {} }}\n", all.join(", ")) }
}

/// Targets as a file that would give them, with the line of each.
pub(super) fn show(targets: &[Target], lines: &[usize], path: &Path) -> String {
    let mut out = String::new();
    for (target, line) in targets.iter().zip(lines) {
        out += &format!("\n{:<44} # {}:{line}\n", "[[scrape.target]]", path.display());
        let mut say = |key: &str, text: &str| {
            if !text.is_empty() {
                out += &format!("{key} = {}\n", quoted(text));
            }
        };
        let files = [&target.token_file, &target.ca_file];
        let [token, ca] = files.map(|path| path.as_ref().map(|path| path.display().to_string()).unwrap_or_default());
        say("url", &target.url);
        say("service", &target.service);
        say("environment", &target.environment);
        say("model", &target.model);
        say("device", &target.device);
        say("preset", target.preset.map_or("auto", Preset::name));
        say("token_file", &token);
        say("ca_file", &ca);
        let owner: BTreeMap<String, String> = target
            .owner
            .attributes()
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        for (key, all) in [("labels", &target.labels), ("owner", &owner), ("headers", &target.headers)] {
            out += &shown_table(key, all);
        }
        for one in &target.histograms {
            out += "[[scrape.target.histogram]]\n";
            for (key, text) in [
                ("name", &one.family),
                ("metric", &one.metric),
                ("unit", &one.unit),
                ("model", &one.model),
                ("route", &one.route),
            ] {
                if !text.is_empty() {
                    out += &format!("{key} = {}\n", quoted(text));
                }
            }
            if !one.source.is_empty() {
                let list: Vec<String> = one.source.iter().map(|item| quoted(item)).collect();
                out += &format!("source = [{}]\n", list.join(", "));
            }
            out += &shown_table("labels", &one.labels);
        }
    }
    out
}
