//! A page, line by line.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Format;
use super::fault::{Fault, PageError};
use super::meta::{self, Meta, blanks};
use super::page::{Family, Kind, Page, Sample};
use super::sample;

/// Most samples of one page.
pub const MOST_SAMPLES: usize = 250_000;

/// Most faults that are kept of one page; all are counted.
const MOST_FAULTS: usize = 8;

/// Endings of samples that belong to the family without them.
const ENDINGS: [&str; 8] = ["_bucket", "_sum", "_count", "_total", "_created", "_info", "_gcount", "_gsum"];

/// Reads a page.
///
/// # Errors
/// [`PageError`] when the page was cut or is too large; a line that can't be read only spoils its family.
pub fn parse(text: &str, format: Format) -> Result<Page<'_>, PageError> {
    let mut reader = Reader::default();
    let mut ended = false;
    let mut rest = text;
    let mut number = 0;
    while !rest.is_empty() {
        number += 1;
        let (line, terminated) = match rest.split_once('\n') {
            Some((line, after)) => {
                rest = after;
                (line, true)
            }
            None => (std::mem::take(&mut rest), false),
        };
        let line = blanks(line).trim_end_matches([' ', '\t', '\r']);
        if ended && !line.is_empty() {
            return Err(PageError::AfterEnd(number));
        }
        match reader.line(line, terminated, format) {
            Ok(end) => ended |= end && format == Format::OpenMetrics,
            Err(fault) => reader.fault(Fault { line: number, ..fault }),
        }
        if let Some(sample) = reader.page.samples.last_mut().filter(|sample| sample.line == 0) {
            sample.line = number;
        }
        if reader.page.samples.len() > MOST_SAMPLES {
            return Err(PageError::TooLarge(MOST_SAMPLES));
        }
    }
    if format == Format::OpenMetrics && !ended {
        return Err(PageError::Cut(number));
    }
    Ok(reader.page)
}

#[derive(Default)]
struct Reader<'a> {
    page: Page<'a>,
    families: HashMap<Cow<'a, str>, usize>,
    /// The family of the line before.
    current: Option<usize>,
}

impl<'a> Reader<'a> {
    /// Reads one line; true at the end of an OpenMetrics page.
    fn line(&mut self, line: &'a str, terminated: bool, format: Format) -> Result<bool, Fault> {
        if line.is_empty() {
            return Ok(false);
        }
        if line.starts_with('#') {
            match meta::read(line) {
                Ok(Meta::End) => return Ok(true),
                Ok(Meta::Comment) => {}
                Ok(Meta::About(name)) => _ = self.declare(name),
                Ok(Meta::Type(name, kind)) => {
                    let family = self.declare(name);
                    if let Some(family) = self.page.families.get_mut(family) {
                        family.kind = kind;
                    }
                }
                Err((fault, name)) => {
                    if let Some(name) = name {
                        self.declare(name.clone());
                        self.spoil(Some(name));
                    }
                    return Err(fault);
                }
            }
            return Ok(false);
        }
        let first = self.page.labels.len();
        match self.sample(line, terminated, format, first) {
            Ok(sample) => {
                self.current = Some(sample.family);
                self.page.samples.push(sample);
                Ok(false)
            }
            Err((fault, name)) => {
                self.page.labels.truncate(first);
                self.spoil(name);
                Err(fault)
            }
        }
    }

    fn sample(
        &mut self,
        line: &'a str,
        terminated: bool,
        format: Format,
        first: usize,
    ) -> Result<Sample<'a>, (Fault, Option<Cow<'a, str>>)> {
        let (name, rest) = sample::head(line, &mut self.page.labels)?;
        if !terminated {
            return Err((
                Fault::new("the last line", line, "a line feed at its end: it may have been cut"),
                Some(name),
            ));
        }
        let value = match sample::tail(rest, format) {
            Ok(value) => value,
            Err(fault) => return Err((fault, Some(name))),
        };
        let family = self.family_of(&name).unwrap_or_else(|| self.declare(stem(name.clone())));
        let labels = first..self.page.labels.len();
        Ok(Sample { name, family, value: value.value, time_s: value.time_s, line: 0, labels })
    }

    /// The family that a sample of this name belongs to, when there is one already.
    fn family_of(&self, name: &str) -> Option<usize> {
        let named = |index: &usize| self.page.families.get(*index).is_some_and(|family| belongs(name, &family.name));
        // Most lines belong to the family of the line before; one with just this name goes first.
        self.families
            .get(name)
            .copied()
            .or_else(|| self.current.filter(named))
            .or_else(|| ENDINGS.iter().find_map(|ending| self.families.get(name.strip_suffix(ending)?)).copied())
    }

    fn declare(&mut self, name: Cow<'a, str>) -> usize {
        let next = self.page.families.len();
        let index = *self.families.entry(name.clone()).or_insert(next);
        if index == next {
            self.page.families.push(Family { name, kind: Kind::Unknown, spoiled: false });
        }
        self.current = Some(index);
        index
    }

    /// Spoils the family of a line that can't be read: the one that it names, when that is known. Otherwise it may be a
    /// line of the family before, too.
    fn spoil(&mut self, name: Option<Cow<'a, str>>) {
        let mut spoiled = vec![];
        match name {
            Some(name) => match self.family_of(&name) {
                Some(family) => spoiled.push(family),
                None => {
                    spoiled.extend(self.current);
                    spoiled.push(self.declare(stem(name)));
                }
            },
            None => spoiled.extend(self.current),
        }
        for family in spoiled {
            if let Some(family) = self.page.families.get_mut(family) {
                family.spoiled = true;
            }
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.page.faulty_lines += 1;
        if self.page.faults.len() < MOST_FAULTS {
            self.page.faults.push(fault);
        }
    }
}

fn belongs(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|ending| ENDINGS.contains(&ending))
}

/// The family of a sample whose family nobody has named: histograms are told by their endings.
fn stem(name: Cow<'_, str>) -> Cow<'_, str> {
    let ending =
        ["_bucket", "_sum", "_count"].into_iter().find(|ending| name.len() > ending.len() && name.ends_with(ending));
    match (ending, name) {
        (Some(ending), Cow::Borrowed(name)) => Cow::Borrowed(name.strip_suffix(ending).unwrap_or(name)),
        (Some(ending), Cow::Owned(name)) => Cow::Owned(name.strip_suffix(ending).unwrap_or(&name).to_owned()),
        (None, name) => name,
    }
}
