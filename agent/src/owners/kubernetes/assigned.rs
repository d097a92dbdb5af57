//! Which devices a scheduler has assigned to a container, where the kubelet was told others.
//!
//! A scheduler that shares GPUs decides itself which one a pod gets, and how much of it; the kubelet then picks any replicas, and
//! the device plugin gives the pod what the scheduler has written into an annotation. So what the kubelet lists says that there is
//! something, and the annotation what it is.
//!
//! | annotation | says | source |
//! |---|---|---|
//! | `hami.io/vgpu-devices-allocated`, `volcano.sh/vgpu-ids-new` | by container, in the pod's order, in newer versions of HAMi those that set it up first, each ended by `;` (Volcano: `;` between them): its devices, each ended by `:`: UUID, vendor, MiB of memory, percent of the multiprocessors | Project-HAMi/HAMi, `docs/develop/protocol.md` |
//! | `ALIYUN_COM_GPU_MEM_IDX` | the minor number of the GPU of all containers with a limit of `aliyun.com/gpu-mem` | AliyunContainerService/gpushare-device-plugin, `pkg/gpu/nvidia` |

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::allocation::Allocation;
use super::pods::Pods;
use crate::owners::DeviceId;
use crate::owners::claim::Part;

/// HAMi's, and that of Volcano, which took it over.
const BY_CONTAINER: [&str; 2] = ["hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new"];

/// Gpushare's.
const BY_POD: &str = "ALIYUN_COM_GPU_MEM_IDX";

/// What a container of gpushare's asks for.
const GPUSHARE: &str = "aliyun.com/gpu-mem";

/// Most devices of one container.
const MAX_DEVICES: usize = 64;

/// Most characters of an annotation that are shown.
const MAX_SHOWN: usize = 128;

/// One million parts are a device.
const WHOLE_PPM: u128 = 1_000_000;

/// A device that was assigned to a container.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Assigned {
    /// The device.
    pub device: DeviceId,
    /// So many MiB of its memory; 0 where that is not told.
    mib: u64,
    /// So many percent of its multiprocessors; 0 where that is not told.
    percent: u64,
}

/// The containers of a pod, in its order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Containers<'c> {
    /// Those that set it up.
    pub init: &'c [String],
    /// Those that do its work.
    pub main: &'c [String],
}

/// What annotations say that was assigned to these containers, which have these limits.
///
/// # Errors
/// What is there and can't be read.
pub fn assigned(
    annotations: &BTreeMap<String, String>,
    containers: Containers<'_>,
    limits: &BTreeMap<String, BTreeMap<String, String>>,
) -> Result<BTreeMap<String, Vec<Assigned>>, String> {
    let told = |name: &'static str| {
        let text = annotations.get(name)?.trim();
        (!text.is_empty()).then_some((name, text))
    };
    let mut faults = Vec::new();
    for (name, text) in BY_CONTAINER.into_iter().filter_map(told) {
        match listed(text, containers) {
            Some(found) => return Ok(found),
            None => faults.push(unreadable(name, text, "UUID, vendor, MiB and percent of each GPU of each container")),
        }
    }
    if let Some((name, text)) = told(BY_POD) {
        match text.parse() {
            Ok(minor) => return Ok(asking(minor, limits)),
            Err(_) => faults.push(unreadable(name, text, "the minor number of a GPU")),
        }
    }
    if faults.is_empty() { Ok(BTreeMap::new()) } else { Err(faults.join("; ")) }
}

fn unreadable(name: &str, text: &str, expected: &str) -> String {
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    format!("{name} = {shown:?} can't be read, expected {expected}: what the kubelet says counts")
}

/// All containers with a limit of gpushare's were assigned the GPU of this minor number.
fn asking(minor: u32, limits: &BTreeMap<String, BTreeMap<String, String>>) -> BTreeMap<String, Vec<Assigned>> {
    let device = DeviceId::Node { minor, gpu_instance: None };
    let asking = limits.iter().filter(|(_, limits)| limits.contains_key(GPUSHARE));
    asking.map(|(name, _)| (name.clone(), vec![Assigned { device: device.clone(), mib: 0, percent: 0 }])).collect()
}

