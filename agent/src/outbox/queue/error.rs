//! Why a queue could not do what was asked.

use std::io;
use std::path::{Path, PathBuf};

use crate::outbox::segment::MAX_PAYLOAD_BYTES;

/// Why the spool could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The file system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A payload that no collector would take.
    #[error("payload of {bytes} bytes, expected at most {MAX_PAYLOAD_BYTES}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// Records alone fill the spool.
    #[error("the spool {} is full of records: {used} of {limit} bytes", path.display())]
    Full {
        /// The spool's folder.
        path: PathBuf,
        /// Bytes in it.
        used: u64,
        /// Bytes that it may have.
        limit: u64,
    },
}

impl SpoolError {
    /// True when the disk is full.
    pub fn is_out_of_space(&self) -> bool {
        let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Self::Io { source, .. } if kinds.contains(&source.kind()))
    }
}

/// Names what was tried on which file.
pub(super) fn io_error<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> SpoolError + use<'a> {
    move |source| SpoolError::Io { action, path: path.to_owned(), source }
}
