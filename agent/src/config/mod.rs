//! The configuration: a TOML file as it is written ([`raw`]), with [`units`], becomes validated values ([`Config`]).
//! A [`fault`] names file, line, value and expectation.
//!
//! Each option is taken from the command line ([`Overrides`]) if it is given there, else from the file, else it has the
//! default that `agent.example.toml` shows.

pub mod fault;
pub mod raw;
pub mod units;
mod validate;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

pub use fault::ConfigError;

use crate::outbox::SpoolLimits;

/// How requests are compressed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Zstandard.
    #[default]
    Zstd,
    /// Gzip, which every OTLP collector takes.
    Gzip,
    /// None.
    None,
}

impl Compression {
    /// The name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
            Self::None => "none",
        }
    }

    /// What to try when a collector does not take this one.
    pub const fn simpler(self) -> Self {
        match self {
            Self::Zstd => Self::Gzip,
            Self::Gzip | Self::None => Self::None,
        }
    }
}

/// Where things of the kernel and the driver are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Roots {
    /// The proc file system.
    pub proc: PathBuf,
    /// The sys file system.
    pub sys: PathBuf,
    /// The file that maps user ids to names.
    pub passwd: PathBuf,
    /// The NVML library; absent: the driver's own, as the loader finds it.
    pub nvml: Option<PathBuf>,
}

/// What an agent needs to know: validated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// Host name, in everything that is sent.
    pub node: String,
    /// Time between samples: a divisor of a minute, from 100 ms.
    pub interval: Duration,
    /// Where the agent keeps the ledger's checkpoint.
    pub state_dir: PathBuf,
    /// Where it keeps what is not sent yet.
    pub spool_dir: PathBuf,
    /// How much of that it keeps.
    pub spool: SpoolLimits,
    /// URL of the collector, `http://host:port`.
    pub endpoint: String,
    /// How requests are compressed.
    pub compression: Compression,
    /// How long a request may take.
    pub timeout: Duration,
    /// Address of pushes, `/metrics`, `/healthz` and `/readyz`.
    pub listen: SocketAddr,
    /// Greatest body of a push in bytes, before and after inflating.
    pub max_push_bytes: usize,
    /// Where things of the kernel and the driver are.
    pub roots: Roots,
    /// Whether serial numbers of GPUs are read and sent.
    pub serial_numbers: bool,
    /// Where the agent's own metrics are sent; absent: only where `OTEL_EXPORTER_OTLP_ENDPOINT` says.
    pub telemetry: Option<String>,
}

/// Options that the command line has given.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Overrides {
    /// `--node`
    pub node: Option<String>,
    /// `--endpoint`
    pub endpoint: Option<String>,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
    /// `--listen`
    pub listen: Option<String>,
    /// `--interval`
    pub interval: Option<String>,
}

impl Config {
    /// Reads `path` (without one, only defaults), and validates it together with `overrides`.
    ///
    /// # Errors
    /// [`ConfigError`]; the first fault that is found.
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        let Some(path) = path else { return Self::parse("", Path::new("(defaults)"), overrides) };
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path, overrides)
    }

    /// As [`Config::load`], of a file's text.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(text: &str, path: &Path, overrides: &Overrides) -> Result<Self, ConfigError> {
        let raw = toml::from_str(text).map_err(|error| fault::of_toml(path, text, &error))?;
        validate::validate(raw, &fault::Place { path, text }, overrides)
    }

    /// The whole configuration as a file that would give it.
    pub fn to_toml(&self) -> String {
        toml::to_string(&raw::shown(self)).unwrap_or_else(|error| format!("# cannot be shown: {error}\n"))
    }
}

#[cfg(test)]
mod tests;
