//! GPUs by NVML.
//!
//! [`library`] says which library to load, the driver's or the simulator's, and `simulator` hands a scenario to the
//! latter. [`Gpus::open`] loads it and reads each GPU's `identity` once; each [`Gpus::sample`] then asks a GPU for
//! its `gauges` and its `processes`. Every answer goes through `answer`, which tells a value from an unsupported
//! one, a failed one and an impossible one. A GPU that does not answer is reported with failed readings: it is
//! never left out.

mod answer;
mod gauges;
mod identity;
pub mod library;
mod processes;
mod simulator;

use std::path::{Path, PathBuf};

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

pub use library::{NvmlLibrary, SensorError};

use super::Reading;
use super::sample::{GpuIdentity, GpuSample};

/// The GPUs of this machine, by an open NVML library. Dropping it closes the library.
#[derive(Debug)]
pub struct Gpus {
    nvml: Nvml,
    identities: Vec<GpuIdentity>,
    /// For each of `identities`, up to where its process samples have been seen.
    cursors: Vec<u64>,
    unreadable: Vec<(u32, String)>,
    simulated: bool,
    proc_root: PathBuf,
}

impl Gpus {
    /// Opens the library and identifies every GPU. PIDs are looked up under `proc_root` (`/proc`).
    ///
    /// May block for as long as the driver likes: call it on the sensor's own thread.
    ///
    /// # Errors
    /// [`SensorError::NoDriver`] when there is no driver, which is a state and not a fault of this machine;
    /// otherwise when the library does not start or cannot count its GPUs. A single GPU that cannot be identified
    /// is no error: see [`unreadable`](Self::unreadable).
    pub fn open(library: &NvmlLibrary, proc_root: &Path) -> Result<Self, SensorError> {
        let (nvml, simulated) = library::open(library)?;
        let count = nvml.device_count().map_err(|source| SensorError::Call { what: "the number of GPUs", source })?;
        let machine = identity::Machine::read(&nvml, simulated);
        let (mut identities, mut unreadable) = (Vec::new(), Vec::new());
        for index in 0..count {
            match nvml.device_by_index(index).and_then(|device| identity::read(&device, index, &machine)) {
                Ok(identity) => identities.push(identity),
                Err(error) => unreadable.push((index, error.to_string())),
            }
        }
        let cursors = vec![0; identities.len()];
        Ok(Self { nvml, identities, cursors, unreadable, simulated, proc_root: proc_root.to_owned() })
    }

    /// Every GPU that could be identified, in the driver's order.
    pub fn identities(&self) -> &[GpuIdentity] {
        &self.identities
    }

    /// The driver's index of each GPU that could not be identified, and why.
    pub fn unreadable(&self) -> &[(u32, String)] {
        &self.unreadable
    }

    /// True when the library is contador's simulator.
    pub fn simulated(&self) -> bool {
        self.simulated
    }

    /// One sample of each of [`identities`](Self::identities), in that order, all stamped `ts_ms` (Unix milliseconds).
    pub fn sample_all(&mut self, ts_ms: i64) -> Vec<GpuSample> {
        (0..self.identities.len()).filter_map(|position| self.sample(position, ts_ms)).collect()
    }

    /// One sample of the GPU at `position` in [`identities`](Self::identities); none beyond the last.
    pub fn sample(&mut self, position: usize, ts_ms: i64) -> Option<GpuSample> {
        let identity = self.identities.get(position)?;
        let cursor = self.cursors.get_mut(position)?;
        let device = match self.nvml.device_by_index(identity.index) {
            Ok(device) => device,
            Err(error) => return Some(lost(identity, ts_ms, &error)),
        };
        let mut sample = gauges::read(&device, identity, ts_ms);
        sample.processes = processes::read(&device, cursor, &self.proc_root, &mut sample.rejected);
        Some(sample)
    }
}

/// The sample of a GPU whose handle the driver refuses: everything failed, for the same reason.
fn lost(identity: &GpuIdentity, ts_ms: i64, error: &NvmlError) -> GpuSample {
    let reason = format!("no handle of the GPU: {error}");
    let wide = || Reading::Failed(reason.clone());
    let narrow = || Reading::Failed(reason.clone());
    GpuSample {
        ts_ms,
        uuid: identity.uuid.clone(),
        utilization_gpu: Reading::Failed(reason.clone()),
        utilization_memory: Reading::Failed(reason.clone()),
        memory_total_bytes: wide(),
        memory_used_bytes: wide(),
        memory_free_bytes: wide(),
        memory_reserved_bytes: wide(),
        power_mw: narrow(),
        power_average_mw: narrow(),
        power_instant_mw: narrow(),
        energy_mj: wide(),
        temperature_c: narrow(),
        clock_sm_mhz: narrow(),
        clock_memory_mhz: narrow(),
        clock_graphics_mhz: narrow(),
        processes: Reading::Failed(reason.clone()),
        rejected: 0,
    }
}
