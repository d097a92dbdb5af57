//! GPUs by NVML.
//!
//! [`library`] says which library to load, the driver's or the simulator's, and `simulator` hands a scenario to the
//! latter. [`Gpus::open`] loads it and reads each GPU's `identity` once; each [`Gpus::sample`] then has the GPU's
//! `device` reader ask it for its `gauges` and its `processes`. What GPUs reach each other by is asked apart, by [`topology`]. Every answer goes through `answer`, which tells a value
//! from an unsupported one, a failed one and an impossible one. A GPU that does not answer is reported with a failed
//! sample: it is never left out.

mod answer;
mod device;
mod gauges;
mod identity;
pub mod library;
mod processes;
mod simulator;
pub mod topology;

use std::path::{Path, PathBuf};

use nvml_wrapper::Nvml;

pub use library::{NvmlLibrary, SensorError};

use self::device::DeviceReader;
use super::sample::{GpuIdentity, GpuSample};

/// The GPUs of this machine, by an open NVML library. Dropping it closes the library.
#[derive(Debug)]
pub struct Gpus {
    nvml: Nvml,
    identities: Vec<GpuIdentity>,
    /// The reader of each of `identities`.
    readers: Vec<DeviceReader>,
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
        let machine = identity::Machine::read(&nvml, simulated, proc_root);
        let (mut identities, mut unreadable) = (Vec::new(), Vec::new());
        for index in 0..count {
            match nvml.device_by_index(index).and_then(|device| identity::read(&device, index, &machine)) {
                Ok(identity) => identities.push(identity),
                Err(error) => unreadable.push((index, error.to_string())),
            }
        }
        let readers = identities.iter().cloned().map(DeviceReader::new).collect();
        Ok(Self { nvml, identities, readers, unreadable, simulated, proc_root: proc_root.to_owned() })
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
        self.readers.iter_mut().map(|reader| reader.sample(&self.nvml, ts_ms, &self.proc_root)).collect()
    }

    /// One sample of the GPU at `position` in [`identities`](Self::identities); none beyond the last.
    pub fn sample(&mut self, position: usize, ts_ms: i64) -> Option<GpuSample> {
        Some(self.readers.get_mut(position)?.sample(&self.nvml, ts_ms, &self.proc_root))
    }
}
