//! That a source does not answer: since when, why, and when to ask it again.

use std::time::{Duration, Instant};

use crate::jitter::jittered;

/// A source does not answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outage {
    /// Since when.
    pub since: Instant,
    /// Why, the last time.
    pub reason: String,
}

impl Outage {
    /// One that begins now.
    pub fn now(reason: String) -> Self {
        Self { since: Instant::now(), reason }
    }

    /// The source has failed once more: what is not an outage yet begins to be one.
    pub fn go_on(outage: &mut Option<Self>, reason: String) {
        match outage {
            Some(outage) => outage.reason = reason,
            none => *none = Some(Self::now(reason)),
        }
    }

    /// What is wrong, and for how long at `now`, in whole seconds.
    pub fn say(&self, now: Instant) -> String {
        format!("{} (for {} s)", self.reason, now.saturating_duration_since(self.since).as_secs())
    }
}

/// How long to wait after a failure: twice as long each time, and less by a random part, so that the nodes of a fleet don't
/// come back all at once.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Begins with at most `first`, and ends with at most `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// It went well: the next failure is a first one.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// How long to wait now: half of the limit to all of it.
    pub fn wait(&mut self) -> Duration {
        let limit = self.next;
        self.next = (limit * 2).min(self.longest);
        jittered(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_begin_again() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, second * 5);
        for limit in [1, 2, 4, 5, 5] {
            let wait = backoff.wait();
            assert!(wait >= second * limit / 2 && wait <= second * limit, "{wait:?} of {limit} s");
        }
        backoff.reset();
        assert!(backoff.wait() <= second);
    }

    #[test]
    fn an_outage_lasts_from_its_first_failure() {
        let mut outage = None;
        Outage::go_on(&mut outage, "down".to_owned());
        let since = outage.as_ref().map(|outage| outage.since).unwrap();
        Outage::go_on(&mut outage, "refused".to_owned());
        let outage = outage.unwrap();
        assert_eq!(outage.since, since);
        assert_eq!(outage.say(since + Duration::from_millis(61_900)), "refused (for 61 s)");
    }
}
