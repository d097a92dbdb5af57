//! From allocations and pods to claims: who really holds what the kubelet lists.
//!
//! The kubelet names a pod without its UID, and goes on listing one that has ended. So an entry belongs to the pod that had
//! its name when it was first seen. When that pod has ended or is gone, the entry holds nothing, until the next pod of the
//! same name has started and no entry has come since that could be its own: not even in a list that was asked for after that
//! start was known.
//!
//! When a pod ended is told for as long as a round may still ask: also when the kubelet has ceased to list it at once, as it
//! does since Kubernetes 1.34, and when the API server has forgotten it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::time::{Duration, Instant};

use contador_schemas::owner::Owner;

use super::allocation::Allocation;
use super::pods::Pods;
use crate::owners::DeviceId;
use crate::owners::claim::{Claim, Ended, Named};

/// For how long a pod that the API server does not know may be a new one.
const NEW_POD: Duration = Duration::from_secs(10);

/// How long the end of what the kubelet does not list any more is told: longer than from round to round.
pub const TOLD_FOR: Duration = Duration::from_secs(90);

/// What was given, to whom: namespace, pod, container, and the kubelet's names for it.
type Entry = (String, String, String, Vec<String>);

/// Who the entries of the kubelet's list belong to.
#[derive(Debug, Default)]
pub struct Join {
    known: HashMap<Entry, Known>,
    /// Counts the kubelet's lists.
    lists: u64,
    /// When the last of them was told.
    told: Option<Instant>,
    /// What was held until an end that is known.
    ended: Vec<Ended>,
}

/// What is known of an entry.
#[derive(Clone, Debug)]
struct Known {
    /// In which list it was first.
    came: u64,
    /// The UID of its pod, once that was told.
    uid: Option<String>,
    /// Since when the API server could know its pod, and does not.
    unknown: Option<Instant>,
    /// In which list another pod of its name was first known to have started.
    followed: Option<u64>,
    /// What it is of: a scheduler may have assigned several devices for the same names, and may say later which ones.
    devices: Vec<DeviceId>,
    /// When its pod ended, Unix milliseconds.
    ended_ms: Option<i64>,
    /// Since when the kubelet does not list it.
    left: Option<Instant>,
}

impl Join {
    /// Who holds what at `now`, by a list that the kubelet told at `told`.
    pub fn claims(
        &mut self,
        allocations: &[Allocation],
        told: Option<Instant>,
        pods: &Pods,
        now: Instant,
    ) -> Vec<Claim> {
        if self.told != told {
            (self.told, self.lists) = (told, self.lists + 1);
        }
        let lists = self.lists;
        let entries: Vec<Entry> = allocations.iter().map(entry).collect();
        // Where each is first: a pod and the one before it may have the same device, and that is one claim.
        let mut first = HashMap::<&Entry, usize>::new();
        // When the latest one of a pod's name came.
        let mut latest = HashMap::<(&str, &str), u64>::new();
        for (allocation, entry) in allocations.iter().zip(&entries) {
            let known = self.known.entry(entry.clone()).or_insert_with(|| Known::new(lists));
            if known.left.is_some() {
                *known = Known::new(lists);
            }
            let came = known.came;
            if let Slot::Vacant(slot) = first.entry(entry) {
                slot.insert(allocation.entry);
                known.devices.clear();
            }
            if !known.devices.contains(&allocation.device) {
                known.devices.push(allocation.device.clone());
            }
            let latest = latest.entry((&allocation.namespace, &allocation.pod)).or_insert(came);
            *latest = came.max(*latest);
        }
        self.known.retain(|entry, known| first.contains_key(entry) || known.is_still_told(entry, pods, now));
        let mut claims: Vec<Claim> = Vec::new();
        for (allocation, entry) in allocations.iter().zip(&entries) {
            let Some(known) = self.known.get_mut(entry) else { continue };
            let newest = latest.get(&(allocation.namespace.as_str(), allocation.pod.as_str()));
            let is_outdated = newest.is_some_and(|&newest| newest > known.came);
            if first.get(entry) != Some(&allocation.entry) {
                continue;
            }
            if let Some(holder) = known.holder(allocation, is_outdated, lists, pods, now) {
                claims.push(Claim { device: allocation.device.clone(), part: allocation.part, holder });
            }
        }
        self.ended = self.known.iter().flat_map(|(entry, known)| known.ended(entry)).collect();
        claims
    }

