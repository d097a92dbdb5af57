//! The scenario: which GPUs the machine has and what they do over time.
//!
//! A TOML file is read into `raw` (unknown keys are refused there), whose time lines become curves in `values`, those of
//! CSV files by `trace`; what is said of a GPU's [`board`] is compared with its model, and how it is split with the board's
//! profiles by [`mig`]; and all is checked into the [`Scenario`] here, so that whatever is accepted can be simulated.
//! [`call`] names the NVML calls that a scenario can refuse or falsify, and [`fault`] what can go wrong while it runs. An
//! example with every key is `scenarios/example.toml` beside this crate's source.

pub mod board;
pub mod call;
pub mod fault;
pub mod mig;
mod raw;
mod trace;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::curve::Curve;
use crate::profiles::{PROFILES, Profile, profile};
use board::{Board, Written};
use call::{Answer, Call, Refusal};
use fault::FaultSpec;
use mig::MigSpec;

/// A checked scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Version of the driver, such as `570.133.20`.
    pub driver_version: String,
    /// Version of NVML.
    pub nvml_version: String,
    /// CUDA version as NVML has it: 12080 is 12.8.
    pub cuda_version: i32,
    /// The GPUs, by index.
    pub gpus: Vec<GpuSpec>,
    /// What goes wrong, and when.
    pub faults: Vec<FaultSpec>,
    /// A file with more of it, which may change at any time.
    pub control: Option<PathBuf>,
}

/// One GPU of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuSpec {
    /// The model.
    pub profile: &'static Profile,
    /// `GPU-…`
    pub uuid: String,
    /// Utilisation in thousandths of a percent; absent: what the living processes add up to.
    pub utilization: Option<Curve>,
    /// Utilisation of encoder and decoder in thousandths of a percent.
    pub engines: [Curve; 2],
    /// Used memory in bytes; absent: what the living processes add up to.
    pub memory: Option<Curve>,
    /// Idle (no utilisation, no memory used) while none of its processes lives.
    pub idle_without_processes: bool,
    /// The processes that can hold it.
    pub processes: Vec<ProcessSpec>,
    /// What is said of its board.
    pub board: Board,
    /// The driver numbers the fields of 251 and on as 580.82 does.
    pub fields_moved: bool,
    /// How it is split, while its MIG mode is on.
    pub mig: Option<MigSpec>,
    /// Virtual GPUs that run on it, where the driver is a vGPU host.
    pub vgpus: Option<u32>,
    /// Calls that answer an error.
    pub refused: BTreeMap<Call, Refusal>,
    /// Values that are replaced by another, however impossible.
    pub answers: BTreeMap<Answer, u64>,
}

/// A process, or all processes with one environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// Which processes.
    pub which: Which,
    /// Device memory in bytes, shared by all of them.
    pub memory_bytes: u64,
    /// Their share of the SMs in thousandths of a percent, shared by all of them.
    pub sm_util: u64,
    /// Which of the driver's lists they are in.
    pub list: List,
    /// What of [`MigSpec::loads`] they are of; absent on a whole GPU.
    pub instance: Option<usize>,
}

/// One of the driver's lists of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Compute contexts.
    Compute,
    /// Graphics contexts.
    Graphics,
    /// Clients of an MPS server.
    Mps,
}

/// How a scenario names processes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// This PID, whether it exists or not.
    Pid(u32),
    /// Every living process of the machine whose environment has exactly this entry, `KEY=value`.
    Environ(String),
}

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("{}: {source}: expected a readable scenario file", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML, or not a scenario's shape.
    #[error("{}: {message}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and column.
        message: String,
    },
    /// A value that cannot be simulated.
    #[error("{}: {key}: {fault}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key, such as `gpu[0].process[1].pid`.
        key: String,
        /// What is wrong, and what was expected.
        fault: String,
    },
}

/// A fault at a key, before the file's path is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    key: String,
    fault: String,
}

impl Fault {
    pub(crate) fn new(key: impl Into<String>, fault: impl Into<String>) -> Self {
        Self { key: key.into(), fault: fault.into() }
    }
}

/// What makes the UUIDs of one scenario differ from those of another: `forced`, else the scenario's own, else `otherwise`,
/// else the same everywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seed<'a> {
    /// Before the scenario's own.
    pub forced: Option<&'a str>,
    /// For a scenario that has none.
    pub otherwise: Option<&'a str>,
}

