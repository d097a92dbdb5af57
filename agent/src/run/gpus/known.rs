//! The GPUs that were ever seen, and what has become of them: each change is said once.

use std::collections::BTreeMap;
use std::sync::Arc;

use contador_schemas::names;

use super::asked::GpuThread;
use crate::outbox::encode::infos::Event;
use crate::run::sensors::Round;
use crate::sensors::{GpuIdentity, GpuSample, Reading};

/// The GPUs that were ever seen, by UUID.
#[derive(Debug, Default)]
pub(super) struct KnownGpus {
    gpus: BTreeMap<String, Known>,
    /// All GPUs that were there at the start have had their say: who comes now is new.
    settled: bool,
    changed: bool,
    removed: Vec<String>,
}

#[derive(Debug)]
struct Known {
    identity: Arc<GpuIdentity>,
    /// Its MIG instances.
    instances: Vec<Arc<GpuIdentity>>,
    state: State,
    /// Why it is lost, if it is.
    reason: String,
    /// The instant of its last answer, Unix milliseconds.
    answered_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    There,
    Lost,
    Removed,
}

impl KnownGpus {
    /// What a GPU is called where people read it: index, UUID and model.
    pub fn name(&self, uuid: &str) -> String {
        match self.gpus.get(uuid) {
            Some(known) => format!("GPU {} ({uuid}, {})", known.identity.index, known.identity.name),
            None => format!("GPU {uuid}"),
        }
    }

    /// The GPU that had this index when it was last seen, and the instant of its last answer.
    pub fn at(&self, index: u32) -> Option<(&str, Option<i64>)> {
        let found = self.gpus.iter().find(|(_, known)| known.state != State::Removed && known.identity.index == index);
        found.map(|(uuid, known)| (uuid.as_str(), known.answered_ms))
    }

    /// The GPUs that were not removed, and the instants of their last answers.
    pub fn answers(&self) -> impl Iterator<Item = (&str, Option<i64>)> {
        let there = self.gpus.iter().filter(|(_, known)| known.state != State::Removed);
        there.map(|(uuid, known)| (uuid.as_str(), known.answered_ms))
    }

    /// A GPU has answered.
    pub fn answered(&mut self, uuid: &str, answered_ms: Option<i64>) {
        if let Some(known) = self.gpus.get_mut(uuid) {
            known.answered_ms = answered_ms;
        }
    }

    /// It was found out who a GPU is.
    pub fn identified(&mut self, identity: &Arc<GpuIdentity>, round: &mut Round) {
        let uuid = &identity.uuid;
        self.changed = true;
        let known = self.gpus.get_mut(uuid);
        let is_new = known.as_ref().is_none_or(|known| known.state == State::Removed);
        match known {
            Some(known) => {
                known.identity = Arc::clone(identity);
                known.state = if is_new { State::There } else { known.state };
            }
            None => {
                let known = Known {
                    identity: Arc::clone(identity),
                    instances: Vec::new(),
                    state: State::There,
                    reason: String::new(),
                    answered_ms: None,
                };
                self.gpus.insert(uuid.clone(), known);
            }
        }
        if is_new && self.settled {
            self.say(uuid, "gpu_added", |name| format!("{name} was added"), round);
        }
    }

    /// A GPU has these MIG instances.
    pub fn split(&mut self, uuid: &str, instances: Vec<GpuIdentity>) {
        if let Some(known) = self.gpus.get_mut(uuid) {
            known.instances = instances.into_iter().map(Arc::new).collect();
            self.changed = true;
        }
    }

    /// From now on, or not yet, who comes is new.
    pub fn settle(&mut self, settled: bool) {
        self.settled |= settled;
    }

    /// Takes note of who is back.
    pub fn sampled(&mut self, samples: &[GpuSample], round: &mut Round) {
        for sample in samples.iter().filter(|sample| !is_lost(sample)) {
            if let Some(known) = self.gpus.get_mut(&sample.uuid).filter(|known| known.state == State::Lost) {
                known.state = State::There;
                self.changed = true;
                self.say(&sample.uuid, "gpu_back", |name| format!("{name} is back"), round);
            }
        }
    }

    /// Those that were there and have a sample of a lost GPU, with the reason.
    pub fn newly_lost(&self, samples: &[GpuSample]) -> Vec<(String, String)> {
        let there = |uuid: &str| self.gpus.get(uuid).is_some_and(|known| known.state == State::There);
        let lost = samples.iter().filter(|sample| there(&sample.uuid) && is_lost(sample));
        lost.map(|sample| (sample.uuid.clone(), reason(sample))).collect()
    }