    /// Whether the next list that is the same, of the same pods, makes the same claims, however much later.
    pub fn is_settled(&self) -> bool {
        let is_settled = |known: &Known| (known.unknown, known.followed, known.left) == (None, None, None);
        self.told.is_some() && self.known.values().all(is_settled)
    }

    /// Who held what, until when.
    pub fn ended(&self) -> &[Ended] {
        &self.ended
    }
}

impl Known {
    /// First seen in this list.
    fn new(came: u64) -> Self {
        let devices = Vec::new();
        Self { came, uid: None, unknown: None, followed: None, devices, ended_ms: None, left: None }
    }

    /// Who holds what the entry says; `is_outdated` when another one of the same pod's name has come later.
    fn holder(
        &mut self,
        allocation: &Allocation,
        is_outdated: bool,
        lists: u64,
        pods: &Pods,
        now: Instant,
    ) -> Option<Named> {
        let Some(pod) = pods.of_name(&allocation.namespace, &allocation.pod) else {
            return self.unknown(allocation, pods, now);
        };
        self.unknown = None;
        let of_another = self.uid.as_ref().is_some_and(|uid| *uid != pod.uid);
        self.ended_ms = None;
        if of_another && (is_outdated || !pod.started) {
            return None;
        }
        // The next list may have been on its way when the start became known; the one after it was asked for later.
        if of_another && lists < *self.followed.get_or_insert(lists) + 2 {
            return None;
        }
        self.followed = None;
        if self.uid.as_ref() != Some(&pod.uid) {
            self.uid = Some(pod.uid.clone());
        }
        self.ended_ms = pod.ended_ms;
        (!pod.ended).then(|| pod.named(&allocation.container))
    }

    /// Who had what the entry says until the end of its pod.
    fn ended(&self, (namespace, pod, container, _): &Entry) -> impl Iterator<Item = Ended> {
        let end = |(at_ms, device): (i64, &DeviceId)| Ended {
            device: device.clone(),
            owner: Owner {
                namespace: namespace.clone(),
                pod: pod.clone(),
                container: container.clone(),
                ..Owner::default()
            },
            at_ms,
        };
        self.ended_ms.into_iter().flat_map(|at_ms| self.devices.iter().map(move |device| (at_ms, device))).map(end)
    }

    /// Takes that the kubelet does not list the entry; whether the end of its pod, which may be told yet, still matters.
    fn is_still_told(&mut self, (namespace, name, ..): &Entry, pods: &Pods, now: Instant) -> bool {
        let left = *self.left.get_or_insert(now);
        if let Some(pod) = pods.of_name(namespace, name) {
            self.ended_ms = pod.ended_ms.filter(|_| self.uid.as_ref() == Some(&pod.uid));
        }
        self.uid.is_some() && now.saturating_duration_since(left) < TOLD_FOR
    }

    /// The holder when the API server does not know the pod: it is gone, or new; or the server is not there, or does not know
    /// this node, and then the kubelet's word is all that there is.
    fn unknown(&mut self, allocation: &Allocation, pods: &Pods, now: Instant) -> Option<Named> {
        if self.uid.is_some() {
            return None;
        }
        if pods.told && pods.outage.is_none() && !pods.is_empty() {
            let since = *self.unknown.get_or_insert(now);
            if now.saturating_duration_since(since) >= NEW_POD {
                return None;
            }
        }
        let owner = Owner {
            namespace: allocation.namespace.clone(),
            pod: allocation.pod.clone(),
            container: allocation.container.clone(),
            ..Owner::default()
        };
        Some(Named { owner, ..Named::default() })
    }
}

