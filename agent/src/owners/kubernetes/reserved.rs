//! Who shares a GPU that another pod has reserved for them.
//!
//! KAI, and Run:ai before it, have a pod of their own be given a whole GPU, and have the pods that ask for a part of one use that:
//! the kubelet knows nothing of them. Both bear the label `runai-gpu-group` with the same value, or, where a pod has parts of
//! several GPUs, `runai-gpu-group/<value>`; the one that reserves is in a
//! namespace of the scheduler's, and has the annotation `run.ai/reserve_for_gpu_index`.
//! Source: `pkg/binder/binding/resourcereservation` of kai-scheduler/KAI-Scheduler.

use super::pod::Pod;
use super::pods::Pods;
use crate::owners::claim::{Claim, Ended, Part};

/// Where pods reserve: nobody else may, since that would have others pay for what he holds.
const NAMESPACES: [&str; 2] = ["kai-resource-reservation", "runai-reservation"];

/// The annotation of a pod that reserves.
const RESERVES: &str = "k8s.annotation.run.ai/reserve_for_gpu_index";

/// The label that all pods of a GPU bear.
const GROUP: &str = "k8s.label.runai-gpu-group";

/// Has who shares a GPU hold it, and not who has reserved it for them; `ended` is told of those who have held it. As long as
/// nobody shares it, it is held by who has reserved it.
pub fn share(claims: Vec<Claim>, pods: &Pods, ended: &mut Vec<Ended>) -> Vec<Claim> {
    let group = |claim: &Claim| {
        let pod = pods.of_name(&claim.holder.owner.namespace, &claim.holder.owner.pod)?;
        is_reserving(pod).then(|| pod.labels.get(GROUP)).flatten()
    };
    if !claims.iter().any(|claim| group(claim).is_some()) {
        return claims;
    }
    let mut all = Vec::with_capacity(claims.len());
    for claim in claims {
        let sharers = group(&claim).map_or_else(Vec::new, |group| sharers(group, pods));
        let (over, living): (Vec<&Pod>, Vec<&Pod>) = sharers.into_iter().partition(|pod| pod.ended);
        let end =
            |pod: &Pod| Some(Ended { device: claim.device.clone(), owner: pod.named("").owner, at_ms: pod.ended_ms? });
        ended.extend(over.into_iter().filter_map(end));
        let device = &claim.device;
        all.extend(living.iter().map(|pod| Claim { device: device.clone(), part: Part::Even, holder: pod.named("") }));
        if living.is_empty() {
            all.push(claim);
        }
    }
    all
}

fn is_reserving(pod: &Pod) -> bool {
    NAMESPACES.contains(&pod.namespace.as_str()) && pod.labels.contains_key(RESERVES)
}

/// The pods of a group, by rising name, but for those that reserve.
fn sharers<'p>(group: &str, pods: &'p Pods) -> Vec<&'p Pod> {
    let of_several = format!("{GROUP}/{group}");
    let is_of = |pod: &&Pod| {
        let label = |name: &str| pod.labels.get(name).is_some_and(|value| value == group);
        !is_reserving(pod) && (label(GROUP) || label(&of_several))
    };
    let mut found: Vec<&Pod> = pods.all().filter(is_of).collect();
    found.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    found
}

#[cfg(test)]
mod tests {
    use contador_schemas::owner::Owner;

    use super::*;
    use crate::owners::DeviceId;

    fn pod(name: &str, labels: &[(&str, &str)]) -> Pod {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Pod { uid: name.into(), namespace: "lab".into(), name: name.into(), labels, ..Pod::default() }
    }

    /// Who holds which minor number, and who did until when.
    fn shared(pods: Vec<Pod>) -> (Vec<String>, Vec<String>) {
        let claim = |(minor, name): (u32, &str)| {
            let known = pods.iter().find(|pod| pod.name == name).cloned().unwrap_or_else(|| pod(name, &[]));
            Claim {
                device: DeviceId::Node { minor, gpu_instance: None },
                part: Part::Even,
                holder: known.named("main"),
            }
        };
        let claims = [(0, "other"), (1, "reserves"), (2, "again")].map(claim).to_vec();
        let (mut all, mut ended) = (Pods::default(), Vec::new());
        all.replace(pods);
        let held = share(claims, &all, &mut ended);
        let name = |owner: &Owner| format!("{}/{}", owner.pod, owner.container);
        let held = held.iter().map(|claim| format!("{} {}", claim.device, name(&claim.holder.owner)));
        let ended = ended.iter().map(|end| format!("{} {} {}", end.device, name(&end.owner), end.at_ms));
        (held.collect(), ended.collect())
    }

    #[test]
    fn who_shares_a_gpu_holds_it_and_not_who_has_reserved_it() {
        let reserves = || {
            let reserve = |name, group| Pod {
                namespace: NAMESPACES[0].into(),
                ..pod(name, &[(GROUP, group), (RESERVES, "GPU-1")])
            };
            vec![pod("other", &[(GROUP, "g1")]), reserve("reserves", "g1"), reserve("again", "g2")]
        };
        let with = |more: &[Pod]| shared([&reserves()[1..], more].concat());
        let alone = ["nvidia0 other/main", "nvidia1 reserves/main", "nvidia2 again/main"];
        assert_eq!(with(&[]).0, alone);
        assert_eq!(with(&[pod("b", &[(GROUP, "g3")])]).0, alone);
        let several = format!("{GROUP}/g2");
        let pods = [
            pod("b", &[(GROUP, "g1")]),
            pod("a", &[(GROUP, "g1"), (&several, "g2")]),
            Pod { ended: true, ended_ms: Some(7), ..pod("over", &[(GROUP, "g1")]) },
            Pod { ended: true, ..pod("gone", &[(GROUP, "g1")]) },
        ];
        let expected = ["nvidia0 other/main", "nvidia1 a/", "nvidia1 b/", "nvidia2 a/"];
        assert_eq!(with(&pods), (expected.map(str::to_owned).to_vec(), vec!["nvidia1 over/ 7".to_owned()]));
        // A label alone reserves nothing, and neither does somebody who is not allowed to.
        assert_eq!(shared(reserves()).0, ["nvidia0 other/main", "nvidia1 other/", "nvidia2 again/main"]);
        let forged = pod("other", &[(GROUP, "g1"), (RESERVES, "GPU-1")]);
        let expected = ["nvidia0 other/main", "nvidia1 b/", "nvidia1 other/", "nvidia2 again/main"];
        assert_eq!(with(&[forged, pod("b", &[(GROUP, "g1")])]).0, expected, "what he holds is still his");
    }
}
