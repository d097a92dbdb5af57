//! A scenario file's shape, as it is written.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Value;

use super::board::{Ecc, Links, PcieLink, RemappedRows};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    /// Makes the UUIDs of this scenario differ from those of another one.
    pub seed: Option<String>,
    #[serde(default = "driver_version")]
    pub driver_version: String,
    #[serde(default = "nvml_version")]
    pub nvml_version: String,
    /// `"12.8"`
    #[serde(default = "cuda_version")]
    pub cuda_version: String,
    #[serde(default)]
    pub gpu: Vec<Gpu>,
    #[serde(default)]
    pub fault: Vec<super::fault::Raw>,
    /// A file with more of it.
    pub faults: Option<std::path::PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpu {
    pub model: String,
    #[serde(default = "one")]
    pub count: u32,
    pub uuid: Option<String>,
    /// Percent: a number, `[{ at = "0s", value = 20 }, …]`, `{ wave = { min, max, period } }`, or a CSV file's
    /// `{ csv, time, value, time_unit, scale }`.
    pub utilization: Option<Value>,
    /// Percent: as `utilization`.
    pub encoder: Option<Value>,
    /// Percent: as `utilization`.
    pub decoder: Option<Value>,
    /// MiB: as `utilization`.
    pub memory_mib: Option<Value>,
    #[serde(default)]
    pub idle_without_processes: bool,
    #[serde(default)]
    pub process: Vec<Process>,
    pub nvlink: Option<Links>,
    pub ecc: Option<Ecc>,
    pub remapped_rows: Option<RemappedRows>,
    pub pcie: Option<PcieLink>,
    /// Why clocks are held down.
    pub throttle: Option<Vec<String>>,
    /// MIG profiles, or `[{ at, layout }, …]`; present: MIG mode is on.
    pub mig: Option<Value>,
    #[serde(default)]
    pub instance: Vec<Instance>,
    /// Virtual GPUs that run on it; present: the driver is a vGPU host.
    pub vgpus: Option<u32>,
    /// Calls that answer NVML_ERROR_NOT_SUPPORTED.
    #[serde(default)]
    pub unsupported: Vec<String>,
    /// Calls that answer another error.
    #[serde(default)]
    pub errors: BTreeMap<String, String>,
    /// Values that are replaced by another.
    #[serde(default)]
    pub answers: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Process {
    pub pid: Option<u32>,
    pub environ: Option<String>,
    #[serde(default)]
    pub memory_mib: f64,
    #[serde(default = "hundred")]
    pub sm_util: f64,
    #[serde(default)]
    pub graphics: bool,
    #[serde(default)]
    pub mps: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Instance {
    pub profile: String,
    /// As of a GPU.
    pub utilization: Option<Value>,
    /// As of a GPU.
    pub memory_mib: Option<Value>,
    #[serde(default)]
    pub process: Vec<Process>,
}

fn driver_version() -> String {
    "570.133.20".to_owned()
}

fn nvml_version() -> String {
    "12.570.133.20".to_owned()
}

fn cuda_version() -> String {
    "12.8".to_owned()
}

fn one() -> u32 {
    1
}

fn hundred() -> f64 {
    100.0
}
