//! What the environment of a job's process says of the job.
//!
//! Slurm sets these variables for the tasks that it starts, and their children inherit them (sbatch(1), srun(1), "output
//! environment variables"). `SLURM_JOB_GPUS` has the job's devices on this node, of a job with a batch script; `srun` alone
//! sets `SLURM_STEP_GPUS`. With MIG, those count instances, and `CUDA_VISIBLE_DEVICES` names them.

use super::gpus;
use super::gres;
use super::places::{self, Order};
use crate::owners::{DeviceId, NodeDevice};
use crate::sensors::kernel;

/// Longest value that is taken, in bytes.
const MAX_VALUE_BYTES: usize = 4_096;

/// What one process, or several of one job, say.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Environ {
    /// `SLURM_JOB_ID`: a number, also where groups have another id.
    pub number: String,
    /// Places of the job's devices, from `SLURM_JOB_GPUS`.
    pub job_gpus: Vec<u32>,
    /// The same of steps, from `SLURM_STEP_GPUS`.
    pub step_gpus: Vec<u32>,
    /// Names of devices, in `CUDA_VISIBLE_DEVICES` and `NVIDIA_VISIBLE_DEVICES`.
    pub names: Vec<String>,
    /// `SLURM_SHARDS_ON_NODE`: shares of devices, all together.
    pub shards: Option<u32>,
    /// `SLURM_CLUSTER_NAME`.
    pub cluster: String,
    /// `SLURMD_NODENAME`: the name that this node has in Slurm.
    pub node: String,
    /// `SLURM_JOB_USER`.
    pub user: String,
    /// `SLURM_JOB_ACCOUNT`.
    pub account: String,
    /// `SLURM_JOB_PARTITION`.
    pub partition: String,
    /// `SLURM_JOB_QOS`.
    pub qos: String,
}

impl Environ {
    /// What a process's environment says; `None` when it is not that of a process of `job`: when it has no `SLURM_JOB_ID`, or
    /// that of another job. An id that is no number can't be compared.
    pub fn read(environ: &kernel::Environ, job: &str) -> Option<Self> {
        let mut found = Self::default();
        for (name, value) in environ.variables() {
            let Ok(value) = std::str::from_utf8(value) else { continue };
            if value.len() > MAX_VALUE_BYTES || value.chars().any(char::is_control) {
                continue;
            }
            match name {
                b"SLURM_JOB_ID" => value.clone_into(&mut found.number),
                b"SLURM_JOB_GPUS" => found.job_gpus = gres::ranges(value),
                b"SLURM_STEP_GPUS" => found.step_gpus = gres::ranges(value),
                b"CUDA_VISIBLE_DEVICES" | b"NVIDIA_VISIBLE_DEVICES" => {
                    found.names.extend(value.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
                }
                b"SLURM_SHARDS_ON_NODE" => found.shards = value.parse().ok(),
                b"SLURM_CLUSTER_NAME" => value.clone_into(&mut found.cluster),
                b"SLURMD_NODENAME" => value.clone_into(&mut found.node),
                b"SLURM_JOB_USER" => value.clone_into(&mut found.user),
                b"SLURM_JOB_ACCOUNT" => value.clone_into(&mut found.account),
                b"SLURM_JOB_PARTITION" => value.clone_into(&mut found.partition),
                b"SLURM_JOB_QOS" => value.clone_into(&mut found.qos),
                _ => {}
            }
        }
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(&found.number) && (found.number == job || !is_number(job))).then_some(found)
    }

    /// Adds what another process of the same job says. What was there first stays, where there is only one.
    pub fn add(&mut self, other: Self) {
        if self.number.is_empty() {
            *self = other;
            return;
        }
        if self.job_gpus.is_empty() {
            self.job_gpus = other.job_gpus;
        }
        self.step_gpus.extend(other.step_gpus);
        self.step_gpus.sort_unstable();
        self.step_gpus.dedup();
        self.names.extend(other.names);
        self.names.sort_unstable();
        self.names.dedup();
        self.shards = self.shards.or(other.shards);
    }

