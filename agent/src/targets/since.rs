//! From when on a server without a memory was watched: what it says to have begun after that instant is traffic that nobody
//! has counted yet, although it was never asked.
//!
//! The agent is there for a server's whole life, when that began after the agent, also where the server became a target only
//! later: it listens before its pod is ready, and a file of targets is written when it answers. But the same server may
//! have been followed as another target, in whose name its traffic is stored: by another address of its file, or before its
//! pod was known. So nothing counts that began while another target was followed at the same place.

use std::collections::HashMap;
use std::time::Duration;

use super::target::Target;

/// How long a memory is kept of a server that is no target any more. What began since then can't be among what was forgotten.
pub const FORGET: Duration = Duration::from_secs(6 * 3_600);

/// What was followed where, since the agent began.
#[derive(Debug)]
pub struct Places {
    began_ns: u64,
    /// When the last target at a place ended, Unix nanoseconds.
    left: HashMap<String, u64>,
}

impl Places {
    /// Those of an agent that began at this instant, Unix nanoseconds.
    pub fn new(began_ns: u64) -> Self {
        Self { began_ns, left: HashMap::new() }
    }

    /// This one is no target any more at `now_ns` (Unix nanoseconds).
    pub fn leave(&mut self, target: &Target, now_ns: u64) {
        let forgotten = forgotten(now_ns);
        self.left.retain(|_, left| *left > forgotten);
        self.left.extend(places(target).into_iter().map(|place| (place, now_ns)));
    }

    /// From when on this one was watched, which becomes a target at `now_ns` (Unix nanoseconds) while `others` are.
    pub fn since<'t>(&self, target: &Target, now_ns: u64, others: impl IntoIterator<Item = &'t Target>) -> u64 {
        let mine = places(target);
        if others.into_iter().any(|other| places(other).iter().any(|place| mine.contains(place))) {
            return now_ns;
        }
        let left = mine.iter().filter_map(|place| self.left.get(place)).max().copied().unwrap_or_default();
        self.began_ns.max(forgotten(now_ns)).max(left)
    }
}

fn forgotten(now_ns: u64) -> u64 {
    now_ns.saturating_sub(u64::try_from(FORGET.as_nanos()).unwrap_or(u64::MAX))
}

/// What a server can't share with another one at the same time: its address, and its pod.
fn places(target: &Target) -> Vec<String> {
    let (host, port) = target.address().rsplit_once(':').unwrap_or_default();
    let is_loopback = host == "localhost" || host == "[::1]" || host.starts_with("127.");
    let address = format!("{}:{port}", if is_loopback { "localhost" } else { host });
    let pod = target.pod.as_ref().map(|pod| format!("pod {}", pod.uid));
    std::iter::once(address).chain(pod).collect()
}

#[cfg(test)]
mod tests {
    use super::super::target::Pod;
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;
    /// When the agent began.
    const BEGAN: u64 = 1_000 * HOUR;

    fn target(address: &str, pod: &str) -> Target {
        let pod = (!pod.is_empty()).then(|| Pod { uid: pod.into(), ..Pod::default() });
        Target { url: format!("http://{address}/metrics"), pod, ..Target::default() }
    }

    #[test]
    fn a_server_is_watched_from_the_agents_start_on_and_never_longer_than_one_is_remembered() {
        let places = Places::new(BEGAN);
        assert_eq!(places.since(&target("10.0.0.5:8000", "a"), BEGAN + HOUR, []), BEGAN);
        assert_eq!(places.since(&target("10.0.0.5:8000", "a"), BEGAN + 9 * HOUR, []), BEGAN + 3 * HOUR);
        // A clock that was set back.
        assert_eq!(places.since(&target("10.0.0.5:8000", "a"), HOUR, []), BEGAN);
    }

    #[test]
    fn what_another_target_at_its_place_may_have_counted_is_not_counted_again() {
        let mut places = Places::new(BEGAN);
        let now = BEGAN + 2 * HOUR;
        let by_file = target("127.0.0.1:8000", "");
        for other in ["localhost:8000", "127.0.0.2:8000", "[::1]:8000"] {
            assert_eq!(places.since(&target(other, ""), now, [&by_file]), now, "{other}");
        }
        assert_eq!(places.since(&target("127.0.0.1:8001", ""), now, [&by_file]), BEGAN);
        // The same pod at another port, and the next pod that has the address.
        let pod = target("10.0.0.5:8000", "a");
        places.leave(&pod, BEGAN + HOUR);
        assert_eq!(places.since(&target("10.0.0.5:9000", "a"), now, []), BEGAN + HOUR);
        assert_eq!(places.since(&target("10.0.0.5:8000", "b"), now, []), BEGAN + HOUR);
        assert_eq!(places.since(&target("10.0.0.6:8000", "b"), now, []), BEGAN);
        // Places that were left long ago are forgotten.
        places.leave(&target("10.0.0.9:1", "z"), BEGAN + 8 * HOUR);
        assert_eq!(places.left.len(), 2);
    }
}