fn listed(text: &str, containers: Containers<'_>) -> Option<BTreeMap<String, Vec<Assigned>>> {
    let Containers { init, main } = containers;
    // HAMi ends each list with a semicolon; Volcano has them between.
    let (lists, names) = [text.strip_suffix(';'), Some(text)].into_iter().flatten().find_map(|text| {
        let lists: Vec<&str> = text.split(';').collect();
        let of = [&[], init].into_iter().find(|init| lists.len() == init.len() + main.len())?;
        Some((lists, of.iter().chain(main)))
    })?;
    let mut found = BTreeMap::new();
    for (name, list) in names.zip(lists) {
        let devices = list.split(':').filter(|device| !device.is_empty()).take(MAX_DEVICES).map(device);
        let devices: Vec<Assigned> = devices.collect::<Option<_>>()?;
        if !devices.is_empty() {
            found.insert(name.clone(), devices);
        }
    }
    Some(found)
}

fn device(text: &str) -> Option<Assigned> {
    let mut fields = text.split(',');
    let device = DeviceId::parse(fields.next()?)?;
    let _vendor = fields.next()?;
    let (mib, percent) = (fields.next()?.trim().parse().ok()?, fields.next()?.trim().parse().ok()?);
    Some(Assigned { device, mib, percent })
}

impl Assigned {
    /// The part of a device with so much memory, in parts per million, at most all of it; 0 where that is not told.
    pub fn part(&self, memory_bytes: Option<u64>) -> u32 {
        let of_memory = memory_bytes.filter(|bytes| *bytes > 0).map_or(0, |bytes| {
            let asked = (u128::from(self.mib) << 20) * WHOLE_PPM;
            (asked + u128::from(bytes) / 2) / u128::from(bytes)
        });
        let most = of_memory.max(u128::from(self.percent) * WHOLE_PPM / 100).min(WHOLE_PPM);
        u32::try_from(most).unwrap_or(0)
    }
}

/// The allocations, of those devices that were assigned where the kubelet has picked others.
pub fn apply<'a>(allocations: &'a [Allocation], pods: &Pods) -> Cow<'a, [Allocation]> {
    let assigned = |given: &Allocation| {
        if !is_any(given) {
            return None;
        }
        pods.of_name(&given.namespace, &given.pod)?.assigned.get(&given.container)
    };
    if !allocations.iter().any(|given| assigned(given).is_some()) {
        return Cow::Borrowed(allocations);
    }
    let key = |given: &Allocation| (given.entry, given.namespace.clone(), given.pod.clone(), given.container.clone());
    let mut of_container: BTreeMap<_, Vec<&Allocation>> = BTreeMap::new();
    let mut all = Vec::with_capacity(allocations.len());
    for given in allocations {
        match assigned(given) {
            Some(_) => of_container.entry(key(given)).or_default().push(given),
            None => all.push(given.clone()),
        }
    }
    for given in of_container.into_values() {
        let (Some(first), Some(devices)) = (given.first(), given.first().and_then(|first| assigned(first))) else {
            continue;
        };
        let told: Option<u32> =
            given.iter().map(|given| if let Part::Ppm(ppm) = given.part { Some(ppm) } else { None }).sum();
        let told = told.and_then(|ppm| Some(ppm / u32::try_from(devices.len()).ok()?)).filter(|ppm| *ppm > 0);
        let mut ids: Vec<String> = given.iter().flat_map(|given| given.ids.iter().cloned()).collect();
        ids.sort();
        let mut seen: Vec<&DeviceId> = Vec::new();
        for Assigned { device, .. } in devices {
            if !seen.contains(&device) {
                seen.push(device);
                let (device, part) = (device.clone(), told.map_or(Part::Even, Part::Ppm));
                all.push(Allocation { device, part, ids: ids.clone(), ..Allocation::clone(first) });
            }
        }
    }
    Cow::Owned(all)
}

