//! From when on a server without a memory was watched: what it says to have begun after that instant is traffic that nobody
//! has counted yet, although it was never asked.
//!
//! The agent is there for a server's whole life, when that began after the agent, also where the server became a target only
//! later: it listens before its pod is ready, and a file of targets is written when it answers. But the same server may
//! have been followed as another target, in whose name its traffic is stored: by another address of its file, or before its
//! pod was known. So nothing counts that began while another target was followed at the same place, nor goes a memory on that is older
//! than that one's last page. Of targets without a pod that come as others leave, those of the same port are taken for the same place:
//! a file that calls a server by its address instead of its name changes in one go.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::target::Target;

/// How long a memory is kept of a server that is no target any more. What began since then can't be among what was forgotten.
pub const FORGET: Duration = Duration::from_secs(6 * 3_600);

/// From when on a target counts, Unix nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Watched {
    /// What began since then is traffic, also of a server without a memory.
    pub since_ns: u64,
    /// Until then another target was followed at the same place: a memory that is older has not seen what that one counted.
    pub alone_ns: u64,
}

/// What was followed where, since the agent began.
#[derive(Debug)]
pub struct Places {
    began_ns: u64,
    /// When each target at a place ended last, Unix nanoseconds.
    left: HashMap<String, HashMap<Uuid, u64>>,
}

impl Places {
    /// Those of an agent that began at this instant, Unix nanoseconds.
    pub fn new(began_ns: u64) -> Self {
        Self { began_ns, left: HashMap::new() }
    }

    /// This one is no target any more at `now_ns` (Unix nanoseconds).
    pub fn leave(&mut self, target: &Target, now_ns: u64) {
        let forgotten = forgotten(now_ns);
        self.left.retain(|_, left| {
            left.retain(|_, left| *left > forgotten);
            !left.is_empty()
        });
        for place in places(target) {
            self.left.entry(place).or_default().insert(target.id(), now_ns);
        }
    }

    /// From when on this one was watched, which becomes a target at `now_ns` (Unix nanoseconds) while `others` are, and as those leave
    /// that `left`.
    pub fn watched<'t>(
        &self,
        target: &Target,
        now_ns: u64,
        others: impl IntoIterator<Item = &'t Target>,
        left: &[Arc<Target>],
    ) -> Watched {
        let (mine, id) = (places(target), target.id());
        let is_shared = others.into_iter().any(|other| places(other).iter().any(|place| mine.contains(place)));
        let is_moved = left.iter().any(|other| is_moved(other, target));
        if is_shared || is_moved {
            return Watched { since_ns: now_ns, alone_ns: now_ns };
        }
        let known: Vec<_> = mine.iter().filter_map(|place| self.left.get(place)).flatten().collect();
        let last = known.iter().map(|(_, left)| **left).max().unwrap_or_default();
        let others = known.iter().filter(|(other, _)| **other != id).map(|(_, left)| **left);
        let since_ns = self.began_ns.max(forgotten(now_ns)).max(last);
        Watched { since_ns, alone_ns: others.max().unwrap_or_default() }
    }
}

/// Whether a target that comes may be this one that leaves, by another name.
fn is_moved(left: &Target, comes: &Target) -> bool {
    let page = |target: &Target| {
        let (address, path) = target.parts();
        address.rsplit_once(':').map(|(_, port)| format!("{port}/{path}"))
    };
    left.pod.is_none() && comes.pod.is_none() && page(left) == page(comes)
}

fn forgotten(now_ns: u64) -> u64 {
    now_ns.saturating_sub(u64::try_from(FORGET.as_nanos()).unwrap_or(u64::MAX))
}

