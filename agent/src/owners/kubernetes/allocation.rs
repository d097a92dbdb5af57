//! From the kubelet's answer to devices: which container was given which part of which.

use std::collections::{BTreeMap, BTreeSet};

use super::messages::{AllocatableResourcesResponse, ClaimResource, ContainerResources, ListPodResourcesResponse};
use crate::owners::DeviceId;
use crate::owners::claim::Part;

/// Resources of NVIDIA's device plugins: `nvidia.com/gpu`, `nvidia.com/gpu.shared`, `nvidia.com/mig-1g.10gb` and so on.
const NVIDIA: &str = "nvidia.com/*";

/// NVIDIA's driver for dynamic resource allocation.
const DRA_DRIVER: &str = "gpu.nvidia.com";

/// What names of its devices begin with.
const CLAIMED: &str = "gpu-";

/// Most device ids of one answer that are read.
const MAX_IDS: usize = 16_384;

/// Longest name of a pod, namespace or container, in bytes (RFC 1123, as Kubernetes has it).
const MAX_NAME_BYTES: usize = 253;

/// One million parts are a device.
const WHOLE_PPM: u64 = 1_000_000;

/// Names of resources that are GPUs.
#[derive(Clone, Debug)]
pub struct Resources(Vec<String>);

impl Resources {
    /// Those of NVIDIA's device plugins, and `more`: whole names, or beginnings that end with `*`.
    pub fn new(more: &[String]) -> Self {
        Self(std::iter::once(NVIDIA.to_owned()).chain(more.iter().cloned()).collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == wanted,
        })
    }
}

/// A container was given a device, or replicas of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Allocation {
    /// Which entry of the kubelet's list says it. Two entries may have the same name: a pod, and the one before it.
    pub entry: usize,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container's name.
    pub container: String,
    /// The device.
    pub device: DeviceId,
    /// How much of it.
    pub part: Part,
    /// The names by which the kubelet knows what was given, sorted.
    pub ids: Vec<String>,
}

impl Allocation {
    /// Whether it is the device, and no replica of it: nobody else is given it meanwhile, unless he shares the claim.
    pub fn is_whole(&self) -> bool {
        let name = self.device.to_string();
        let is_it = |id: &String| id.eq_ignore_ascii_case(&name) || name.strip_prefix("GPU-") == Some(id);
        self.ids.iter().any(|id| is_it(id) || id.starts_with(CLAIMED))
    }
}

/// Into which replicas each device is cut, as `GetAllocatableResources` told it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Replicas(BTreeMap<DeviceId, BTreeSet<String>>);

impl Replicas {
    /// Takes up an answer. Devices that it lacks are kept as they were, since the kubelet lists only healthy ones.
    pub fn learn(&mut self, answer: &AllocatableResourcesResponse, resources: &Resources) {
        let mut told = BTreeMap::<DeviceId, BTreeSet<String>>::new();
        let devices = answer.devices.iter().filter(|devices| resources.has(&devices.resource_name));
        for id in devices.flat_map(|devices| &devices.device_ids).take(MAX_IDS) {
            if let Some(device) = DeviceId::parse(id) {
                told.entry(device).or_default().insert(id.clone());
            }
        }
        if self.0.len() + told.len() > MAX_IDS {
            self.0.clear();
        }
        self.0.extend(told);
    }

    /// Whether all of these are known replicas of the device.
    fn know(&self, device: &DeviceId, ids: &[String]) -> bool {
        self.0.get(device).is_some_and(|all| ids.iter().all(|id| all.contains(id)))
    }

    /// The part that these replicas, which are sorted, are, when the device is cut into several. The parts of all of a device's replicas sum to
    /// the device exactly: the place of each in the order of names decides who gets the millionths that are left over.
    fn part(&self, device: &DeviceId, ids: &[String]) -> Part {
        let Some(all) = self.0.get(device).filter(|all| all.len() > 1) else { return Part::Even };
        let count = all.len() as u64;
        let edge = |place: usize| place as u64 * WHOLE_PPM / count;
        let mine = all.iter().enumerate().filter(|(_, id)| ids.binary_search(id).is_ok());
        let ppm: u64 = mine.map(|(place, _)| edge(place + 1) - edge(place)).sum();
        u32::try_from(ppm).ok().filter(|&ppm| ppm > 0).map_or(Part::Even, Part::Ppm)
    }
}