const DEFAULT_SEED: &str = "contador";

/// The scenario that is used when no file is named.
const BUILT_IN: &str = r#"
[[gpu]]
model = "h100-80gb"
count = 2
utilization = { wave = { min = 10, max = 90, period = "60s" } }
memory_mib = 40960
"#;

impl Scenario {
    /// The built-in scenario: two H100, 10 to 90 percent busy in a wave of one minute.
    ///
    /// # Errors
    /// Never, short of a mistake in this crate.
    pub fn built_in(seed: Seed<'_>) -> Result<Self, ScenarioError> {
        Self::parse(Path::new("built-in scenario"), BUILT_IN, seed)
    }

    /// Reads a scenario file.
    ///
    /// # Errors
    /// When the file cannot be read or is not a scenario; the message names path, key and expectation.
    pub fn read(path: &Path, seed: Seed<'_>) -> Result<Self, ScenarioError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ScenarioError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text, seed)
    }

    /// Reads a scenario from `text`; `path` is for messages.
    ///
    /// # Errors
    /// When it is not a scenario; the message names path, key and expectation.
    pub fn parse(path: &Path, text: &str, seed: Seed<'_>) -> Result<Self, ScenarioError> {
        let raw: raw::Scenario = toml::from_str(text).map_err(|error| ScenarioError::Parse {
            path: path.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        check(raw, seed, folder).map_err(|Fault { key, fault }| ScenarioError::Value {
            path: path.to_owned(),
            key,
            fault,
        })
    }
}

fn check(raw: raw::Scenario, seed: Seed<'_>, folder: &Path) -> Result<Scenario, Fault> {
    let cuda_version = values::cuda_version("cuda_version", &raw.cuda_version)?;
    let seed = seed.forced.or(raw.seed.as_deref()).or(seed.otherwise).unwrap_or(DEFAULT_SEED);
    let mut gpus = Vec::new();
    let mut seen = BTreeSet::new();
    for (position, gpu) in raw.gpu.iter().enumerate() {
        let key = format!("gpu[{position}]");
        if gpu.count == 0 || gpu.count > 64 {
            return Err(Fault::new(format!("{key}.count"), format!("{} GPUs: expected 1 to 64", gpu.count)));
        }
        if gpu.uuid.is_some() && gpu.count != 1 {
            return Err(Fault::new(
                format!("{key}.uuid"),
                format!("one uuid for {} GPUs: expected count = 1", gpu.count),
            ));
        }
        for _ in 0..gpu.count {
            let mut spec = check_gpu(&key, gpu, folder)?;
            spec.uuid = match &gpu.uuid {
                Some(uuid) => values::gpu_uuid(&format!("{key}.uuid"), uuid)?,
                None => derived_uuid(seed, gpus.len()),
            };
            spec.fields_moved = values::fields_moved(&raw.driver_version);
            if let Some((mig, processes)) = mig::check(&key, gpu, folder, &spec)? {
                spec.mig = Some(mig);
                spec.processes = processes;
            }
            if !seen.insert(spec.uuid.clone()) {
                return Err(Fault::new(
                    format!("{key}.uuid"),
                    format!("{} is used twice: expected one GPU a uuid", spec.uuid),
                ));
            }
            gpus.push(spec);
        }
    }
    let faults = fault::check_all(&raw.fault, gpus.len())?;
    let control = raw.faults.map(|path| folder.join(path));
    let (driver_version, nvml_version) = (raw.driver_version, raw.nvml_version);
    Ok(Scenario { driver_version, nvml_version, cuda_version, gpus, faults, control })
}

/// All but its UUID and what its driver is like.
fn check_gpu(key: &str, raw: &raw::Gpu, folder: &Path) -> Result<GpuSpec, Fault> {
    let profile = profile(&raw.model).ok_or_else(|| {
        let known = PROFILES.map(|p| p.key);
        Fault::new(
            format!("{key}.model"),
            format!("\"{}\" is unknown: expected one of {}", raw.model, known.join(", ")),
        )
    })?;
    let capacity = profile.memory_total - profile.memory_reserved;
    let percents = |name: &str, value: &Option<toml::Value>| {
        value.as_ref().map(|v| values::percent_curve(&format!("{key}.{name}"), v, folder)).transpose()
    };
    let engine = |name, value| Ok(percents(name, value)?.unwrap_or_else(|| Curve::constant(0)));
    let memory = raw.memory_mib.as_ref().map(|v| values::mib_curve(&format!("{key}.memory_mib"), v, folder, capacity));
    let mut processes = Vec::new();
    for (position, process) in raw.process.iter().enumerate() {
        processes.push(check_process(&format!("{key}.process[{position}]"), process, capacity)?);
    }
    let held: u64 = processes.iter().map(|process| process.memory_bytes).sum();
    if held > capacity {
        let fault =
            format!("{held} bytes together: expected at most {capacity}, what the GPU has beside its reserved memory");
        return Err(Fault::new(format!("{key}.process"), fault));
    }
    let written = Written {
        nvlink: raw.nvlink.as_ref(),
        ecc: raw.ecc,
        remapped_rows: raw.remapped_rows,
        pcie: raw.pcie,
        throttle: raw.throttle.as_deref(),
    };
    Ok(GpuSpec {
        profile,
        uuid: String::new(),
        utilization: percents("utilization", &raw.utilization)?,
        engines: [engine("encoder", &raw.encoder)?, engine("decoder", &raw.decoder)?],
        memory: memory.transpose()?,
        idle_without_processes: raw.idle_without_processes,
        processes,
        board: board::check(key, &written, profile)?,
        fields_moved: false,
        mig: None,
        vgpus: raw.vgpus,
        refused: refused(key, &raw.unsupported, &raw.errors)?,
        answers: answers(key, &raw.answers)?,
    })
}

/// Calls that answer an error, by the keys `unsupported` and `errors`.
fn refused(
    key: &str,
    unsupported: &[String],
    errors: &BTreeMap<String, String>,
) -> Result<BTreeMap<Call, Refusal>, Fault> {
    let mut refused = BTreeMap::new();
    for name in unsupported {
        refused.insert(Call::parse(&format!("{key}.unsupported"), name)?, Refusal::NotSupported);
    }
    for (name, error) in errors {
        let key = format!("{key}.errors");
        refused.insert(Call::parse(&key, name)?, Refusal::parse(&format!("{key}.{name}"), error)?);
    }
    Ok(refused)
}

/// Values that are replaced, by the key `answers`.
fn answers(key: &str, raw: &BTreeMap<String, toml::Value>) -> Result<BTreeMap<Answer, u64>, Fault> {
    let mut answers = BTreeMap::new();
    for (name, value) in raw {
        let key = format!("{key}.answers");
        answers.insert(Answer::parse(&key, name)?, values::answer(&format!("{key}.{name}"), value)?);
    }
    Ok(answers)
}

fn check_process(key: &str, raw: &raw::Process, capacity: u64) -> Result<ProcessSpec, Fault> {
    let which = match (raw.pid, &raw.environ) {
        (Some(pid), None) if pid > 0 => Which::Pid(pid),
        (Some(pid), None) => return Err(Fault::new(format!("{key}.pid"), format!("{pid}: expected a PID above 0"))),
        (None, Some(entry)) if entry.find('=').is_some_and(|at| at > 0) => Which::Environ(entry.clone()),
        (None, Some(entry)) => {
            return Err(Fault::new(format!("{key}.environ"), format!("\"{entry}\": expected KEY=value")));
        }
        _ => return Err(Fault::new(key, "expected either pid or environ")),
    };
    let list = match (raw.graphics, raw.mps) {
        (false, false) => List::Compute,
        (true, false) => List::Graphics,
        (false, true) => List::Mps,
        (true, true) => return Err(Fault::new(key, "expected either graphics or mps")),
    };
    Ok(ProcessSpec {
        which,
        memory_bytes: values::mib(&format!("{key}.memory_mib"), raw.memory_mib, capacity)?,
        sm_util: values::percent(&format!("{key}.sm_util"), raw.sm_util)?,
        list,
        instance: None,
    })
}

/// A UUID that depends on nothing but the seed and the index.
fn derived_uuid(seed: &str, index: usize) -> String {
    let name = format!("contador-nvml-simulator/{seed}/{index}");
    format!("GPU-{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()))
}

#[cfg(test)]
mod tests;
