//! Who shares a GPU that another pod has reserved for them.
//!
//! KAI, and Run:ai before it, have a pod of their own be given a whole GPU, and have the pods that ask for a part of one use that:
//! the kubelet knows nothing of them. Both bear the label `runai-gpu-group` with the same value, or, where a pod has parts of
//! several GPUs, `runai-gpu-group/<value>`; the one that reserves is in a
//! namespace of the scheduler's, and has the annotation `run.ai/reserve_for_gpu_index`.
//! Source: `pkg/binder/binding/resourcereservation` of kai-scheduler/KAI-Scheduler.

use std::collections::HashMap;
use std::time::Instant;

use super::join::TOLD_FOR;
use super::pod::Pod;
use super::pods::Pods;
use crate::owners::DeviceId;
use crate::owners::claim::{Claim, Ended, Part};

/// Where pods reserve: nobody else may, since that would have others pay for what he holds.
const NAMESPACES: [&str; 2] = ["kai-resource-reservation", "runai-reservation"];

/// The annotation of a pod that reserves.
const RESERVES: &str = "k8s.annotation.run.ai/reserve_for_gpu_index";

/// The label that all pods of a GPU bear.
const GROUP: &str = "k8s.label.runai-gpu-group";

/// Who shares GPUs that were reserved for them, and who has ceased to.
#[derive(Debug, Default)]
pub struct Sharers {
    /// What pods share of which no end is known yet, by UID.
    living: HashMap<String, Vec<DeviceId>>,
    /// Until when they did, and since when that is known.
    ended: Vec<(Instant, Ended)>,
}

impl Sharers {
    /// Has who shares a GPU hold it at `now`, and not who has reserved it for them. As long as nobody shares it, it is held by who
    /// has reserved it.
    pub fn share(&mut self, claims: Vec<Claim>, pods: &Pods, now: Instant) -> Vec<Claim> {
        self.end(pods, now);
        let group = |claim: &Claim| {
            let pod = pods.of_name(&claim.holder.owner.namespace, &claim.holder.owner.pod)?;
            is_reserving(pod).then(|| pod.labels.get(GROUP)).flatten()
        };
        if !claims.iter().any(|claim| group(claim).is_some()) {
            return claims;
        }
        let groups = groups(pods);
        let mut all = Vec::with_capacity(claims.len());
        for claim in claims {
            let sharers = group(&claim).and_then(|group| groups.get(group.as_str()));
            let Some(sharers) = sharers else {
                all.push(claim);
                continue;
            };
            for pod in sharers {
                let device = claim.device.clone();
                let devices = self.living.entry(pod.uid.clone()).or_default();
                if !devices.contains(&device) {
                    devices.push(device.clone());
                }
                all.push(Claim { device, part: Part::Even, holder: pod.named("") });
            }
        }
        all
    }

    /// Who has shared what, of those whose end was told, for as long as a round may not have heard of it. Pods that had ended
    /// before they were known have shared nothing.
    pub fn ended(&self) -> impl Iterator<Item = &Ended> {
        self.ended.iter().map(|(_, ended)| ended)
    }

    /// Whether the same makes the same, however much later.
    pub fn is_settled(&self) -> bool {
        self.ended.is_empty()
    }

    /// Takes in which of them have ended, or are gone.
    fn end(&mut self, pods: &Pods, now: Instant) {
        self.ended.retain(|(since, _)| now.saturating_duration_since(*since) < TOLD_FOR);
        if self.living.is_empty() {
            return;
        }
        let ended = &mut self.ended;
        let mut still = HashMap::new();
        for pod in pods.all() {
            let Some(devices) = self.living.remove(&pod.uid) else { continue };
            match pod.ended_ms.filter(|_| pod.ended) {
                Some(at_ms) => ended.extend(
                    devices.into_iter().map(|device| (now, Ended { device, owner: pod.named("").owner, at_ms })),
                ),
                // When, may be told later. What it shares is looked at anew.
                None if pod.ended => _ = still.insert(pod.uid.clone(), devices),
                None => {}
            }
        }
        self.living = still;
    }
}

fn is_reserving(pod: &Pod) -> bool {
    NAMESPACES.contains(&pod.namespace.as_str()) && pod.labels.contains_key(RESERVES)
}

