//! Documents that people write as TOML: price books and commitments.
//!
//! A file becomes a [`table`] of values that are read strictly: every fault is told, with its line, the value and what was
//! expected, and not the first alone. What was read is written again by a [`write`](mod@write)r, in one canonical form, whose hash
//! is its id; the [`store`] keeps that text by its id. [`shown`] are they in tables.

pub mod device;
pub mod duration;
pub mod shown;
pub mod store;
pub mod table;
pub mod write;

use std::fmt;
use std::path::Path;

use thiserror::Error;
use toml::de::DeTable;

use super::currency;
use table::{Faults, Table};

/// Faults of one file that are told one by one; of more, the number is.
const TOLD: usize = 20;

/// Why a document was refused.
#[derive(Debug, Error)]
pub enum DocumentError {
    /// It cannot be read.
    #[error("{path}: cannot be read")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It has faults.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// A document with faults.
#[derive(Debug, Error)]
pub struct Refused {
    /// The file.
    pub path: String,
    /// The first faults in the file's order: the line, from 1, and the key, the value and what was expected.
    pub faults: Vec<(usize, String)>,
    /// How many more there are.
    pub more: usize,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (line, message)) in self.faults.iter().enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            write!(f, "{end}{}:{line}: {message}", self.path)?;
        }
        if self.more > 0 {
            write!(f, "\n{}: {} more faults", self.path, self.more)?;
        }
        Ok(())
    }
}

impl Refused {
    /// Of faults with the byte at which each is.
    fn of(path: &str, text: &str, mut faults: Vec<(usize, String)>) -> Self {
        faults.sort();
        faults.dedup();
        let more = faults.len().saturating_sub(TOLD);
        faults.truncate(TOLD);
        let faults = faults.into_iter().map(|(at, message)| (line(text, at), message)).collect();
        Self { path: path.to_owned(), faults, more }
    }
}

/// The line of a byte, from 1.
fn line(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// Reads the document in a file.
///
/// # Errors
/// [`DocumentError`].
pub fn read<T>(path: &Path, parse: impl FnOnce(&str, &str) -> Result<T, Refused>) -> Result<T, DocumentError> {
    let name = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(parse(&name, &text)?),
        Err(source) => Err(DocumentError::Read { path: name, source }),
    }
}

/// Reads a document, of which `take` makes what it says; `path` is its name in messages.
///
/// # Errors
/// [`Refused`]. Where the text is not TOML, only that is told.
pub fn parse<T>(path: &str, text: &str, take: impl FnOnce(&Table<'_>) -> T) -> Result<T, Refused> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let fault =
            |error: &toml::de::Error| (error.span().map_or(0, |span| span.start), error.message().replace('\n', ", "));
        return Err(Refused::of(path, text, errors.iter().map(fault).collect()));
    }
    let faults = Faults::new(text);
    let taken = take(&Table::top(document.get_ref(), &faults));
    let faults = faults.into_inner();
    if faults.is_empty() { Ok(taken) } else { Err(Refused::of(path, text, faults)) }
}

/// Checks the shape of a currency's code.
///
/// # Errors
/// What was expected.
pub fn currency_code(code: &str) -> Result<(), String> {
    if currency::exists(code) {
        return Ok(());
    }
    Err(format!("currency: {code:?}, expected three capitals of ISO 4217 such as EUR"))
}