/// What a server can't share with another one at the same time: its page, and its pod.
fn places(target: &Target) -> Vec<String> {
    let (address, path) = target.parts();
    let (host, port) = address.rsplit_once(':').unwrap_or_default();
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let is_here = ["localhost", "[::1]", "[::]", "0.0.0.0"].contains(&host.as_str()) || host.starts_with("127.");
    let page = format!("{}:{port}/{path}", if is_here { "localhost" } else { &host });
    let pod = target.pod.as_ref().map(|pod| format!("pod {}", pod.uid));
    std::iter::once(page).chain(pod).collect()
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

    fn since(places: &Places, target: &Target, now_ns: u64) -> u64 {
        places.watched(target, now_ns, [], &[]).since_ns
    }

    #[test]
    fn servers_behind_one_address_with_paths_of_their_own_are_others() {
        let places = Places::new(BEGAN);
        let page = |path: &str| Target { url: format!("http://gw:8000/{path}"), ..Target::default() };
        let now = BEGAN + HOUR;
        let watched = |others: &[Target]| places.watched(&page("a/metrics"), now, others, &[]);
        assert_eq!(watched(&[page("b/metrics")]), Watched { since_ns: BEGAN, alone_ns: 0 });
        assert_eq!(watched(&[page("a/metrics")]), Watched { since_ns: now, alone_ns: now });
        let left = Arc::new(page("b/metrics"));
        assert_eq!(places.watched(&page("a/metrics"), now, [], &[left]).alone_ns, 0);
    }

    #[test]
    fn a_server_is_watched_from_the_agents_start_on_and_never_longer_than_one_is_remembered() {
        let places = Places::new(BEGAN);
        let pod = target("10.0.0.5:8000", "a");
        assert_eq!(since(&places, &pod, BEGAN + HOUR), BEGAN);
        assert_eq!(since(&places, &pod, BEGAN + 9 * HOUR), BEGAN + 3 * HOUR);
        // A clock that was set back.
        assert_eq!(since(&places, &pod, HOUR), BEGAN);
    }

    #[test]
    fn what_another_target_at_its_place_may_have_counted_is_not_counted_again() {
        let mut places = Places::new(BEGAN);
        let now = BEGAN + 2 * HOUR;
        for (by_file, others) in [
            (
                "127.0.0.1:8000",
                &["localhost:8000", "LocalHost:8000", "127.0.0.2:8000", "[::1]:8000", "0.0.0.0:8000"][..],
            ),
            ("gpu7.lab:8000", &["GPU7.lab:8000", "gpu7.lab.:8000"]),
        ] {
            let by_file = target(by_file, "");
            for other in others {
                let watched = places.watched(&target(other, ""), now, [&by_file], &[]);
                assert_eq!(watched, Watched { since_ns: now, alone_ns: now }, "{other}");
            }
            let watched = places.watched(&target("127.0.0.1:8001", ""), now, [&by_file], &[]);
            assert_eq!(watched, Watched { since_ns: BEGAN, alone_ns: 0 });
        }
        // The same pod at another port, and the next pod that has the address.
        let pod = target("10.0.0.5:8000", "a");
        places.leave(&pod, BEGAN + HOUR);
        assert_eq!(since(&places, &target("10.0.0.5:9000", "a"), now), BEGAN + HOUR);
        assert_eq!(since(&places, &target("10.0.0.5:8000", "b"), now), BEGAN + HOUR);
        assert_eq!(since(&places, &target("10.0.0.6:8000", "b"), now), BEGAN);
        // Places that were left long ago are forgotten.
        places.leave(&target("10.0.0.9:1", "z"), BEGAN + 8 * HOUR);
        assert_eq!(places.left.len(), 2);
    }

    #[test]
    fn a_memory_is_told_of_the_targets_that_followed_it() {
        let mut places = Places::new(BEGAN);
        let (by_number, by_name) = (target("127.0.0.1:8000", ""), target("localhost:8000", ""));
        places.leave(&by_number, BEGAN + HOUR);
        // It comes again: nobody else has counted meanwhile.
        let again = places.watched(&by_number, BEGAN + 2 * HOUR, [], &[]);
        assert_eq!(again, Watched { since_ns: BEGAN + HOUR, alone_ns: 0 });
        places.leave(&by_name, BEGAN + 3 * HOUR);
        let again = places.watched(&by_number, BEGAN + 4 * HOUR, [], &[]);
        assert_eq!(again, Watched { since_ns: BEGAN + 3 * HOUR, alone_ns: BEGAN + 3 * HOUR });
    }

    #[test]
    fn who_comes_as_another_of_the_same_port_leaves_may_be_that_one() {
        let (places, now) = (Places::new(BEGAN), BEGAN + HOUR);
        let left = [Arc::new(target("gpu7:8000", ""))];
        for (comes, expected) in [("10.0.0.7:8000", now), ("10.0.0.7:8001", BEGAN)] {
            assert_eq!(places.watched(&target(comes, ""), now, [], &left).since_ns, expected, "{comes}");
        }
        // A pod is known by more than its address.
        assert_eq!(places.watched(&target("10.0.0.7:8000", "a"), now, [], &left).since_ns, BEGAN);
    }
}
