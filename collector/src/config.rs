//! The configuration of `contador serve`: raw TOML, then validated values.
//!
//! Every key has a default, so that no file is needed. Unknown keys are refused, with the nearest known one, since a key
//! that does nothing is worse than none. Where ClickHouse is, is told by flags or the environment, as for every command.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::ingest::Settings;
use crate::ingest::write::Batching;

/// What `contador serve` is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// OTLP by gRPC.
    pub grpc: SocketAddr,
    /// OTLP by HTTP.
    pub http: SocketAddr,
    /// Pages, API, `/readyz`, `/healthz` and `/metrics`.
    pub web: SocketAddr,
    /// Bounds of the ingest.
    pub ingest: Settings,
    /// Longest time from the signal to stop until the process ends.
    pub deadline: Duration,
    /// Where own telemetry is sent by OTLP gRPC; `None`: only where `OTEL_EXPORTER_OTLP_ENDPOINT` says.
    pub telemetry: Option<String>,
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file says something that can't be.
    #[error("{}:{line}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        message: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    listen: RawListen,
    ingest: RawIngest,
    shutdown: RawShutdown,
    telemetry: RawTelemetry,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawListen {
    grpc: SocketAddr,
    http: SocketAddr,
    web: SocketAddr,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawIngest {
    insert_interval_ms: Whole<100, 60_000>,
    insert_rows: Whole<1, 1_000_000>,
    insert_mib: Whole<1, 1_024>,
    queue_mib: Whole<1, 65_536>,
    insert_timeout_s: Whole<1, 600>,
    requests: Whole<1, 1_000_000>,
    inflight_mib: Whole<8, 1_048_576>,
    series: Whole<1, 100_000_000>,
    retry_after_s: Whole<1, 3_600>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawShutdown {
    deadline_s: Whole<1, 600>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawTelemetry {
    otlp_endpoint: Option<String>,
}

/// A whole number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug)]
struct Whole<const LEAST: u32, const MOST: u32>(u32);

impl<'de, const LEAST: u32, const MOST: u32> Deserialize<'de> for Whole<LEAST, MOST> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = i64::deserialize(deserializer)?;
        u32::try_from(value)
            .ok()
            .filter(|value| (LEAST..=MOST).contains(value))
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom(format!("{value}, expected a whole number from {LEAST} to {MOST}")))
    }
}

impl<const LEAST: u32, const MOST: u32> Whole<LEAST, MOST> {
    fn usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Default for RawListen {
    fn default() -> Self {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self { grpc: local(4317), http: local(4318), web: local(8080) }
    }
}

impl Default for RawIngest {
    fn default() -> Self {
        Self {
            insert_interval_ms: Whole(1_000),
            insert_rows: Whole(100_000),
            insert_mib: Whole(32),
            queue_mib: Whole(128),
            insert_timeout_s: Whole(30),
            requests: Whole(4_096),
            inflight_mib: Whole(1024),
            series: Whole(200_000),
            retry_after_s: Whole(1),
        }
    }
}

impl Default for RawShutdown {
    fn default() -> Self {
        Self { deadline_s: Whole(10) }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::from(Raw::default())
    }
}

impl From<Raw> for Config {
    fn from(raw: Raw) -> Self {
        let Raw { listen, ingest, shutdown, telemetry } = raw;
        let seconds = |value: u32| Duration::from_secs(u64::from(value));
        let batching = Batching {
            interval: Duration::from_millis(u64::from(ingest.insert_interval_ms.0)),
            rows: ingest.insert_rows.usize(),
            bytes: ingest.insert_mib.usize() << 20,
            queue_bytes: ingest.queue_mib.usize() << 20,
            timeout: seconds(ingest.insert_timeout_s.0),
        };
        Self {
            grpc: listen.grpc,
            http: listen.http,
            web: listen.web,
            ingest: Settings {
                batching,
                requests: ingest.requests.usize(),
                inflight_bytes: ingest.inflight_mib.usize() << 20,
                series: ingest.series.usize(),
                retry_after: seconds(ingest.retry_after_s.0),
            },
            deadline: seconds(shutdown.deadline_s.0),
            telemetry: telemetry.otlp_endpoint.filter(|endpoint| !endpoint.is_empty()),
        }
    }
}

impl Config {
    /// The configuration of a file.
    ///
    /// # Errors
    /// [`ConfigError`], which names the file and the line.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// The configuration of `text`, which came from `path`.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let before = error.span().map_or(0, |span| span.start);
            let line = text.as_bytes().iter().take(before).filter(|byte| **byte == b'\n').count() + 1;
            ConfigError::Invalid { path: path.to_owned(), line, message: with_nearest(error.message()) }
        })?;
        Ok(Self::from(raw))
    }
}

/// serde's message about an unknown key, with the known key that is most like it.
fn with_nearest(message: &str) -> String {
    let message = message.trim_end_matches('\n');
    let mut quoted = message.split('`').skip(1).step_by(2);
    let (true, Some(unknown)) = (message.starts_with("unknown field"), quoted.next()) else {
        return message.to_owned();
    };
    let nearest = quoted
        .max_by(|left, right| strsim::jaro_winkler(unknown, left).total_cmp(&strsim::jaro_winkler(unknown, right)));
    nearest.map_or_else(|| message.to_owned(), |nearest| format!("unknown key {unknown:?}, did you mean {nearest:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_the_default() {
        let example = include_str!("../contador.example.toml");
        assert_eq!(Config::parse(example, Path::new("contador.example.toml")).unwrap(), Config::default());
        // Each line that is commented out is a key with its default.
        let mut keys = 0;
        let shown: String = example
            .lines()
            .map(|line| match line.strip_prefix('#').filter(|rest| rest.contains(" = ") && !rest.starts_with(' ')) {
                Some(key) => {
                    keys += 1;
                    format!("{key}\n")
                }
                None => format!("{line}\n"),
            })
            .collect();
        assert_eq!(keys, 14);
        assert_eq!(Config::parse(&shown, Path::new("contador.example.toml")).unwrap(), Config::default());
    }

    #[test]
    fn faults_are_told_with_file_line_and_nearest_key() {
        let message = |text: &str| Config::parse(text, Path::new("/etc/contador.toml")).unwrap_err().to_string();
        assert_eq!(
            message("[ingest]\nseries = 5\ninsert_row = 5\n"),
            "/etc/contador.toml:3: unknown key \"insert_row\", did you mean \"insert_rows\"?"
        );
        assert_eq!(
            message("[ingest]\ninsert_rows = 0\n"),
            "/etc/contador.toml:2: 0, expected a whole number from 1 to 1000000"
        );
        assert!(message("[listen]\ngrpc = \"nowhere\"\n").starts_with("/etc/contador.toml:2: "));
    }
}
