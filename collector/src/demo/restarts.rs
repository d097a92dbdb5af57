//! The agent is ended twice and started again, in the middle of a minute: once as a service manager does it, and once by a
//! kill at whatever it was doing. What it did not see must be told as *unmetered*, and everything must still add up.

use std::time::Duration;

use super::visible::now_ms;

/// How long the agent runs before each of them.
const BEFORE: Duration = Duration::from_secs(4);

/// The first is not later than this in a minute, so that the second is in the same one: milliseconds.
const LATEST_MS: i64 = 40_000;

/// How the agent ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum How {
    /// By SIGTERM, which it answers by a last sample.
    Stopped,
    /// By SIGKILL.
    Killed,
}

impl How {
    fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Killed => "killed",
        }
    }
}

/// Those that were, and when the next one is due.
#[derive(Clone, Debug)]
pub(super) struct Restarts {
    /// When the agent had ended and was not yet started again, Unix milliseconds.
    done: Vec<(i64, How)>,
    due_ms: i64,
}

impl Restarts {
    /// The agent runs since `now_ms` (Unix milliseconds).
    pub(super) fn planned(now_ms: i64) -> Self {
        let before_ms = i64::try_from(BEFORE.as_millis()).unwrap_or_default();
        let (due_ms, minute_ms) = (now_ms + before_ms, now_ms - now_ms.rem_euclid(60_000));
        let is_late = due_ms - minute_ms > LATEST_MS;
        Self { done: Vec::new(), due_ms: if is_late { minute_ms + 60_000 + before_ms } else { due_ms } }
    }

    /// How the agent is to end now, if it is.
    pub(super) fn due(&self) -> Option<How> {
        let next = [How::Stopped, How::Killed].get(self.done.len()).copied();
        next.filter(|_| now_ms() >= self.due_ms)
    }

    /// The agent runs again, which it did not at `ended_ms`.
    pub(super) fn done(&mut self, how: How, ended_ms: i64) {
        self.done.push((ended_ms, how));
        self.due_ms = now_ms() + i64::try_from(BEFORE.as_millis()).unwrap_or_default();
    }

    /// When the agent had ended and was not yet started again, Unix milliseconds.
    pub(super) fn instants(&self) -> impl Iterator<Item = i64> + '_ {
        self.done.iter().map(|(at_ms, _)| *at_ms)
    }

    /// What the agent has been through, for people.
    pub(super) fn told(&self) -> String {
        let done: Vec<&str> = self.done.iter().map(|(_, how)| how.as_str()).collect();
        if done.is_empty() { "running".to_owned() } else { format!("{} and started again", done.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_leaves_the_minute_room_for_the_second() {
        for (now_ms, due_ms) in [(0, 4_000), (36_000, 40_000), (36_001, 64_000), (59_999, 64_000), (60_000, 64_000)] {
            assert_eq!(Restarts::planned(now_ms).due_ms, due_ms, "{now_ms}");
        }
    }

    #[test]
    fn the_agent_is_stopped_and_then_killed_and_then_left_alone() {
        let mut restarts = Restarts { done: Vec::new(), due_ms: 0 };
        assert_eq!(restarts.due(), Some(How::Stopped));
        restarts.done(How::Stopped, 5);
        assert_eq!(restarts.due(), None, "not at once");
        restarts.due_ms = 0;
        assert_eq!(restarts.due(), Some(How::Killed));
        restarts.done(How::Killed, 9);
        restarts.due_ms = 0;
        assert_eq!(restarts.due(), None);
        assert_eq!(
            (restarts.told().as_str(), restarts.instants().collect::<Vec<_>>()),
            ("stopped, killed and started again", vec![5, 9])
        );
    }
}
