//! What each GPU reaches each other one by: `NV18:GPU-…` over so many NVLinks, or the nearest that they have in common on
//! PCIe: `PIX` one switch (or one board), `PXB` several switches, `PHB` a host bridge, `NODE` a NUMA node, `SYS` only what
//! is between NUMA nodes. The names are those of `nvidia-smi topo -m`.
//!
//! It asks about two GPUs at a time, so that a GPU that hangs would hold up the others: it has a thread of its own, and the
//! driver open for itself for as long as it asks.
#![allow(unsafe_code, reason = "nvml-wrapper writes the kind of a link's other end to nowhere")]

use std::collections::BTreeMap;

use nvml_wrapper::enum_wrappers::device::TopologyLevel;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{
    NVML_NVLINK_MAX_LINKS, nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH as SWITCH,
};

use super::answer::reading;
use super::library::{self, NvmlLibrary, SensorError};
use crate::sensors::Reading;

/// What each GPU, by UUID, reaches the others by; a GPU with none, or that can't tell, has `None`. What failed to be read is
/// not there.
pub type Topology = BTreeMap<String, Option<String>>;

/// Where a GPU's active NVLinks go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Links {
    /// To other GPUs, by PCI address.
    direct: BTreeMap<String, u32>,
    /// To switches, which reach every GPU that has links to them.
    switched: u32,
}

/// One GPU, as the others see it.
#[derive(Debug, Clone)]
struct Peer {
    uuid: String,
    address: String,
    links: Links,
}

/// Opens the library and asks.
///
/// # Errors
/// [`SensorError`], as for [`Gpus::open`](super::Gpus::open). While a GPU does not answer, nothing is said of any: without it
/// the others would look as if they had been wired anew.
pub fn read(library: &NvmlLibrary) -> Result<Topology, SensorError> {
    let (nvml, _) = library::open(library)?;
    let count = nvml.device_count().map_err(|source| SensorError::Call { what: "the number of GPUs", source })?;
    let answering = |index| Some((index, peer(&nvml, &nvml.device_by_index(index).ok()?).ok()?));
    let devices: Vec<(u32, Peer)> = (0..count).filter_map(answering).collect();
    let mut topology = Topology::new();
    if devices.len() != count as usize {
        return Ok(topology);
    }
    let mut ancestors: BTreeMap<(u32, u32), Reading<&'static str>> = BTreeMap::new();
    for (at, own) in &devices {
        let others = devices.iter().filter(|(other, _)| other != at).map(|(other, peer)| {
            let path = match nvlinks(own, peer) {
                0 => {
                    let pair = (*at.min(other), *at.max(other));
                    ancestors.entry(pair).or_insert_with(|| ancestor(&nvml, pair)).clone().map(str::to_owned)
                }
                links => Reading::Value(format!("NV{links}")),
            };
            (path, peer.uuid.as_str())
        });
        if let Some(described) = describe(others) {
            topology.insert(own.uuid.clone(), described);
        }
    }
    Ok(topology)
}

fn peer(nvml: &Nvml, device: &Device<'_>) -> Result<Peer, NvmlError> {
    let address = device.pci_info().map(|pci| pci.bus_id).unwrap_or_default().to_ascii_uppercase();
    Ok(Peer { uuid: device.uuid()?, address, links: links(nvml, device) })
}

/// How many NVLinks lead from one GPU to the other, directly or by switches.
fn nvlinks(own: &Peer, other: &Peer) -> u32 {
    let direct = own.links.direct.get(&other.address).copied().unwrap_or(0);
    if direct > 0 { direct } else { own.links.switched.min(other.links.switched) }
}

/// The paths to all others in one text. `None` when one of them could not be read now: half of a topology would look like a
/// change.
fn describe<'a>(others: impl Iterator<Item = (Reading<String>, &'a str)>) -> Option<Option<String>> {
    let mut told = Vec::new();
    for (path, uuid) in others {
        match path {
            Reading::Value(path) => told.push(format!("{path}:{uuid}")),
            Reading::Unsupported(_) => {}
            Reading::Failed(_) => return None,
        }
    }
    Some((!told.is_empty()).then(|| told.join(" ")))
}

