//! Names of devices as schedulers write them, and the device's own id.
//!
//! The kubelet lists a device by the id that a device plugin gave it: the driver's UUID, with a suffix when the plugin has cut
//! the device into replicas (`GPU-…::2` by NVIDIA's plugin, `GPU-…-0` and `GPU-…-_-0` by others), or on GKE the node of the device
//! (`nvidia0`, `nvidia0/gi1`, `nvidia0/vgpu2`). Samples and the ledger know a device by its UUID alone, `GPU-…` or `MIG-…`. A
//! replica is no device: all of them are the one that they were cut from. Owners that schedulers tell are joined by it, once
//! [`DeviceId::on`] has found the device among those of the node.
//!
//! NVIDIA's driver for dynamic resource allocation has names of its own ([`DeviceId::claimed`]), which say of a MIG instance what
//! it was made as, and not which one it is. Its place on the GPU tells: no two instances have the same.
//! Source: `cmd/gpu-kubelet-plugin` of NVIDIA/k8s-dra-driver-gpu, `CanonicalName` and `ToCanonicalName`.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::sensors::{GpuIdentity, Placement};

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
    /// The one MIG instance at a place of a GPU.
    Placed {
        /// Minor number of the GPU.
        minor: u32,
        /// Where on it, and as what.
        placement: Placement,
    },
    /// A device of which only this name is known: none that a node has.
    Unknown(String),
}

impl DeviceId {
    /// The device that NVIDIA's driver for dynamic resource allocation means by `name`; `None` when it is none of these forms.
    ///
    /// | name | device |
    /// |---|---|
    /// | `gpu-<minor>` (since August 2025; before, the number was the driver's index) | the GPU |
    /// | `gpu-<minor>-mig-<profile id>-<start>-<size>` (until 25.8), `gpu-<minor>-mig-<profile>-<profile id>-<start>` (since), such as `gpu-0-mig-1g18gb-19-0` | the MIG instance with that profile and first slice |
    pub fn claimed(name: &str) -> Option<Self> {
        let (minor, rest) = number(name.strip_prefix("gpu-")?)?;
        if rest.is_empty() {
            return Some(Self::Node { minor, gpu_instance: None });
        }
        let rest = rest.strip_prefix("-mig-")?;
        // The name of a profile may have dashes, too: `1g18gb-me`.
        let (rest, last) = rest.rsplit_once('-')?;
        let (first, middle) = rest.rsplit_once('-')?;
        let whole = |text: &str| number(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number);
        let (middle, last) = (whole(middle)?, whole(last)?);
        let placement = match whole(first) {
            Some(profile) => Placement { profile, start: middle },
            None => Placement { profile: middle, start: last },
        };
        (!first.is_empty()).then_some(Self::Placed { minor, placement })
    }

    /// The device that `name` means; `None` when it is none of the forms above.
    ///
    /// | name | device |
    /// |---|---|
    /// | `GPU-<uuid>`, `GPU-<uuid>::2`, `GPU-<uuid>-0`, `GPU-<uuid>-_-0`, `<uuid>`, `<uuid>::2`, `<uuid>-0` | `GPU-<uuid>` |
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
    /// Where it is on its GPU, of a MIG instance, where the driver tells.
    pub placement: Option<Placement>,
    /// All its memory in bytes, where it has a memory of its own.
    pub memory_bytes: Option<u64>,
}

impl NodeDevice {
    /// These GPUs and instances. An instance has no device node of its own: it is known by that of its GPU.
    pub fn all(gpus: &[Arc<GpuIdentity>]) -> Vec<Self> {
        let device = |gpu: &Arc<GpuIdentity>| {
            let device = Self { uuid: gpu.uuid.clone(), memory_bytes: gpu.memory_total_bytes.get(), ..Self::default() };
            match &gpu.mig {
                None => Self { minor: gpu.minor, pci: gpu.pci_bus_id.clone(), ..device },
                Some(mig) => Self {
                    minor: gpus.iter().find(|parent| parent.uuid == mig.parent).and_then(|parent| parent.minor),
                    gpu_instance: Some(mig.gpu_instance),
                    placement: mig.placement,
                    ..device
                },
            }
        };
        gpus.iter().map(device).collect()
    }
}

impl DeviceId {
    /// The device of `node` that is meant; `None` where the node does not know it (yet), or several are at the place that is
    /// named.
    pub fn on<'n>(&self, node: &'n [NodeDevice]) -> Option<&'n NodeDevice> {
        let mut fit = node.iter().filter(|device| match self {
            Self::Uuid(uuid) => device.uuid.eq_ignore_ascii_case(uuid),
            Self::Node { minor, gpu_instance } => device.minor == Some(*minor) && device.gpu_instance == *gpu_instance,
            Self::Placed { minor, placement } => device.minor == Some(*minor) && device.placement == Some(*placement),
            Self::Unknown(_) => false,
        });
        let found = fit.next()?;
        (!matches!(self, Self::Placed { .. }) || fit.next().is_none()).then_some(found)
    }
}

