//! Why a file of the kernel could not be read.

use std::path::{Path, PathBuf};

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
