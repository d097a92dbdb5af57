//! What the readers of the kernel share: files that are read again and again ([`KernelFile`]), how a process is ([`Stat`]) and
//! what it was started with ([`Environ`]), why something could not be read ([`KernelError`]), and what such a reader hands on
//! ([`KernelSample`]).

mod environ;
mod file;
mod stat;
pub mod text;

use std::path::{Path, PathBuf};

pub use environ::Environ;
pub use file::KernelFile;
use file::read_at_once;
pub use stat::Stat;

use super::Measures;

/// What a reader saw at one instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KernelSample {
    /// When, in Unix milliseconds.
    pub ts_ms: i64,
    /// The values; none when it is not their turn at this instant.
    pub measures: Measures,
    /// What has happened since the last sample.
    pub changes: Vec<Change>,
}

/// Something that happened, for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its kind, such as `mount_lost`.
    pub kind: &'static str,
    /// For people.
    pub message: String,
    /// For programs, by the names of the registry.
    pub attributes: Vec<(&'static str, String)>,
}

/// A file under `/proc` or `/sys` that did not give what was expected.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// It cannot be opened or read.
    #[error("{}: expected a readable file of the kernel", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It has another shape than the kernel's.
    #[error("{}: {fault}: expected {expected}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: String,
        /// What should be there.
        expected: &'static str,
    },
}

impl KernelError {
    pub(super) fn read(path: &Path, source: std::io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    pub(super) fn shape(path: &Path, fault: impl ToString, expected: &'static str) -> Self {
        Self::Shape { path: path.to_owned(), fault: fault.to_string(), expected }
    }
}
