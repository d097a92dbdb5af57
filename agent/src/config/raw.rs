//! The configuration file as it is written. `agent.example.toml` says what each key means.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::units::{show_duration, show_size};
use super::{Compression, Config};

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    pub node: Option<Spanned<String>>,
    pub interval: Option<Spanned<String>>,
    pub state_dir: Option<Spanned<PathBuf>>,
    pub collector: Collector,
    pub spool: Spool,
    pub http: Http,
    pub sensors: Sensors,
    pub telemetry: Telemetry,
}

/// `[collector]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Collector {
    pub endpoint: Option<Spanned<String>>,
    pub compression: Option<Spanned<String>>,
    pub timeout: Option<Spanned<String>>,
}

/// `[spool]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Spool {
    pub dir: Option<PathBuf>,
    pub max_size: Option<Spanned<String>>,
    pub segment_size: Option<Spanned<String>>,
    pub rejected_size: Option<Spanned<String>>,
}

/// `[http]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Http {
    pub listen: Option<Spanned<String>>,
    pub max_push_size: Option<Spanned<String>>,
}

/// `[sensors]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sensors {
    pub proc: Option<PathBuf>,
    pub sys: Option<PathBuf>,
    pub passwd: Option<PathBuf>,
    pub nvml: Option<PathBuf>,
    pub serial_numbers: Option<bool>,
}

/// `[telemetry]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Telemetry {
    pub otlp_endpoint: Option<Spanned<String>>,
}

/// A file that gives `config`.
pub(super) fn shown(config: &Config) -> impl Serialize + use<'_> {
    #[derive(Serialize)]
    struct Shown<'a> {
        node: &'a str,
        interval: String,
        state_dir: &'a PathBuf,
        collector: ShownCollector<'a>,
        spool: ShownSpool<'a>,
        http: ShownHttp,
        sensors: ShownSensors<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        telemetry: Option<ShownTelemetry<'a>>,
    }
    #[derive(Serialize)]
    struct ShownTelemetry<'a> {
        otlp_endpoint: &'a str,
    }
    #[derive(Serialize)]
    struct ShownCollector<'a> {
        endpoint: &'a str,
        compression: Compression,
        timeout: String,
    }
    #[derive(Serialize)]
    struct ShownSpool<'a> {
        dir: &'a PathBuf,
        max_size: String,
        segment_size: String,
        rejected_size: String,
    }
    #[derive(Serialize)]
    struct ShownHttp {
        listen: String,
        max_push_size: String,
    }
    #[derive(Serialize)]
    struct ShownSensors<'a> {
        proc: &'a PathBuf,
        sys: &'a PathBuf,
        passwd: &'a PathBuf,
        #[serde(skip_serializing_if = "Option::is_none")]
        nvml: Option<&'a PathBuf>,
        serial_numbers: bool,
    }
    Shown {
        node: &config.node,
        interval: show_duration(config.interval),
        state_dir: &config.state_dir,
        collector: ShownCollector {
            endpoint: &config.endpoint,
            compression: config.compression,
            timeout: show_duration(config.timeout),
        },
        spool: ShownSpool {
            dir: &config.spool_dir,
            max_size: show_size(config.spool.max_bytes),
            segment_size: show_size(config.spool.segment_bytes),
            rejected_size: show_size(config.spool.rejected_bytes),
        },
        http: ShownHttp { listen: config.listen.to_string(), max_push_size: show_size(config.max_push_bytes as u64) },
        sensors: ShownSensors {
            proc: &config.roots.proc,
            sys: &config.roots.sys,
            passwd: &config.roots.passwd,
            nvml: config.roots.nvml.as_ref(),
            serial_numbers: config.serial_numbers,
        },
        telemetry: config.telemetry.as_deref().map(|otlp_endpoint| ShownTelemetry { otlp_endpoint }),
    }
}
