//! Which device of this node is meant by a file or by a name, as CUDA takes it.
//!
//! A name may be that of a file, `/dev/nvidia<minor>`, and a number of Slurm's a place among the node's devices
//! ([`places`](super::places)). CUDA takes UUIDs, also shortened, and its own indices, which differ from process to process and are
//! never used here.

use crate::owners::{DeviceId, NodeDevice};

/// The device with this minor number; where the node does not know it (yet), its file.
pub fn by_minor(minor: u32, node: &[NodeDevice]) -> DeviceId {
    let file = DeviceId::Node { minor, gpu_instance: None };
    file.on(node).and_then(id).unwrap_or(file)
}

/// The device that a name means: a UUID, the beginning of one that no other device of the node has, a PCI address, or
/// `/dev/nvidia<minor>`; `None` for anything else, such as an index.
pub fn by_name(name: &str, node: &[NodeDevice]) -> Option<DeviceId> {
    let name = name.trim();
    if let Some(address) = address(name) {
        let device = node.iter().find(|device| device.pci.as_deref().and_then(self::address) == Some(address))?;
        return id(device);
    }
    match DeviceId::parse(name.strip_prefix("/dev/").unwrap_or(name)) {
        Some(DeviceId::Node { minor, gpu_instance: None }) => return Some(by_minor(minor, node)),
        // Without prefix it may be anything.
        Some(known) if name.starts_with("GPU-") || name.starts_with("MIG-") => return Some(known),
        _ => {}
    }
    let digits = name.strip_prefix("GPU-").or_else(|| name.strip_prefix("MIG-"))?;
    if digits.is_empty() {
        return None;
    }
    let name = format!("{}{}", &name[..4], digits.to_ascii_lowercase());
    let mut fit = node.iter().filter(|device| device.uuid.starts_with(&name));
    let found = fit.next()?;
    fit.next().is_none().then(|| id(found)).flatten()
}

fn id(device: &NodeDevice) -> Option<DeviceId> {
    DeviceId::parse(&device.uuid)
}

/// A PCI address, `[domain:]bus:device.function` in hexadecimal digits, by its parts.
pub(super) fn address(text: &str) -> Option<[u32; 4]> {
    let (place, function) = text.rsplit_once('.')?;
    let mut fields = place.rsplit(':');
    let hex = |text: &str| {
        let is_number = (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_number.then(|| u32::from_str_radix(text, 16).ok()).flatten()
    };
    let (device, bus) = (hex(fields.next()?)?, hex(fields.next()?)?);
    let domain = fields.next().map_or(Some(0), hex)?;
    fields.next().is_none().then_some(())?;
    Some([domain, bus, device, hex(function)?])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node() -> Vec<NodeDevice> {
        let gpu = |uuid: &str, minor, pci: &str| NodeDevice {
            uuid: format!("GPU-{uuid}"),
            minor: Some(minor),
            pci: Some(pci.into()),
            ..NodeDevice::default()
        };
        vec![
            // The driver's order is the other one than that of the files.
            gpu("5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77", 1, "00000000:3B:00.0"),
            gpu("5d5ba0d6-0000-2b2c-524d-9e3d8d2b8a78", 0, "00000000:AF:00.0"),
            NodeDevice {
                uuid: "MIG-11112222-d33d-2b2c-524d-9e3d8d2b8a79".into(),
                minor: Some(2),
                gpu_instance: Some(1),
                ..NodeDevice::default()
            },
        ]
    }

    fn named(name: &str) -> Option<String> {
        by_name(name, &node()).map(|id| id.to_string())
    }

    #[test]
    fn a_number_is_a_minor_number() {
        assert_eq!(by_minor(0, &node()).to_string(), "GPU-5d5ba0d6-0000-2b2c-524d-9e3d8d2b8a78");
        assert_eq!(by_minor(1, &node()).to_string(), "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77");
        // An instance of MIG has its GPU's file, and is not the GPU.
        assert_eq!(by_minor(2, &node()), DeviceId::Node { minor: 2, gpu_instance: None });
        assert_eq!(named("/dev/nvidia1").as_deref(), Some("GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"));
    }

    #[test]
    fn an_instance_is_known_by_its_gpu_and_its_number() {
        let of = |gpu_instance| DeviceId::Node { minor: 2, gpu_instance: Some(gpu_instance) };
        let found = |id: DeviceId| id.on(&node()).map(|device| device.uuid.clone());
        assert_eq!(found(of(1)).as_deref(), Some("MIG-11112222-d33d-2b2c-524d-9e3d8d2b8a79"));
        assert_eq!(found(of(2)), None);
    }

    #[test]
    fn a_name_is_a_uuid_or_an_address_and_never_an_index() {
        let first = Some("GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77".to_owned());
        for name in ["GPU-5D5BA0D6-D33D-2B2C-524D-9E3D8D2B8A77", "GPU-5d5ba0d6-d", "0000:3b:00.0", "3B:00.0"] {
            assert_eq!(named(name), first, "{name}");
        }
        assert_eq!(named("MIG-1111").as_deref(), Some("MIG-11112222-d33d-2b2c-524d-9e3d8d2b8a79"));
        for name in
            ["0", "1", "", "GPU-", "GPU-5d5ba0d6-", "NoDevFiles", "all", "none", "void", "1:3b:00.0", "-1", "GPU-é"]
        {
            assert_eq!(named(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_name_has_an_answer(name in "\\PC{0,60}|(GPU-|MIG-|/dev/nvidia)?[0-9a-fA-F:.-]{0,50}") {
            let _ = by_name(&name, &node());
        }
    }
}
