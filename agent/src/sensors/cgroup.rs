//! What control groups read and write, of the groups that have a process with a GPU.
//!
//! - [`hierarchy`] finds where the kernel accounts I/O, and in which group a process is: `io.stat` of cgroup v2, where
//!   its `io` controller is on, else `blkio` of v1. Systems that mount both (hybrid) have it in one of them only.
//! - [`rows`] reads those files. Devices that were idle have no row; rows of devices that are gone (`(unknown)`), and keys
//!   that are not known, are passed over.
//!
//! As for disks, only whole devices count: the kernel accounts a request to a volume at the disk below it as well.
//! v2 counts a group with all groups inside it; v1's group is its own processes, and buffered writes are not in it. Many
//! kernels count v1's groups only on disks that have a limit in some group (a very high one will do): a group without
//! any row is *unsupported* there.
//! Which group a process is in is looked up every [`PROCESS_MS`].

mod hierarchy;
mod rows;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;

use contador_schemas::names::{self, Fixed};

use self::hierarchy::{Group, Hierarchy};
use self::rows::Io;
use super::disks::whole::{Whole, head_of_path};
use super::kernel::KernelSample;
use super::{Measures, Number, Reading};
use crate::sensors::measure::Varying;

/// How long it is remembered in which group a process is, in milliseconds.
const PROCESS_MS: i64 = 10_000;

/// How long it is remembered which hierarchies and devices there are, in milliseconds.
const MACHINE_MS: i64 = 60_000;

const READ: Fixed = &[(names::DISK_DIRECTION, "read")];
const WRITE: Fixed = &[(names::DISK_DIRECTION, "write")];

/// The reader of groups' I/O.
#[derive(Debug)]
pub struct Cgroups {
    proc: PathBuf,
    root: PathBuf,
    devices: PathBuf,
    whole: Whole,
    hierarchy: Option<Hierarchy>,
    processes: HashMap<u32, Group>,
    device_names: HashMap<(u32, u32), Option<String>>,
    processes_span: Option<i64>,
    machine_span: Option<i64>,
}

impl Cgroups {
    /// A reader under `proc_root` (`/proc`), `sys_root` (`/sys`) and `cgroup_root` (`/sys/fs/cgroup`).
    pub fn new(proc_root: impl Into<PathBuf>, sys_root: impl Into<PathBuf>, cgroup_root: impl Into<PathBuf>) -> Self {
        let sys_root = sys_root.into();
        Self {
            proc: proc_root.into(),
            root: cgroup_root.into(),
            devices: sys_root.join("dev/block"),
            whole: Whole::new(sys_root),
            hierarchy: None,
            processes: HashMap::new(),
            device_names: HashMap::new(),
            processes_span: None,
            machine_span: None,
        }
    }

    /// The groups of these processes at `ts_ms` (Unix milliseconds). It does not fail as a whole: a group whose counters
    /// can't be read says so, one that is gone, or whose process is, has none.
    pub fn sample(&mut self, pids: &[u32], ts_ms: i64) -> KernelSample {
        let mut sample = KernelSample { ts_ms, ..KernelSample::default() };
        self.forget(ts_ms);
        let Some(hierarchy) = &self.hierarchy else {
            missing(&mut sample.measures, None, &Reading::Unsupported("no control group counts I/O".into()));
            return sample;
        };
        let mut groups = BTreeSet::new();
        for &pid in pids {
            let group = self.processes.entry(pid).or_insert_with(|| {
                let text = fs::read(self.proc.join(pid.to_string()).join("cgroup"));
                text.map_or(Group::Gone, |text| hierarchy.group_in(&text))
            });
            groups.insert(group.clone());
        }
        self.processes.retain(|pid, _| pids.contains(pid));
        for group in groups {
            match group {
                Group::Gone => {}
                Group::Unknown(path, reason) => {
                    missing(&mut sample.measures, Some(path), &Reading::Unsupported(reason.into()));
                }
                Group::At(path) => match hierarchy.read(&path) {
                    Ok(Some(rows)) if rows.is_empty() && hierarchy.is_blkio() => {
                        let why =
                            "the kernel counts nothing for this group: with cgroup v1 it may need a limit on the disk";
                        missing(&mut sample.measures, Some(path), &Reading::Unsupported(why.into()));
                    }
                    Ok(Some(rows)) => {
                        let devices =
                            Devices { links: &self.devices, names: &mut self.device_names, whole: &mut self.whole };
                        hand_on(&mut sample.measures, &path, devices.named(rows));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        missing(&mut sample.measures, Some(path), &Reading::Failed(error.to_string().into()));
                    }
                },
            }
        }
        sample
    }

    fn forget(&mut self, ts_ms: i64) {
        self.whole.tick(ts_ms);
        let processes = Some(ts_ms.div_euclid(PROCESS_MS));
        if std::mem::replace(&mut self.processes_span, processes) != processes {
            self.processes.clear();
        }
        let machine = Some(ts_ms.div_euclid(MACHINE_MS));
        if std::mem::replace(&mut self.machine_span, machine) != machine {
            self.hierarchy = Hierarchy::find(&self.root);
            self.device_names.clear();
        }
    }
}

/// What is known of block devices by their numbers.
struct Devices<'c> {
    links: &'c std::path::Path,
    names: &'c mut HashMap<(u32, u32), Option<String>>,
    whole: &'c mut Whole,
}

impl Devices<'_> {
    /// The rows of whole devices by name. An NVMe head stands for its paths, unless it counts nothing.
    fn named(self, rows: BTreeMap<(u32, u32), Io>) -> BTreeMap<String, Io> {
        let mut devices = BTreeMap::new();
        let mut paths: BTreeMap<String, Io> = BTreeMap::new();
        for (number, io) in rows {
            let links = self.links;
            let name = self.names.entry(number).or_insert_with(|| {
                let link = fs::read_link(links.join(format!("{}:{}", number.0, number.1))).ok()?;
                // A name with a slash, such as cciss/c0d0, has an exclamation mark in /sys.
                Some(link.file_name()?.to_str()?.replace('!', "/"))
            });
            let Some(name) = name else { continue };
            match head_of_path(name) {
                Some(head) => paths.entry(head).or_default().add(&io),
                None if self.whole.is_whole(name) => _ = devices.insert(name.clone(), io),
                None => {}
            }
        }
        for (head, sum) in paths {
            if devices.get(&head).is_none_or(Io::is_zero) {
                devices.insert(head, sum);
            }
        }
        devices
    }
}

fn hand_on(measures: &mut Measures, group: &str, devices: BTreeMap<String, Io>) {
    for (device, io) in devices {
        let mut add = |metric, fixed, value| {
            let of =
                vec![(names::CGROUP, Cow::Owned(group.to_owned())), (names::SYSTEM_DEVICE, Cow::Owned(device.clone()))];
            measures.add_with(metric, fixed, of, Reading::Value(Number::Whole(value)));
        };
        add(names::CGROUP_IO, READ, io.read_bytes);
        add(names::CGROUP_IO, WRITE, io.written_bytes);
        add(names::CGROUP_OPERATIONS, READ, io.reads);
        add(names::CGROUP_OPERATIONS, WRITE, io.writes);
    }
}

fn missing(measures: &mut Measures, group: Option<String>, reading: &Reading<Number>) {
    for metric in [names::CGROUP_IO, names::CGROUP_OPERATIONS] {
        for fixed in [READ, WRITE] {
            let of = group.iter().map(|group| (names::CGROUP, Cow::Owned(group.clone()))).collect::<Varying>();
            measures.add_with(metric, fixed, of, reading.clone());
        }
    }
}

#[cfg(test)]
mod tests;
