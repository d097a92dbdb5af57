//! What is wrong with a configuration, and where.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// A fault of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is wrong somewhere.
    #[error("{}:{line}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, with the value and what was expected.
        reason: String,
    },
    /// A flag, an environment variable or a default is wrong.
    #[error("{reason}")]
    Value {
        /// What is wrong, with its name, the value and what was expected.
        reason: String,
    },
}

/// A file and its text.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file's path, for messages.
    pub path: &'a Path,
    /// Its text.
    pub text: &'a str,
}

impl Place<'_> {
    /// A fault at these bytes.
    pub fn fault(&self, span: &Range<usize>, reason: String) -> ConfigError {
        ConfigError::File { path: self.path.to_owned(), line: self.line(span), reason }
    }

    /// The line of these bytes, from 1.
    pub fn line(&self, span: &Range<usize>) -> usize {
        self.text.get(..span.start).unwrap_or_default().matches('\n').count() + 1
    }
}

/// A fault that the TOML reader found.
pub fn of_toml(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let span = error.span().unwrap_or(0..0);
    let reason = error.message().lines().next().unwrap_or_default().to_owned();
    Place { path, text }.fault(&span, reason)
}

/// A file that is no text.
pub fn of_bytes(path: &Path, bytes: &[u8], valid: usize) -> ConfigError {
    let line = bytes.iter().take(valid).filter(|byte| **byte == b'\n').count() + 1;
    let byte = bytes.get(valid).copied().unwrap_or_default();
    let reason = format!("the byte 0x{byte:02x} is no UTF-8, expected a TOML file");
    ConfigError::File { path: path.to_owned(), line, reason }
}
