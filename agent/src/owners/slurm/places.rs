//! Which device of this node a number of Slurm's means.
//!
//! Slurm counts the devices of a node from 0, in the order in which its node daemon found them: `IDX` of a job's resources is such
//! a place, and so are the numbers in `SLURM_JOB_GPUS`. They are neither minor numbers nor the driver's indices, though often the
//! same. The order is
//!
//! - that of the files in `gres.conf` (gres.conf(5)), where it names them;
//! - that of the PCI addresses, where `gres.conf` has them detected (`AutoDetect=nvml`), of those whose files it names, if it does:
//!   a GPU that is split by MIG has the places of its instances;
//! - else that of the device files, by number.

use super::gpus;
use super::hosts::HostList;
use crate::owners::{DeviceId, NodeDevice};

/// Most devices of a node.
const MAX_DEVICES: usize = 1_024;

/// How this node's GPUs are ordered, by `gres.conf`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Order {
    /// These device files, by minor number; `None` for what is no file of a whole GPU.
    Files(Vec<Option<u32>>),
    /// As the driver lists them; of these device files alone, where each is that of a whole GPU, and all of them when it is empty.
    Detected(Vec<Option<u32>>),
}

impl Order {
    /// Reads a `gres.conf` for the node of this name; `None` when it does not tell.
    pub fn parse(text: &str, node: &str) -> Option<Self> {
        let joined = text.replace("\\\n", " ");
        let (mut files, mut is_detected) = (Vec::new(), false);
        for line in joined.lines().map(|line| line.split('#').next().unwrap_or_default()) {
            let one = |key: &str| {
                let mut pairs = line.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
                pairs.find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value.trim_matches('"'))
            };
            let is_of_node = |nodes: &str| nodes == node || HostList::parse(nodes).is_some_and(|nodes| nodes.has(node));
            if one("NodeName").is_some_and(|nodes| !is_of_node(nodes)) {
                continue;
            }
            if let Some(by) = one("AutoDetect") {
                is_detected = ["nvml", "nvidia"].iter().any(|known| by.eq_ignore_ascii_case(known));
            }
            if one("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu")) {
                files.extend(files_of(one("File"), one("MultipleFiles"), one("Count"))?);
            }
        }
        match is_detected {
            true => (files.len() <= MAX_DEVICES).then_some(Self::Detected(files)),
            false => (!files.is_empty() && files.len() <= MAX_DEVICES).then_some(Self::Files(files)),
        }
    }

    /// The order that counts where Slurm has so many GPUs (0: it does not tell) of this node's.
    ///
    /// # Errors
    /// When none does, so that a place is taken for that among the device files, with why.
    pub fn known<'o>(order: Option<&'o Self>, has: u64, node: &[NodeDevice]) -> Result<&'o Self, String> {
        let Some(order) = order else {
            return Err("gres.conf cannot be read, or says neither File nor AutoDetect".into());
        };
        let Self::Detected(files) = order else { return Ok(order) };
        let found = detected(files, node).len() as u64;
        // Which of them are Slurm's is not told. Without files, those that it has more are lost.
        let is_clear = found == has || (files.is_empty() && found < has);
        match has == 0 || node.is_empty() || is_clear {
            true => Ok(order),
            false => Err(format!(
                "Slurm has {has} GPUs, expected the {found} that AutoDetect finds by gres.conf: name their files there"
            )),
        }
    }
}

/// The places of one line of `gres.conf`; `None` when they can't be counted.
fn files_of(file: Option<&str>, several: Option<&str>, count: Option<&str>) -> Option<Vec<Option<u32>>> {
    if let Some(list) = file {
        let names = HostList::parse(list)?.names(MAX_DEVICES)?;
        return Some(names.iter().map(|name| minor(name)).collect());
    }
    // Several files are one device, such as an instance with its capabilities.
    let count = count.map_or(Some(1), |count| count.parse().ok())?;
    let is_fit = several.is_some() || count <= MAX_DEVICES;
    is_fit.then(|| vec![None; if several.is_some() { 1 } else { count }])
}

/// The minor number of a GPU's file.
fn minor(file: &str) -> Option<u32> {
    file.strip_prefix("/dev/nvidia")?.parse().ok()
}

