//! What is asked of Slurm's controller, and when again.

use super::told::{NodeTold, Told};

/// When a question is asked again where there was no answer, in milliseconds.
pub(super) const FAILED_MS: u64 = 30_000;

/// Something to ask of the controller.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Question {
    /// The job with this id in its groups, and this number.
    Job(String, String),
    /// What the node of this name has, and how much of it is allocated.
    Node(String),
    /// Which jobs run on the node of this name.
    Running(String),
}

/// What the controller answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Of the job with this id in its groups.
    Job(String, Result<Box<Told>, String>),
    /// Of the node.
    Node(Result<NodeTold, String>),
    /// The numbers of those that run on it.
    Running(Result<Vec<String>, String>),
}

/// One question, and what is known of it.
#[derive(Debug)]
pub(super) struct Asked<T> {
    pub(super) pending: bool,
    /// When it is due, in milliseconds of a clock that only goes forward.
    pub(super) due_ms: u64,
    /// When that was told, by the same clock.
    pub(super) told_ms: u64,
    pub(super) told: Option<T>,
    pub(super) fault: Option<String>,
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Self { pending: false, due_ms: 0, told_ms: 0, told: None, fault: None }
    }
}

impl<T> Asked<T> {
    /// Whether there is no answer, nor a reason for that.
    pub(super) fn is_open(&self) -> bool {
        self.told.is_none() && self.fault.is_none()
    }

    /// Takes an answer at `now_ms`, and asks again `again_ms` after one that tells.
    pub(super) fn answer(&mut self, about: &str, answer: Result<T, String>, again_ms: u64, now_ms: u64) {
        self.pending = false;
        self.due_ms = now_ms.saturating_add(if answer.is_ok() { again_ms } else { FAILED_MS });
        match answer {
            Ok(told) => (self.told, self.told_ms, self.fault) = (Some(told), now_ms, None),
            Err(fault) => {
                // What was told before is the best that there is.
                if self.fault.as_ref() != Some(&fault) {
                    tracing::warn!(fault, "Slurm does not tell of {about}");
                }
                self.fault = Some(fault);
            }
        }
    }
}
