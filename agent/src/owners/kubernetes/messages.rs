//! The messages of the kubelet's pod-resources API, version 1: those fields that tell of devices.
//!
//! Source: `k8s.io/kubelet/pkg/apis/podresources/v1/api.proto` of Kubernetes, package `v1`, service `PodResourcesLister`
//! (<https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/kubelet/pkg/apis/podresources/v1/api.proto>).
//! Fields that are not here, such as CPUs and memory, are skipped when an answer is read.

/// The call `List`.
pub const LIST: &str = "/v1.PodResourcesLister/List";

/// The call `GetAllocatableResources`.
pub const ALLOCATABLE: &str = "/v1.PodResourcesLister/GetAllocatableResources";

/// Asks for everything that pods have.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListPodResourcesRequest {}

/// Everything that pods have.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListPodResourcesResponse {
    /// By pod. A pod that has ended may still be in it.
    #[prost(message, repeated, tag = "1")]
    pub pod_resources: Vec<PodResources>,
}

/// The same, with each pod's part as it came.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RawListPodResourcesResponse {
    /// A [`PodResources`] each.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub pod_resources: Vec<bytes::Bytes>,
}

/// What a pod has.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd, prost::Message)]
pub struct PodResources {
    /// The pod's name. Its UID is not told.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The pod's namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// By container.
    #[prost(message, repeated, tag = "3")]
    pub containers: Vec<ContainerResources>,
}

/// What a container has.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd, prost::Message)]
pub struct ContainerResources {
    /// The container's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// From device plugins.
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<ContainerDevices>,
    /// From resource claims (dynamic resource allocation); kubelets before 1.34 tell them only when asked to by a feature
    /// gate.
    #[prost(message, repeated, tag = "5")]
    pub dynamic_resources: Vec<DynamicResource>,
}

/// Devices of one resource.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd, prost::Message)]
pub struct ContainerDevices {
    /// The resource, such as `nvidia.com/gpu`.
    #[prost(string, tag = "1")]
    pub resource_name: String,
    /// Ids that the device plugin gave.
    #[prost(string, repeated, tag = "2")]
    pub device_ids: Vec<String>,
}

/// What one resource claim gives.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd, prost::Message)]
pub struct DynamicResource {
    /// The claim's name.
    #[prost(string, tag = "2")]
    pub claim_name: String,
    /// The claim's namespace.
    #[prost(string, tag = "3")]
    pub claim_namespace: String,
    /// By device.
    #[prost(message, repeated, tag = "4")]
    pub claim_resources: Vec<ClaimResource>,
}

/// A device of a resource claim.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd, prost::Message)]
pub struct ClaimResource {
    /// Its devices by the Container Device Interface.
    #[prost(message, repeated, tag = "1")]
    pub cdi_devices: Vec<CdiDevice>,
    /// The driver that manages it, such as `gpu.nvidia.com`.
    #[prost(string, tag = "2")]
    pub driver_name: String,
    /// The pool that it is from: with most drivers, the node's name.
    #[prost(string, tag = "3")]
    pub pool_name: String,
    /// Its name in the pool, such as `gpu-0`.
    #[prost(string, tag = "4")]
    pub device_name: String,
}

/// A device of the Container Device Interface.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd, prost::Message)]
pub struct CdiDevice {
    /// The whole name, such as `k8s.gpu.nvidia.com/device=gpu-0`.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Asks for everything that could be given to pods.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocatableResourcesRequest {}

/// Everything that could be given to pods.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocatableResourcesResponse {
    /// By resource, or several entries of one.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<ContainerDevices>,
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    /// A field of a message: its tag, and its content.
    fn field(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    #[test]
    fn tags_are_those_of_the_kubelet() {
        // Fields 3 and 4 of a container are its CPUs and memory, field 3 of devices is their NUMA node.
        let devices = [field(1, b"nvidia.com/gpu"), field(2, b"GPU-1"), field(2, b"GPU-2"), field(3, b"")].concat();
        let claimed =
            [field(1, &field(1, b"c=d")), field(2, b"driver"), field(3, b"pool"), field(4, b"gpu-0")].concat();
        let claim = [field(2, b"claim"), field(3, b"space"), field(4, &claimed)].concat();
        let container = [field(1, b"main"), field(2, &devices), field(3, &[1, 2]), field(4, b""), field(5, &claim)];
        let pod = [field(1, b"pod"), field(2, b"namespace"), field(3, &container.concat())].concat();
        let list = ListPodResourcesResponse::decode(field(1, &pod).as_slice()).unwrap();
        let devices = ContainerDevices {
            resource_name: "nvidia.com/gpu".into(),
            device_ids: vec!["GPU-1".into(), "GPU-2".into()],
        };
        let claimed = ClaimResource {
            cdi_devices: vec![CdiDevice { name: "c=d".into() }],
            driver_name: "driver".into(),
            pool_name: "pool".into(),
            device_name: "gpu-0".into(),
        };
        let container = ContainerResources {
            name: "main".into(),
            devices: vec![devices.clone()],
            dynamic_resources: vec![DynamicResource {
                claim_name: "claim".into(),
                claim_namespace: "space".into(),
                claim_resources: vec![claimed],
            }],
        };
        let pod = PodResources { name: "pod".into(), namespace: "namespace".into(), containers: vec![container] };
        assert_eq!(list.pod_resources, [pod]);
        let whole =
            [field(1, &[field(1, b"nvidia.com/gpu"), field(2, b"GPU-1"), field(2, b"GPU-2")].concat())].concat();
        assert_eq!(AllocatableResourcesResponse::decode(whole.as_slice()).unwrap().devices, [devices]);
    }
}