/// The device at a place; `None` when it is an instance of MIG of which more is not known, or no place of this node.
pub fn device(place: u32, order: Option<&Order>, node: &[NodeDevice]) -> Option<DeviceId> {
    let at = usize::try_from(place).ok()?;
    match order {
        Some(Order::Files(files)) if at < files.len() => Some(gpus::by_minor((*files.get(at)?)?, node)),
        Some(Order::Detected(files)) if !node.is_empty() => DeviceId::parse(&detected(files, node).get(at)?.uuid),
        _ => {
            let mut minors: Vec<u32> = whole(node).filter_map(|gpu| gpu.minor).collect();
            minors.sort_unstable();
            // A device that is not known (yet) is taken for the file of that number.
            Some(gpus::by_minor(minors.get(at).copied().unwrap_or(place), node))
        }
    }
}

/// The device at a place, where it can be no other: a GPU of this node that is not split, or one instance. When nothing tells the
/// order, the place must be that device's by file as well as by address.
pub fn certain(place: u32, order: Option<&Order>, node: &[NodeDevice]) -> Option<DeviceId> {
    let id = device(place, order, node)?;
    let found = id.on(node)?;
    let is_part = |part: &NodeDevice| part.gpu_instance.is_some() && part.minor == found.minor;
    let is_one = found.gpu_instance.is_some() || !node.iter().any(is_part);
    let by_address = || device(place, Some(&Order::Detected(Vec::new())), node);
    let is_told = order.is_some() || by_address().as_ref() == Some(&id);
    (is_one && is_told).then_some(id)
}

/// The GPUs, without instances.
fn whole(node: &[NodeDevice]) -> impl Iterator<Item = &NodeDevice> {
    node.iter().filter(|device| device.gpu_instance.is_none())
}

