//! The living processes on a GPU, what they hold and how much of it they use.

use std::collections::BTreeMap;
use std::path::Path;

use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample};

use super::answer::{percent, reading, wide};
use crate::sensors::Reading;
use crate::sensors::sample::{GpuProcess, ProcessKind};

/// The processes that are alive under `proc_root`, by PID. `cursor` is up to where this GPU's utilisation samples
/// have been seen; it moves on.
pub(super) fn read(
    device: &Device<'_>,
    cursor: &mut u64,
    proc_root: &Path,
    rejected: &mut u32,
) -> Reading<Vec<GpuProcess>> {
    let compute = reading(device.running_compute_processes());
    let graphics = reading(device.running_graphics_processes());
    merge(compute, graphics).map(|mut processes| {
        processes.retain(|pid, _| is_alive(proc_root, *pid));
        if !processes.is_empty() {
            utilisation(device.process_utilization_stats(*cursor), cursor, &mut processes, rejected);
        }
        processes.into_values().collect()
    })
}

/// Both lists, each PID once. A list that the device does not offer is left out, as long as it offers one.
fn merge(
    compute: Reading<Vec<ProcessInfo>>,
    graphics: Reading<Vec<ProcessInfo>>,
) -> Reading<BTreeMap<u32, GpuProcess>> {
    let (compute, graphics) = match (compute, graphics) {
        (Reading::Value(compute), Reading::Value(graphics)) => (compute, graphics),
        (Reading::Value(compute), Reading::Unsupported(_)) => (compute, Vec::new()),
        (Reading::Unsupported(_), Reading::Value(graphics)) => (Vec::new(), graphics),
        (Reading::Failed(reason), _) | (_, Reading::Failed(reason)) => return Reading::Failed(reason),
        (Reading::Unsupported(reason), Reading::Unsupported(_)) => return Reading::Unsupported(reason),
    };
    let mut processes = BTreeMap::new();
    let listed = [(ProcessKind::Compute, compute), (ProcessKind::Graphics, graphics)];
    for (kind, info) in listed.into_iter().flat_map(|(kind, list)| list.into_iter().map(move |info| (kind, info))) {
        let memory_bytes = match info.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => wide(Ok(bytes)),
            UsedGpuMemory::Unavailable => {
                Reading::Unsupported("the driver cannot tell the memory of this process".into())
            }
        };
        // In both lists it is one context, listed twice.
        processes.entry(info.pid).or_insert(GpuProcess { pid: info.pid, kind, memory_bytes, sm_util: None });
    }
    Reading::Value(processes)
}

