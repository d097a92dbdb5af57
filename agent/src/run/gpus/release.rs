//! Handles are released when somebody asks for it, so that the driver can be reloaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// How long handles stay released, in milliseconds.
const RELEASED_MS: i64 = 60_000;

/// Until when the driver's handles are to be released (Unix milliseconds). Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Release(Arc<AtomicI64>);

impl Release {
    /// Has the handles released from the next round on, for a minute.
    pub fn ask(&self, now_ms: i64) {
        self.0.store(now_ms + RELEASED_MS, Ordering::Relaxed);
    }
}

/// Whether handles are held.
#[derive(Debug)]
pub(super) struct Hold {
    release: Release,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Held,
    /// To be released, and some thread has one still.
    Releasing,
    Released,
    /// To be held again, and not opened yet.
    Taking,
}

impl Hold {
    pub(super) fn new(release: Release) -> Self {
        Self { release, state: State::Held }
    }

    pub(super) fn is_asked(&self, now_ms: i64) -> bool {
        // A clock that was set back must not make a minute an hour.
        (1..=RELEASED_MS).contains(&(self.release.0.load(Ordering::Relaxed) - now_ms))
    }

    /// Begins to release them; false when that has begun.
    pub(super) fn begin(&mut self) -> bool {
        let begins = matches!(self.state, State::Held | State::Taking);
        if begins {
            self.state = State::Releasing;
        }
        begins
    }

    /// Says that nobody has one; true the first time.
    pub(super) fn released(&mut self) -> bool {
        std::mem::replace(&mut self.state, State::Released) == State::Releasing
    }

    /// Says that they may be taken; true the first time.
    pub(super) fn end(&mut self) -> bool {
        let ends = matches!(self.state, State::Releasing | State::Released);
        if ends {
            self.state = State::Taking;
        }
        ends
    }

    /// Says that they are taken; true when they had been released.
    pub(super) fn taken(&mut self) -> bool {
        std::mem::replace(&mut self.state, State::Held) == State::Taking
    }
}
