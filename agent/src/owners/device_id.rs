//! Names of devices as schedulers write them, and the device's own id.
//!
//! The kubelet lists a device by the id that a device plugin gave it: the driver's UUID, with a suffix when the plugin has cut
//! the device into replicas (`GPU-…::2` by NVIDIA's plugin, `GPU-…-0` by others), or on GKE the node of the device
//! (`nvidia0`, `nvidia0/gi1`, `nvidia0/vgpu2`). Samples and the ledger know a device by its UUID alone, `GPU-…` or `MIG-…`. A
//! replica is no device: all of them are the one that they were cut from. Owners that schedulers tell are joined by it, once
//! [`DeviceId::on`] has found the device among those of the node.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::sensors::GpuIdentity;

/// Which device a name means.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum DeviceId {
    /// The driver's own id: `GPU-…` or `MIG-…`, in lower case behind the prefix.
    Uuid(String),
    /// `/dev/nvidia<minor>`, or a GPU instance of it.
    Node {
        /// The minor number, which is not the driver's index.
        minor: u32,
        /// Id of the GPU instance.
        gpu_instance: Option<u32>,
    },
}

impl DeviceId {
    /// The device that `name` means; `None` when it is none of the forms above.
    ///
    /// | name | device |
    /// |---|---|
    /// | `GPU-<uuid>`, `GPU-<uuid>::2`, `GPU-<uuid>-0`, `<uuid>`, `<uuid>::2`, `<uuid>-0` | `GPU-<uuid>` |
    /// | `MIG-<uuid>`, `MIG-<uuid>::1`, `MIG-<uuid>-1` | `MIG-<uuid>` |
    /// | `MIG-GPU-<uuid>/<gpu instance>/<compute instance>` (drivers before 470), with a suffix too | the same without it |
    /// | `nvidia<minor>`, `nvidia<minor>/gi<n>`, each with `/vgpu<n>` | the node, or the GPU instance |
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(rest) = name.strip_prefix("nvidia") {
            return node(rest);
        }
        let (prefix, rest) = ["GPU-", "MIG-GPU-", "MIG-"]
            .into_iter()
            .find_map(|prefix| Some((prefix, name.strip_prefix(prefix)?)))
            .unwrap_or(("GPU-", name));
        let (uuid, rest) = rest.split_at_checked(36)?;
        let uuid = Uuid::try_parse(uuid).ok()?;
        if prefix != "MIG-GPU-" {
            return is_replica(rest).then(|| Self::Uuid(format!("{prefix}{uuid}")));
        }
        let (gpu_instance, rest) = number(rest.strip_prefix('/')?)?;
        let (compute_instance, rest) = number(rest.strip_prefix('/')?)?;
        is_replica(rest).then(|| Self::Uuid(format!("{prefix}{uuid}/{gpu_instance}/{compute_instance}")))
    }
}

/// What identifies a device of this node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NodeDevice {
    /// `GPU-…` or `MIG-…`.
    pub uuid: String,
    /// Of `/dev/nvidia<minor>`; a MIG instance has that of its GPU.
    pub minor: Option<u32>,
    /// Id of the GPU instance, of a MIG instance.
    pub gpu_instance: Option<u32>,
    /// PCI address, such as `00000000:3B:00.0`; a MIG instance has none of its own.
    pub pci: Option<String>,
}

impl NodeDevice {
    /// These GPUs and instances. An instance has no device node of its own: it is known by that of its GPU.
    pub fn all(gpus: &[Arc<GpuIdentity>]) -> Vec<Self> {
        let device = |gpu: &Arc<GpuIdentity>| match &gpu.mig {
            None => Self { uuid: gpu.uuid.clone(), minor: gpu.minor, gpu_instance: None, pci: gpu.pci_bus_id.clone() },
            Some(mig) => Self {
                uuid: gpu.uuid.clone(),
                minor: gpus.iter().find(|parent| parent.uuid == mig.parent).and_then(|parent| parent.minor),
                gpu_instance: Some(mig.gpu_instance),
                pci: None,
            },
        };
        gpus.iter().map(device).collect()
    }
}

impl DeviceId {
    /// The device of `node` that is meant; `None` where the node does not know it (yet).
    pub fn on<'n>(&self, node: &'n [NodeDevice]) -> Option<&'n NodeDevice> {
        node.iter().find(|device| match self {
            Self::Uuid(uuid) => device.uuid.eq_ignore_ascii_case(uuid),
            Self::Node { minor, gpu_instance } => device.minor == Some(*minor) && device.gpu_instance == *gpu_instance,
        })
    }
}

