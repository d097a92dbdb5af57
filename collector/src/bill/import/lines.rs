//! A file, a line at a time: what the formats have in common. Lines end in LF or CRLF, empty ones are skipped, and a byte order
//! mark is too.

use std::io::{BufRead, Read as _};

use super::ImportError;
use super::fields::split;
use super::parse::{Fault, Refused};

/// Faults of a file that are told one by one; more are only counted.
pub(in crate::bill) const FAULTS_TOLD: usize = 20;

/// Longest line, bytes.
pub(in crate::bill) const LINE_MAX: usize = 64 << 10;

/// Longest value, bytes.
pub(in crate::bill) const VALUE_MAX: usize = 1 << 10;

/// What is wrong with a file so far.
#[derive(Debug, Default)]
pub(in crate::bill) struct Faults {
    /// The line that is read, from 1.
    pub line: u64,
    told: Vec<Fault>,
    more: usize,
}

impl Faults {
    /// One in the line that is read.
    pub fn add(&mut self, column: &str, value: &str, expected: impl Into<String>) {
        self.add_at(self.line, column, value, expected);
    }

    /// One in this line.
    pub fn add_at(&mut self, line: u64, column: &str, value: &str, expected: impl Into<String>) {
        if self.told.len() >= FAULTS_TOLD {
            self.more += 1;
            return;
        }
        let value = value.chars().take(80).collect();
        self.told.push(Fault { line, column: column.to_owned(), value, expected: expected.into() });
    }

    /// Adds one if this value is not text that the store should have: too long, with control characters, or with spaces around.
    pub fn check_text(&mut self, column: &str, value: &str) {
        if value.len() > VALUE_MAX {
            self.add(column, value, format!("up to {VALUE_MAX} bytes"));
        } else if value.chars().any(char::is_control) {
            self.add(column, value, "no control characters");
        } else if value.trim() != value {
            self.add(column, value, "no space at either end");
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.told.len() + self.more
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Puts those that are told in the order of their lines.
    pub fn sort(&mut self) {
        self.told.sort_by_key(|fault| fault.line);
    }

    /// The refusal of the file of this name.
    pub fn refuse(self, name: &str) -> Refused {
        Refused { name: name.to_owned(), faults: self.told, more: self.more }
    }
}

/// What a format makes of its lines.
pub(in crate::bill) trait Format {
    /// What is wrong so far, and which line is read.
    fn faults(&mut self) -> &mut Faults;

    /// Takes a line without its end; the first one is the header.
    fn take(&mut self, line: &str);

    /// Whether nothing after this can be read.
    fn is_hopeless(&self) -> bool;
}

/// Reads the file of this name to its end, or to where it is hopeless.
///
/// # Errors
/// [`ImportError::Read`]; what is wrong with its lines is among the format's faults.
pub(in crate::bill) fn read(name: &str, mut reader: impl BufRead, format: &mut impl Format) -> Result<(), ImportError> {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let read = reader.by_ref().take(LINE_MAX as u64 + 1).read_until(b'\n', &mut bytes);
        if read.map_err(|source| ImportError::Read { name: name.to_owned(), source })? == 0 {
            return Ok(());
        }
        format.faults().line += 1;
        if bytes.len() > LINE_MAX {
            format.faults().add("", "a longer line", format!("lines of up to {LINE_MAX} bytes"));
            return Ok(());
        }
        take(&bytes, format);
        if format.is_hopeless() {
            return Ok(());
        }
    }
}

fn take(bytes: &[u8], format: &mut impl Format) {
    let is_first = format.faults().line == 1;
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let bytes = if is_first { bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes) } else { bytes };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return format.faults().add("", &String::from_utf8_lossy(bytes), "UTF-8");
    };
    if text.is_empty() {
        return;
    }
    format.take(text);
}

/// The fields of a line of CSV; none, and a fault, if it isn't one.
pub(in crate::bill) fn csv(line: &str, faults: &mut Faults) -> Option<Vec<String>> {
    split(line).map_err(|expected| faults.add("", line, expected)).ok()
}
