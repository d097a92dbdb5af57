//! What `contador-agent probe` shows: everything that the agent can see now, whose it is, and what is missing and why.
//!
//! [`take`] asks every sensor, each on a thread of its own, twice, and waits for none longer than it has patience; of the GPUs, each
//! one has its thread ([`gpus`]). The result is a [`ProbeReport`]. [`table`] lays it out for a terminal: the machine, disks
//! and mounts by `node`, the GPUs by `devices`, with their firmware and topology by `about`, what is wrong with them by
//! `faults` and what is missing by `missing`, who decided on owners by `owners`, with words and widths of [`text`]. [`json`] has all of it for a machine.
//! [`watch`] does so again and again.

mod about;
mod devices;
mod faults;
mod gpus;
mod json;
mod missing;
mod node;
mod owners;
mod table;
pub mod take;
#[cfg(test)]
mod tests;
pub mod text;
pub mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use contador_schemas::mapping::Decision;
use contador_schemas::owner::Owner;

pub use json::render_json;
pub use table::{render_painted, render_table};

use crate::owners::Identified;
use crate::run::attribute::{self, Claims};
use crate::sensors::nvml::topology::Topology;
use crate::sensors::{GpuIdentity, GpuSample, Measures, Reading};

/// What asking a sensor came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked<T> {
    /// It has answered.
    Answered(Reading<T>),
    /// It has not, for so long.
    Stuck(Duration),
}

impl<T> Asked<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Answered(reading) => reading.value(),
            Self::Stuck(_) => None,
        }
    }

    /// Why there is no value: `unsupported (…)`, `failed (…)` or `stuck (3 s)`.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Answered(reading) => reading.missing(),
            Self::Stuck(passed) => Some(format!("stuck ({} s)", passed.as_secs())),
        }
    }
}

/// One sample of everything.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeReport {
    /// The node's name, as it is in what the agent sends.
    pub node: String,
    /// When it was taken, in Unix milliseconds.
    pub ts_ms: i64,
    /// The GPUs; unsupported when there is no driver.
    pub gpus: Asked<ProbeGpus>,
    /// The other sensors, by name: disks, host and so on.
    pub sensors: Vec<(&'static str, Asked<Measures>)>,
    /// What each of them said before, and how long before; for rates.
    pub before: HashMap<&'static str, (Duration, Measures)>,
    /// Who holds what: pairs of a device's UUID and an owner; several pairs for a shared device.
    pub owners: Vec<(String, Owner)>,
    /// Who was given a device by a scheduler, by its UUID, whether or not a process of his is there.
    pub given: Claims,
    /// Why a scheduler does not tell who holds what, and what of its word cannot be used.
    pub silent: Vec<String>,
    /// Whose each process is that holds a device.
    pub processes: HashMap<u32, Identified>,
    /// What decided who pays for an owner; several, where he was found in several ways.
    pub decided: Decided,
}

/// What decided who pays, by owner.
pub type Decided = BTreeMap<Owner, BTreeSet<Decision>>;

/// The GPUs of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeGpus {
    /// Each GPU and each MIG instance that could be identified, an instance after its GPU, with its sample.
    pub devices: Vec<(GpuIdentity, GpuSample)>,
    /// The driver's index of each GPU that could not be identified, and why.
    pub unreadable: Vec<(u32, String)>,
    /// The GPUs that have not answered in time.
    pub stuck: Vec<StuckGpu>,
    /// Version of the driver.
    pub driver_version: String,
    /// What each GPU reaches the others by.
    pub topology: Asked<Topology>,
    /// True when they come from the simulator.
    pub simulated: bool,
}

/// A GPU that has not answered.
#[derive(Debug, Clone, PartialEq)]
pub struct StuckGpu {
    /// The driver's index.
    pub index: u32,
    /// What it is, when it has answered before.
    pub identity: Option<GpuIdentity>,
    /// For how long it has not.
    pub passed: Duration,
}

impl ProbeReport {
    /// The owners of a device.
    fn owners_of<'r>(&'r self, uuid: &'r str) -> impl Iterator<Item = &'r Owner> {
        self.owners.iter().filter(move |(device, _)| device == uuid).map(|(_, owner)| owner)
    }

    /// Who was given a device and has no process there, as far as processes are known.
    fn without_process<'r>(&'r self, sample: &'r GpuSample) -> impl Iterator<Item = &'r Identified> {
        let processes: Vec<&Identified> = sample
            .processes
            .value()
            .into_iter()
            .flatten()
            .filter_map(|process| self.processes.get(&process.pid))
            .collect();
        let given = attribute::given_of(sample, &self.given).iter().map(|(_, owner)| owner);
        given.filter(move |owner| sample.processes.value().is_some() && !processes.contains(owner))
    }

    /// What all sensors of the node have measured.
    fn measured(&self) -> impl Iterator<Item = (&'static str, &Measures)> {
        self.sensors.iter().filter_map(|(name, asked)| Some((*name, asked.value()?)))
    }
}
