//! What schedulers say: who holds which device, and who a process belongs to.
//!
//! A [`Claim`] is a scheduler's word that somebody holds a device, or a part of it, whether or not a process works there. Who
//! that is, is [`Named`] as the scheduler knows it; the departments and projects behind it are found by other rules. What a
//! scheduler told last is a [`Snapshot`]: it is taken off the sampling path, and read at each tick without waiting.

use std::collections::{BTreeMap, HashMap};

use contador_schemas::owner::Owner;
use serde::{Deserialize, Serialize};

use super::DeviceId;

/// Somebody, as the source that told of him knows him.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Named {
    /// What identifies him: namespace, pod, container, job, user and so on.
    pub owner: Owner,
    /// What else is known, by a name that says where it is from: `k8s.label.team`, `k8s.annotation.…`, `slurm.account`,
    /// `slurm.partition`, `slurm.comment`, `env.…`.
    pub labels: BTreeMap<String, String>,
}

/// How much of a device is held.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Part {
    /// As much as everybody else who holds it.
    #[default]
    Even,
    /// So many parts per million of the device, as it was requested; above 0.
    Ppm(u32),
}

/// Somebody holds a device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claim {
    /// The device: a GPU or a MIG instance.
    pub device: DeviceId,
    /// How much of it.
    pub part: Part,
    /// Who.
    pub holder: Named,
}

/// Somebody held a device until an end that was told afterwards.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ended {
    /// The device.
    pub device: DeviceId,
    /// Who.
    pub holder: Named,
    /// When that was, Unix milliseconds.
    pub at_ms: i64,
}

/// What a scheduler told last. Whoever has a claim holds now: what has ended, or is suspended, has none. A suspended job is
/// still among the works, with a label that says so ([`slurm::is_suspended`](super::slurm::is_suspended)): its processes hold
/// nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When it was told, Unix milliseconds; 0: never.
    pub told_ms: i64,
    /// Who holds what.
    pub claims: Vec<Claim>,
    /// Who has held what, of those whose end is known, as long as the scheduler goes on listing them.
    pub ended: Vec<Ended>,
    /// Whose processes are, by the scheduler's own id of the work: a pod's UID, or a container's id; a Slurm job's number.
    pub works: HashMap<String, Named>,
    /// Why it could not be told again.
    pub fault: Option<String>,
    /// Some of those that are asked for it have neither answered nor failed yet.
    pub waiting: bool,
    /// What it told last is too old to count: so there are no claims.
    pub expired: bool,
}
