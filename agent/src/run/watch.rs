//! What a node notices of itself: whether GPUs are sampled, and whether the clock was set.

use super::node::Node;
use super::sensors::GpuAnswer;
use crate::outbox::encode::infos::Event;

/// A wall clock that is this far from where it should be has jumped, in milliseconds.
const CLOCK_JUMP_MS: i64 = 2_000;

impl Node {
    /// Takes over whether GPUs are sampled; a change is logged and becomes an event.
    pub(super) fn note_health(&mut self, gpus: Option<&GpuAnswer>, instant_ms: i64) {
        let fault = match gpus {
            None => Some("the GPU sensor does not answer".to_owned()),
            Some(answer) if answer.samples.is_empty() => {
                Some(answer.fault.clone().unwrap_or_else(|| "the driver has no GPU".to_owned()))
            }
            Some(_) => None,
        };
        if fault != self.fault {
            match &fault {
                Some(reason) => tracing::warn!(reason, "no GPU is sampled"),
                None => tracing::info!("GPUs are sampled"),
            }
        }
        let event = match (&fault, &self.fault) {
            (Some(reason), None) if self.gpus.is_empty() => Some(("gpus_missing", reason.clone())),
            (Some(reason), None) => Some(("gpus_lost", reason.clone())),
            (None, Some(_)) => Some(("gpus_found", "GPUs are sampled again".to_owned())),
            _ => None,
        };
        self.events.extend(event.map(|(kind, message)| Event::new(instant_ms, kind, message)));
        self.fault = fault;
    }

    /// Shows at `/readyz` how the node is after a tick.
    pub(super) fn show_health(&self) {
        let checkpoint = self.checkpoint_fault.as_ref().map(|fault| format!("nothing is handed on: {fault}"));
        let faults: Vec<String> = checkpoint.into_iter().chain(self.fault.clone()).collect();
        self.health.set(if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) });
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