/// Puts the newest utilisation sample of each process to it. *Not found* is how the driver says that nothing ran.
fn utilisation(
    answer: Result<Vec<ProcessUtilizationSample>, NvmlError>,
    cursor: &mut u64,
    processes: &mut BTreeMap<u32, GpuProcess>,
    rejected: &mut u32,
) {
    let mut samples = match answer {
        Ok(samples) => samples,
        Err(NvmlError::NotFound | NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => return,
        Err(error) => {
            tracing::debug!(%error, "no process utilisation");
            return;
        }
    };
    samples.sort_by_key(|sample| sample.timestamp);
    for sample in samples {
        *cursor = (*cursor).max(sample.timestamp);
        if let Some(process) = processes.get_mut(&sample.pid) {
            process.sm_util = percent(sample.sm_util, rejected).get();
        }
    }
}

/// True when `/proc/PID/stat` exists and is not that of a process that has ended and awaits its parent. A process
/// whose first thread has ended while others go on is alive.
fn is_alive(proc_root: &Path, pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(proc_root.join(pid.to_string()).join("stat")) else { return false };
    // The command in parentheses can hold anything, parentheses too.
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let threads = fields.get(17).and_then(|count| count.parse::<u32>().ok()).unwrap_or(1);
    !(matches!(fields.first(), Some(&("Z" | "X" | "x"))) && threads <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(pid: u32, used_gpu_memory: UsedGpuMemory) -> ProcessInfo {
        ProcessInfo { pid, used_gpu_memory, gpu_instance_id: None, compute_instance_id: None }
    }

    fn sample(pid: u32, timestamp: u64, sm_util: u32) -> ProcessUtilizationSample {
        ProcessUtilizationSample { pid, timestamp, sm_util, mem_util: 0, enc_util: 0, dec_util: 0 }
    }

    #[test]
    fn both_lists_are_one_and_unknown_memory_is_absent() {
        let compute = Reading::Value(vec![info(7, UsedGpuMemory::Unavailable), info(3, UsedGpuMemory::Used(5))]);
        let graphics = Reading::Value(vec![info(3, UsedGpuMemory::Used(5)), info(9, UsedGpuMemory::Used(0))]);
        let merged = merge(compute, graphics);
        let processes: Vec<_> = merged.value().expect("a list").values().collect();
        assert_eq!(processes.iter().map(|p| p.pid).collect::<Vec<_>>(), [3, 7, 9]);
        assert_eq!(processes[0].kind, ProcessKind::Compute);
        assert_eq!(processes[0].memory_bytes, Reading::Value(5));
        assert!(matches!(processes[1].memory_bytes, Reading::Unsupported(_)));
        assert_eq!(processes[2].memory_bytes, Reading::Value(0), "0 is a value");
    }

    #[test]
    fn a_list_that_failed_is_not_an_empty_one() {
        let some = || Reading::Value(vec![info(7, UsedGpuMemory::Used(1))]);
        let unsupported = || Reading::Unsupported("no".into());
        assert!(merge(some(), Reading::Failed("lost".into())).is_failed());
        assert!(merge(Reading::Failed("lost".into()), unsupported()).is_failed());
        assert!(matches!(merge(unsupported(), unsupported()), Reading::Unsupported(_)));
        assert_eq!(merge(some(), unsupported()).value().expect("a list").len(), 1);
        assert_eq!(merge(unsupported(), some()).value().expect("a list")[&7].kind, ProcessKind::Graphics);
    }

    #[test]
    fn the_newest_sample_counts_and_an_impossible_one_is_dropped() {
        let list =
            vec![info(1, UsedGpuMemory::Used(1)), info(2, UsedGpuMemory::Used(1)), info(3, UsedGpuMemory::Used(1))];
        let Reading::Value(mut processes) = merge(Reading::Value(list), Reading::Value(vec![])) else { panic!() };
        let (mut cursor, mut rejected) = (10, 0);
        let samples = vec![sample(1, 30, 40), sample(1, 20, 90), sample(2, 25, 2_619), sample(99, 31, 5)];
        utilisation(Ok(samples), &mut cursor, &mut processes, &mut rejected);
        assert_eq!(processes.values().map(|p| p.sm_util).collect::<Vec<_>>(), [Some(40.0), None, None]);
        assert_eq!((cursor, rejected), (31, 1));
        utilisation(Err(NvmlError::NotFound), &mut cursor, &mut processes, &mut rejected);
        assert_eq!((cursor, rejected), (31, 1), "an idle GPU leaves the cursor where it is");
    }

    #[test]
    fn the_dead_do_not_hold_gpus() {
        let root = tempfile::tempdir().expect("a directory");
        let process = |pid: u32, state: &str, threads: u32| {
            let directory = root.path().join(pid.to_string());
            std::fs::create_dir(&directory).expect("a process");
            let stat = format!("{pid} (a) b) {state} 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 {threads} 0 100 0 0");
            std::fs::write(directory.join("stat"), stat).expect("its state");
        };
        process(1, "S", 1);
        process(2, "Z", 1);
        process(3, "Z", 4);
        std::fs::create_dir(root.path().join("4")).expect("a process without a state");
        assert_eq!([1, 2, 3, 4, 5].map(|pid| is_alive(root.path(), pid)), [true, false, true, false, false]);
    }
}