/// What the kubelet's list says of GPUs. Names that are no GPU's are left out.
///
/// A part is [`Part::Ppm`] where the device is cut into replicas and all that were given of it are known; else it is
/// [`Part::Even`], for every holder of that device.
///
/// # Errors
/// Too many devices for one node.
pub fn allocations(
    list: &ListPodResourcesResponse,
    replicas: &Replicas,
    resources: &Resources,
) -> Result<Vec<Allocation>, String> {
    let mut found: Vec<Allocation> = Vec::new();
    let mut ids = 0;
    for (entry, pod) in list.pod_resources.iter().enumerate() {
        for container in &pod.containers {
            let names = [&pod.namespace, &pod.name, &container.name];
            if names.iter().any(|name| name.is_empty() || name.len() > MAX_NAME_BYTES) {
                continue;
            }
            let mut places = BTreeMap::<DeviceId, usize>::new();
            for (device, id) in given(container, resources) {
                ids += 1;
                if ids > MAX_IDS {
                    return Err(format!("the list has more than {MAX_IDS} devices, expected those of one node"));
                }
                if let Some(known) = places.get(&device).and_then(|&place| found.get_mut(place)) {
                    known.ids.push(id);
                    continue;
                }
                places.insert(device.clone(), found.len());
                found.push(Allocation {
                    entry,
                    namespace: pod.namespace.clone(),
                    pod: pod.name.clone(),
                    container: container.name.clone(),
                    device,
                    part: Part::Even,
                    ids: vec![id],
                });
            }
        }
    }
    for allocation in &mut found {
        allocation.ids.sort();
        allocation.ids.dedup();
    }
    let unknown = found.iter().filter(|given| !replicas.know(&given.device, &given.ids));
    let uneven: BTreeSet<DeviceId> = unknown.map(|given| given.device.clone()).collect();
    for allocation in found.iter_mut().filter(|allocation| !uneven.contains(&allocation.device)) {
        allocation.part = replicas.part(&allocation.device, &allocation.ids);
    }
    Ok(found)
}

/// Whether some device was given of which not all replicas are known.
pub fn wants_replicas(allocations: &[Allocation], replicas: &Replicas) -> bool {
    allocations.iter().any(|allocation| !replicas.know(&allocation.device, &allocation.ids))
}

/// The GPUs that a container was given, with the kubelet's name for each.
fn given<'c>(
    container: &'c ContainerResources,
    resources: &'c Resources,
) -> impl Iterator<Item = (DeviceId, String)> + 'c {
    let plugins = container.devices.iter().filter(|devices| resources.has(&devices.resource_name));
    let ids = plugins.flat_map(|devices| &devices.device_ids);
    let claims = container.dynamic_resources.iter().flat_map(|claim| &claim.claim_resources);
    let named = ids.filter_map(|id| Some((DeviceId::parse(id)?, id.clone())));
    named.chain(claims.filter_map(|claim| Some((claimed(claim)?, claim.device_name.clone()))))
}

