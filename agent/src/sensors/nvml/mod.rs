//! GPUs by NVML.
//!
//! [`library`] says which library to load, the driver's or the simulator's, and `simulator` hands a scenario to the
//! latter. [`Gpus::open`] loads it and reads each GPU's `identity` once; each [`Gpus::sample`] then has the GPU's
//! `device` reader ask it (`asking`) for its `fields`, its `gauges`, what happened in between (`samples`), its `links`, its
//! `memory_errors`, its activity by `gpm`, its `processes` and its instances by [`mig`], and make a `status` of them. Every
//! answer goes through `answer`, which tells a value from an unsupported one, a failed one and an impossible one. A GPU that
//! does not answer is reported with a failed sample: it is never left out.

mod answer;
mod asking;
mod device;
mod fields;
mod gauges;
mod gpm;
mod identity;
pub mod library;
mod links;
mod memory_errors;
pub mod mig;
mod processes;
mod samples;
mod simulator;
pub(super) mod status;
mod throttle;

use std::path::{Path, PathBuf};

use nvml_wrapper::Nvml;

pub use library::{NvmlLibrary, SensorError};
pub use mig::LayoutChange;
pub use throttle::throttle_reasons;

use self::device::DeviceReader;
use super::sample::{GpuIdentity, GpuSample};

/// The GPUs of this machine, by an open NVML library. Dropping it closes the library.
#[derive(Debug)]
pub struct Gpus {
    nvml: Nvml,
    identities: Vec<GpuIdentity>,
    /// The reader of each GPU.
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
        let machine = identity::Machine::read(&nvml, simulated);
        let (mut readers, mut unreadable) = (Vec::new(), Vec::new());
        for index in 0..count {
            let read = nvml.device_by_index(index).and_then(|device| {
                let identity = identity::read(&device, index, &machine)?;
                Ok(DeviceReader::new(&nvml, &device, identity))
            });
            match read {
                Ok(reader) => readers.push(reader),
                Err(error) => unreadable.push((index, error.to_string())),
            }
        }
        let mut gpus =
            Self { nvml, identities: Vec::new(), readers, unreadable, simulated, proc_root: proc_root.to_owned() };
        gpus.identify();
        Ok(gpus)
    }

    fn identify(&mut self) {
        self.identities = self.readers.iter().flat_map(DeviceReader::identities).cloned().collect();
    }

    /// Every GPU that could be identified, in the driver's order, and after each one its MIG instances.
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

    /// One sample of each of [`identities`](Self::identities), in that order, all stamped `ts_ms` (Unix milliseconds). When
    /// other MIG instances exist than before, the identities are those of the new ones.
    pub fn sample_all(&mut self, ts_ms: i64) -> Vec<GpuSample> {
        let all = self.readers.iter_mut().flat_map(|reader| reader.sample(&self.nvml, ts_ms, &self.proc_root));
        let samples = all.collect();
        self.identify();
        samples
    }

    /// One sample of the GPU at the driver's `position` among those that could be identified, without its MIG instances;
    /// none beyond the last.
    pub fn sample(&mut self, position: usize, ts_ms: i64) -> Option<GpuSample> {
        self.readers.get_mut(position)?.sample(&self.nvml, ts_ms, &self.proc_root).into_iter().next()
    }

    /// On which GPUs other MIG instances exist than at the last call, or when the library was opened.
    pub fn take_changes(&mut self) -> Vec<LayoutChange> {
        self.readers.iter_mut().filter_map(DeviceReader::take_change).collect()
    }
}

impl Drop for Gpus {
    fn drop(&mut self) {
        self.readers.iter_mut().for_each(|reader| reader.release(&self.nvml));
    }
}