/// Whether these are replicas of a plugin for such schedulers, `GPU-…-0` or `GPU-…-_-0`. Others give what they are asked for,
/// whatever a user writes into an annotation.
fn is_any(given: &Allocation) -> bool {
    let name = given.device.to_string();
    given.ids.iter().all(|id| id.strip_prefix(&name).is_some_and(|suffix| suffix.starts_with('-')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pod::Pod;
    use super::*;

    const A: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";
    const B: &str = "GPU-77777777-d33d-2b2c-524d-9e3d8d2b8a77";

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Each container's devices, with MiB and percent.
    fn found(annotation: (&str, &str), containers: &[&str]) -> Vec<String> {
        told(annotation, &[], containers).unwrap_or_default()
    }

    fn told(annotation: (&str, &str), init: &[&str], main: &[&str]) -> Result<Vec<String>, String> {
        let annotations = [(annotation.0.to_owned(), annotation.1.to_owned())].into();
        let limits = [("main".to_owned(), [(GPUSHARE.to_owned(), "4".to_owned())].into())].into();
        let say = |(name, devices): (String, Vec<Assigned>)| {
            devices.into_iter().map(move |of| format!("{name} {} {} {}", of.device, of.mib, of.percent))
        };
        let (init, main) = (names(init), names(main));
        let found = assigned(&annotations, Containers { init: &init, main: &main }, &limits)?;
        Ok(found.into_iter().flat_map(say).collect())
    }

    #[test]
    fn each_container_has_its_devices() {
        let one = format!("{A},NVIDIA,3000,30:;");
        for key in BY_CONTAINER {
            assert_eq!(found((key, &one), &["main"]), [format!("main {A} 3000 30")]);
        }
        let three = format!(";{A},NVIDIA,3000,0:{B},NVIDIA,81559,100:;{B},NVIDIA,1,1:;");
        let expected = [format!("main {A} 3000 0"), format!("main {B} 81559 100"), format!("side {B} 1 1")];
        assert_eq!(found((BY_CONTAINER[0], &three), &["setup", "main", "side"]), expected);
        let between = three.strip_suffix(';').unwrap();
        assert_eq!(found((BY_CONTAINER[1], between), &["setup", "main", "side"]), expected);
        assert_eq!(
            found((BY_CONTAINER[1], &one), &["main", "side"]),
            [format!("main {A} 3000 30")],
            "none for the other"
        );
        assert_eq!(found((BY_POD, "3"), &["main", "side"]), ["main nvidia3 0 0"]);
        let mig = format!("{A}[0-1],NVIDIA,3000,30:;");
        for text in ["", ";", "-1", "abc", &one[1..], &format!("{A},NVIDIA,x,0:;"), &format!("{A}:;"), &mig] {
            for key in [BY_CONTAINER[0], BY_POD] {
                assert_eq!(found((key, text), &["main"]), Vec::<String>::new(), "{key} {text}");
            }
        }
        assert!(found((BY_CONTAINER[0], &one), &["main", "side", "more"]).is_empty(), "that is of another pod");
    }

    #[test]
    fn containers_that_set_a_pod_up_may_be_in_the_list_too() {
        let (hami, volcano) = (BY_CONTAINER[0], BY_CONTAINER[1]);
        let (a, b) = (format!("{A},NVIDIA,3000,30:"), format!("{B},NVIDIA,1,1:"));
        let (of_a, of_b) = (|name: &str| format!("{name} {A} 3000 30"), |name: &str| format!("{name} {B} 1 1"));
        for (key, text, expected) in [
            (hami, format!(";{a};"), vec![of_a("main")]),
            (hami, format!("{b};{a};"), vec![of_a("main"), of_b("setup")]),
            // As before: those alone that do the work.
            (hami, format!("{a};"), vec![of_a("main")]),
            (volcano, a.clone(), vec![of_a("main")]),
            (volcano, format!("{b};{a}"), vec![of_a("main"), of_b("setup")]),
        ] {
            assert_eq!(told((key, &text), &["setup"], &["main"]), Ok(expected), "{text}");
        }
        assert_eq!(told((volcano, &format!("{a};")), &["setup"], &["main", "side"]), Ok(vec![of_a("main")]));
        assert!(told((hami, &format!("{a};;;")), &["setup"], &["main"]).is_err(), "that is of another pod");
    }

    #[test]
    fn what_can_not_be_read_is_said() {
        let mig = format!("{A}[0-1],NVIDIA,3000,30:;");
        let expected = format!(
            "hami.io/vgpu-devices-allocated = \"{mig}\" can't be read, expected UUID, vendor, MiB and percent of each GPU of each \
             container: what the kubelet says counts"
        );
        assert_eq!(told((BY_CONTAINER[0], &mig), &[], &["main"]), Err(expected));
        let expected = "ALIYUN_COM_GPU_MEM_IDX = \"-1\" can't be read, expected the minor number of a GPU: what the kubelet says counts";
        assert_eq!(told((BY_POD, "-1"), &[], &["main"]), Err(expected.to_owned()));
        let long = told((BY_POD, &"x".repeat(200_000)), &[], &["main"]).unwrap_err();
        assert!(long.len() < 300, "{}", long.len());
        for nothing in ["", " ", ";"] {
            assert_eq!(told((BY_CONTAINER[0], nothing), &[], &["main"]), Ok(vec![]), "{nothing:?}");
        }
        // One that can be read is enough.
        let annotations =
            [(BY_CONTAINER[0], mig), (BY_POD, "3".to_owned())].map(|(name, text)| (name.to_owned(), text));
        assert!(assigned(&annotations.into(), Containers::default(), &BTreeMap::new()).is_ok());
    }

    #[test]
    fn a_part_is_the_greater_one_of_memory_and_multiprocessors() {
        let of = |mib, percent, memory| Assigned { device: DeviceId::parse(A).unwrap(), mib, percent }.part(memory);
        let memory = Some(80 << 30);
        assert_eq!([of(20_480, 10, memory), of(20_480, 30, memory), of(0, 0, memory)], [250_000, 300_000, 0]);
        assert_eq!([of(20_480, 10, None), of(90_000, 0, memory), of(1, 400, memory)], [100_000, 1_000_000, 1_000_000]);
    }

    fn given(pod: &str, device: &str, part: Part, ids: &[&str]) -> Allocation {
        Allocation {
            entry: 0,
            namespace: "lab".into(),
            pod: pod.into(),
            container: "main".into(),
            device: DeviceId::parse(device).unwrap(),
            part,
            ids: names(ids),
        }
    }

    fn pods(of: &[(&str, &[&str])]) -> Pods {
        let mut pods = Pods::default();
        pods.replace(
            of.iter()
                .map(|(name, devices)| {
                    let device = |id: &&str| Assigned { device: DeviceId::parse(id).unwrap(), mib: 0, percent: 0 };
                    let assigned = [("main".to_owned(), devices.iter().map(device).collect())].into();
                    let (uid, name) = ((*name).to_owned(), (*name).to_owned());
                    Pod { uid, namespace: "lab".into(), name, assigned, ..Pod::default() }
                })
                .collect(),
        );
        pods
    }

    fn applied(allocations: &[Allocation], pods: &Pods) -> Vec<(String, String, Part, usize)> {
        let row = |of: &Allocation| (of.pod.clone(), of.device.to_string(), of.part, of.ids.len());
        apply(allocations, pods).iter().map(row).collect()
    }

    #[test]
    fn the_scheduler_says_which_device_the_replicas_are_of() {
        let (one, half) = (Part::Ppm(100_000), Part::Ppm(500_000));
        let row = |pod: &str, device: &str, part, ids| (pod.to_owned(), device.to_owned(), part, ids);
        let replica = given("a", A, one, &[&format!("{A}-0")]);
        let whole = given("b", B, Part::Even, &[B]);
        let both = [replica.clone(), whole];
        let expected = [row("b", B, Part::Even, 1), row("a", B, one, 1)];
        assert_eq!(applied(&both, &pods(&[("a", &[B]), ("b", &[A])])), expected, "what is whole is what it is");
        assert!(matches!(apply(&both, &pods(&[("c", &[B])])), Cow::Borrowed(_)));
        for id in [format!("{A}::0"), A.to_owned(), "nvidia0/vgpu1".to_owned()] {
            let plain = [given("a", A, one, &[&id])];
            assert!(matches!(apply(&plain, &pods(&[("a", &[B])])), Cow::Borrowed(_)), "{id}");
        }
        // The kubelet has picked units of memory of two GPUs: they are of one.
        let units = [
            given("a", A, one, &[&format!("{A}-_-0")]),
            given("a", B, half, &[&format!("{B}-_-3"), &format!("{B}-_-4")]),
        ];
        assert_eq!(applied(&units, &pods(&[("a", &["nvidia1"])])), [row("a", "nvidia1", Part::Ppm(600_000), 3)]);
        let (x, y) = (format!("{A}-0"), format!("{A}-1"));
        let unknown = [given("a", A, Part::Even, &[&x]), given("a", B, half, &[&format!("{B}-0")])];
        assert_eq!(applied(&unknown, &pods(&[("a", &[B])])), [row("a", B, Part::Even, 2)]);
        // Two replicas of one GPU are of two.
        let two = [given("a", A, Part::Ppm(200_000), &[&x, &y])];
        assert_eq!(applied(&two, &pods(&[("a", &[A, B, A])])).len(), 2);
        assert_eq!(applied(&two, &pods(&[("a", &[A, B])])), [row("a", A, one, 2), row("a", B, one, 2)]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(GPU-[0-9a-f-]{36})?[,:;0-9A-Za-z-]{0,60}|\\PC{0,40}", count in 0_usize..4) {
            let containers: Vec<String> = (0..count).map(|place| format!("c{place}")).collect();
            for key in [BY_CONTAINER[0], BY_POD] {
                let annotations = [(key.to_owned(), text.clone())].into();
                let (init, main) = containers.split_at(count / 2);
                let found = assigned(&annotations, Containers { init, main }, &BTreeMap::new());
                prop_assert!(found.is_err() || found.is_ok_and(|found| found.len() <= count));
            }
        }
    }
}
