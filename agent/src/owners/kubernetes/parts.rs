//! How much of a device each claim has: what its pod has asked for, where the kubelet's own word does not say more.
//!
//! - Of a device in replicas, the kubelet says what part a container was given, and the pod may say it too: the greater one
//!   counts. Who has half of the replicas keeps others from half of the device, and so does who asks for half of its memory.
//! - What a scheduler has [assigned](super::assigned) counts likewise.
//! - A device that was given whole, and is no replica, is its container's alone, whatever the pod says: nobody else has the rest.
//!   Where several containers share the claim on it, what they ask for is their weight, and together they have all of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::allocation::Allocation;
use super::pods::Pods;
use super::request::{Asked, Requests};
use crate::owners::claim::{Claim, Part};
use crate::owners::{DeviceId, NodeDevice};

/// One million parts are a device.
const WHOLE_PPM: u64 = 1_000_000;

/// Has each of `claims` have the part that was asked for. What can't be used goes to `unclear`.
pub fn ask(
    claims: &mut [Claim],
    allocations: &[Allocation],
    pods: &Pods,
    requests: &Requests,
    devices: &[NodeDevice],
    unclear: &mut BTreeSet<String>,
) {
    let around = around(claims, devices);
    let whole: BTreeSet<Given<'_>> = allocations.iter().filter(|given| given.is_whole()).map(given).collect();
    let mut parts = Vec::new();
    let mut shared = BTreeMap::<&str, Vec<usize>>::new();
    for (place, (claim, around)) in claims.iter().zip(&around).enumerate() {
        let owner = &claim.holder.owner;
        let Some(pod) = pods.of_name(&owner.namespace, &owner.pod) else { continue };
        unclear.extend(pod.unclear.iter().map(|reason| format!("pod {}/{}: {reason}", owner.namespace, owner.pod)));
        let asked: Vec<Asked<'_>> = requests.of(pod, &owner.container).collect();
        let assigned = pod.assigned.get(&owner.container);
        // A device that the node does not know is nobody's yet.
        let is_asked = |_: &&NodeDevice| !asked.is_empty() || assigned.is_some();
        let Some(device) = around.device.filter(is_asked) else { continue };
        let assigned = assigned.into_iter().flatten().filter(|assigned| assigned.device == claim.device);
        let mut most = assigned.map(|assigned| assigned.part(device.memory_bytes)).max();
        for asked in asked {
            match asked.part(around.devices, device.memory_bytes) {
                Ok(Some(ppm)) if asked.is_of_pod => most = most.max(Some(around.share(ppm))),
                Ok(Some(ppm)) => most = most.max(Some(ppm)),
                Ok(None) => {
                    let reason = format!("{asked} is a part of its memory, and that of {} is not known", device.uuid);
                    unclear.insert(format!("pod {}/{}: {reason}", owner.namespace, owner.pod));
                }
                Err(reason) => _ = unclear.insert(format!("pod {}/{}: {reason}", owner.namespace, owner.pod)),
            }
        }
        let Some(ppm) = most.filter(|ppm| *ppm > 0) else { continue };
        let is_whole = whole.contains(&(&owner.namespace, &owner.pod, &owner.container, &claim.device));
        if around.holders > 1 || !is_whole {
            let told = if let Part::Ppm(told) = claim.part { told } else { 0 };
            parts.push((place, Part::Ppm(ppm.max(told))));
        }
        if is_whole && around.holders > 1 {
            shared.entry(&device.uuid).or_default();
        }
    }
    for (place, device) in around.iter().enumerate().filter_map(|(place, around)| Some((place, around.device?))) {
        if let Some(places) = shared.get_mut(device.uuid.as_str()) {
            places.push(place);
        }
    }
    for (place, part) in parts {
        claims[place].part = part;
    }
    for places in shared.values() {
        fill(claims, places);
    }
}

