//! What a node notices of itself: whether GPUs are sampled, and whether the clock was set.

use super::gpus::{GpuTick, Sampling};
use super::node::Node;
use crate::outbox::encode::infos::Event;

/// A wall clock that is this far from where it should be has jumped, in milliseconds.
const CLOCK_JUMP_MS: i64 = 2_000;

impl Node {
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
        self.health.set_remarks(self.gpu_faults.clone());
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