/// The canonical name, which [`DeviceId::parse`] takes back; of a [place](DeviceId::Placed), the driver's word for it.
impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => f.write_str(uuid),
            Self::Node { minor, gpu_instance: None } => write!(f, "nvidia{minor}"),
            Self::Node { minor, gpu_instance: Some(instance) } => write!(f, "nvidia{minor}/gi{instance}"),
            Self::Placed { minor, placement: Placement { profile, start } } => {
                write!(f, "gpu-{minor}-mig with profile {profile} at {start}")
            }
            Self::Unknown(name) => f.write_str(name),
        }
    }
}

/// Nothing, or the number of a replica.
fn is_replica(suffix: &str) -> bool {
    let digits = ["::", "-_-", "-"].into_iter().find_map(|sign| suffix.strip_prefix(sign));
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
        same(&["GPU-@", "GPU-@::2", "GPU-@-0", "GPU-@-_-71", "@", "@-0", "@::17"], "GPU-@");
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

    #[test]
    fn a_claimed_device_is_a_gpu_or_a_place_on_it() {
        let placed = |minor, profile, start| DeviceId::Placed { minor, placement: Placement { profile, start } };
        for (name, device) in [
            ("gpu-3", DeviceId::Node { minor: 3, gpu_instance: None }),
            // Profile 19 at slice 4, which has one; the same in the newer form.
            ("gpu-0-mig-19-4-1", placed(0, 19, 4)),
            ("gpu-0-mig-1g10gb-19-4", placed(0, 19, 4)),
            ("gpu-11-mig-1g24gb-me-20-0", placed(11, 20, 0)),
            ("gpu-0-mig-4g95gb-5-0", placed(0, 5, 0)),
        ] {
            assert_eq!(DeviceId::claimed(name), Some(device), "{name}");
        }
        for name in [
            "gpu-",
            "gpu-x",
            "gpu-1-",
            "gpu-0-mig",
            "gpu-0-mig-",
            "gpu-0-mig-19-4",
            "gpu-0-mig--19-4",
            "gpu-0-mig-a-b-c",
            "gpu-0-mig-1g10gb-19-x",
            "gpu-0-mig-1g10gb-99999999999-0",
            "gpu-vfio-0",
            "nvidia0",
            "",
        ] {
            assert_eq!(DeviceId::claimed(name), None, "{name}");
        }
    }

    #[test]
    fn a_place_is_one_instance() {
        let placement = Placement { profile: 19, start: 4 };
        let instance = |uuid: &str, minor, placement| NodeDevice {
            uuid: uuid.into(),
            minor: Some(minor),
            gpu_instance: Some(7),
            placement,
            ..NodeDevice::default()
        };
        let gpu = NodeDevice { uuid: "GPU-1".into(), minor: Some(0), ..NodeDevice::default() };
        let others = [
            gpu.clone(),
            instance("MIG-2", 0, Some(Placement { start: 5, ..placement })),
            instance("MIG-3", 0, Some(Placement { profile: 20, ..placement })),
            instance("MIG-4", 1, Some(placement)),
            instance("MIG-5", 0, None),
        ];
        let found = |node: &[NodeDevice]| {
            let id = DeviceId::claimed("gpu-0-mig-19-4-1").unwrap();
            id.on(node).map(|device| device.uuid.clone())
        };
        assert_eq!(found(&others), None, "neither another instance nor the GPU");
        let one = [&others[..], &[instance("MIG-6", 0, Some(placement))]].concat();
        assert_eq!(found(&one).as_deref(), Some("MIG-6"));
        let two = [&one[..], &[instance("MIG-7", 0, Some(placement))]].concat();
        assert_eq!(found(&two), None, "two compute instances");
        assert_eq!(DeviceId::Unknown("GPU-1".into()).on(&[gpu]), None);
    }

    proptest! {
        #[test]
        fn names_of_both_forms_mean_the_same(minor in any::<u32>(), profile in any::<u32>(), start in any::<u32>(), size in any::<u32>(), name in "[1-7]g[0-9]{1,3}gb(-me|-gfx|-me-all)?") {
            let placed = DeviceId::Placed { minor, placement: Placement { profile, start } };
            prop_assert_eq!(DeviceId::claimed(&format!("gpu-{minor}-mig-{profile}-{start}-{size}")), Some(placed.clone()));
            prop_assert_eq!(DeviceId::claimed(&format!("gpu-{minor}-mig-{name}-{profile}-{start}")), Some(placed));
        }

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
