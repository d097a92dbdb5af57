//! From what is written to what is meant, with defaults and bounds.

use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;

use super::fault::{ConfigError, Place};
use super::raw::Raw;
use super::units::{duration, show_size, size};
use super::{Compression, Config, Overrides, Roots};
use crate::outbox::SpoolLimits;
use crate::owners::label;

/// One value with what says where it came from.
struct Given<'a> {
    option: &'static str,
    place: Option<(&'a Place<'a>, std::ops::Range<usize>)>,
    text: String,
}

impl<'a> Given<'a> {
    /// The first that is given: on the command line, in the file, by default.
    fn first(
        option: &'static str,
        over: Option<&String>,
        raw: Option<Spanned<String>>,
        place: &'a Place<'a>,
        default: &str,
    ) -> Self {
        match (over, raw) {
            (Some(text), _) => Self { option, place: None, text: text.clone() },
            (None, Some(raw)) => Self { option, place: Some((place, raw.span())), text: raw.into_inner() },
            (None, None) => Self { option, place: None, text: default.to_owned() },
        }
    }

    fn fault(&self, expected: &str) -> ConfigError {
        match &self.place {
            Some((place, span)) => {
                place.fault(span, format!("{} is {:?}, expected {expected}", self.option, self.text))
            }
            None => ConfigError::Option {
                option: self.option,
                reason: format!("it is {:?}, expected {expected}", self.text),
            },
        }
    }

    fn read<T>(&self, read: impl FnOnce(&str) -> Result<T, &'static str>) -> Result<T, ConfigError> {
        read(&self.text).map_err(|expected| self.fault(expected))
    }
}

pub(super) fn validate(raw: Raw, place: &Place<'_>, over: &Overrides) -> Result<Config, ConfigError> {
    let file = |option, value, default: &str| Given::first(option, None, value, place, default);
    let node = Given::first("node", over.node.as_ref(), raw.node, place, &host_name());
    let node = node.read(|text| match text.trim() {
        "" => Err("a name of this node"),
        name if !label::is_valid(name) => Err("a name of this node of at most 256 bytes without control characters"),
        name => Ok(name.to_owned()),
    })?;
    let interval = Given::first("interval", over.interval.as_ref(), raw.interval, place, "1s").read(interval)?;
    let state_dir = over.state_dir.clone().or(raw.state_dir.map(Spanned::into_inner)).unwrap_or_else(state_dir);

    let collector =
        Given::first("endpoint", over.endpoint.as_ref(), raw.collector.endpoint, place, "http://127.0.0.1:4317")
            .read(endpoint)?;
    let compression = file("compression", raw.collector.compression, "zstd").read(|text| match text {
        "zstd" => Ok(Compression::Zstd),
        "gzip" => Ok(Compression::Gzip),
        "none" => Ok(Compression::None),
        _ => Err("zstd, gzip or none"),
    })?;
    let timeout = file("timeout", raw.collector.timeout, "10s").read(|text| {
        duration(text).and_then(|timeout| at_least(timeout, Duration::from_millis(100), "a duration of at least 100ms"))
    })?;

    let max_bytes = file("max_size", raw.spool.max_size, "1GiB")
        .read(|text| size(text).and_then(|bytes| at_least(bytes, 1 << 20, "a size of at least 1MiB")))?;
    // What is dropped at once must be a small part of what there is.
    let segment_default = show_size((max_bytes / 4).min(4 << 20));
    let segment_bytes = file("segment_size", raw.spool.segment_size, &segment_default).read(|text| {
        let bytes = size(text).and_then(|bytes| at_least(bytes, 64 << 10, "a size of at least 64KiB"))?;
        if bytes > max_bytes / 4 { Err("at most a quarter of max_size") } else { Ok(bytes) }
    })?;
    let spool = SpoolLimits {
        max_bytes,
        segment_bytes,
        rejected_bytes: file("rejected_size", raw.spool.rejected_size, "64MiB").read(size)?,
    };
    let listen = Given::first("listen", over.listen.as_ref(), raw.http.listen, place, "127.0.0.1:9746")
        .read(|text| text.parse().map_err(|_| "an IP address and a port, such as 127.0.0.1:9746"))?;
    let max_push_bytes = file("max_push_size", raw.http.max_push_size, "4MiB").read(|text| {
        let bytes = size(text).and_then(|bytes| at_least(bytes, 1 << 10, "a size of at least 1KiB"))?;
        usize::try_from(bytes).ok().filter(|bytes| *bytes <= 64 << 20).ok_or("a size of at most 64MiB")
    })?;
    let telemetry = raw.telemetry.otlp_endpoint.map(|given| {
        Given { option: "otlp_endpoint", place: Some((place, given.span())), text: given.into_inner() }.read(endpoint)
    });
    Ok(Config {
        node,
        interval,
        spool_dir: raw.spool.dir.unwrap_or_else(|| state_dir.join("spool")),
        state_dir,
        spool,
        endpoint: collector,
        compression,
        timeout,
        listen,
        max_push_bytes,
        roots: Roots {
            proc: raw.sensors.proc.unwrap_or_else(|| PathBuf::from("/proc")),
            sys: raw.sensors.sys.unwrap_or_else(|| PathBuf::from("/sys")),
            passwd: raw.sensors.passwd.unwrap_or_else(|| PathBuf::from("/etc/passwd")),
            nvml: raw.sensors.nvml,
        },
        serial_numbers: raw.sensors.serial_numbers.unwrap_or(true),
        telemetry: telemetry.transpose()?,
    })
}

fn at_least<T: PartialOrd>(value: T, least: T, expected: &'static str) -> Result<T, &'static str> {
    if value < least { Err(expected) } else { Ok(value) }
}

/// Instants are aligned to the clock, so that an interval has to fit into a minute, or a second into it.
fn interval(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str = "a duration from 100ms to 1m that divides a minute";
    let interval = duration(text)?;
    let ms = interval.as_millis();
    if (100..=60_000).contains(&ms) && 60_000 % ms == 0 { Ok(interval) } else { Err(EXPECTED) }
}

fn endpoint(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str = "an URL such as http://collector:4317";
    let uri: axum::http::Uri = text.parse().map_err(|_| EXPECTED)?;
    match uri.scheme_str() {
        Some("http") if uri.host().is_some() && matches!(uri.path(), "" | "/") => Ok(text.to_owned()),
        _ => Err(EXPECTED),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What systemd gives to a service, or the usual place.
fn state_dir() -> PathBuf {
    let given = std::env::var_os("STATE_DIRECTORY").filter(|given| !given.is_empty());
    given.map_or_else(|| PathBuf::from("/var/lib/contador"), PathBuf::from)
}