/// Has those who were given a whole device together have all of it, each by the weight of what he asks for. Who has an even part
/// has what the others leave, anyway.
fn fill(claims: &mut [Claim], places: &[usize]) {
    let ppm = |place: &usize| if let Part::Ppm(ppm) = claims[*place].part { Some(u64::from(ppm)) } else { None };
    let Some(asked) = places.iter().map(ppm).collect::<Option<Vec<u64>>>() else { return };
    let sum: u64 = asked.iter().sum();
    if sum >= WHOLE_PPM || sum == 0 {
        return;
    }
    let mut before = 0;
    for (place, asked) in places.iter().zip(asked) {
        let edge = |asked: u64| asked * WHOLE_PPM / sum;
        let part = edge(before + asked) - edge(before);
        before += asked;
        claims[*place].part = u32::try_from(part).map_or(Part::Even, Part::Ppm);
    }
}

/// Namespace, pod, container and device.
type Given<'g> = (&'g String, &'g String, &'g String, &'g DeviceId);

fn given(allocation: &Allocation) -> Given<'_> {
    let Allocation { namespace, pod, container, device, .. } = allocation;
    (namespace, pod, container, device)
}

/// What else is held, as seen from one claim.
struct Around<'d> {
    /// The claim's device, where the node knows it.
    device: Option<&'d NodeDevice>,
    /// Devices that the claim's container holds.
    devices: usize,
    /// Containers that hold the device.
    holders: usize,
    /// Of them, those of the claim's pod; and which of these it is.
    of_pod: (usize, usize),
}

/// What is around each of `claims`.
fn around<'d>(claims: &[Claim], devices: &'d [NodeDevice]) -> Vec<Around<'d>> {
    let mut of_container = HashMap::<_, usize>::new();
    let mut of_device = HashMap::<_, usize>::new();
    let mut of_pod = HashMap::<_, usize>::new();
    let counted = claims.iter().map(|claim| {
        let owner = &claim.holder.owner;
        let device = claim.device.on(devices);
        let uuid = device.map(|device| &device.uuid);
        let pod = (&owner.namespace, &owner.pod);
        let [container, of_device, of_pod] = [
            of_container.entry((pod, &owner.container)).or_default(),
            of_device.entry(uuid).or_default(),
            of_pod.entry((uuid, pod)).or_default(),
        ];
        *container += 1;
        *of_device += 1;
        *of_pod += 1;
        (device, (pod, &owner.container), *of_pod - 1)
    });
    let counted: Vec<_> = counted.collect();
    let around = |(device, container, place): (Option<&'d NodeDevice>, _, usize)| {
        let uuid = device.map(|device| &device.uuid);
        let (pod, _) = container;
        Around {
            device,
            devices: of_container[&container],
            holders: of_device[&uuid],
            of_pod: (of_pod[&(uuid, pod)], place),
        }
    };
    counted.into_iter().map(around).collect()
}

