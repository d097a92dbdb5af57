//! One line with a value: `name{label="value",…} value time # {exemplar} value time`.

use std::borrow::Cow;

use super::Format;
use super::fault::Fault;
use super::meta::{blanks, word};
use super::page::Label;

/// Most labels of one sample.
const MOST_LABELS: usize = 128;

/// A fault, and the name of the sample as far as it was read.
pub(super) type Faulty<'a> = (Fault, Option<Cow<'a, str>>);

/// What a line holds, but its name and labels.
#[derive(Debug, PartialEq)]
pub(super) struct Value {
    pub value: f64,
    pub time_s: Option<f64>,
}

/// Reads the name and the labels, which are put behind `labels`; the rest is left. A name may be quoted in the braces.
///
/// # Errors
/// The fault, and the name as far as it was read.
pub(super) fn head<'a>(line: &'a str, labels: &mut Vec<Label<'a>>) -> Result<(Cow<'a, str>, &'a str), Faulty<'a>> {
    let (name, rest) = identifier(line, true);
    let mut name = (!name.is_empty()).then_some(Cow::Borrowed(name));
    let rest = blanks(rest);
    let rest = match rest.strip_prefix('{') {
        Some(inside) => match braces(inside, labels, &mut name) {
            Ok(rest) => rest,
            Err(fault) => return Err((fault, name)),
        },
        None => rest,
    };
    match name {
        Some(name) => Ok((name, rest)),
        None => Err((Fault::new("the name", line, "letters, digits, _ and :, not beginning with a digit"), None)),
    }
}

/// Reads the value, the time and the exemplar.
pub(super) fn tail(rest: &str, format: Format) -> Result<Value, Fault> {
    let (token, rest) = word(blanks(rest));
    let value = number(token, "the value")?;
    let rest = blanks(rest);
    let (time_s, rest) = if rest.is_empty() || rest.starts_with('#') {
        (None, rest)
    } else {
        let (token, rest) = word(rest);
        (Some(time(token, format)?), blanks(rest))
    };
    if let Some(exemplar) = rest.strip_prefix('#') {
        check_exemplar(blanks(exemplar))?;
    } else if !rest.is_empty() {
        return Err(Fault::new("what follows the value", rest, "a time, an exemplar or the end of the line"));
    }
    Ok(Value { value, time_s })
}

fn number(token: &str, field: &'static str) -> Result<f64, Fault> {
    token.parse().map_err(|_| Fault::new(field, token, "a number, NaN, +Inf or -Inf"))
}

/// Milliseconds in Prometheus's format, seconds in OpenMetrics.
fn time(token: &str, format: Format) -> Result<f64, Fault> {
    let time = match format {
        #[expect(clippy::cast_precision_loss, reason = "times in milliseconds have 41 bits")]
        Format::Prometheus => token.parse::<i64>().ok().map(|time| time as f64 / 1e3),
        Format::OpenMetrics => token.parse::<f64>().ok().filter(|time| time.is_finite()),
    };
    time.ok_or_else(|| Fault::new("the time", token, "milliseconds, or seconds in OpenMetrics"))
}

fn check_exemplar(text: &str) -> Result<(), Fault> {
    let inside = text.strip_prefix('{').ok_or_else(|| Fault::new("the exemplar", text, "labels in braces"))?;
    let rest = braces(inside, &mut Vec::new(), &mut Some(Cow::Borrowed("exemplar")))?;
    let (token, rest) = word(blanks(rest));
    number(token, "the exemplar's value")?;
    let (token, rest) = word(blanks(rest));
    if !token.is_empty() {
        time(token, Format::OpenMetrics)?;
    }
    if blanks(rest).is_empty() {
        Ok(())
    } else {
        Err(Fault::new("what follows the exemplar", rest, "the end of the line"))
    }
}

/// Reads labels up to the closing brace.
fn braces<'a>(
    mut rest: &'a str,
    labels: &mut Vec<Label<'a>>,
    name: &mut Option<Cow<'a, str>>,
) -> Result<&'a str, Fault> {
    let first = labels.len();
    loop {
        rest = blanks(rest);
        if let Some(rest) = rest.strip_prefix('}') {
            return Ok(rest);
        }
        let (label, after) = if rest.starts_with('"') {
            quoted(rest)?
        } else {
            let (label, after) = identifier(rest, false);
            (Cow::Borrowed(label), after)
        };
        let after = blanks(after);
        if rest.starts_with('"') && !after.starts_with('=') {
            // A quoted name without a value is the metric's.
            if name.is_some() || labels.len() > first {
                return Err(Fault::new("a label", rest, "a name, = and a quoted value"));
            }
            *name = Some(label);
            rest = separator(after)?;
            continue;
        }
        let Some(value) = after.strip_prefix('=').filter(|_| !label.is_empty()) else {
            return Err(Fault::new("a label", rest, "a name, = and a quoted value"));
        };
        let (value, after) = quoted(blanks(value))?;
        let known = labels.get(first..).unwrap_or_default();
        if known.iter().any(|other| other.name == label) {
            return Err(Fault::new("a label", &label, "each name once"));
        }
        if known.len() == MOST_LABELS {
            return Err(Fault::new("a label", &label, "at most 128 of them"));
        }
        labels.push(Label { name: label, value });
        rest = separator(after)?;
    }
}

/// After a label: a comma is taken, a closing brace left.
fn separator(rest: &str) -> Result<&str, Fault> {
    let rest = blanks(rest);
    match rest.strip_prefix(',') {
        Some(rest) => Ok(rest),
        None if rest.starts_with('}') => Ok(rest),
        None => Err(Fault::new("what follows a label", rest, "a comma or a closing brace")),
    }
}

/// A text in quotes, without its escapes, and the rest. Escapes other than `\\`, `\"` and `\n` stand for themselves.
pub(super) fn quoted(text: &str) -> Result<(Cow<'_, str>, &str), Fault> {
    let fault = || Fault::new("a quoted text", text, "quotes around it");
    let inside = text.strip_prefix('"').ok_or_else(fault)?;
    let end = inside.find(['"', '\\']).ok_or_else(fault)?;
    let (plain, rest) = inside.split_at(end);
    if let Some(rest) = rest.strip_prefix('"') {
        return Ok((Cow::Borrowed(plain), rest));
    }
    let mut value = plain.to_owned();
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((Cow::Owned(value), rest.get(at + 1..).unwrap_or_default())),
            '\\' => match characters.next().ok_or_else(fault)?.1 {
                'n' => value.push('\n'),
                escaped @ ('"' | '\\') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            character => value.push(character),
        }
    }
    Err(fault())
}

/// A bare name, and the rest; colons only where metrics are named.
fn identifier(text: &str, colons: bool) -> (&str, &str) {
    let named = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || (colons && byte == b':');
    let end = text.bytes().position(|byte| !named(byte)).unwrap_or(text.len());
    let end = if text.starts_with(|first: char| first.is_ascii_digit()) { 0 } else { end };
    text.split_at(end)
}