/// The device of a resource claim of NVIDIA's driver: by its UUID where the claim or CDI has one, else by its name there
/// ([`DeviceId::claimed`]). A UUID alone is that of the claim. What has another name is a device that nobody knows, and is not
/// taken for another one. The device's own name counts before those of CDI, of which the last one does: the kubelet lists with each
/// device of a claim those of the devices before it, too.
fn claimed(claim: &ClaimResource) -> Option<DeviceId> {
    let own = claim.device_name.as_str();
    if claim.driver_name != DRA_DRIVER || own.is_empty() {
        return None;
    }
    let named = DeviceId::claimed(own);
    if named.is_none() && own.starts_with(CLAIMED) {
        // A kind of device that is not known, such as `gpu-vfio-1`.
        return Some(DeviceId::Unknown(own.to_owned()));
    }
    let cdi = || claim.cdi_devices.iter().rev().filter_map(|device| device.name.split_once('=')).map(|(_, name)| name);
    // Of an instance, CDI may name the GPU, too.
    let prefixes = if own.contains("-mig-") { &["MIG-"][..] } else { &["GPU-", "MIG-"] };
    let is_named = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let uuid = std::iter::once(own).chain(cdi()).find_map(|name| DeviceId::parse(name).filter(|_| is_named(name)));
    // `claim=<uuid>-gpu-0` in CDI.
    let place = || cdi().find_map(|name| name.get(name.find(CLAIMED)?..)).and_then(DeviceId::claimed);
    Some(uuid.or(named).or_else(place).unwrap_or_else(|| DeviceId::Unknown(own.to_owned())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::messages::{CdiDevice, ContainerDevices, DynamicResource, PodResources};
    use super::*;

    const GPU: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";

    fn devices(resource: &str, ids: &[&str]) -> ContainerDevices {
        ContainerDevices {
            resource_name: resource.to_owned(),
            device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        }
    }

    fn pod(name: &str, containers: &[(&str, ContainerDevices)]) -> PodResources {
        let container = |(name, devices): &(&str, ContainerDevices)| ContainerResources {
            name: (*name).to_owned(),
            devices: vec![devices.clone()],
            dynamic_resources: Vec::new(),
        };
        PodResources {
            name: name.to_owned(),
            namespace: "lab".to_owned(),
            containers: containers.iter().map(container).collect(),
        }
    }

    fn replicas(ids: &[String]) -> Replicas {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut replicas = Replicas::default();
        let answer = AllocatableResourcesResponse { devices: vec![devices("nvidia.com/gpu.shared", &ids)] };
        replicas.learn(&answer, &Resources::new(&[]));
        replicas
    }

    fn parts(list: Vec<PodResources>, replicas: &Replicas) -> Vec<(String, String, String, Part)> {
        let list = ListPodResourcesResponse { pod_resources: list };
        let found = allocations(&list, replicas, &Resources::new(&["example.com/gpu-*".to_owned()])).unwrap();
        let row = |given: Allocation| (given.pod, given.container, given.device.to_string(), given.part);
        found.into_iter().map(row).collect()
    }

    fn row(pod: &str, container: &str, device: &str, part: Part) -> (String, String, String, Part) {
        (pod.to_owned(), container.to_owned(), device.to_owned(), part)
    }

    #[test]
    fn resources_of_other_kinds_are_no_gpus() {
        let known = replicas(&[GPU.to_owned()]);
        for (resource, id, is_gpu) in [
            ("nvidia.com/gpu", GPU, true),
            ("nvidia.com/mig-1g.10gb", GPU, true),
            ("example.com/gpu-slices", GPU, true),
            ("example.com/gpu", GPU, false),
            ("nvidia.com/hostdev", "0000:3b:02.1", false),
            ("nvidia.com/gpu", "", false),
            ("amd.com/gpu", GPU, false),
        ] {
            let found = parts(vec![pod("a", &[("main", devices(resource, &[id]))])], &known);
            assert_eq!(found.len(), usize::from(is_gpu), "{resource} {id}");
        }
        let nameless = vec![pod("", &[("main", devices("nvidia.com/gpu", &[GPU]))])];
        assert!(parts(nameless, &known).is_empty());
    }

    #[test]
    fn a_request_is_the_share_of_replicas() {
        let all: Vec<String> = (0..3).map(|replica| format!("{GPU}::{replica}")).collect();
        let two = devices("nvidia.com/gpu.shared", &[&all[2], &all[0]]);
        let one = devices("nvidia.com/gpu.shared", &[&all[1]]);
        let list = vec![pod("a", &[("main", two.clone()), ("side", one)])];
        // Edges of thirds in millionths: 0, 333333, 666666, 1000000.
        let expected = [row("a", "main", GPU, Part::Ppm(333_333 + 333_334)), row("a", "side", GPU, Part::Ppm(333_333))];
        assert_eq!(parts(list.clone(), &replicas(&all)), expected);
        // One of them is not known: even, for all who hold the device.
        let even = [row("a", "main", GPU, Part::Even), row("a", "side", GPU, Part::Even)];
        assert_eq!(parts(list.clone(), &replicas(&all[..2])), even);
        assert_eq!(parts(list, &Replicas::default()), even);
        // What is whole is not a fraction.
        let whole = vec![pod("b", &[("main", devices("nvidia.com/gpu", &[GPU]))])];
        assert_eq!(parts(whole, &replicas(&[GPU.to_owned()])), [row("b", "main", GPU, Part::Even)]);
    }

    #[test]
    fn what_is_whole_is_one_containers() {
        let is_whole = |resource: &str, id: &str| {
            let list =
                ListPodResourcesResponse { pod_resources: vec![pod("a", &[("main", devices(resource, &[id]))])] };
            allocations(&list, &Replicas::default(), &Resources::new(&[])).unwrap()[0].is_whole()
        };
        let bare = GPU.strip_prefix("GPU-").unwrap();
        for id in [GPU, bare, &GPU.to_uppercase(), "nvidia0", "nvidia0/gi1"] {
            assert!(is_whole("nvidia.com/gpu", id), "{id}");
        }
        for id in [format!("{GPU}::0"), format!("{GPU}-0"), format!("{GPU}-_-7"), "nvidia0/vgpu0".to_owned()] {
            assert!(!is_whole("nvidia.com/gpu", &id), "{id}");
        }
        let claim =
            ClaimResource { driver_name: DRA_DRIVER.into(), device_name: "gpu-3".into(), ..ClaimResource::default() };
        let mut list = pod("a", &[("main", devices("cpu", &[]))]);
        list.containers[0].dynamic_resources =
            vec![DynamicResource { claim_resources: vec![claim], ..DynamicResource::default() }];
        let list = ListPodResourcesResponse { pod_resources: vec![list] };
        let found = allocations(&list, &Replicas::default(), &Resources::new(&[])).unwrap();
        assert!(found[0].is_whole());
    }

    #[test]
    fn replicas_of_an_unhealthy_device_stay_known() {
        let all: Vec<String> = (0..2).map(|replica| format!("{GPU}::{replica}")).collect();
        let mut known = replicas(&all);
        known.learn(&AllocatableResourcesResponse::default(), &Resources::new(&[]));
        assert_eq!(known.part(&DeviceId::parse(GPU).unwrap(), &all[..1]), Part::Ppm(500_000));
    }

    #[test]
    fn claims_of_dynamic_allocation_are_read() {
        let claim = |driver: &str, device: &str, cdi: &str| ClaimResource {
            cdi_devices: vec![CdiDevice { name: cdi.to_owned() }],
            driver_name: driver.to_owned(),
            pool_name: "n1".to_owned(),
            device_name: device.to_owned(),
        };
        let named = |claim: ClaimResource| claimed(&claim).map(|device| device.to_string());
        assert_eq!(named(claim(DRA_DRIVER, "gpu-3", "k8s.gpu.nvidia.com/device=gpu-3")), Some("nvidia3".into()));
        assert_eq!(named(claim(DRA_DRIVER, "gpu-3", &format!("nvidia.com/gpu={GPU}"))), Some(GPU.into()));
        let of_claim = "k8s.gpu.nvidia.com/claim=dab5ab50-d59a-42a6-af16-cfd4628c0f7a";
        for cdi in [of_claim.to_owned(), format!("{of_claim}-gpu-3")] {
            assert_eq!(named(claim(DRA_DRIVER, "gpu-3", &cdi)), Some("nvidia3".into()), "{cdi}");
        }
        let (instance, called) = ("gpu-0-mig-1g18gb-19-4", "gpu-0-mig with profile 19 at 4");
        for cdi in [format!("{of_claim}-{instance}"), "nvidia.com/gpu=0:1".into(), format!("nvidia.com/gpu={GPU}")] {
            assert_eq!(named(claim(DRA_DRIVER, instance, &cdi)).as_deref(), Some(called), "{cdi}: never the GPU");
        }
        let uuid = GPU.replace("GPU", "MIG");
        assert_eq!(named(claim(DRA_DRIVER, instance, &format!("nvidia.com/gpu={uuid}"))), Some(uuid));
        assert_eq!(named(claim(DRA_DRIVER, "renamed", &format!("{of_claim}-gpu-3"))), Some("nvidia3".into()));
        // Whatever it is, somebody has it.
        for name in ["gpu-", "gpu-vfio-0", "renamed"] {
            let claim = claim(DRA_DRIVER, name, of_claim);
            assert_eq!(claimed(&claim), Some(DeviceId::Unknown(name.into())));
        }
        assert_eq!(named(claim(DRA_DRIVER, "", "")), None);
        assert_eq!(named(claim("compute-domain.nvidia.com", "channel-0", "")), None);
        let mut list = pod("a", &[("main", devices("cpu", &[]))]);
        list.containers[0].dynamic_resources = vec![DynamicResource {
            claim_name: "one".into(),
            claim_namespace: "lab".into(),
            claim_resources: vec![claim(DRA_DRIVER, "gpu-1", ""), claim(DRA_DRIVER, "gpu-2", "")],
        }];
        let expected = [row("a", "main", "nvidia1", Part::Even), row("a", "main", "nvidia2", Part::Even)];
        assert_eq!(parts(vec![list], &Replicas::default()), expected);
    }

    #[test]
    fn each_device_of_a_claim_is_itself() {
        const OTHER: &str = "GPU-77777777-d33d-2b2c-524d-9e3d8d2b8a77";
        let claim = |device: &str, cdi: &[String]| ClaimResource {
            cdi_devices: cdi.iter().map(|name| CdiDevice { name: name.clone() }).collect(),
            driver_name: DRA_DRIVER.to_owned(),
            pool_name: "n1".to_owned(),
            device_name: device.to_owned(),
        };
        let named = |device: &str, cdi: &[String]| claimed(&claim(device, cdi)).map(|device| device.to_string());
        // With each are those of the devices before it.
        let uuids = [GPU, OTHER].map(|uuid| format!("nvidia.com/gpu={uuid}"));
        assert_eq!(named("gpu-0", &uuids[..1]).as_deref(), Some(GPU));
        assert_eq!(named("gpu-1", &uuids).as_deref(), Some(OTHER));
        assert_eq!(named(GPU, &uuids).as_deref(), Some(GPU), "its own name is first");
        let names = |device: &str| {
            let name = |name: &str| format!("k8s.gpu.nvidia.com/claim=dab5ab50-d59a-42a6-af16-cfd4628c0f7a-{name}");
            ["gpu-0", device].map(name)
        };
        assert_eq!(named("gpu-1", &names("gpu-1")).as_deref(), Some("nvidia1"));
        assert_eq!(named("renamed", &names("gpu-1")).as_deref(), Some("nvidia1"));
        // One for a virtual machine, of which only its name is known.
        for (device, last) in [("gpu-vfio-1", "gpu-vfio-1"), ("renamed", "gpu-vfio-1"), ("gpu-vfio-1", "gpu-1")] {
            assert_eq!(claimed(&claim(device, &names(last))), Some(DeviceId::Unknown(device.into())));
        }
        assert_eq!(claimed(&claim("gpu-vfio-1", &uuids)), Some(DeviceId::Unknown("gpu-vfio-1".into())));
    }

    proptest! {
        #[test]
        fn requests_of_all_replicas_sum_to_the_device(count in 2_usize..200, holders in 1_usize..8, seed in any::<u64>()) {
            let all: Vec<String> = (0..count).map(|replica| format!("{GPU}::{replica}")).collect();
            let mut mine = vec![Vec::new(); holders];
            for (place, id) in all.iter().enumerate() {
                mine[(seed.rotate_left(u32::try_from(place).unwrap()) % holders as u64) as usize].push(id.as_str());
            }
            let held = |(place, ids): (usize, &Vec<&str>)| pod(&format!("p{place}"), &[("main", devices("nvidia.com/gpu", ids))]);
            let list = mine.iter().enumerate().map(held).collect();
            let parts = parts(list, &replicas(&all));
            let sum: u32 = parts.iter().map(|row| if let Part::Ppm(ppm) = row.3 { ppm } else { 0 }).sum();
            prop_assert_eq!(sum, 1_000_000);
        }

        #[test]
        fn garbage_makes_no_fault(resource in ".{0,20}|nvidia.com/gpu", id in ".{0,60}|GPU-[0-9a-f-]{36}(::[0-9]{1,12})?") {
            parts(vec![pod("a", &[("main", devices(&resource, &[&id]))])], &Replicas::default());
        }
    }
}