fn entry(allocation: &Allocation) -> Entry {
    let Allocation { namespace, pod, container, ids, .. } = allocation;
    (namespace.clone(), pod.clone(), container.clone(), ids.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::outage::Outage;
    use super::super::pod::Pod;
    use super::*;
    use crate::owners::DeviceId;
    use crate::owners::claim::Part;

    fn given(entry: usize, pod: &str, container: &str, device: u32) -> Allocation {
        Allocation {
            entry,
            namespace: "lab".into(),
            pod: pod.into(),
            container: container.into(),
            device: DeviceId::Node { minor: device, gpu_instance: None },
            part: Part::Even,
            ids: vec![format!("nvidia{device}")],
        }
    }

    fn pod(uid: &str, name: &str) -> Pod {
        let labels = BTreeMap::from([("k8s.label.run".to_owned(), uid.to_owned())]);
        Pod { uid: uid.into(), namespace: "lab".into(), name: name.into(), labels, started: true, ..Pod::default() }
    }

    fn pods(of: &[Pod]) -> Pods {
        let mut pods = Pods::default();
        pods.replace(of.to_vec());
        pods
    }

    /// Each claim as `device pod/container uid`.
    fn claims(join: &mut Join, allocations: &[Allocation], pods: &Pods, now: Instant) -> Vec<String> {
        let told = now + Duration::from_nanos(join.lists + 1);
        let claims = join.claims(allocations, Some(told), pods, now);
        let say = |claim: &Claim| {
            let Named { owner, labels } = &claim.holder;
            let uid = labels.get("k8s.label.run").map_or("-", String::as_str);
            format!("{} {}/{} {uid}", claim.device, owner.pod, owner.container)
        };
        claims.iter().map(say).collect()
    }

    #[test]
    fn two_containers_of_a_pod_are_two_claims() {
        let list = [given(0, "a", "main", 0), given(0, "a", "side", 0), given(0, "a", "main", 1)];
        let found = claims(&mut Join::default(), &list, &pods(&[pod("1", "a")]), Instant::now());
        assert_eq!(found, ["nvidia0 a/main 1", "nvidia0 a/side 1", "nvidia1 a/main 1"]);
    }

    #[test]
    fn a_pod_of_the_same_name_is_another_pod() {
        let (mut join, now) = (Join::default(), Instant::now());
        let old = [given(0, "a", "main", 0)];
        assert_eq!(claims(&mut join, &old, &pods(&[pod("1", "a")]), now), ["nvidia0 a/main 1"]);
        // The next one waits, and the kubelet still lists the one before.
        let waiting = Pod { started: false, ..pod("2", "a") };
        assert!(claims(&mut join, &old, &pods(std::slice::from_ref(&waiting)), now).is_empty());
        // It has a device of its own: the old entry stays without.
        let both = [given(0, "a", "main", 0), given(1, "a", "main", 1)];
        assert_eq!(claims(&mut join, &both, &pods(&[waiting]), now), ["nvidia1 a/main 2"]);
        assert_eq!(claims(&mut join, &both, &pods(&[pod("2", "a")]), now), ["nvidia1 a/main 2"]);
        // The kubelet was first to tell of the new one.
        let mut early = Join::default();
        let over = pods(&[Pod { ended: true, ..pod("1", "a") }]);
        assert!(claims(&mut early, &old, &over, now).is_empty());
        assert!(claims(&mut early, &both, &over, now).is_empty());
        let next = pods(&[pod("2", "a")]);
        for expected in [&[][..], &[], &["nvidia1 a/main 2".to_owned()], &["nvidia1 a/main 2".to_owned()]] {
            assert_eq!(claims(&mut early, &both, &next, now), expected);
        }
        // The API server was first, and the list of before is looked at again: that says nothing new.
        let mut late = Join::default();
        let twice = |join: &mut Join, list: &[Allocation], pods: &Pods| {
            let first = claims(join, list, pods, now);
            let told = join.told;
            assert_eq!(join.claims(list, told, pods, now).len(), first.len());
            first
        };
        assert_eq!(twice(&mut late, &old, &pods(&[pod("1", "a")])).len(), 1);
        assert!(twice(&mut late, &old, &next).is_empty() && twice(&mut late, &old, &next).is_empty());
        assert_eq!(twice(&mut late, &both, &next), ["nvidia1 a/main 2"]);
        // The same device again, and another pod.
        let third = pods(&[pod("3", "a")]);
        for expected in [&[][..], &[], &["nvidia1 a/main 3".to_owned()]] {
            assert_eq!(claims(&mut join, &both[1..], &third, now), expected);
        }
        // Both in the list with the same device: held once.
        let twice = [given(0, "a", "main", 1), given(1, "a", "main", 1)];
        assert_eq!(claims(&mut Join::default(), &twice, &pods(&[pod("4", "a")]), now), ["nvidia1 a/main 4"]);
    }

    #[test]
    fn what_has_ended_holds_nothing() {
        let (mut join, now) = (Join::default(), Instant::now());
        let list = [given(0, "a", "main", 0), given(1, "b", "main", 1)];
        let ended = Pod { ended: true, ..pod("1", "a") };
        assert_eq!(claims(&mut join, &list, &pods(&[ended, pod("2", "b")]), now), ["nvidia1 b/main 2"]);
        assert!(join.ended().is_empty(), "nobody has said when");
        let told = |join: &Join| {
            let say = |end: &Ended| (end.device.to_string(), end.owner.container.clone(), end.at_ms);
            join.ended().iter().map(say).collect::<Vec<_>>()
        };
        // When it ended is told as long as the kubelet lists it, also when the server has forgotten it meanwhile.
        let ended = Pod { ended: true, ended_ms: Some(7), ..pod("1", "a") };
        let ends = |join: &mut Join, pods: &Pods| {
            claims(join, &list, pods, now);
            told(join)
        };
        let expected = [("nvidia0".to_owned(), "main".to_owned(), 7)];
        assert_eq!(ends(&mut join, &pods(&[ended.clone(), pod("2", "b")])), expected);
        let others = pods(&[pod("2", "b")]);
        assert_eq!(ends(&mut join, &others), expected);
        assert_eq!(
            ends(&mut join, &pods(&[Pod { uid: "3".into(), ..ended.clone() }, pod("2", "b")])),
            [],
            "another one"
        );
        assert_eq!(ends(&mut join, &others), []);
        // And a while longer, when the kubelet was first to have done with it.
        let mut join = Join::default();
        assert_eq!(claims(&mut join, &list[..1], &pods(&[pod("1", "a")]), now).len(), 1);
        for (at, told_ms) in [(now, None), (now, Some(7)), (now + TOLD_FOR - Duration::from_millis(1), Some(7))] {
            assert!(claims(&mut join, &[], &pods(&[Pod { ended_ms: told_ms, ..ended.clone() }]), at).is_empty());
            assert_eq!(told(&join), told_ms.map(|_| expected[0].clone()).into_iter().collect::<Vec<_>>());
        }
        claims(&mut join, &[], &pods(std::slice::from_ref(&ended)), now + TOLD_FOR);
        assert!(join.ended().is_empty() && join.known.is_empty());
        // What comes back is new.
        claims(&mut join, &list[..1], &pods(&[pod("1", "a")]), now);
        claims(&mut join, &[], &pods(std::slice::from_ref(&ended)), now);
        let next = Pod { started: false, ..pod("4", "a") };
        assert_eq!(claims(&mut join, &list[..1], &pods(&[next]), now), ["nvidia0 a/main 4"]);
        assert!(join.ended().is_empty());
        // Deleted, too, at once; also when the server is away from then on.
        let mut rest = pods(&[pod("2", "b")]);
        assert_eq!(claims(&mut join, &list, &rest, now), ["nvidia1 b/main 2"]);
        rest.outage = Some(Outage::now("down".into()));
        assert_eq!(claims(&mut join, &list, &rest, now + NEW_POD * 9), ["nvidia1 b/main 2"]);
    }

    #[test]
    fn names_of_several_devices_have_an_end_of_each() {
        let of = |minor| Allocation { ids: vec!["GPU-1-0".into(), "GPU-2-0".into()], ..given(0, "a", "main", minor) };
        let (mut join, now) = (Join::default(), Instant::now());
        assert_eq!(claims(&mut join, &[of(0)], &pods(&[pod("1", "a")]), now), ["nvidia0 a/main 1"]);
        // Then it is told which ones they are.
        let list = [of(2), of(1)];
        let expected = ["nvidia2 a/main 1", "nvidia1 a/main 1"];
        assert_eq!(claims(&mut join, &list, &pods(&[pod("1", "a")]), now), expected);
        let over = pods(&[Pod { ended: true, ended_ms: Some(7), ..pod("1", "a") }]);
        for list in [&list[..], &[]] {
            assert!(claims(&mut join, list, &over, now).is_empty());
            let ended: Vec<_> = join.ended().iter().map(|end| (end.device.to_string(), end.at_ms)).collect();
            assert_eq!(ended, [("nvidia2".to_owned(), 7), ("nvidia1".to_owned(), 7)]);
        }
    }

    #[test]
    fn a_pod_that_is_not_known_is_new_for_a_while() {
        let (mut join, now) = (Join::default(), Instant::now());
        let list = [given(0, "a", "main", 0)];
        let known = pods(&[pod("2", "b")]);
        assert_eq!(claims(&mut join, &list, &known, now), ["nvidia0 a/main -"]);
        assert_eq!(claims(&mut join, &list, &known, now + NEW_POD - Duration::from_millis(1)).len(), 1);
        assert!(claims(&mut join, &list, &known, now + NEW_POD).is_empty());
        assert_eq!(claims(&mut join, &list, &pods(&[pod("1", "a")]), now + NEW_POD), ["nvidia0 a/main 1"]);
    }

    #[test]
    fn without_the_server_the_kubelet_is_believed() {
        let list = [given(0, "a", "main", 0)];
        let mut away = pods(&[pod("2", "b")]);
        away.outage = Some(Outage::now("down".into()));
        for pods in [Pods::default(), pods(&[]), away] {
            let (mut join, now) = (Join::default(), Instant::now());
            for now in [now, now + NEW_POD * 2] {
                assert_eq!(claims(&mut join, &list, &pods, now), ["nvidia0 a/main -"], "{pods:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_claim_is_of_a_living_pod_and_a_listed_device(
            list in proptest::collection::vec((0_usize..4, 0_u8..3, 0_u8..2, 0_u32..3), 0..8),
            states in proptest::collection::vec((0_u8..3, any::<bool>(), any::<bool>(), any::<bool>()), 1..6),
        ) {
            let list: Vec<Allocation> = list
                .into_iter()
                .map(|(entry, pod, container, device)| given(entry, &pod.to_string(), &container.to_string(), device))
                .collect();
            let (mut join, now) = (Join::default(), Instant::now());
            for (step, (name, started, ended, again)) in states.into_iter().enumerate() {
                let uid = if again { "same".to_owned() } else { step.to_string() };
                let pods = pods(&[Pod { started, ended, ..pod(&uid, &name.to_string()) }]);
                for claim in join.claims(&list, None, &pods, now) {
                    let owner = &claim.holder.owner;
                    let named = |given: &Allocation| given.pod == owner.pod && given.container == owner.container;
                    prop_assert!(list.iter().any(|given| given.device == claim.device && named(given)));
                    prop_assert!(pods.of_name("lab", &owner.pod).is_none_or(|pod| !pod.ended));
                }
            }
        }
    }
}
