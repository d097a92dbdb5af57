//! The kubelet's lists: read when one says something else than the one before.
//!
//! A kubelet tells everything at each question, and pods in another order each time. So what came of each pod is compared as it
//! came, in whatever order, and is decoded only when it is another. Within a container, a kubelet tells each device in a message
//! of its own, in the order of a map, which is another one each time, too: what was decoded is brought into one order, so that the
//! same list makes the same allocations.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;

use super::allocation::{Allocation, Replicas, Resources, allocations, wants_replicas};
use super::messages::{
    AllocatableResourcesResponse, ListPodResourcesResponse, PodResources, RawListPodResourcesResponse,
};

/// What the kubelet's last list says.
#[derive(Debug)]
pub struct Lists {
    resources: Resources,
    replicas: Replicas,
    /// Of each pod, as it came, sorted by that, and what it says; `None` before the first list.
    pods: Option<Vec<(Bytes, Arc<PodResources>)>>,
    allocations: Arc<Vec<Allocation>>,
    /// How often a list was read.
    reads: u64,
}

impl Lists {
    /// No list yet; these resources are GPUs.
    pub fn new(resources: Resources) -> Self {
        Self { resources, replicas: Replicas::default(), pods: None, allocations: Arc::default(), reads: 0 }
    }

    /// Takes in a list.
    ///
    /// # Errors
    /// What is wrong with it; what was told before stays.
    pub fn take(&mut self, list: RawListPodResourcesResponse) -> Result<(), String> {
        let mut raw = list.pod_resources;
        raw.sort_unstable();
        let known = self.pods.as_deref().unwrap_or_default();
        if self.pods.is_some() && known.iter().map(|(raw, _)| raw).eq(&raw) {
            return Ok(());
        }
        let pod = |raw: Bytes| match known.binary_search_by(|(known, _)| known.cmp(&raw)) {
            Ok(place) => Ok((raw, known.get(place).map(|(_, pod)| Arc::clone(pod)).unwrap_or_default())),
            Err(_) => decode(&raw).map(|pod| (raw, Arc::new(pod))),
        };
        let pods = raw.into_iter().map(pod).collect::<Result<Vec<_>, String>>()?;
        if self.pods.is_none() || !is_same(known, &pods) {
            self.read(&pods)?;
        }
        self.pods = Some(pods);
        Ok(())
    }

    /// Takes in what devices there are.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn learn(&mut self, answer: &AllocatableResourcesResponse) -> Result<(), String> {
        let before = self.replicas.clone();
        self.replicas.learn(answer, &self.resources);
        match self.pods.take() {
            Some(pods) if self.replicas != before => {
                let read = self.read(&pods);
                self.pods = Some(pods);
                read
            }
            pods => {
                self.pods = pods;
                Ok(())
            }
        }
    }

    fn read(&mut self, pods: &[(Bytes, Arc<PodResources>)]) -> Result<(), String> {
        let pod_resources = in_order(pods).into_iter().cloned().collect();
        let found = allocations(&ListPodResourcesResponse { pod_resources }, &self.replicas, &self.resources)?;
        self.reads += 1;
        // What is the same stays the same, in the same place.
        if *self.allocations != found {
            self.allocations = found.into();
        }
        Ok(())
    }

    /// Who was given what: the same [`Arc`] as long as that is the same.
    pub fn allocations(&self) -> &Arc<Vec<Allocation>> {
        &self.allocations
    }

    /// Whether some device was given of which not all replicas are known.
    pub fn wants_replicas(&self) -> bool {
        wants_replicas(&self.allocations, &self.replicas)
    }
}

fn decode(raw: &Bytes) -> Result<PodResources, String> {
    let mut pod = PodResources::decode(raw.clone()).map_err(|error| error.to_string())?;
    sort(&mut pod);
    Ok(pod)
}

fn in_order(pods: &[(Bytes, Arc<PodResources>)]) -> Vec<&PodResources> {
    let mut pods: Vec<&PodResources> = pods.iter().map(|(_, pod)| &**pod).collect();
    pods.sort_unstable();
    pods
}

/// Whether both lists say the same.
fn is_same(one: &[(Bytes, Arc<PodResources>)], other: &[(Bytes, Arc<PodResources>)]) -> bool {
    one.len() == other.len() && in_order(one) == in_order(other)
}

