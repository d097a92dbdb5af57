//! What `contador-agent probe` shows: one sample of everything, whose it is, and what is missing and why.
//!
//! The caller fills a [`ProbeReport`] from the sensors and the owners; `table` renders it for a terminal and `json`
//! for a machine. Every reason for a missing value is shown in full: a probe is for finding out what a node can tell.

mod json;
mod table;

pub use json::render_json;
pub use table::render_table;

use crate::sensors::{DiskSample, GpuIdentity, GpuSample, Gpus, HostSample, Reading};

/// One sample of everything.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeReport {
    /// The node's name, as it is in what the agent sends.
    pub node: String,
    /// When it was taken, in Unix milliseconds.
    pub ts_ms: i64,
    /// The GPUs; unsupported when there is no driver.
    pub gpus: Reading<ProbeGpus>,
    /// The block devices.
    pub disks: Reading<Vec<DiskSample>>,
    /// The machine.
    pub host: Reading<HostSample>,
    /// Who holds what: pairs of a device's UUID and an owner's label; several pairs for a shared device.
    pub owners: Vec<(String, String)>,
}

/// The GPUs of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeGpus {
    /// Each GPU that could be identified, with its sample.
    pub devices: Vec<(GpuIdentity, GpuSample)>,
    /// The driver's index of each GPU that could not be identified, and why.
    pub unreadable: Vec<(u32, String)>,
    /// True when they come from the simulator.
    pub simulated: bool,
}

impl ProbeGpus {
    /// Takes one sample of each GPU at `ts_ms` (Unix milliseconds).
    pub fn take(gpus: &mut Gpus, ts_ms: i64) -> Self {
        let samples = gpus.sample_all(ts_ms);
        let devices = gpus.identities().iter().cloned().zip(samples).collect();
        Self { devices, unreadable: gpus.unreadable().to_vec(), simulated: gpus.simulated() }
    }
}

impl ProbeReport {
    /// The labels of a device's owners.
    fn owners_of<'r>(&'r self, uuid: &'r str) -> impl Iterator<Item = &'r str> {
        self.owners.iter().filter(move |(device, _)| device == uuid).map(|(_, owner)| owner.as_str())
    }
}

/// Why each missing value of a GPU is missing: metric, with its attributes, and `unsupported (…)` or `failed (…)`.
fn missing(identity: &GpuIdentity, sample: &GpuSample) -> Vec<(String, String)> {
    let measured = sample.measures.iter().filter_map(|measure| {
        let variant = measure.attributes().map(|(_, value)| format!(" {value}")).collect::<String>();
        Some((format!("{}{variant}", measure.metric), measure.reading.missing()?))
    });
    let limit = identity.power_limit_mw.missing().map(|reason| ("power limit".to_owned(), reason));
    let processes = sample.processes.missing().map(|reason| ("processes".to_owned(), reason));
    measured.chain(limit).chain(processes).collect()
}

#[cfg(test)]
mod tests;
