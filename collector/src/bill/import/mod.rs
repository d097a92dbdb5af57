//! `contador import`: an allocations file to rows of the store, all of it or nothing.
//!
//! [`lines`] reads a file and [`fields`] cuts a line of the CSV into fields, [`mod@parse`] turns fields into allocations and their owners and collects
//! every fault with its line and column, [`parsed`] keeps what came out, and [`mod@write`] stores it if there was none. The id of an allocation is made
//! of its content and of how often the same content came before it in the file, so importing a file twice is importing it
//! once, while two equal lines of one file are two allocations.

pub mod fields;
pub(super) mod lines;
pub mod parse;
pub mod parsed;
pub mod write;

#[cfg(test)]
mod tests;

use std::io::BufRead;

use thiserror::Error;

use super::StoreError;
use crate::store::Store;
pub use parse::{Fault, HEADER, Refused, parse};
pub use parsed::Parsed;

/// Why a file was not imported. Nothing of it is stored, unless the store failed halfway; importing it again is then safe.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("{name}: cannot be read")]
    Read {
        /// The file.
        name: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file has faults.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The store failed.
    #[error("{name}: not stored")]
    Store {
        /// The file.
        name: String,
        /// Why.
        #[source]
        source: StoreError,
    },
}

/// What was imported of one file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Imported {
    /// Allocations in the file.
    pub allocations: usize,
    /// Different owners of them.
    pub owners: usize,
}

/// Reads an allocations CSV and stores it. `name` is the file's name in messages and in the column `source`; `simulated`
/// marks every allocation as a generated sample.
///
/// # Errors
/// [`ImportError`]; a file with a fault leaves the store as it was.
pub async fn allocations(
    store: &Store,
    name: &str,
    reader: impl BufRead,
    simulated: bool,
) -> Result<Imported, ImportError> {
    let parsed = parse(name, reader, simulated)?;
    write::write(store, &parsed).await.map_err(|source| ImportError::Store { name: name.to_owned(), source })?;
    Ok(Imported { allocations: parsed.allocations().len(), owners: parsed.owners().len() })
}
