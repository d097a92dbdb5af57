//! Lines that begin with `#`: what a family is. Its unit and its explanation are not needed, and other lines are comments.

use std::borrow::Cow;

use super::fault::Fault;
use super::page::Kind;
use super::sample::quoted;

/// What a line beginning with `#` says.
#[derive(Debug, PartialEq)]
pub(super) enum Meta<'a> {
    /// A family's kind.
    Type(Cow<'a, str>, Kind),
    /// Another word about a family: its samples follow.
    About(Cow<'a, str>),
    /// Where an OpenMetrics page ends.
    End,
    /// A comment.
    Comment,
}

const KINDS: &str =
    "counter, gauge, histogram, summary, untyped, unknown, info, stateset or gaugehistogram after the family's name";

/// Reads a line that begins with `#`.
///
/// # Errors
/// The fault, and the family's name as far as it was read.
pub(super) fn read(line: &str) -> Result<Meta<'_>, (Fault, Option<Cow<'_, str>>)> {
    if line.trim_end() == "# EOF" {
        return Ok(Meta::End);
    }
    let rest = blanks(line.get(1..).unwrap_or_default());
    let (keyword, rest) = word(rest);
    if !matches!(keyword, "TYPE" | "HELP" | "UNIT") {
        return Ok(Meta::Comment);
    }
    let rest = blanks(rest);
    let (family, rest) = if rest.starts_with('"') {
        quoted(rest).map_err(|fault| (fault, None))?
    } else {
        let (family, rest) = word(rest);
        (Cow::Borrowed(family), rest)
    };
    if family.is_empty() {
        return Err((Fault::new("the family's name", line, "a name after the keyword"), None));
    }
    if keyword != "TYPE" {
        return Ok(Meta::About(family));
    }
    let kind = match rest.trim() {
        "counter" => Kind::Counter,
        "gauge" => Kind::Gauge,
        "histogram" => Kind::Histogram,
        "summary" => Kind::Summary,
        "untyped" | "unknown" => Kind::Unknown,
        "info" | "stateset" | "gaugehistogram" => Kind::Other,
        other => return Err((Fault::new("the type", other, KINDS), Some(family))),
    };
    Ok(Meta::Type(family, kind))
}

/// The rest after blanks and tabs.
pub(super) fn blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

/// What comes up to a blank or tab, and the rest.
pub(super) fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find([' ', '\t']).unwrap_or(text.len()))
}
