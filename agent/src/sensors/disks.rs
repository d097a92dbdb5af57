//! Block devices: `/proc/diskstats`, each byte counted once.
//!
//! A request to a partition, to a volume (dm, md) or to an NVMe path is counted by the kernel once more at the disk
//! below or above it. Reported are the whole devices at the bottom: names that `/sys/block` knows (partitions are
//! only inside it), that are not made of other devices (`slaves` is empty), and that have hardware behind them (not
//! loop, ram or zram). NVMe multipath has a head `nvme0n1` and paths `nvme0c0n1`: the head is reported, or, while
//! the kernel keeps its counters all zero, the sum of its paths under the head's name.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use procfs::DiskStat;

use super::kernel::KernelError;
use super::sample::DiskSample;

/// The kernel counts in sectors of this many bytes, whatever the device's own sector is.
const SECTOR: u64 = 512;

/// The reader of `/proc/diskstats`.
#[derive(Debug, Clone)]
pub struct Disks {
    diskstats: PathBuf,
    block: PathBuf,
    skipped_rows: u64,
}

impl Disks {
    /// A reader under `proc_root` (`/proc`) and `sys_root` (`/sys`).
    pub fn new(proc_root: impl Into<PathBuf>, sys_root: impl Into<PathBuf>) -> Self {
        Self { diskstats: proc_root.into().join("diskstats"), block: sys_root.into().join("block"), skipped_rows: 0 }
    }

    /// Every whole device at `ts_ms` (Unix milliseconds), by name.
    ///
    /// # Errors
    /// When `diskstats` cannot be read. A row that is not the kernel's is skipped and counted.
    pub fn sample(&mut self, ts_ms: i64) -> Result<Vec<DiskSample>, KernelError> {
        let text = fs::read_to_string(&self.diskstats).map_err(|error| KernelError::read(&self.diskstats, error))?;
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
            } else if self.is_whole(&row.name) {
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

    fn is_whole(&self, name: &str) -> bool {
        if ["loop", "ram", "zram"].iter().any(|kind| is_numbered(name, kind)) {
            return false;
        }
        // A name with a slash, such as cciss/c0d0, has an exclamation mark in /sys.
        let device = self.block.join(name.replace('/', "!"));
        let has_slaves = fs::read_dir(device.join("slaves")).is_ok_and(|mut slaves| slaves.next().is_some());
        device.is_dir() && !has_slaves
    }
}

/// True for `kind` and a number.
fn is_numbered(name: &str, kind: &str) -> bool {
    name.strip_prefix(kind).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `nvme0n1` for the path `nvme0c3n1`; none for anything else.
fn head_of_path(name: &str) -> Option<String> {
    let (subsystem, rest) = name.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    let are_numbers = [subsystem, controller, namespace].iter().all(|part| part.parse::<u32>().is_ok());
    are_numbers.then(|| format!("nvme{subsystem}n{namespace}"))
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
