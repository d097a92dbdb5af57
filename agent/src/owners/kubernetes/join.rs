//! From allocations and pods to claims: who really holds what the kubelet lists.
//!
//! The kubelet names a pod without its UID, and goes on listing one that has ended. So an entry belongs to the pod that had
//! its name when it was first seen. When that pod has ended or is gone, the entry holds nothing, until the next pod of the
//! same name has started and there is no other entry that could be its own.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use contador_schemas::owner::Owner;

use super::allocation::Allocation;
use super::pods::Pods;
use crate::owners::claim::{Claim, Named};

/// For how long a pod that the API server does not know may be a new one.
const NEW_POD: Duration = Duration::from_secs(10);

/// What was given, to whom: namespace, pod, container, and the kubelet's names for it.
type Entry = (String, String, String, Vec<String>);

/// Who the entries of the kubelet's list belong to.
#[derive(Debug, Default)]
pub struct Join {
    /// By entry, the UID of its pod.
    bound: HashMap<Entry, String>,
    /// Since when entries of unknown pods are listed.
    unknown: HashMap<Entry, Instant>,
}

impl Join {
    /// Who holds what, at `now`.
    pub fn claims(&mut self, allocations: &[Allocation], pods: &Pods, now: Instant) -> Vec<Claim> {
        let entries: Vec<Entry> = allocations.iter().map(entry).collect();
        self.bound.retain(|entry, _| entries.contains(entry));
        self.unknown.retain(|entry, _| entries.contains(entry));
        let mut claims: Vec<Claim> = Vec::new();
        for (allocation, entry) in allocations.iter().zip(&entries) {
            // A pod and the one before it, with the same device: that is one claim.
            let first = entries.iter().position(|other| other == entry);
            let is_repeated = first.is_some_and(|first| allocations[first].entry != allocation.entry);
            if is_repeated {
                continue;
            }
            if let Some(holder) = self.holder(allocation, entry, allocations, pods, now) {
                claims.push(Claim { device: allocation.device.clone(), part: allocation.part, holder });
            }
        }
        claims
    }

    fn holder(
        &mut self,
        allocation: &Allocation,
        entry: &Entry,
        all: &[Allocation],
        pods: &Pods,
        now: Instant,
    ) -> Option<Named> {
        let Some(pod) = pods.of_name(&allocation.namespace, &allocation.pod) else {
            return self.unknown(allocation, entry, pods, now);
        };
        self.unknown.remove(entry);
        let of_another = self.bound.get(entry).is_some_and(|uid| *uid != pod.uid);
        let has_its_own = || all.iter().any(|other| other.entry != allocation.entry && is_same_pod(other, allocation));
        if of_another && (!pod.started || has_its_own()) {
            return None;
        }
        self.bound.insert(entry.clone(), pod.uid.clone());
        (!pod.ended).then(|| pod.named(&allocation.container))
    }

    /// The holder when the API server does not know the pod: it is gone, or new; or the server is not there, or does not know
    /// this node, and then the kubelet's word is all that there is.
    fn unknown(&mut self, allocation: &Allocation, entry: &Entry, pods: &Pods, now: Instant) -> Option<Named> {
        if self.bound.contains_key(entry) {
            return None;
        }
        if pods.told && pods.outage.is_none() && !pods.is_empty() {
            let since = self.unknown.entry(entry.clone()).or_insert(now);
            if now.saturating_duration_since(*since) >= NEW_POD {
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

fn is_same_pod(left: &Allocation, right: &Allocation) -> bool {
    left.namespace == right.namespace && left.pod == right.pod
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
        let claims = join.claims(allocations, pods, now);
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
        // The same device again, and another pod.
        assert_eq!(claims(&mut join, &both[1..], &pods(&[pod("3", "a")]), now), ["nvidia1 a/main 3"]);
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
        // Deleted, too, at once; also when the server is away from then on.
        let mut rest = pods(&[pod("2", "b")]);
        assert_eq!(claims(&mut join, &list, &rest, now), ["nvidia1 b/main 2"]);
        rest.outage = Some(Outage::now("down".into()));
        assert_eq!(claims(&mut join, &list, &rest, now + NEW_POD * 9), ["nvidia1 b/main 2"]);
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
                for claim in join.claims(&list, &pods, now) {
                    let owner = &claim.holder.owner;
                    let named = |given: &Allocation| given.pod == owner.pod && given.container == owner.container;
                    prop_assert!(list.iter().any(|given| given.device == claim.device && named(given)));
                    prop_assert!(pods.of_name("lab", &owner.pod).is_none_or(|pod| !pod.ended));
                }
            }
        }
    }
}