/// Brings what each container has into one order. That of the names that one device has says something, and stays.
fn sort(pod: &mut PodResources) {
    for container in &mut pod.containers {
        container.devices.iter_mut().for_each(|devices| devices.device_ids.sort_unstable());
        container.devices.sort_unstable();
        container.dynamic_resources.iter_mut().for_each(|claim| claim.claim_resources.sort_unstable());
        container.dynamic_resources.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::{ClaimResource, ContainerDevices, ContainerResources, DynamicResource};
    use super::*;
    use crate::owners::claim::Part;

    const GPU: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";

    fn devices(replicas: &[u32]) -> ContainerDevices {
        let ids = replicas.iter().map(|number| format!("{GPU}::{number}")).collect();
        ContainerDevices { resource_name: "nvidia.com/gpu".into(), device_ids: ids }
    }

    fn list(pods: &[(&str, u32)]) -> RawListPodResourcesResponse {
        let container = |replica| ContainerResources {
            name: "main".into(),
            devices: vec![devices(&[replica])],
            dynamic_resources: Vec::new(),
        };
        let pod = |&(name, replica): &(&str, u32)| PodResources {
            name: name.into(),
            namespace: "lab".into(),
            containers: vec![container(replica)],
        };
        let list = ListPodResourcesResponse { pod_resources: pods.iter().map(pod).collect() };
        RawListPodResourcesResponse::decode(list.encode_to_vec().as_slice()).unwrap()
    }

    fn told(lists: &Lists) -> Vec<(String, Part)> {
        lists.allocations().iter().map(|given| (given.pod.clone(), given.part)).collect()
    }

    #[test]
    fn a_list_is_read_when_it_says_something_else() {
        let mut lists = Lists::new(Resources::new(&[]));
        lists.take(list(&[("a", 0), ("b", 1)])).unwrap();
        assert_eq!(told(&lists), [("a".to_owned(), Part::Even), ("b".to_owned(), Part::Even)]);
        let before = Arc::clone(lists.allocations());
        lists.take(list(&[("b", 1), ("a", 0)])).unwrap();
        assert!(Arc::ptr_eq(&before, lists.allocations()) && lists.reads == 1 && lists.wants_replicas());
        // What is known of replicas changes what the same list says.
        for _ in 0..2 {
            lists.learn(&AllocatableResourcesResponse { devices: vec![devices(&[0, 1, 2, 3])] }).unwrap();
            lists.take(list(&[("b", 1), ("a", 0)])).unwrap();
            let quarter = Part::Ppm(250_000);
            assert_eq!(told(&lists), [("a".to_owned(), quarter), ("b".to_owned(), quarter)]);
            assert_eq!((lists.reads, lists.wants_replicas()), (2, false));
        }
        lists.take(list(&[("a", 0), ("b", 2)])).unwrap();
        assert_eq!(lists.reads, 3);
        // An entry twice is another list, and one that can't be read leaves all as it was.
        lists.take(list(&[("a", 0), ("b", 2), ("b", 2)])).unwrap();
        assert_eq!(lists.reads, 4);
        let before = told(&lists);
        let torn = RawListPodResourcesResponse { pod_resources: vec![Bytes::from_static(b"\x0a\x09torn")] };
        assert!(lists.take(torn.clone()).is_err() && lists.take(torn).is_err());
        assert_eq!(told(&lists), before);
        lists.take(list(&[])).unwrap();
        assert_eq!(told(&lists), []);
    }

    #[test]
    fn devices_of_a_container_come_in_any_order() {
        const OTHER: &str = "GPU-77777777-d33d-2b2c-524d-9e3d8d2b8a77";
        let claim = |name: &&str| ClaimResource {
            driver_name: "gpu.nvidia.com".into(),
            device_name: (*name).to_owned(),
            ..ClaimResource::default()
        };
        let listed = |ids: &[&str], claims: &[&str], split: usize| {
            let one = |id: &&str| ContainerDevices {
                resource_name: "nvidia.com/gpu".into(),
                device_ids: vec![(*id).to_owned()],
            };
            let claims = [&claims[..split], &claims[split..]].map(|names| DynamicResource {
                claim_resources: names.iter().map(claim).collect(),
                ..DynamicResource::default()
            });
            let container = ContainerResources {
                name: "main".into(),
                devices: ids.iter().map(one).collect(),
                dynamic_resources: claims.into(),
            };
            PodResources { name: "a".into(), namespace: "lab".into(), containers: vec![container] }
        };
        let list = |pods: Vec<PodResources>| {
            let list = ListPodResourcesResponse { pod_resources: pods };
            RawListPodResourcesResponse::decode(list.encode_to_vec().as_slice()).unwrap()
        };
        let mut lists = Lists::new(Resources::new(&[]));
        // Two of the same name: the pod, and the one before it.
        let (before, after) = (listed(&[GPU, OTHER], &["gpu-2", "gpu-3", "gpu-1"], 2), listed(&[OTHER], &["gpu-4"], 0));
        lists.take(list(vec![before, after])).unwrap();
        let allocations = Arc::clone(lists.allocations());
        assert_eq!(allocations.len(), 7);
        let (before, after) = (listed(&[OTHER, GPU], &["gpu-1", "gpu-3", "gpu-2"], 1), listed(&[OTHER], &["gpu-4"], 0));
        lists.take(list(vec![after, before])).unwrap();
        assert!(Arc::ptr_eq(&allocations, lists.allocations()), "the same was told: {:?}", lists.allocations());
        lists.take(list(vec![listed(&[OTHER], &["gpu-4"], 0)])).unwrap();
        assert_eq!(lists.allocations().len(), 2);
    }
}
