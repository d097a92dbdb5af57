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
    /// An option of the command line, or a default, is wrong.
    #[error("{option}: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// What is wrong, with the value and what was expected.
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
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        ConfigError::File { path: self.path.to_owned(), line, reason }
    }
}

/// A fault that the TOML reader found. An unknown key is answered with the nearest known one.
pub fn of_toml(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let span = error.span().unwrap_or(0..0);
    Place { path, text }.fault(&span, reason(error.message()))
}

fn reason(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    let Some(rest) = message.strip_prefix("unknown field ") else { return message.to_owned() };
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let Some(unknown) = quoted.next() else { return message.to_owned() };
    let known: Vec<&str> = quoted.collect();
    let near = known
        .iter()
        .map(|key| (strsim::damerau_levenshtein(unknown, key), key))
        .min()
        .filter(|(distance, key)| *distance <= 2.max(key.len() / 3));
    match near {
        Some((_, key)) => format!("unknown key {unknown}, expected {key}"),
        None => format!("unknown key {unknown}, expected one of {}", known.join(", ")),
    }
}