/// The devices as Slurm finds them by the driver, of those with these files.
fn detected<'n>(files: &[Option<u32>], node: &'n [NodeDevice]) -> Vec<&'n NodeDevice> {
    // A place without the file of a whole GPU may be any.
    let is_any = files.is_empty() || files.contains(&None);
    let mut gpus: Vec<&NodeDevice> = whole(node).filter(|gpu| is_any || files.contains(&gpu.minor)).collect();
    gpus.sort_by_key(|gpu| gpu.pci.as_deref().and_then(gpus::address));
    let instances = |gpu: &NodeDevice| {
        let minor = gpu.minor;
        node.iter().filter(move |part| part.gpu_instance.is_some() && part.minor == minor && minor.is_some())
    };
    gpus.into_iter()
        .flat_map(|gpu| {
            let parts: Vec<&NodeDevice> = instances(gpu).collect();
            if parts.is_empty() { vec![gpu] } else { parts }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two whole GPUs, and one between them that is split in two; the files are numbered the other way round.
    fn node() -> Vec<NodeDevice> {
        let gpu = |number: u32| NodeDevice {
            uuid: format!("GPU-5d5ba0d6-d33d-2b2c-524d-00000000000{number}"),
            minor: Some(9 - number),
            pci: Some(format!("00000000:{number}B:00.0")),
            ..NodeDevice::default()
        };
        let part = |number: u32| NodeDevice {
            uuid: format!("MIG-5d5ba0d6-d33d-2b2c-524d-00000000000{number}"),
            minor: Some(7),
            gpu_instance: Some(number),
            ..NodeDevice::default()
        };
        vec![gpu(3), gpu(2), part(5), part(6), gpu(1)]
    }

    fn found(order: Option<&Order>, node: &[NodeDevice]) -> Vec<String> {
        let short = |id: DeviceId| id.to_string().replace("-5d5ba0d6-d33d-2b2c-524d-00000000000", "");
        (0..5).map(|place| device(place, order, node).map_or("-".to_owned(), short)).collect()
    }

    #[test]
    fn places_are_counted_as_the_files_say_or_by_address_or_by_file() {
        let files = Order::Files(vec![Some(8), None, Some(6)]);
        assert_eq!(found(Some(&files), &node()), ["GPU1", "-", "GPU3", "nvidia3", "nvidia4"]);
        let detected = |minors: &[u32]| Order::Detected(minors.iter().copied().map(Some).collect());
        assert_eq!(found(Some(&detected(&[])), &node()), ["GPU1", "MIG5", "MIG6", "GPU3", "-"]);
        assert_eq!(found(None, &node()), ["GPU3", "GPU2", "GPU1", "nvidia3", "nvidia4"]);
        // Before the devices are known.
        let unknown = ["nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidia4"];
        assert_eq!(
            (found(None, &[]), found(Some(&detected(&[])), &[])),
            (unknown.map(str::to_owned).into(), unknown.map(str::to_owned).into())
        );
        assert_eq!(found(Some(&files), &[])[..3], ["nvidia8", "-", "nvidia6"]);
    }

    #[test]
    fn what_slurm_was_not_given_has_no_place() {
        // Slurm detects all GPUs, and keeps those that its files name: one may be for a display.
        let order = Order::parse("AutoDetect=nvml\nName=gpu Type=a100 File=/dev/nvidia6\n", "n1");
        assert_eq!(found(order.as_ref(), &node()), ["GPU3", "-", "-", "-", "-"]);
        let order = Order::parse("AutoDetect=nvml\nName=gpu File=/dev/nvidia[6-7]\n", "n1");
        assert_eq!(found(order.as_ref(), &node()), ["MIG5", "MIG6", "GPU3", "-", "-"]);
        assert!([0, 3].map(|has| Order::known(order.as_ref(), has, &node()).is_ok()) == [true; 2]);
        // Which two of three, or of four, nobody says.
        let reason = |text: &str, has: u64| {
            let order = Order::parse(text, "n1");
            Order::known(order.as_ref(), has, &node()).err()
        };
        let expected = |found: u32| {
            Some(format!(
                "Slurm has 2 GPUs, expected the {found} that AutoDetect finds by gres.conf: name their files there"
            ))
        };
        assert_eq!(reason("AutoDetect=nvml\n", 2), expected(4));
        assert_eq!(reason("AutoDetect=nvml\nName=gpu File=/dev/nvidia[6-7]\n", 2), expected(3));
        assert_eq!(reason("AutoDetect=nvml\nName=gpu Count=2\n", 2), expected(4));
        assert_eq!(reason("AutoDetect=nvml\nName=gpu File=/dev/nvidia6\n", 2), expected(1));
        for (text, has) in [("AutoDetect=nvml\n", 4), ("AutoDetect=nvml\n", 5), ("Name=gpu File=/dev/nvidia6\n", 2)] {
            assert_eq!(reason(text, has), None, "{text} {has}");
        }
        assert!(reason("", 2).is_some_and(|reason| reason.starts_with("gres.conf cannot be read")));
        assert!(Order::known(Some(&Order::Detected(vec![])), 2, &[]).is_ok(), "before the devices are known");
    }

    #[test]
    fn a_file_tells_the_order_of_a_node() {
        let detected = |minors: &[u32]| Some(Order::Detected(minors.iter().copied().map(Some).collect()));
        let files = |minors: &[u32]| Some(Order::Files(minors.iter().copied().map(Some).collect()));
        for (text, expected) in [
            ("Name=gpu File=/dev/nvidia[0-3]\nName=shard Count=32\n", files(&[0, 1, 2, 3])),
            (
                "# old: Name=gpu File=/dev/nvidia9\nname=GPU file=/dev/nvidia[2,0] # two\nName=gpu Type=x File=/dev/nvidia1",
                files(&[2, 0, 1]),
            ),
            ("NodeName=n[1-4] Name=gpu File=/dev/nvidia3\nNodeName=m1 Name=gpu File=/dev/nvidia0\n", files(&[3])),
            ("NodeName=n1 Name=gpu Type=a \\\n  File=/dev/nvidia1 Cores=0-3\n", files(&[1])),
            ("AutoDetect=nvml\n", detected(&[])),
            ("AutoDetect=NVML\nName=gpu Type=a File=/dev/nvidia0", detected(&[0])),
            ("AutoDetect=nvml\nNodeName=n1 AutoDetect=off Name=gpu File=/dev/nvidia1\n", files(&[1])),
            ("NodeName=m[1-9] AutoDetect=nvml\n", None),
            (
                "Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21\nName=gpu File=/dev/nvidia1\n",
                Some(Order::Files(vec![None, Some(1)])),
            ),
            ("Name=gpu Count=2\n", Some(Order::Files(vec![None, None]))),
            ("Name=gpu File=/dev/dri/renderD128\n", Some(Order::Files(vec![None]))),
            ("", None),
            ("Name=nic File=/dev/mlx0\n", None),
            ("Name=gpu Count=99999999999\n", None),
            ("Name=gpu File=/dev/nvidia[0-99999]\n", None),
            ("Name=gpu File=/dev/nvidia[0-\n", None),
        ] {
            assert_eq!(Order::parse(text, "n1"), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_an_answer(text in "((Name|File|NodeName|AutoDetect|Count)=(gpu|n1|nvml|[0-9]{1,9}|/dev/nvidia\\[[0-9,-]{0,9}\\])?[ \n\\\\]?){0,9}|\\PC{0,80}", place in any::<u32>()) {
            let order = Order::parse(&text, "n1");
            let _ = device(place, order.as_ref(), &node());
        }
    }
}
