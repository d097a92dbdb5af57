//! What devices are, and who holds them: series that are always 1, to be joined by `hw_id`.
//!
//! A device's own series don't carry its owner, so that they go on when the owner changes, and there is one for each
//! device, however many owners it has.

use contador_schemas::names::{self, OWNER_ATTRIBUTES};

use super::family::{Families, Labels};
use super::latest::Snapshot;
use super::own::label;

/// Attributes by which a device is known. What can be set (modes, limits) or has a unit is no label: every change of it would
/// begin another series.
const SHOWN: [&str; 13] = [
    names::HW_ID,
    names::HW_MODEL,
    names::HW_PARENT,
    names::HW_SERIAL,
    names::HW_DRIVER_VERSION,
    names::DEVICE_INDEX,
    names::DEVICE_MINOR,
    names::DEVICE_PCI,
    names::DEVICE_ARCHITECTURE,
    names::MIG_PROFILE,
    names::MIG_GPU_INSTANCE,
    names::MIG_COMPUTE_INSTANCE,
    names::SIMULATED,
];

/// Adds them.
pub fn add(families: &mut Families, snapshot: &Snapshot, node: &str) {
    let version = env!("CARGO_PKG_VERSION");
    let target = vec![("host_name", node), ("service_name", "contador-agent"), ("service_version", version)];
    families.gauge(
        "target_info",
        "Always 1; its labels are what all series of this target have in common.",
        &target,
        1.0,
    );
    for device in snapshot.devices.iter() {
        let shown = device.attributes.iter().filter(|(name, _)| SHOWN.contains(&name.as_str()));
        let named: Vec<(String, &str)> = shown.map(|(name, value)| (label(name), value.as_str())).collect();
        let labels: Labels<'_> = named.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        families.gauge("contador_gpu_info", "Always 1; its labels are what the device is.", &labels, 1.0);
    }
    let help = "Always 1; its labels are an owner that holds the device now.";
    for stream in snapshot.streams.iter().filter(|stream| stream.is_device) {
        for owner in stream.holders.iter() {
            let (id, kind) = (owner.id().to_string(), label(names::OWNER_KIND));
            let fields = owner.attributes();
            let named: Vec<(String, &str)> = OWNER_ATTRIBUTES
                .iter()
                .zip(&fields)
                .map(|((_, attribute), (_, value))| (label(attribute), *value))
                .collect();
            let mut labels: Labels<'_> = vec![("hw_id", stream.name.as_str()), ("contador_owner_id", &id)];
            labels.push((&kind, owner.kind.as_str()));
            labels.extend(named.iter().map(|(name, value)| (name.as_str(), *value)));
            families.gauge("contador_gpu_owner_info", help, &labels, 1.0);
        }
    }
}
