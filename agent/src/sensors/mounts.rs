//! File systems: which are mounted ([`table`]), how full they are, and whether they answer at all ([`probe`]).
//!
//! `statvfs` on a dead mount (an NFS server that is gone, a FUSE program that hangs) can block for ever. So each mount has
//! a thread of its own, which is asked every [`MountOptions::interval`]; a sample takes what has come back by then, and
//! never waits, the first one neither. A probe that is not back when the next one is due makes its mount *unreachable*,
//! with the age of the probe as its time, until it comes back; the other mounts go on. A mount that appears, disappears,
//! stops to answer, or answers again is a [`Change`].
//!
//! Sources: `/proc/self/mountinfo`, which the kernel says to have changed (`POLLPRI`) and which is not read otherwise, and
//! `statvfs`. At most [`MountOptions::max`] threads exist, those included that are stuck in mounts that went away.

pub mod probe;
pub mod table;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contador_schemas::names::{self, Fixed};

use self::probe::{Ask, Outcome, Probe, Usage};
use self::table::{Mount, Once, Table};
use super::kernel::{Change, KernelError, KernelFile, KernelSample};
use super::{Number, Reading};

/// How mounts are looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MountOptions {
    /// Time between two probes of a mount.
    pub interval: Duration,
    /// Most mounts that are probed, and most threads for it.
    pub max: usize,
    /// Mounts at these places, and below them, are left out.
    pub exclude_points: Vec<PathBuf>,
    /// Mounts of these types are left out; `fuse` stands for `fuse.sshfs` too.
    pub exclude_types: Vec<String>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), max: 64, exclude_points: Vec::new(), exclude_types: Vec::new() }
    }
}

/// The reader of mounts.
pub struct Mounts {
    file: KernelFile,
    options: MountOptions,
    ask: Ask,
    wanted: Vec<Mount>,
    watched: Vec<Watched>,
    /// Mounts that went away while their threads were stuck, and still are.
    leftovers: Vec<Watched>,
    left_out: usize,
    skipped_lines: u64,
    /// Which interval of the wall clock had the last probes; `None` before the first.
    asked: Option<i64>,
}

/// A mount and its thread.
#[derive(Debug)]
struct Watched {
    mount: Mount,
    probe: Probe,
    /// Whether it answered last time; `None` before that is known.
    reachable: Option<bool>,
}

impl std::fmt::Debug for Mounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mounts")
            .field("wanted", &self.wanted)
            .field("leftovers", &self.leftovers)
            .finish_non_exhaustive()
    }
}

impl Mounts {
    /// A reader under `proc_root` (`/proc`).
    pub fn new(proc_root: impl Into<PathBuf>, options: MountOptions) -> Self {
        Self::asking(proc_root, options, Arc::new(probe::statvfs))
    }

    /// The same, with another way to ask.
    pub fn asking(proc_root: impl Into<PathBuf>, options: MountOptions, ask: Ask) -> Self {
        Self {
            file: KernelFile::new(proc_root.into().join("self/mountinfo")),
            options,
            ask,
            wanted: Vec::new(),
            watched: Vec::new(),
            leftovers: Vec::new(),
            left_out: 0,
            skipped_lines: 0,
            asked: None,
        }
    }

    /// What has come back since the last sample, and, when it is time (`ts_ms`, Unix milliseconds), which mounts do not
    /// answer; those that do are asked again then.
    ///
    /// # Errors
    /// When the table of mounts cannot be read.
    pub fn sample(&mut self, ts_ms: i64) -> Result<KernelSample, KernelError> {
        let mut sample = KernelSample { ts_ms, ..KernelSample::default() };
        let first = self.asked.is_none();
        self.refresh(&mut sample.changes)?;
        self.leftovers.retain(|leftover| leftover.probe.is_stuck());
        self.watch_wanted(first, &mut sample.changes);
        let interval_ms = i64::try_from(self.options.interval.as_millis()).unwrap_or(i64::MAX).max(1);
        let due = self.asked.replace(ts_ms.div_euclid(interval_ms)) != Some(ts_ms.div_euclid(interval_ms));
        for watched in &mut self.watched {
            if let Some(outcome) = watched.probe.take() {
                watched.came_back(&outcome, &mut sample);
            } else if due && let Some(age) = watched.probe.pending() {
                watched.is_late(age, &mut sample);
            }
            if due {
                watched.probe.ask();
            }
        }
        Ok(sample)
    }

