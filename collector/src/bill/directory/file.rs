//! A directory as CSV: read a line at a time, every fault with its line, column, value and what was expected.
//!
//! ```csv
//! project,department,cost_centre,valid_from,valid_to
//! vision,research,4711,2026-01-01,
//! vision,search,4712,2026-10-16,
//! ranking,search,,2026-01-01,2027-01-01
//! ```
//!
//! Columns may come in any order, and `valid_to` may be missing. `valid_from` is the first day, `valid_to` the day after the
//! last one; without it an entry holds until the next one of its project. An empty cost centre is none.

use std::collections::{BTreeMap, HashSet};
use std::io::BufRead;
use std::sync::Arc;

use jiff::civil::Date;

use super::{Day, Directory, Entry, date, day};
use crate::bill::import::ImportError;
use crate::bill::import::lines::{self, Faults, Format};

/// The columns; the last one may be missing.
pub const HEADER: [&str; 5] = ["project", "department", "cost_centre", "valid_from", "valid_to"];

/// Most entries of a directory.
pub const ENTRIES_MAX: usize = 1_000_000;

/// Longest value, bytes: a label's.
const VALUE_MAX: usize = 256;

/// What is expected of a date.
pub const DATE: &str = "a date such as 2026-01-01, from 1970-01-01 to 2099-12-31";

/// Reads a whole file. Its lines may end in LF or CRLF, empty ones are skipped, and a byte order mark is too.
///
/// # Errors
/// [`ImportError::Read`], and [`ImportError::Refused`] with the faults.
pub fn parse(name: &str, reader: impl BufRead) -> Result<Directory, ImportError> {
    let mut parser = Parser::default();
    lines::read(name, reader, &mut parser)?;
    parser.finish().map_err(|mut faults| {
        faults.sort();
        ImportError::Refused(faults.refuse(name))
    })
}

#[derive(Default)]
struct Parser {
    /// Where each column of [`HEADER`] stands in a line, and how many fields a line has.
    columns: Option<([Option<usize>; HEADER.len()], usize)>,
    /// Nothing after this can be read.
    hopeless: bool,
    directory: Directory,
    /// The line of each entry, by project and first day.
    lines: BTreeMap<(Arc<str>, Day), u64>,
    /// Each text once.
    texts: HashSet<Arc<str>>,
    faults: Faults,
}

impl Format for Parser {
    fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    fn take(&mut self, line: &str) {
        let Some(fields) = lines::csv(line, &mut self.faults) else { return };
        match self.columns {
            None => self.header(&fields),
            Some((_, count)) if fields.len() != count => {
                self.fault("", line, format!("{count} fields, found {}", fields.len()));
            }
            Some((columns, _)) => {
                let value = |at: Option<usize>| at.and_then(|at| fields.get(at)).map_or("", String::as_str);
                self.entry(columns.map(value));
            }
        }
    }

    fn is_hopeless(&self) -> bool {
        self.hopeless
    }
}

impl Parser {
    fn fault(&mut self, column: &str, value: &str, expected: impl Into<String>) {
        self.faults.add(column, value, expected);
    }

    fn header(&mut self, names: &[String]) {
        let mut seen = HashSet::new();
        for name in names {
            if !HEADER.contains(&name.as_str()) {
                self.fault("header", name, format!("only the columns {}", HEADER.join(",")));
            } else if !seen.insert(name) {
                self.fault("header", name, "each column once");
            }
        }
        let columns = HEADER.map(|column| names.iter().position(|name| name == column));
        for (column, found) in HEADER.into_iter().zip(columns).take(HEADER.len() - 1) {
            if found.is_none() {
                self.fault("header", &names.join(","), format!("the column {column} too"));
            }
        }
        self.hopeless = !self.faults.is_empty();
        self.columns = Some((columns, names.len()));
    }

    fn entry(&mut self, values: [&str; HEADER.len()]) {
        let before = self.faults.count();
        for (column, value) in HEADER.into_iter().zip(values) {
            if value.len() > VALUE_MAX {
                self.fault(column, value, format!("up to {VALUE_MAX} bytes"));
            } else if value.chars().any(char::is_control) {
                self.fault(column, value, "no control characters");
            } else if value.trim() != value {
                self.fault(column, value, "no space at either end");
            } else if value.is_empty() && matches!(column, "project" | "department") {
                self.fault(column, value, format!("a {column}"));
            }
        }
        let [project, department, cost_centre, valid_from, valid_to] = values;
        let from = read_day(valid_from);
        if from.is_none() {
            self.fault("valid_from", valid_from, DATE);
        }
        let until = read_day(valid_to);
        match (from, until) {
            (_, None) if !valid_to.is_empty() => self.fault("valid_to", valid_to, format!("{DATE}, or nothing")),
            (Some(from), Some(until)) if until <= from => {
                self.fault("valid_to", valid_to, format!("a day after {valid_from}"));
            }
            _ => {}
        }
        let Some(from) = from.filter(|_| self.faults.count() == before) else { return };
        let [project, department, cost_centre] = [project, department, cost_centre].map(|text| self.text(text));
        if let Some(first) = self.lines.get(&(Arc::clone(&project), from)) {
            let expected = format!("one entry of project {project:?} from that day; the first is on line {first}");
            return self.fault("valid_from", valid_from, expected);
        }
        if self.lines.len() >= ENTRIES_MAX {
            self.hopeless = true;
            return self.fault("", "more entries", format!("at most {ENTRIES_MAX}"));
        }
        self.lines.insert((Arc::clone(&project), from), self.faults.line);
        self.directory.add(project, from, Entry { until, department, cost_centre });
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    /// Two entries of one project may not hold on one day.
    fn overlaps(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let entries = lines.iter().zip(lines.iter().skip(1));
        for (((project, from), line), ((other, next), next_line)) in entries {
            let until = self.directory.at(project, *from).and_then(|entry| entry.until);
            if let Some(until) = until.filter(|until| project == other && until > next) {
                let expected = format!(
                    "a day up to {}, from which the entry of project {project:?} on line {next_line} holds",
                    date(*next)
                );
                self.faults.add_at(*line, "valid_to", &date(until).to_string(), expected);
            }
        }
    }

    fn finish(mut self) -> Result<Directory, Faults> {
        if self.columns.is_none() && self.faults.is_empty() {
            self.faults.add_at(1, "header", "", HEADER.join(","));
        }
        if self.faults.is_empty() && self.lines.is_empty() {
            self.faults.add_at(self.faults.line.max(1), "", "no entries", "at least one");
        }
        self.overlaps();
        if self.faults.is_empty() { Ok(self.directory) } else { Err(self.faults) }
    }
}

/// A date as a file has it.
pub fn read_day(text: &str) -> Option<Day> {
    let is_date = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let date: Date = is_date.then(|| text.parse().ok()).flatten()?;
    (1970..2100).contains(&date.year()).then(|| day(date)).flatten()
}
