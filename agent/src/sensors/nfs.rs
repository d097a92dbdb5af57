//! NFS: what its mounts have moved and how their server answered, from `/proc/self/mountstats`.
//!
//! Own reading of the file ([`block`]), since one mount's block that can't be understood must not take the others with it:
//! it is skipped and counted. A super block that is mounted at several places has one set of counters, and is handed on
//! once, at the place that `mounts` chooses too; super blocks of one export that are apart (`nosharecache`) each have
//! counters of their own. A mount with several transports (`nconnect`) has several `xprt` lines, which are summed.
//! Reading the file asks no server, and does not hang with one.

mod block;

use smallvec::smallvec;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use contador_schemas::names::{self, Fixed};

use self::block::Counters;
use super::kernel::{KernelError, KernelFile, KernelSample};
use super::mounts::table::{Once, Table};
use super::{Measures, Number, Reading};
use crate::sensors::measure::Varying;

const READ: Fixed = &[(names::DISK_DIRECTION, "read")];
const WRITE: Fixed = &[(names::DISK_DIRECTION, "write")];

/// The reader of NFS mounts.
#[derive(Debug)]
pub struct Nfs {
    mountstats: KernelFile,
    mountinfo: KernelFile,
    exclude_points: Vec<PathBuf>,
    /// Where each super block is handed on.
    places: HashSet<PathBuf>,
    skipped_blocks: u64,
}

impl Nfs {
    /// A reader under `proc_root` (`/proc`), which leaves out what is mounted at or below `exclude_points`.
    pub fn new(proc_root: impl Into<PathBuf>, exclude_points: Vec<PathBuf>) -> Self {
        let own = proc_root.into().join("self");
        Self {
            mountstats: KernelFile::new(own.join("mountstats")),
            mountinfo: KernelFile::new(own.join("mountinfo")),
            exclude_points,
            places: HashSet::new(),
            skipped_blocks: 0,
        }
    }

    /// Every NFS mount at `ts_ms` (Unix milliseconds).
    ///
    /// # Errors
    /// When mountinfo, or mountstats while there is an NFS mount, cannot be read.
    pub fn sample(&mut self, ts_ms: i64) -> Result<KernelSample, KernelError> {
        let mut sample = KernelSample { ts_ms, ..KernelSample::default() };
        if self.mountinfo.has_changed() {
            let excluded = &self.exclude_points;
            let is_wanted = |point: &Path, fs_type: &str| {
                matches!(fs_type, "nfs" | "nfs4") && !excluded.iter().any(|excluded| point.starts_with(excluded))
            };
            let table = Table::read(self.mountinfo.read()?, Once::SuperBlock, is_wanted);
            self.places = table.mounts.into_iter().map(|mount| mount.point).collect();
        }
        if self.places.is_empty() {
            unsupported(&mut sample.measures);
            return Ok(sample);
        }
        // Mounts that hide each other have a block each: the last one is the one that can be reached.
        let mut blocks = BTreeMap::new();
        for block in block::blocks(self.mountstats.read()?) {
            if self.places.contains(&block.point) {
                blocks.insert(block.point, block.counters);
            }
        }
        for (point, counters) in &blocks {
            match counters {
                Some(counters) => measures(&mut sample.measures, point, counters),
                None => self.skipped_blocks += 1,
            }
        }
        Ok(sample)
    }

    /// Blocks that could not be understood so far.
    pub fn skipped_blocks(&self) -> u64 {
        self.skipped_blocks
    }
}

fn measures(measures: &mut Measures, point: &Path, counters: &Counters) {
    let shown = point.to_string_lossy().into_owned();
    let mut add = |metric, fixed, value| {
        let of: Varying = smallvec![(names::MOUNTPOINT, Cow::Owned(shown.clone()))];
        measures.add_with(metric, fixed, of, Reading::Value(value));
    };
    add(names::NFS_IO, READ, Number::Whole(counters.read_bytes));
    add(names::NFS_IO, WRITE, Number::Whole(counters.written_bytes));
    add(names::NFS_OPERATIONS, &[], Number::Whole(counters.operations));
    add(names::NFS_OPERATION_TIME, &[], Number::Thousandths(counters.operation_ms));
    add(names::NFS_RETRANSMISSIONS, &[], Number::Whole(counters.retransmissions));
    add(names::NFS_TIMEOUTS, &[], Number::Whole(counters.timeouts));
    add(names::NFS_CONNECTIONS, &[], Number::Whole(counters.connections));
    add(names::NFS_SENT, &[], Number::Whole(counters.sent));
}

fn unsupported(measures: &mut Measures) {
    let mut none = |metric, fixed| {
        measures.add_as(metric, fixed, Reading::Unsupported("there is no NFS mount".into()));
    };
    none(names::NFS_IO, READ);
    none(names::NFS_IO, WRITE);
    [
        names::NFS_OPERATIONS,
        names::NFS_OPERATION_TIME,
        names::NFS_RETRANSMISSIONS,
        names::NFS_TIMEOUTS,
        names::NFS_CONNECTIONS,
        names::NFS_SENT,
    ]
    .into_iter()
    .for_each(|metric| none(metric, &[]));
}

#[cfg(test)]
mod tests;