/// The canonical name, which [`DeviceId::parse`] takes back.
impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => f.write_str(uuid),
            Self::Node { minor, gpu_instance: None } => write!(f, "nvidia{minor}"),
            Self::Node { minor, gpu_instance: Some(instance) } => write!(f, "nvidia{minor}/gi{instance}"),
        }
    }
}

/// Nothing, or the number of a replica.
fn is_replica(suffix: &str) -> bool {
    let digits = suffix.strip_prefix("::").or_else(|| suffix.strip_prefix('-'));
    suffix.is_empty() || digits.and_then(number).is_some_and(|(_, rest)| rest.is_empty())
}

/// The decimal number at the beginning, and what comes after it.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

fn node(rest: &str) -> Option<DeviceId> {
    let (minor, rest) = number(rest)?;
    let (gpu_instance, rest) = match rest.strip_prefix("/gi") {
        Some(rest) => number(rest).map(|(instance, rest)| (Some(instance), rest))?,
        None => (None, rest),
    };
    let shared = rest.strip_prefix("/vgpu").and_then(number).is_some_and(|(_, rest)| rest.is_empty());
    (rest.is_empty() || shared).then_some(DeviceId::Node { minor, gpu_instance })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";

    #[test]
    fn a_replica_is_the_device_that_it_was_cut_from() {
        let none = ["gpu", "", "GPU-", "GPU-@::", "GPU-@::x", "GPU-@-", "GPU-@:2", "GPU-@z", "MIG-@/1", "MIG-GPU-@/1"];
        for name in none.into_iter().chain(["nvidia", "nvidia0/gi", "nvidia0/vgpu", "nvidiactl", "nvidia0/gi1x"]) {
            assert_eq!(DeviceId::parse(&name.replace('@', UUID)), None, "{name}");
        }
        let same = |names: &[&str], id: &str| {
            for name in names {
                let name = name.replace('@', UUID);
                assert_eq!(DeviceId::parse(&name).map(|id| id.to_string()), Some(id.replace('@', UUID)), "{name}");
            }
        };
        same(&["GPU-@", "GPU-@::2", "GPU-@-0", "@", "@-0", "@::17"], "GPU-@");
        same(&["MIG-@", "MIG-@::1", "MIG-@-3"], "MIG-@");
        same(&["MIG-GPU-@/7/0", "MIG-GPU-@/7/0::1"], "MIG-GPU-@/7/0");
        same(&["nvidia0", "nvidia0/vgpu2"], "nvidia0");
        same(&["nvidia11/gi1", "nvidia11/gi1/vgpu0"], "nvidia11/gi1");
        assert_eq!(
            DeviceId::parse(&format!("GPU-{}", UUID.to_uppercase())),
            DeviceId::parse(UUID),
            "hexadecimal digits"
        );
    }

    proptest! {
        #[test]
        fn each_replica_has_the_id_of_its_device(bits in any::<u128>(), replica in any::<u32>(), mig in any::<bool>()) {
            let id = format!("{}{}", if mig { "MIG-" } else { "GPU-" }, Uuid::from_u128(bits));
            let whole = DeviceId::parse(&id);
            prop_assert_eq!(whole.as_ref().map(ToString::to_string), Some(id.clone()));
            prop_assert_eq!(DeviceId::parse(&format!("{id}::{replica}")), whole.clone());
            prop_assert_eq!(DeviceId::parse(&format!("{id}-{replica}")), whole);
        }

        #[test]
        fn nodes_are_told_by_minor_and_instance(minor in any::<u32>(), instance in proptest::option::of(any::<u32>()), shared in proptest::option::of(any::<u32>())) {
            let id = DeviceId::Node { minor, gpu_instance: instance };
            let name = shared.map_or_else(|| id.to_string(), |shared| format!("{id}/vgpu{shared}"));
            prop_assert_eq!(DeviceId::parse(&name), Some(id));
        }

        #[test]
        fn any_text_has_one_canonical_name_or_none(name in "(GPU-|MIG-|MIG-GPU-|nvidia)?[0-9a-f:/giv-]{0,60}|.{0,60}") {
            if let Some(id) = DeviceId::parse(&name) {
                prop_assert_eq!(DeviceId::parse(&id.to_string()), Some(id));
            }
        }
    }
}
