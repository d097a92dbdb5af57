//! The simulated clock: milliseconds since it started, at a scale, or held still by a test.

use std::time::Instant;

/// Simulated time.
#[derive(Debug, Clone)]
pub struct Clock {
    scale: f64,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// Runs from `base_ms`, which it showed at `since`.
    Running { base_ms: u64, since: Instant },
    /// Stands still.
    Held { at_ms: u64 },
}

impl Clock {
    /// A clock that starts at 0 now and runs at `scale` simulated seconds a second.
    pub fn start(scale: f64) -> Self {
        Self { scale, state: State::Running { base_ms: 0, since: Instant::now() } }
    }

    /// How far the clock goes in `real_ms` milliseconds; 1 while it is held, as every step of it is then on purpose.
    pub fn scaled_ms(&self, real_ms: f64) -> u64 {
        match self.state {
            State::Held { .. } => 1,
            State::Running { .. } => whole(real_ms * self.scale),
        }
    }

    /// Milliseconds since the start. Never falls.
    pub fn now_ms(&self) -> u64 {
        match self.state {
            State::Held { at_ms } => at_ms,
            State::Running { base_ms, since } => {
                base_ms.saturating_add(whole(since.elapsed().as_secs_f64() * 1_000.0 * self.scale))
            }
        }
    }

    /// Stops the clock at `at_ms`. False, and nothing happens, when it is already later.
    pub fn hold(&mut self, at_ms: u64) -> bool {
        if at_ms < self.now_ms() && !matches!(self.state, State::Running { base_ms: 0, .. }) {
            return false;
        }
        self.state = State::Held { at_ms };
        true
    }

    /// Lets a held clock go on.
    pub fn run(&mut self) {
        if let State::Held { at_ms } = self.state {
            self.state = State::Running { base_ms: at_ms, since: Instant::now() };
        }
    }
}

/// Rounded down; saturates at the far end.
fn whole(ms: f64) -> u64 {
    #[allow(clippy::cast_sign_loss)]
    let whole = ms.max(0.0) as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_clock_stands_and_never_goes_back() {
        let mut clock = Clock::start(1.0);
        assert!(clock.hold(5_000));
        assert_eq!(clock.now_ms(), 5_000);
        assert!(!clock.hold(4_999));
        assert!(clock.hold(7_000));
        clock.run();
        assert!(clock.now_ms() >= 7_000);
    }
}
