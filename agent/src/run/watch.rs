//! What a node notices of itself: whether GPUs are sampled, whether schedulers answer, and whether the clock was set.

use std::collections::BTreeSet;

use super::gpus::{GpuTick, Sampling};
use super::node::Node;
use crate::outbox::encode::infos::Event;

/// A wall clock that is this far from where it should be has jumped, in milliseconds.
const CLOCK_JUMP_MS: i64 = 2_000;

/// What holds while a scheduler does not answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Silence {
    /// What it told last counts.
    Counts,
    /// That is too old: nobody holds anything by its word.
    Expired,
}

impl Node {
    /// Says when a scheduler ceases to answer, when what it told last ceases to count, and when it answers again.
    pub(super) fn note_schedulers(&mut self, instant_ms: i64) {
        for told in &self.given.snapshots {
            let holds = if told.expired { Silence::Expired } else { Silence::Counts };
            let now = told.fault.clone().map(|reason| (holds, reason));
            let before = match now.clone() {
                Some(now) => self.silent.insert(told.scheduler, now),
                None => self.silent.remove(&told.scheduler),
            };
            let (kind, message) = match (before, now) {
                (Some((before, _)), Some((now, _))) if before == now => continue,
                (None, None) => continue,
                (_, Some((Silence::Counts, reason))) => {
                    ("scheduler_silent", format!("{reason}; what was told last counts for now"))
                }
                (_, Some((Silence::Expired, reason))) => {
                    ("scheduler_expired", format!("{reason}; nobody holds a GPU by its word until it answers"))
                }
                (Some((_, reason)), None) => ("scheduler_answers", format!("it answers again, after {reason}")),
            };
            tracing::warn!(kind, message, "a scheduler");
            self.events.push(Event::new(instant_ms, kind, message));
        }
        self.note_unclear(instant_ms);
    }

    /// Says what of schedulers' word can't be used, each thing once as long as it is so.
    fn note_unclear(&mut self, instant_ms: i64) {
        let told = self.given.snapshots.iter().flat_map(|told| &told.unclear);
        if told.clone().count() == self.unclear.len() && told.clone().all(|reason| self.unclear.contains(reason)) {
            return;
        }
        let now: BTreeSet<String> = told.cloned().collect();
        for reason in now.difference(&self.unclear) {
            tracing::warn!(reason, "a scheduler's word can't be used");
            self.events.push(Event::new(instant_ms, "scheduler_unclear", reason.clone()));
        }
        self.unclear = now;
    }

    /// Takes over whether GPUs are sampled; a change is logged. That there were none from the start, and that some are found
    /// then, are events; what becomes of GPUs that were there is said by who watches them.
    pub(super) fn note_health(&mut self, gpus: &GpuTick, instant_ms: i64) {
        self.gpu_faults.clone_from(&gpus.faults);
        let fault = match &gpus.sampling {
            Sampling::Works => None,
            Sampling::Fails(reason) => Some(reason.clone()),
            Sampling::Unsure => return,
        };
        if fault.is_some() != self.fault.is_some() {
            match &fault {
                Some(reason) => tracing::warn!(reason, "no GPU is sampled"),
                None => tracing::info!("GPUs are sampled"),
            }
        }
        let event = match (&fault, &self.fault) {
            (Some(reason), _) if !self.sampled && !self.missing => {
                self.missing = true;
                Some(("gpus_missing", reason.clone()))
            }
            (None, Some(_)) if std::mem::take(&mut self.missing) => Some(("gpus_found", "GPUs are sampled".to_owned())),
            _ => None,
        };
        self.events.extend(event.map(|(kind, message)| Event::new(instant_ms, kind, message)));
        self.sampled |= fault.is_none();
        self.fault = fault;
    }

    /// Shows at `/readyz` how the node is after a tick.
    pub(super) fn show_health(&self) {
        let checkpoint = self.checkpoint_fault.as_ref().map(|fault| format!("nothing is handed on: {fault}"));
        let faults: Vec<String> = checkpoint.into_iter().chain(self.fault.clone()).collect();
        self.health.set(if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) });
        let silent = self.silent.values().map(|(_, reason)| reason.clone());
        let remarks = self.gpu_faults.iter().cloned().chain(silent).chain(self.unclear.iter().cloned());
        self.health.set_remarks(remarks.collect());
    }

    /// Compares the wall clock with the one that nobody can set.
    pub(super) fn note_clock(&mut self, instant_ms: i64) {
        let now = tokio::time::Instant::now();
        if let Some((wall_ms, steady)) = self.last_tick.replace((instant_ms, now)) {
            let passed = i64::try_from((now - steady).as_millis()).unwrap_or(i64::MAX);
            let jump = (instant_ms - wall_ms).saturating_sub(passed);
            if jump.abs() > CLOCK_JUMP_MS {
                tracing::warn!(jump_ms = jump, "the wall clock has jumped");
                let message = format!("the wall clock has jumped by {jump} ms");
                self.events.push(Event::new(instant_ms, "clock_jump", message));
            }
        }
    }
}