    /// Waits until every mount that was asked has answered, or `patience` is over: for a look at the node, once.
    pub fn settle(&self, patience: Duration) {
        let start = Instant::now();
        while self.watched.iter().any(|watched| watched.probe.is_stuck()) && start.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Mounts that are not probed, since there are too many.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Threads that are still stuck in mounts that went away.
    pub fn leftovers(&self) -> usize {
        self.leftovers.len()
    }

    /// Lines of mountinfo that could not be understood, of its last reading.
    pub fn skipped_lines(&self) -> u64 {
        self.skipped_lines
    }

    /// Reads the table when it has changed, and lets go of mounts that are no longer in it.
    fn refresh(&mut self, changes: &mut Vec<Change>) -> Result<(), KernelError> {
        if !self.file.has_changed() {
            return Ok(());
        }
        let options = &self.options;
        let table = Table::read(self.file.read()?, Once::Storage, |point, fs_type| {
            let is_excluded = |excluded: &String| {
                fs_type.strip_prefix(excluded.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            !options.exclude_points.iter().any(|excluded| point.starts_with(excluded))
                && !options.exclude_types.iter().any(is_excluded)
        });
        self.skipped_lines = table.skipped;
        self.wanted = table.mounts;
        let wanted: HashSet<&Mount> = self.wanted.iter().collect();
        let (kept, gone) =
            std::mem::take(&mut self.watched).into_iter().partition(|watched| wanted.contains(&watched.mount));
        self.watched = kept;
        for watched in gone as Vec<Watched> {
            changes.push(change("mount_removed", &watched.mount, "is no longer mounted"));
            self.leftovers.extend(watched.probe.is_stuck().then_some(watched));
        }
        Ok(())
    }

    /// Starts the threads of mounts that have none, as long as there may be more.
    fn watch_wanted(&mut self, first: bool, changes: &mut Vec<Change>) {
        if self.wanted.len() == self.watched.len() {
            self.left_out = 0;
            return;
        }
        let known: HashSet<Mount> = self.watched.iter().map(|watched| watched.mount.clone()).collect();
        let mut left_out = 0;
        for mount in self.wanted.iter().filter(|mount| !known.contains(mount)) {
            // One that is mounted again while its thread is stuck gets no second one.
            let before = self.leftovers.iter().position(|leftover| leftover.mount == *mount);
            let room = self.watched.len() + self.leftovers.len() < self.options.max;
            let watched = match before {
                Some(before) => Some(self.leftovers.swap_remove(before)),
                None if room => Watched::start(mount, &self.ask),
                None => None,
            };
            if watched.is_some() && !first {
                changes.push(change("mount_added", mount, "was mounted"));
            }
            left_out += usize::from(watched.is_none());
            self.watched.extend(watched);
        }
        if left_out > 0 && self.left_out == 0 && self.options.max > 0 {
            let (most, leftovers) = (self.options.max, self.leftovers.len());
            tracing::warn!(
                left_out,
                most,
                leftovers,
                "too many mounts, expected at most sensors.max_mounts; the rest is left out"
            );
        }
        self.left_out = left_out;
    }
}

const USED: Fixed = &[(names::FILESYSTEM_STATE, "used")];
const FREE: Fixed = &[(names::FILESYSTEM_STATE, "free")];
const RESERVED: Fixed = &[(names::FILESYSTEM_STATE, "reserved")];

impl Watched {
    /// `None` when the operating system refuses another thread.
    fn start(mount: &Mount, ask: &Ask) -> Option<Self> {
        let probe = Probe::start(mount.point.clone(), Arc::clone(ask)).ok()?;
        Some(Self { mount: mount.clone(), probe, reachable: None })
    }

    fn came_back(&mut self, outcome: &Outcome, sample: &mut KernelSample) {
        let (reachable, usage) = match &outcome.answer {
            Ok(usage) => (Reading::Value(true), Reading::Value(*usage)),
            // A FUSE mount of another user refuses even root: that says nothing of how it is.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let reason: Cow<'static, str> = format!("no permission: {error}").into();
                (Reading::Unsupported(reason.clone()), Reading::Unsupported(reason))
            }
            Err(error) => (Reading::Value(false), Reading::Failed(error.to_string().into())),
        };
        let said = usage.missing().unwrap_or_default();
        self.hand_on(&reachable, outcome.took, &usage, sample);
        self.is_stuck(Duration::ZERO, sample);
        if let Some(reachable) = reachable.get() {
            self.note(reachable, &said, &mut sample.changes);
        }
    }

    fn is_late(&mut self, age: Duration, sample: &mut KernelSample) {
        let reason = format!("no answer for {} s", age.as_secs());
        self.hand_on(&Reading::Value(false), age, &Reading::Failed(reason.clone().into()), sample);
        self.is_stuck(age, sample);
        self.note(false, &reason, &mut sample.changes);
    }

    /// A mount's thread is a sensor by itself.
    fn is_stuck(&self, age: Duration, sample: &mut KernelSample) {
        let stuck = Number::Thousandths(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        let of = vec![(names::SENSOR, Cow::Owned(self.mount.shown()))];
        sample.measures.add_with(names::SENSOR_STUCK, &[], of, Reading::Value(stuck));
    }

    /// Says when it is reachable no longer, or again.
    fn note(&mut self, reachable: bool, said: &str, changes: &mut Vec<Change>) {
        let before = self.reachable.replace(reachable).unwrap_or(true);
        match (before, reachable) {
            (true, false) => changes.push(change("mount_lost", &self.mount, &format!("does not answer: {said}"))),
            (false, true) => changes.push(change("mount_back", &self.mount, "answers again")),
            _ => {}
        }
    }

    fn hand_on(&self, reachable: &Reading<bool>, took: Duration, usage: &Reading<Usage>, sample: &mut KernelSample) {
        let (point, fs_type) = (self.mount.shown(), &self.mount.fs_type);
        let mut add = |metric, fixed, reading| {
            let of = vec![
                (names::MOUNTPOINT, Cow::Owned(point.clone())),
                (names::FILESYSTEM_TYPE, Cow::Owned(fs_type.clone())),
            ];
            sample.measures.add_with(metric, fixed, of, reading);
        };
        add(names::MOUNT_REACHABLE, &[], reachable.clone().map(|yes| Number::Whole(yes.into())));
        let took = Number::Millionths(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        add(names::MOUNT_PROBE_TIME, &[], Reading::Value(took));
        let sized = usage.clone().and_then(|usage| match usage {
            Usage { used: 0, free: 0, reserved: 0, .. } => {
                Reading::Unsupported("the file system does not tell its size".into())
            }
            usage => Reading::Value(usage),
        });
        let mut bytes = |fixed, of: fn(Usage) -> u64| {
            add(names::FILESYSTEM_USAGE, fixed, sized.clone().map(|usage| Number::Whole(of(usage))));
        };
        bytes(USED, |usage| usage.used);
        bytes(FREE, |usage| usage.free);
        bytes(RESERVED, |usage| usage.reserved);
        let inodes = usage.clone().and_then(|usage| match usage.inodes {
            Some(inodes) => Reading::Value(inodes),
            None => Reading::Unsupported("the file system makes inodes as they are needed".into()),
        });
        add(names::FILESYSTEM_INODES, USED, inodes.clone().map(|(used, _)| Number::Whole(used)));
        add(names::FILESYSTEM_INODES, FREE, inodes.map(|(_, free)| Number::Whole(free)));
    }
}

fn change(kind: &'static str, mount: &Mount, what: &str) -> Change {
    let (point, fs_type, source) = (mount.shown(), &mount.fs_type, &mount.source);
    Change {
        kind,
        message: format!("{point} ({fs_type} {source}) {what}"),
        attributes: vec![
            (names::MOUNTPOINT, point),
            (names::FILESYSTEM_TYPE, fs_type.clone()),
            (names::FILESYSTEM_SOURCE, source.clone()),
        ],
    }
}

#[cfg(test)]
mod tests;
