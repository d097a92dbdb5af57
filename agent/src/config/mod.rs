//! The configuration, from what is written to what is meant.
//!
//! [`raw`] lists every key once: [`key`] says what that is, `read` how a value is read, with its [`units`] and bounds. A
//! TOML [`mod@file`] is taken apart into the keys that it gives, rules of owners, which [`contador_schemas::mapping`] reads, and `targets` that are scraped. The first of the command line, the file, the environment and
//! the default is what is [`given`]. `validate` makes a [`Config`] of it. A [`fault`] names file, line, value and
//! expectation. [`show`] tells what is in force and where it is from, and writes the example and the reference.

pub mod fault;
mod file;
pub mod given;
pub mod key;
pub mod raw;
mod read;
pub mod show;
mod targets;
pub mod units;
mod validate;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use contador_schemas::mapping::Rules;

pub use fault::ConfigError;
pub use given::{Effective, Flags};
pub use targets::OWNER_KEYS;

use self::given::Given;
use self::key::Written;
use crate::outbox::SpoolLimits;
use crate::owners::kubernetes::request::Unit;
use crate::sensors::MountOptions;
use crate::targets::target::Target;

/// How requests are compressed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
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
    /// Where control groups are mounted.
    pub cgroup: PathBuf,
    /// The file that maps user ids to names.
    pub passwd: PathBuf,
    /// The NVML library; absent: the driver's own, as the loader finds it.
    pub nvml: Option<PathBuf>,
}

/// How Kubernetes is asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kubernetes {
    /// The kubelet's socket.
    pub socket: PathBuf,
    /// The node's name in Kubernetes.
    pub node: String,
    /// URL of the API server; absent: as a pod finds it, if this is one.
    pub api: Option<String>,
    /// The file with the bearer token for it; absent: the pod's, if this is one.
    pub token_file: Option<PathBuf>,
    /// The file with the certificates of its authority; absent: the pod's, if this is one.
    pub ca_file: Option<PathBuf>,
    /// Resources that are GPUs, beside NVIDIA's: names, or beginnings that end with `*`.
    pub resources: Vec<String>,
    /// More words in which pods ask for a part of a GPU, with their units.
    pub requests: Vec<(String, Unit)>,
    /// How long the kubelet's last word counts when it does not answer.
    pub keep_for: Duration,
}

/// How Slurm's controller is asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Slurm {
    /// `scontrol`: a file, or a name that `PATH` has.
    pub scontrol: PathBuf,
    /// How long it may take for one answer.
    pub timeout: Duration,
    /// How often it is asked for allocations that have no process here.
    pub poll: Duration,
}

/// Which pods of this node are scraped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PodsScraped {
    /// None.
    Off,
    /// Those that say so and hold a GPU, and those that say it to contador.
    #[default]
    Gpu,
    /// All that say so.
    Annotated,
}

/// Whom the agent scrapes, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scrape {
    /// Time between two scrapes of one target: a divisor of a window of latencies.
    pub interval: Duration,
    /// How long one may take.
    pub timeout: Duration,
    /// Greatest page in bytes.
    pub max_bytes: usize,
    /// Most targets.
    pub max_targets: usize,
    /// Files with targets.
    pub files: Vec<PathBuf>,
    /// Which pods are targets.
    pub pods: PodsScraped,
    /// The file with the certificates that those of targets are checked with that have no other one.
    pub ca_file: Option<PathBuf>,
    /// Targets of the configuration itself.
    pub targets: Vec<Target>,
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
    /// Whether `/metrics` shows the names of dcgm-exporter, too.
    pub dcgm: bool,
    /// Where things of the kernel and the driver are.
    pub roots: Roots,
    /// How mounts are looked at.
    pub mounts: MountOptions,
    /// Whether serial numbers of GPUs are read and sent.
    pub serial_numbers: bool,
    /// How Kubernetes is asked.
    pub kubernetes: Kubernetes,
    /// How Slurm's controller is asked.
    pub slurm: Slurm,
    /// Whom the agent scrapes.
    pub scrape: Scrape,
    /// Where the agent's own metrics are sent; absent: only where `OTEL_EXPORTER_OTLP_ENDPOINT` says.
    pub telemetry: Option<String>,
    /// Who pays for an owner.
    pub rules: Arc<Rules>,
}

/// Options that win over the file, by name, for programs that run an agent themselves.
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

/// A configuration, and where each of its values is from.
#[derive(Debug)]
pub struct Loaded {
    /// What is in force.
    pub config: Config,
    /// The same, key by key.
    pub effective: Vec<Effective>,
    /// The line of each rule of owners, in their order; and that of the default.
    rule_lines: Vec<usize>,
    default_line: usize,
    /// The line of each target.
    target_lines: Vec<usize>,
    path: PathBuf,
}

impl Loaded {
    /// The whole configuration as a file that would give it, with where each value is from.
    pub fn to_toml(&self) -> String {
        show::effective(&self.effective, &self.path)
            + &show::rules(&self.config.rules, &self.rule_lines, self.default_line, &self.path)
            + &targets::show(&self.config.scrape.targets, &self.target_lines, &self.path)
    }
}

impl Overrides {
    fn flags(&self) -> Flags {
        let text = |value: &Option<String>| value.clone().map(Written::Text);
        let given = [
            (raw::NODE.about, text(&self.node)),
            (raw::ENDPOINT.about, text(&self.endpoint)),
            (raw::STATE_DIR.about, self.state_dir.clone().map(|path| Written::from(path.into_os_string()))),
            (raw::LISTEN.about, text(&self.listen)),
            (raw::INTERVAL.about, text(&self.interval)),
        ];
        given.into_iter().filter_map(|(about, given)| Some((about.path, given?))).collect()
    }
}

/// Reads `path` (without one, only defaults), and validates it together with what the command line gives.
///
/// # Errors
/// [`ConfigError`]; the first fault that is found.
pub fn load(path: Option<&Path>, flags: &Flags) -> Result<Loaded, ConfigError> {
    let Some(path) = path else { return parse("", Path::new("(defaults)"), flags) };
    let bytes = std::fs::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(text, path, flags),
        Err(error) => Err(fault::of_bytes(path, &bytes, error.valid_up_to())),
    }
}

/// As [`load`], of a file's text.
///
/// # Errors
/// [`ConfigError`].
pub fn parse(text: &str, path: &Path, flags: &Flags) -> Result<Loaded, ConfigError> {
    let file::Read { said, rules: read, targets: (targets, target_places) } = file::read(path, text)?;
    let mut given = Given::new(path, text, said, Arc::new(read.rules), flags);
    let mut config = validate::validate(&mut given)?;
    config.scrape.targets = targets;
    let rule_lines = read.places.iter().map(|span| given.place.line(span)).collect();
    let default_line = read.default.map_or(0, |span| given.place.line(&span));
    let target_lines = target_places.iter().map(|span| given.place.line(span)).collect();
    Ok(Loaded { config, effective: given.taken, rule_lines, default_line, target_lines, path: path.to_owned() })
}

impl Config {
    /// As [`load`], by name.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        load(path, &overrides.flags()).map(|loaded| loaded.config)
    }

    /// As [`parse`], by name.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(text: &str, path: &Path, overrides: &Overrides) -> Result<Self, ConfigError> {
        parse(text, path, &overrides.flags()).map(|loaded| loaded.config)
    }
}

#[cfg(test)]
mod tests;