impl Around<'_> {
    /// Of what the pod has asked for, this container's share. Those of all its containers sum to it.
    fn share(&self, ppm: u32) -> u32 {
        let (count, place) = self.of_pod;
        let edge = |place: usize| u64::from(ppm) * place as u64 / count.max(1) as u64;
        u32::try_from(edge(place + 1) - edge(place)).unwrap_or(ppm)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::assigned::{Containers, assigned};
    use super::super::pod::{ANNOTATION, Pod};
    use super::*;
    use crate::owners::DeviceId;

    const MEMORY: u64 = 80 << 30;

    fn devices() -> Vec<NodeDevice> {
        let gpu = |minor| NodeDevice {
            uuid: format!("GPU-{minor}"),
            minor: Some(minor),
            memory_bytes: Some(MEMORY),
            ..NodeDevice::default()
        };
        vec![gpu(0), gpu(1), NodeDevice { memory_bytes: None, ..gpu(2) }]
    }

    /// `pod/container minor suffix part`, where the suffix is that of a replica, or nothing.
    fn given(text: &str) -> (Allocation, Claim) {
        let [named, minor, suffix, part] = text.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let (pod, container) = named.split_once('/').unwrap();
        let device = DeviceId::Node { minor: minor.parse().unwrap(), gpu_instance: None };
        let part = part.parse().map_or(Part::Even, Part::Ppm);
        let allocation = Allocation {
            entry: 0,
            namespace: "lab".into(),
            pod: pod.into(),
            container: container.into(),
            device: device.clone(),
            part,
            ids: vec![format!("nvidia{minor}{suffix}")],
        };
        let holder = Pod { namespace: "lab".into(), name: pod.into(), ..Pod::default() }.named(container);
        (allocation, Claim { device, part, holder })
    }

    fn pod(name: &str, limits: &[(&str, &str, &str)], annotations: &[(&str, &str)]) -> Pod {
        let mut pod = Pod { uid: name.into(), namespace: "lab".into(), name: name.into(), ..Pod::default() };
        for (container, word, text) in limits {
            let limits = pod.limits.entry((*container).to_owned()).or_default();
            limits.insert((*word).to_owned(), (*text).to_owned());
        }
        let annotations = annotations.iter().map(|(word, text)| (format!("{ANNOTATION}{word}"), (*text).to_owned()));
        pod.labels.extend(annotations);
        pod
    }

    /// The part of each claim in parts per million, 0 for an even one; and what is unclear.
    fn parts(given_as: &[&str], of: &[Pod]) -> (Vec<u32>, Vec<String>) {
        let (allocations, mut claims): (Vec<_>, Vec<_>) = given_as.iter().map(|text| given(text)).unzip();
        let (mut pods, mut unclear) = (Pods::default(), BTreeSet::new());
        pods.replace(of.to_vec());
        ask(&mut claims, &allocations, &pods, &Requests::new(&[]), &devices(), &mut unclear);
        let ppm = |claim: &Claim| if let Part::Ppm(ppm) = claim.part { ppm } else { 0 };
        (claims.iter().map(ppm).collect(), unclear.into_iter().collect())
    }

    const MILLI: &str = "alibabacloud.com/gpu-milli";

    #[test]
    fn what_was_asked_for_counts_where_the_kubelet_says_less() {
        let pods = [pod("a", &[], &[(MILLI, "300")]), pod("b", &[("main", MILLI, "500")], &[])];
        for (given, expected) in [
            // Nothing is known of the replicas; a tenth each; half each, of which one has asked for less.
            (["a/main 0 /vgpu0 -", "b/main 0 /vgpu1 -"], [300_000, 500_000]),
            (["a/main 0 /vgpu0 100000", "b/main 0 /vgpu1 100000"], [300_000, 500_000]),
            (["a/main 0 /vgpu0 500000", "b/main 0 /vgpu1 500000"], [500_000, 500_000]),
            // On a device of its own.
            (["a/main 0 /vgpu0 -", "b/main 1 /vgpu1 -"], [300_000, 500_000]),
            // A name that was claimed by both is nobody's alone, and nobody else's: 3 to 5.
            (["a/main 0  -", "b/main 0  -"], [375_000, 625_000]),
            // What one leaves is the other's.
            (["a/main 0  -", "c/main 0  -"], [300_000, 0]),
        ] {
            assert_eq!(parts(&given, &pods), (expected.to_vec(), vec![]), "{given:?}");
        }
        // It was given to one alone.
        assert_eq!(parts(&["a/main 0  -", "b/main 1  -"], &pods), (vec![0, 0], vec![]));
        // Nothing is known of the pod, or it asks for nothing.
        assert_eq!(parts(&["c/main 0 /vgpu0 -", "b/side 0 /vgpu1 7"], &pods), (vec![0, 7], vec![]));
    }

    #[test]
    fn what_a_pod_asks_for_is_shared_by_its_containers_and_what_a_container_does_is_its_own() {
        let third = pod("a", &[], &[("gpu-fraction", "0.100001")]);
        let given = ["a/main 0 /vgpu0 -", "a/side 0 /vgpu1 -", "a/main 1 /vgpu0 -"];
        assert_eq!(parts(&given, std::slice::from_ref(&third)).0, [50_000, 50_001, 100_001]);
        let own = pod("a", &[("main", "tencent.com/vcuda-core", "150"), ("side", MILLI, "200")], &[]);
        assert_eq!(parts(&given, &[own]).0, [750_000, 200_000, 750_000], "of two devices together");
    }

    #[test]
    fn a_whole_device_that_containers_share_is_all_theirs() {
        let little = pod("a", &[], &[("gpu-fraction", "0.001")]);
        let (found, _) = parts(&["a/main 0  -", "a/side 0  -"], std::slice::from_ref(&little));
        assert_eq!(found, [500_000, 500_000]);
        let both = [little, pod("b", &[("main", "nvidia.com/gpucores", "20")], &[])];
        let given = ["a/main 0  -", "b/main 1  -", "b/main 0  -", "b/side 1  -", "a/main 2 /vgpu0 -"];
        // 1/1000 and 200/1000 of one; of the other, what is left; a replica may leave some.
        assert_eq!(parts(&given, &both).0, [4_975, 200_000, 995_025, 0, 1_000]);
    }

    #[test]
    fn what_was_assigned_counts_like_what_was_asked_for() {
        let text =
            [("hami.io/vgpu-devices-allocated".to_owned(), "nvidia0,NVIDIA,20480,10:nvidia1,NVIDIA,0,0:;".to_owned())];
        let main = ["main".to_owned()];
        let assigned = assigned(&text.into(), Containers { init: &[], main: &main }, &Default::default()).unwrap();
        let pod = Pod { assigned, ..pod("a", &[("main", "nvidia.com/gpucores", "10")], &[]) };
        let given = ["a/main 0 /vgpu0 -", "a/main 1 /vgpu0 200000", "a/main 2 /vgpu0 -"];
        assert_eq!(parts(&given, &[pod]), (vec![250_000, 200_000, 100_000], vec![]));
    }

    #[test]
    fn what_can_not_be_used_is_said_once_and_left_out() {
        let wrong =
            pod("a", &[("main", MILLI, "abc"), ("main", "nvidia.com/gpucores", "20")], &[("gpu-fraction", "2")]);
        let (found, unclear) = parts(&["a/main 0 /vgpu0 -", "a/main 1 /vgpu0 -"], &[wrong]);
        assert_eq!(found, [200_000, 200_000]);
        let expected = [
            "pod lab/a: alibabacloud.com/gpu-milli = \"abc\" is no part of a GPU, expected more than 0 and at most 1000",
            "pod lab/a: gpu-fraction = \"2\" is no part of a GPU, expected more than 0 and at most 1",
        ];
        assert_eq!(unclear, expected);
        let assigned = Pod { unclear: Some("x can't be read".into()), ..pod("a", &[], &[]) };
        let (found, unclear) = parts(&["a/main 0 /vgpu0 -", "a/main 1 /vgpu0 -"], &[assigned]);
        assert_eq!((found, unclear), (vec![0, 0], vec!["pod lab/a: x can't be read".to_owned()]));
        let memory = pod("a", &[("main", "nvidia.com/gpumem", "8k")], &[]);
        let (found, unclear) = parts(&["a/main 2 /vgpu0 -"], &[memory]);
        let expected = "pod lab/a: nvidia.com/gpumem = \"8k\" is a part of its memory, and that of GPU-2 is not known";
        assert_eq!((found, unclear), (vec![0], vec![expected.to_owned()]));
    }

    proptest! {
        #[test]
        fn containers_share_exactly_what_their_pod_asks_for(ppm in 1_u32..=1_000_000, count in 1_usize..20) {
            let share = |place| Around { device: None, devices: 1, holders: count, of_pod: (count, place) }.share(ppm);
            prop_assert_eq!((0..count).map(share).sum::<u32>(), ppm);
        }

        #[test]
        fn who_shares_a_whole_device_leaves_nothing_of_it(milli in proptest::collection::vec(1_u32..=1_000, 2..9)) {
            let texts: Vec<String> = milli.iter().map(u32::to_string).collect();
            let names: Vec<String> = (0..milli.len()).map(|place| format!("p{place}")).collect();
            let pods: Vec<Pod> = names.iter().zip(&texts).map(|(name, text)| pod(name, &[], &[(MILLI, text)])).collect();
            let given: Vec<String> = names.iter().map(|name| format!("{name}/main 0  -")).collect();
            let given: Vec<&str> = given.iter().map(String::as_str).collect();
            let (found, _) = parts(&given, &pods);
            let asked: u32 = milli.iter().sum::<u32>() * 1_000;
            prop_assert_eq!(found.iter().sum::<u32>(), asked.max(1_000_000));
            for (part, milli) in found.iter().zip(&milli) {
                let weight = f64::from(*milli) * 1_000.0 * 1_000_000.0_f64.max(f64::from(asked)) / f64::from(asked);
                prop_assert!((f64::from(*part) - weight).abs() <= 1.0, "{} is not {}", part, weight);
            }
        }
    }
}
