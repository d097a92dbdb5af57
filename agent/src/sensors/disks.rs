//! Block devices: `/proc/diskstats`, each byte counted once.
//!
//! Reported are the whole devices at the bottom ([`whole`]). NVMe multipath has a head `nvme0n1` and paths `nvme0c0n1`: the
//! head is reported, or, while the kernel keeps its counters all zero, the sum of its paths under the head's name.

pub(super) mod whole;

use std::collections::BTreeMap;
use std::path::PathBuf;

use procfs::DiskStat;

use self::whole::{Whole, head_of_path};
use super::kernel::{KernelError, KernelFile};
use super::sample::DiskSample;

/// The kernel counts in sectors of this many bytes, whatever the device's own sector is.
const SECTOR: u64 = 512;

/// The reader of `/proc/diskstats`.
#[derive(Debug)]
pub struct Disks {
    diskstats: KernelFile,
    whole: Whole,
    skipped_rows: u64,
}

impl Disks {
    /// A reader under `proc_root` (`/proc`) and `sys_root` (`/sys`).
    pub fn new(proc_root: impl Into<PathBuf>, sys_root: impl Into<PathBuf>) -> Self {
        let diskstats = KernelFile::new(proc_root.into().join("diskstats"));
        Self { diskstats, whole: Whole::new(sys_root), skipped_rows: 0 }
    }

    /// Every whole device at `ts_ms` (Unix milliseconds), by name.
    ///
    /// # Errors
    /// When `diskstats` cannot be read. A row that is not the kernel's is skipped and counted.
    pub fn sample(&mut self, ts_ms: i64) -> Result<Vec<DiskSample>, KernelError> {
        self.whole.tick(ts_ms);
        let text = String::from_utf8_lossy(self.diskstats.read()?);
        let mut devices = BTreeMap::new();
        let mut paths: BTreeMap<String, DiskSample> = BTreeMap::new();
        for line in text.lines() {
            let Ok(row) = DiskStat::from_line(line) else {
                self.skipped_rows += 1;
                continue;
            };
            if let Some(head) = head_of_path(&row.name) {
                let sample = sample(head.clone(), row, ts_ms);
                match paths.get_mut(&head) {
                    Some(sum) => add(sum, &sample),
                    None => _ = paths.insert(head, sample),
                }
            } else if self.whole.is_whole(&row.name) {
                devices.insert(row.name.clone(), sample(row.name.clone(), row, ts_ms));
            }
        }
        for (head, sum) in paths {
            if devices.get(&head).is_none_or(is_zero) {
                devices.insert(head, sum);
            }
        }
        Ok(devices.into_values().collect())
    }

    /// Rows that could not be understood so far.
    pub fn skipped_rows(&self) -> u64 {
        self.skipped_rows
    }
}

fn sample(device: String, row: DiskStat, ts_ms: i64) -> DiskSample {
    DiskSample {
        ts_ms,
        device,
        reads: row.reads,
        read_bytes: row.sectors_read.saturating_mul(SECTOR),
        read_time_ms: row.time_reading,
        writes: row.writes,
        written_bytes: row.sectors_written.saturating_mul(SECTOR),
        write_time_ms: row.time_writing,
        in_flight: row.in_progress,
        io_time_ms: row.time_in_progress,
        weighted_io_time_ms: row.weighted_time_in_progress,
        discards: row.discards,
        discarded_bytes: row.sectors_discarded.map(|sectors| sectors.saturating_mul(SECTOR)),
        flushes: row.flushes,
        flush_time_ms: row.time_flushing,
    }
}

fn is_zero(sample: &DiskSample) -> bool {
    sample.reads == 0 && sample.writes == 0 && sample.io_time_ms == 0 && sample.discards.unwrap_or(0) == 0
}

/// Adds one path's counters to another's. The busy time of paths that work side by side is then above the time passed.
fn add(sum: &mut DiskSample, path: &DiskSample) {
    let plus = |a: &mut u64, b: u64| *a = a.saturating_add(b);
    let maybe_plus = |a: &mut Option<u64>, b: Option<u64>| *a = a.zip(b).map(|(a, b)| a.saturating_add(b));
    plus(&mut sum.reads, path.reads);
    plus(&mut sum.read_bytes, path.read_bytes);
    plus(&mut sum.read_time_ms, path.read_time_ms);
    plus(&mut sum.writes, path.writes);
    plus(&mut sum.written_bytes, path.written_bytes);
    plus(&mut sum.write_time_ms, path.write_time_ms);
    plus(&mut sum.in_flight, path.in_flight);
    plus(&mut sum.io_time_ms, path.io_time_ms);
    plus(&mut sum.weighted_io_time_ms, path.weighted_io_time_ms);
    maybe_plus(&mut sum.discards, path.discards);
    maybe_plus(&mut sum.discarded_bytes, path.discarded_bytes);
    maybe_plus(&mut sum.flushes, path.flushes);
    maybe_plus(&mut sum.flush_time_ms, path.flush_time_ms);
}

#[cfg(test)]
mod tests;