fn ancestor(nvml: &Nvml, (one, other): (u32, u32)) -> Reading<&'static str> {
    let answer = nvml.device_by_index(one).and_then(|one| one.topology_common_ancestor(nvml.device_by_index(other)?));
    reading(answer).map(|level| match level {
        TopologyLevel::Internal | TopologyLevel::Single => "PIX",
        TopologyLevel::Multiple => "PXB",
        TopologyLevel::HostBridge => "PHB",
        TopologyLevel::Node => "NODE",
        TopologyLevel::System => "SYS",
    })
}

/// Where the active links of a GPU go. A link whose other end can't be told counts for nothing.
fn links(nvml: &Nvml, device: &Device<'_>) -> Links {
    let mut links = Links::default();
    for link in 0..NVML_NVLINK_MAX_LINKS {
        let wrapper = device.link_wrapper_for(link);
        match wrapper.is_active() {
            Ok(true) => {}
            Ok(false) => continue,
            // There are no more, or none at all.
            Err(_) => break,
        }
        if is_switched(nvml, device, link) {
            links.switched += 1;
        } else if let Ok(remote) = wrapper.remote_pci_info() {
            *links.direct.entry(remote.bus_id.to_ascii_uppercase()).or_default() += 1;
        }
    }
    links
}

/// Whether the other end of a link is a switch.
fn is_switched(nvml: &Nvml, device: &Device<'_>, link: u32) -> bool {
    let Ok(symbol) = nvml.lib().nvmlDeviceGetNvLinkRemoteDeviceType.as_ref() else { return false };
    let mut kind = u32::MAX;
    // SAFETY: the handle is the driver's, which `nvml` keeps open, and `kind` is valid for writing.
    let code = unsafe { symbol(device.handle(), link, &raw mut kind) };
    code == 0 && kind == SWITCH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, direct: &[(&str, u32)], switched: u32) -> Peer {
        let direct = direct.iter().map(|(address, links)| ((*address).to_owned(), *links)).collect();
        Peer { uuid: format!("GPU-{name}"), address: name.to_owned(), links: Links { direct, switched } }
    }

    #[test]
    fn links_count_from_gpu_to_gpu_and_by_switches_as_many_as_both_have() {
        let (a, b) = (peer("A", &[("B", 4)], 0), peer("B", &[("A", 4), ("C", 2)], 0));
        assert_eq!((nvlinks(&a, &b), nvlinks(&b, &a), nvlinks(&b, &peer("C", &[], 0))), (4, 4, 2));
        let (whole, part) = (peer("D", &[], 18), peer("E", &[], 12));
        assert_eq!((nvlinks(&whole, &part), nvlinks(&part, &whole)), (12, 12));
        assert_eq!(nvlinks(&whole, &peer("F", &[], 0)), 0, "a GPU without links is not on the switches");
    }

    #[test]
    fn half_of_a_topology_is_none() {
        let path = |name: &str| Reading::Value(name.to_owned());
        let unsupported = || Reading::Unsupported("no".into());
        let both = [(path("NV18"), "GPU-2"), (path("SYS"), "GPU-3")];
        assert_eq!(describe(both.into_iter()), Some(Some("NV18:GPU-2 SYS:GPU-3".to_owned())));
        let some = [(unsupported(), "GPU-2"), (path("PIX"), "GPU-3")];
        assert_eq!(describe(some.into_iter()), Some(Some("PIX:GPU-3".to_owned())));
        assert_eq!(describe([(unsupported(), "GPU-2")].into_iter()), Some(None));
        assert_eq!(describe(std::iter::empty()), Some(None), "a single GPU reaches no other");
        assert_eq!(describe([(path("PIX"), "GPU-2"), (Reading::Failed("lost".into()), "GPU-3")].into_iter()), None);
    }
}