    /// The job's devices on this node, each once: those of `SLURM_JOB_GPUS`; else those that the controller says; else those of its
    /// steps; else those that it names otherwise, unless the controller says that it has none. A number that CUDA is given says
    /// nothing. `SLURM_JOB_GPUS` comes last when it is another node's: unless `has_script`, the batch script may run here, and when
    /// it lacks a device of a step.
    ///
    /// Of a node with instances of MIG, those that it names count before numbers whose device is not certain
    /// ([`places::certain`]), as far as they may be what it was allocated: as long as they are no more.
    pub fn devices(
        &self,
        allocated: Allocated<'_>,
        has_script: bool,
        order: Option<&Order>,
        node: &[NodeDevice],
    ) -> Vec<DeviceId> {
        let named: Vec<DeviceId> = self.names.iter().filter_map(|name| gpus::by_name(name, node)).collect();
        let places = match allocated {
            Allocated::Unknown => &[][..],
            Allocated::Places(places) => places,
        };
        let is_here = has_script && self.step_gpus.iter().all(|gpu| self.job_gpus.contains(gpu));
        let all = match is_here {
            true => [&self.job_gpus[..], places, &self.step_gpus],
            false => [places, &self.step_gpus, &self.job_gpus],
        };
        let numbers = all.into_iter().find(|numbers| !numbers.is_empty());
        let mut devices = match numbers {
            Some(numbers) => {
                let mut found: Vec<DeviceId> =
                    numbers.iter().filter_map(|place| places::certain(*place, order, node)).collect();
                let open = numbers.len() - found.len();
                match instances(&named, &found, open, node) {
                    Some(instances) => found.extend(instances),
                    None => found = numbers.iter().filter_map(|place| places::device(*place, order, node)).collect(),
                }
                found
            }
            None if allocated == Allocated::Places(&[]) => Vec::new(),
            None => named,
        };
        devices.sort();
        devices.dedup();
        devices
    }
}

/// What the controller says that a job got on a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Allocated<'a> {
    /// It does not say which devices.
    Unknown,
    /// Those at these places; none: it got none.
    Places(&'a [u32]),
}