/// The living pods of each group, by rising name, but for those that reserve.
fn groups(pods: &Pods) -> HashMap<&str, Vec<&Pod>> {
    let mut groups = HashMap::<&str, Vec<&Pod>>::new();
    for pod in pods.all().filter(|pod| !pod.ended && !is_reserving(pod)) {
        let is_of = |(name, value): &(&String, &String)| match name.strip_prefix(GROUP) {
            Some("") => true,
            Some(rest) => rest.strip_prefix('/') == Some(value.as_str()),
            None => false,
        };
        let mut of: Vec<&str> = pod.labels.iter().filter(is_of).map(|(_, value)| value.as_str()).collect();
        of.sort_unstable();
        of.dedup();
        of.into_iter().for_each(|group| groups.entry(group).or_default().push(pod));
    }
    for sharers in groups.values_mut() {
        sharers.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contador_schemas::owner::Owner;

    use super::*;
    use crate::owners::DeviceId;

    fn pod(name: &str, labels: &[(&str, &str)]) -> Pod {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Pod { uid: name.into(), namespace: "lab".into(), name: name.into(), labels, ..Pod::default() }
    }

    /// Who holds which minor number, and who did until when.
    fn shared(sharers: &mut Sharers, pods: Vec<Pod>, now: Instant) -> (Vec<String>, Vec<String>) {
        let claim = |(minor, name): (u32, &str)| {
            let known = pods.iter().find(|pod| pod.name == name).cloned().unwrap_or_else(|| pod(name, &[]));
            Claim {
                device: DeviceId::Node { minor, gpu_instance: None },
                part: Part::Even,
                holder: known.named("main"),
            }
        };
        let claims = [(0, "other"), (1, "reserves"), (2, "again")].map(claim).to_vec();
        let mut all = Pods::default();
        all.replace(pods);
        let held = sharers.share(claims, &all, now);
        let name = |owner: &Owner| format!("{}/{}", owner.pod, owner.container);
        let held = held.iter().map(|claim| format!("{} {}", claim.device, name(&claim.holder.owner)));
        let ended = sharers.ended().map(|end| format!("{} {} {}", end.device, name(&end.owner), end.at_ms));
        (held.collect(), ended.collect())
    }

    fn reserving(name: &str, group: &str) -> Pod {
        Pod { namespace: NAMESPACES[0].into(), ..pod(name, &[(GROUP, group), (RESERVES, "GPU-1")]) }
    }

    #[test]
    fn who_shares_a_gpu_holds_it_and_not_who_has_reserved_it() {
        let held = |pods: Vec<Pod>| shared(&mut Sharers::default(), pods, Instant::now()).0;
        let with = |more: &[Pod]| held([&[reserving("reserves", "g1"), reserving("again", "g2")], more].concat());
        let alone = ["nvidia0 other/main", "nvidia1 reserves/main", "nvidia2 again/main"];
        assert_eq!(with(&[]), alone);
        assert_eq!(with(&[pod("b", &[(GROUP, "g3")])]), alone);
        let several = format!("{GROUP}/g2");
        let pods = [
            pod("b", &[(GROUP, "g1")]),
            pod(
                "a",
                &[(GROUP, "g1"), (&several, "g2"), (&format!("{GROUP}/g1"), "g1"), (&format!("{GROUP}/g4"), "g2")],
            ),
            Pod { ended: true, ..pod("gone", &[(GROUP, "g1")]) },
        ];
        assert_eq!(with(&pods), ["nvidia0 other/main", "nvidia1 a/", "nvidia1 b/", "nvidia2 a/"]);
        // A label alone reserves nothing, and neither does somebody who is not allowed to.
        let other = pod("other", &[(GROUP, "g1")]);
        let expected = ["nvidia0 other/main", "nvidia1 other/", "nvidia2 again/main"];
        assert_eq!(with(&[other]), expected);
        let forged = pod("other", &[(GROUP, "g1"), (RESERVES, "GPU-1")]);
        let expected = ["nvidia0 other/main", "nvidia1 b/", "nvidia1 other/", "nvidia2 again/main"];
        assert_eq!(with(&[forged, pod("b", &[(GROUP, "g1")])]), expected, "what he holds is still his");
    }

    #[test]
    fn the_end_of_who_shared_a_gpu_is_told_for_a_while() {
        let (mut sharers, now, moment) = (Sharers::default(), Instant::now(), Duration::from_millis(1));
        let of = |name: &str| pod(name, &[(GROUP, "g1"), (&format!("{GROUP}/g2"), "g2")]);
        let over = |name: &str, ended_ms| Pod { ended: true, ended_ms, ..of(name) };
        // Those that ended long ago are still there as long as nobody deletes them.
        let long_ago: Vec<Pod> = (0..500).map(|place| over(&format!("job-{place}"), Some(place))).collect();
        let reserved = [reserving("reserves", "g1"), reserving("again", "g2")];
        let mut with = |more: &[Pod], now: Instant| {
            let ended = shared(&mut sharers, [&reserved, more, &long_ago].concat(), now).1;
            (ended, sharers.is_settled())
        };
        let none = (Vec::<String>::new(), true);
        assert_eq!(with(&[of("a"), of("b")], now), none);
        assert_eq!(with(&[over("a", None), of("b")], now + TOLD_FOR), none, "nobody has said when");
        let ends = |name: &str, at: i64| [format!("nvidia1 {name}/ {at}"), format!("nvidia2 {name}/ {at}")].to_vec();
        assert_eq!(with(&[over("a", Some(7)), of("b")], now + TOLD_FOR), (ends("a", 7), false));
        // Also when it was deleted meanwhile; and each only once.
        assert_eq!(
            with(&[over("b", Some(8))], now + TOLD_FOR + moment),
            ([ends("a", 7), ends("b", 8)].concat(), false)
        );
        assert_eq!(with(&[over("a", Some(7))], now + TOLD_FOR * 2), (ends("b", 8), false));
        assert_eq!(with(&[over("a", Some(7)), over("b", Some(8))], now + TOLD_FOR * 2 + moment), none);
        // One that was deleted without an end has none, and neither has its name.
        assert_eq!(with(&[of("c")], now + TOLD_FOR * 3), none);
        assert_eq!(with(&[], now + TOLD_FOR * 3), none);
        assert_eq!(with(&[over("c", Some(9))], now + TOLD_FOR * 3), none);
    }
}
