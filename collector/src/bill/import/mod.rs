//! `contador import`: a file of allocations or of Slurm's jobs to rows of the store, all of it or nothing.
//!
//! [`lines`] reads a file line by line. Of an allocations file, [`fields`] cuts a line of the CSV into fields, and [`mod@parse`] turns
//! fields into allocations and their owners; [`sacct`] does the same for what Slurm's `sacct` prints. Both collect every fault
//! with its line and column. [`parsed`] keeps what came out, [`figures`] says what it comes to, [`known`] asks the store what it
//! has of jobs that still ran, and [`mod@write`] stores it if there was no fault.
//!
//! Importing a file twice is importing it once. The id of an allocation is made of its content and of how often the same
//! content came before it in the file, so that two equal lines of one file are two allocations; that of a job's is made of what
//! tells the job from others, so that what is known of it later takes the place of what was known before.

pub mod fields;
pub mod figures;
mod known;
pub(super) mod lines;
pub mod parse;
pub mod parsed;
pub mod sacct;
pub mod write;

#[cfg(test)]
mod tests;

use std::io::BufRead;

use thiserror::Error;

use super::StoreError;
use crate::store::Store;
pub use figures::Figures;
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
) -> Result<Figures, ImportError> {
    write(store, name, parse(name, reader, simulated)?).await
}

/// Stores what was read of the file of this name; what it comes to, without what the store knew better.
///
/// # Errors
/// [`ImportError::Store`].
pub async fn write(store: &Store, name: &str, mut parsed: Parsed) -> Result<Figures, ImportError> {
    write::write(store, &mut parsed).await.map_err(|source| ImportError::Store { name: name.to_owned(), source })?;
    Ok(Figures::of(&parsed))
}