/// The instances of MIG among those named, without those that it `has`, when they may be all or a part of so many devices. Where the
/// node's devices are not known yet, they may be.
fn instances(named: &[DeviceId], has: &[DeviceId], may_have: usize, node: &[NodeDevice]) -> Option<Vec<DeviceId>> {
    let is_instance = |id: &&DeviceId| matches!(id, DeviceId::Uuid(uuid) if uuid.starts_with("MIG-"));
    let mut found: Vec<DeviceId> = named.iter().filter(is_instance).filter(|id| !has.contains(id)).cloned().collect();
    found.sort();
    found.dedup();
    let is_here = |id: &DeviceId| node.is_empty() || id.on(node).is_some();
    let is_fit = !found.is_empty() && found.iter().all(is_here) && found.len() <= may_have;
    is_fit.then_some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIG: &str = "MIG-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";

    fn read(bytes: &[u8]) -> Option<Environ> {
        Environ::read(&kernel::Environ::from(bytes), "42")
    }

    fn environ(text: &str) -> Environ {
        read(text.replace(' ', "\0").as_bytes()).unwrap()
    }

    fn node() -> Vec<NodeDevice> {
        let gpu = |minor: u32| NodeDevice {
            uuid: format!("GPU-5d5ba0d6-d33d-2b2c-524d-00000000000{minor}"),
            minor: Some(minor),
            pci: Some(format!("0000:3{minor}:00.0")),
            ..NodeDevice::default()
        };
        vec![gpu(3), gpu(2), gpu(1), gpu(0)]
    }

    /// The numbers of what it holds by itself, or by what it was allocated, if that is said; instances of MIG as they are.
    fn held(environ: &Environ, allocated: &[u32]) -> Vec<String> {
        let allocated = if allocated.is_empty() { Allocated::Unknown } else { Allocated::Places(allocated) };
        held_on(&node(), environ, allocated)
    }

    fn held_on(node: &[NodeDevice], environ: &Environ, allocated: Allocated<'_>) -> Vec<String> {
        let devices = environ.devices(allocated, true, None, node);
        devices.iter().map(|id| id.to_string().replace("GPU-5d5ba0d6-d33d-2b2c-524d-00000000000", "")).collect()
    }

    #[test]
    fn a_job_holds_what_it_was_allocated() {
        // As a batch script had it on a real node, and one that then chose one of its two devices.
        let batch = environ("SLURM_JOB_ID=42 SLURM_JOB_GPUS=0,1 CUDA_VISIBLE_DEVICES=0,1 GPU_DEVICE_ORDINAL=0,1");
        assert_eq!(held(&batch, &[]), ["0", "1"]);
        let chosen = "GPU-5d5ba0d6-d33d-2b2c-524d-000000000001";
        let choosing = environ(&format!("SLURM_JOB_ID=42 SLURM_JOB_GPUS=0-2 CUDA_VISIBLE_DEVICES={chosen}"));
        assert_eq!(held(&choosing, &[3]), ["0", "1", "2"]);
        // A step alone: all that the controller says, else what steps have.
        let mut step = environ("SLURM_JOB_ID=42 SLURM_STEP_GPUS=2 CUDA_VISIBLE_DEVICES=0");
        assert_eq!((held(&step, &[2, 3]), held(&step, &[])), (vec!["2".into(), "3".into()], vec!["2".to_owned()]));
        step.add(environ("SLURM_JOB_ID=42 SLURM_STEP_GPUS=1,2"));
        assert_eq!(held(&step, &[]), ["1", "2"]);
        // Names where there is no number of Slurm's; an index of CUDA's says nothing.
        assert_eq!(held(&environ(&format!("SLURM_JOB_ID=42 CUDA_VISIBLE_DEVICES={chosen}")), &[]), ["1"]);
        assert_eq!(held(&environ("SLURM_JOB_ID=42 NVIDIA_VISIBLE_DEVICES=0000:33:00.0"), &[]), ["3"]);
        assert_eq!(held(&environ("SLURM_JOB_ID=42 CUDA_VISIBLE_DEVICES=0,1"), &[]), [] as [&str; 0]);
    }

    #[test]
    fn instances_count_as_far_as_they_may_be_what_was_allocated() {
        let part = |last: u32| NodeDevice {
            uuid: format!("MIG-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a7{last}"),
            minor: Some(3),
            gpu_instance: Some(last),
            ..NodeDevice::default()
        };
        let split = [node(), vec![part(7), part(8)]].concat();
        let of = |gpus: &str, names: &str| environ(&format!("SLURM_JOB_ID=42 {gpus} CUDA_VISIBLE_DEVICES={names}"));
        let other = part(8).uuid;
        // Slurm's numbers count instances there.
        assert_eq!(held_on(&split, &of("SLURM_JOB_GPUS=5", MIG), Allocated::Places(&[5])), [MIG]);
        assert_eq!(held_on(&split, &of("SLURM_STEP_GPUS=4,5", MIG), Allocated::Places(&[4, 5])), [MIG]);
        assert_eq!(held_on(&split, &of("X=", MIG), Allocated::Unknown), [MIG]);
        // What nobody was given, or is not there, is made up.
        let both = of("SLURM_JOB_GPUS=1", &format!("{MIG},{other}"));
        assert_eq!(held_on(&split, &both, Allocated::Places(&[1])), ["1"]);
        assert_eq!(
            held_on(&split, &of("SLURM_JOB_GPUS=1", "MIG-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a79"), Allocated::Unknown),
            ["1"]
        );
        assert_eq!(held_on(&node(), &of("SLURM_JOB_GPUS=0", MIG), Allocated::Places(&[0])), ["0"]);
        assert_eq!(held_on(&split, &of("X=", MIG), Allocated::Places(&[])), [] as [&str; 0], "it was given none");
        // So is a single one, where the place is that of a GPU that is not split, or of another instance.
        assert_eq!(held_on(&split, &of("SLURM_JOB_GPUS=1", &other), Allocated::Places(&[1])), ["1"]);
        assert_eq!(held_on(&split, &of("SLURM_JOB_GPUS=1,5", &other), Allocated::Places(&[1, 5])), ["1", &other]);
        let detected = |gpus: &str, names: &str| {
            let ids = of(gpus, names).devices(Allocated::Unknown, true, Some(&Order::Detected(Vec::new())), &split);
            ids.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(detected("SLURM_JOB_GPUS=3", &other), [MIG]);
        assert_eq!(detected("SLURM_JOB_GPUS=3,4", MIG), [MIG, &other], "it was given both");
        // Before the node is known.
        assert_eq!(held_on(&[], &of("SLURM_JOB_GPUS=5", MIG), Allocated::Places(&[5])), [MIG]);
    }

    #[test]
    fn an_environment_of_another_job_says_nothing() {
        for text in ["", "SLURM_JOB_ID=7\0SLURM_JOB_GPUS=1", "SLURM_JOB_GPUS=1", "SLURM_JOB_ID=", "SLURM_JOB_ID=x"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
        let other_id =
            Environ::read(&kernel::Environ::from(&b"SLURM_JOB_ID=42\0SLURM_CLUSTER_NAME=c"[..]), "sDM9MP4DP5HG00")
                .unwrap();
        assert_eq!((other_id.number.as_str(), other_id.cluster.as_str()), ("42", "c"));
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200), value in "\\PC{0,40}") {
            let _ = read(&bytes);
            let text = format!("SLURM_JOB_ID=42\0SLURM_JOB_GPUS={value}\0CUDA_VISIBLE_DEVICES={value}");
            if let Some(found) = read(text.as_bytes()) {
                let _ = found.devices(Allocated::Unknown, true, None, &node());
            }
        }
    }
}