    /// A GPU is lost.
    pub fn lose(&mut self, uuid: &str, reason: String, round: &mut Round) {
        if let Some(known) = self.gpus.get_mut(uuid).filter(|known| known.state != State::Lost) {
            known.state = State::Lost;
            known.reason.clone_from(&reason);
            self.changed = true;
            self.say(uuid, "gpu_lost", |name| format!("{name} is lost: {reason}"), round);
        }
    }

    /// A failed sample of each GPU that is lost and has none: its state goes on being told.
    pub fn failed(&self, samples: &[GpuSample], ts_ms: i64) -> Vec<GpuSample> {
        let lost = self.gpus.iter().filter(|(_, known)| known.state == State::Lost);
        let missing = lost.filter(|(uuid, _)| samples.iter().all(|sample| sample.uuid != **uuid));
        missing.map(|(uuid, known)| GpuSample::failed(ts_ms, uuid, known.reason.clone())).collect()
    }

    /// Whether a GPU is lost.
    pub fn any_lost(&self) -> bool {
        self.gpus.values().any(|known| known.state == State::Lost)
    }

    /// Says what has become of those that no thread of the driver has found, once all have had their say: a GPU that can't be
    /// identified is one that is lost, and who is not even that was removed.
    pub fn judge_missing(&mut self, threads: &[GpuThread], round: &mut Round) {
        if !threads.iter().all(GpuThread::is_settled) {
            return;
        }
        let found = |uuid: &str| threads.iter().any(|gpu| gpu.identity.as_ref().is_some_and(|gpu| gpu.uuid == uuid));
        let mut missing: Vec<String> =
            self.gpus.iter().filter(|(_, known)| known.state != State::Removed).map(|(uuid, _)| uuid.clone()).collect();
        missing.retain(|uuid| !found(uuid));
        let mut unknown: Vec<&GpuThread> = threads.iter().filter(|gpu| gpu.identity.is_none()).collect();
        // First those that have kept their index.
        missing.sort_by_key(|uuid| !unknown.iter().any(|gpu| Some(gpu.index) == self.index(uuid)));
        for uuid in missing {
            let same = unknown.iter().position(|gpu| Some(gpu.index) == self.index(&uuid));
            match same.or(unknown.len().checked_sub(1)).map(|at| unknown.swap_remove(at)) {
                // One that does not answer at all is stuck, which its sensor says.
                Some(gpu) => {
                    if let Some(reason) = &gpu.unknown {
                        self.lose(&uuid, reason.clone(), round);
                    }
                }
                None => self.remove(&uuid, round),
            }
        }
    }

    fn index(&self, uuid: &str) -> Option<u32> {
        self.gpus.get(uuid).map(|known| known.identity.index)
    }

    fn remove(&mut self, uuid: &str, round: &mut Round) {
        if let Some(known) = self.gpus.get_mut(uuid) {
            known.state = State::Removed;
            self.changed = true;
            self.removed.push(uuid.to_owned());
            self.say(uuid, "gpu_removed", |name| format!("{name} was removed"), round);
        }
    }

    fn say(&self, uuid: &str, kind: &'static str, message: impl FnOnce(String) -> String, round: &mut Round) {
        let message = message(self.name(uuid));
        match kind {
            "gpu_added" | "gpu_back" => tracing::info!(uuid, "{message}"),
            _ => tracing::warn!(uuid, "{message}"),
        }
        let mut event = Event::new(round.instant_ms, kind, message).of(uuid);
        if let Some(known) = self.gpus.get(uuid) {
            event = event.with(names::HW_MODEL, &known.identity.name).with(names::DEVICE_INDEX, known.identity.index);
        }
        round.events.push(event);
    }

    /// Those that were removed since the last call.
    pub fn take_removed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.removed)
    }

    /// The GPUs that are there, each before its instances, when that has changed since the last call.
    pub fn take_changed(&mut self) -> Option<Vec<Arc<GpuIdentity>>> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let mut there: Vec<&Known> = self.gpus.values().filter(|known| known.state == State::There).collect();
        there.sort_by_key(|known| known.identity.index);
        let all = there.into_iter().flat_map(|known| std::iter::once(&known.identity).chain(&known.instances));
        Some(all.cloned().collect())
    }
}

/// True when a GPU has told nothing.
pub(super) fn is_lost(sample: &GpuSample) -> bool {
    let memory = sample.measures.reading(names::GPU_MEMORY_LIMIT);
    memory.is_none_or(Reading::is_failed) && sample.processes.is_failed()
}

/// Why a GPU has told nothing.
pub(super) fn reason(sample: &GpuSample) -> String {
    match &sample.processes {
        Reading::Failed(reason) | Reading::Unsupported(reason) => reason.clone().into_owned(),
        Reading::Value(_) => String::new(),
    }
}
