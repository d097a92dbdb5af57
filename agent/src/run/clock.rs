//! When to sample: at instants that are multiples of the interval, by the wall clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How late a tick may be and still be called by its aligned instant, in milliseconds. Even steps are what makes times
/// cheap to store, and no clock of a fleet is better than this.
const TOLERANCE_MS: i64 = 10;

/// The aligned instants, one after the other.
#[derive(Debug)]
pub struct Clock {
    interval_ms: i64,
    last_ms: i64,
    missed: u64,
}

impl Clock {
    /// A clock that ticks every `interval`.
    pub fn new(interval: Duration) -> Self {
        Self { interval_ms: i64::try_from(interval.as_millis()).unwrap_or(1_000).max(1), last_ms: 0, missed: 0 }
    }

    /// Waits for the next instant; Unix milliseconds. Instants that have passed meanwhile are left out and counted.
    pub async fn next(&mut self) -> i64 {
        let now = now_ms();
        let due = self.due(now);
        let wait = u64::try_from(due - now).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        self.arrive(due, now_ms())
    }

    /// Instants that were left out since the last call.
    pub fn take_missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }

    fn due(&self, now_ms: i64) -> i64 {
        now_ms - now_ms.rem_euclid(self.interval_ms) + self.interval_ms
    }

    /// The instant to be used for a tick that was due at `due` and came at `now`.
    fn arrive(&mut self, due: i64, now: i64) -> i64 {
        let steps = (due - self.last_ms) / self.interval_ms;
        if self.last_ms > 0 && steps > 1 {
            self.missed += u64::try_from(steps - 1).unwrap_or(0);
        }
        self.last_ms = due;
        if (now - due).abs() <= TOLERANCE_MS { due } else { now }
    }
}

/// The wall clock, Unix milliseconds.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_aligned_and_late_ones_say_so() {
        let mut clock = Clock::new(Duration::from_secs(1));
        assert_eq!(clock.due(1_790_000_000_000), 1_790_000_001_000);
        assert_eq!(clock.due(1_790_000_000_999), 1_790_000_001_000);
        assert_eq!(clock.arrive(1_790_000_001_000, 1_790_000_001_004), 1_790_000_001_000);
        assert_eq!(clock.arrive(1_790_000_002_000, 1_790_000_002_250), 1_790_000_002_250);
        assert_eq!(clock.take_missed(), 0);
        assert_eq!(clock.arrive(1_790_000_006_000, 1_790_000_006_000), 1_790_000_006_000);
        assert_eq!((clock.take_missed(), clock.take_missed()), (3, 0));
    }
}
