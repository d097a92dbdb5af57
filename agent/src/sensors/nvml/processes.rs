//! The living processes on a GPU, what they hold and how much of it they use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample};

use super::answer::{percent, reading, wide};
use crate::sensors::kernel::Stat;
use crate::sensors::sample::{GpuProcess, ProcessKind};
use crate::sensors::{Number, Reading};

/// The processes that are alive under `proc_root`, by PID, with the MIG instance that each one is on. `cursor` is up to where this GPU's utilisation samples
/// have been seen; it moves on.
pub(super) fn read(
    device: &Device<'_>,
    cursor: &mut u64,
    proc_root: &Path,
    rejected: &mut u32,
) -> Reading<Vec<GpuProcess>> {
    let compute = reading(device.running_compute_processes());
    let graphics = reading(device.running_graphics_processes());
    let mps = reading(device.mps_running_compute_processes());
    let lists = [(ProcessKind::Mps, mps), (ProcessKind::Compute, compute), (ProcessKind::Graphics, graphics)];
    merge(lists).map(|mut processes| {
        processes.retain(|process| is_alive(proc_root, process.pid));
        if !processes.is_empty() {
            utilisation(device.process_utilization_stats(*cursor), cursor, &mut processes, rejected);
        }
        processes
    })
}

/// How many processes there are; one that is on two instances of a GPU is one.
pub(super) fn count(processes: &Reading<Vec<GpuProcess>>) -> Reading<Number> {
    let distinct = |list: Vec<GpuProcess>| list.iter().map(|process| process.pid).collect::<BTreeSet<_>>().len();
    processes.clone().map(|list| Number::Whole(distinct(list) as u64))
}

/// All lists, each PID once on a device, the first list first. A list that the device does not offer is left out, as long
/// as it offers compute or graphics; one that failed is not an empty one.
fn merge(lists: [(ProcessKind, Reading<Vec<ProcessInfo>>); 3]) -> Reading<Vec<GpuProcess>> {
    let mut processes = BTreeMap::new();
    let (mut offered, mut unsupported) = (false, None);
    for (kind, list) in lists {
        let list = match list {
            Reading::Value(list) => list,
            Reading::Unsupported(reason) => {
                unsupported = Some(reason);
                continue;
            }
            Reading::Failed(reason) => return Reading::Failed(reason),
        };
        offered |= kind != ProcessKind::Mps;
        for info in list {
            let memory_bytes = memory(&info.used_gpu_memory);
            let (gpu_instance, compute_instance) = (info.gpu_instance_id, info.compute_instance_id);
            // In several lists it is one context, listed twice; it may be told its memory in one of them only.
            let key = (info.pid, gpu_instance, compute_instance);
            let process = processes.entry(key).or_insert_with(|| {
                let memory_bytes = memory_bytes.clone();
                GpuProcess { pid: info.pid, kind, memory_bytes, sm_util: None, gpu_instance, compute_instance }
            });
            if process.memory_bytes.get().is_none() {
                process.memory_bytes = memory_bytes;
            }
        }
    }
    match unsupported {
        Some(reason) if !offered => Reading::Unsupported(reason),
        _ => Reading::Value(processes.into_values().collect()),
    }
}

fn memory(used: &UsedGpuMemory) -> Reading<u64> {
    match used {
        UsedGpuMemory::Used(bytes) => wide(Ok(*bytes)),
        UsedGpuMemory::Unavailable => Reading::Unsupported("the driver cannot tell the memory of this process".into()),
    }
}

/// Puts the newest utilisation sample of each process to it. *Not found* is how the driver says that nothing ran.
fn utilisation(
    answer: Result<Vec<ProcessUtilizationSample>, NvmlError>,
    cursor: &mut u64,
    processes: &mut [GpuProcess],
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
        if let Some(process) = processes.iter_mut().find(|process| process.pid == sample.pid) {
            process.sm_util = percent(sample.sm_util, rejected).get();
        }
    }
}

/// True when `/proc/PID/stat` exists and is not that of a process that has ended and awaits its parent. A process
/// whose first thread has ended while others go on is alive.
fn is_alive(proc_root: &Path, pid: u32) -> bool {
    Stat::read(proc_root, pid).is_some_and(|stat| !stat.is_dead())
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

    type List = Reading<Vec<ProcessInfo>>;

    fn merged(mps: List, compute: List, graphics: List) -> Reading<Vec<GpuProcess>> {
        merge([(ProcessKind::Mps, mps), (ProcessKind::Compute, compute), (ProcessKind::Graphics, graphics)])
    }

    fn none() -> List {
        Reading::Value(Vec::new())
    }

    fn unsupported() -> List {
        Reading::Unsupported("no".into())
    }

    fn failed() -> List {
        Reading::Failed("lost".into())
    }

    #[test]
    fn all_lists_are_one_and_unknown_memory_is_absent() {
        let mps = Reading::Value(vec![info(4, UsedGpuMemory::Unavailable)]);
        let compute = Reading::Value(vec![
            info(7, UsedGpuMemory::Unavailable),
            info(3, UsedGpuMemory::Used(5)),
            info(4, UsedGpuMemory::Used(6)),
        ]);
        let graphics = Reading::Value(vec![info(3, UsedGpuMemory::Used(5)), info(9, UsedGpuMemory::Used(0))]);
        let merged = merged(mps, compute, graphics);
        let processes = merged.value().expect("a list");
        assert_eq!(processes.iter().map(|p| p.pid).collect::<Vec<_>>(), [3, 4, 7, 9]);
        let kinds = [ProcessKind::Compute, ProcessKind::Mps, ProcessKind::Compute, ProcessKind::Graphics];
        assert_eq!(processes.iter().map(|p| p.kind).collect::<Vec<_>>(), kinds);
        assert_eq!(processes[0].memory_bytes, Reading::Value(5));
        assert_eq!(processes[1].memory_bytes, Reading::Value(6), "one of its lists has it");
        assert!(matches!(processes[2].memory_bytes, Reading::Unsupported(_)));
        assert_eq!(processes[3].memory_bytes, Reading::Value(0), "0 is a value");
    }

    #[test]
    fn a_process_on_two_instances_holds_both() {
        let on = |id| ProcessInfo {
            gpu_instance_id: Some(id),
            compute_instance_id: Some(0),
            ..info(7, UsedGpuMemory::Used(1))
        };
        let merged = merged(none(), Reading::Value(vec![on(2), on(1)]), unsupported());
        let processes = merged.value().expect("a list");
        assert_eq!(processes.iter().map(|p| (p.pid, p.gpu_instance)).collect::<Vec<_>>(), [(7, Some(1)), (7, Some(2))]);
        assert_eq!(count(&merged), Reading::Value(Number::Whole(1)));
    }

    #[test]
    fn a_list_that_failed_is_not_an_empty_one() {
        let some = || Reading::Value(vec![info(7, UsedGpuMemory::Used(1))]);
        assert!(merged(unsupported(), some(), failed()).is_failed());
        assert!(merged(unsupported(), failed(), unsupported()).is_failed());
        assert!(merged(failed(), some(), none()).is_failed());
        assert!(matches!(merged(none(), unsupported(), unsupported()), Reading::Unsupported(_)));
        assert_eq!(merged(unsupported(), some(), unsupported()).value().expect("a list").len(), 1);
        let graphics = merged(unsupported(), unsupported(), some());
        assert_eq!(graphics.value().expect("a list")[0].kind, ProcessKind::Graphics);
    }

    #[test]
    fn the_newest_sample_counts_and_an_impossible_one_is_dropped() {
        let list =
            vec![info(1, UsedGpuMemory::Used(1)), info(2, UsedGpuMemory::Used(1)), info(3, UsedGpuMemory::Used(1))];
        let Reading::Value(mut processes) = merged(none(), Reading::Value(list), none()) else { panic!() };
        let (mut cursor, mut rejected) = (10, 0);
        let samples = vec![sample(1, 30, 40), sample(1, 20, 90), sample(2, 25, 2_619), sample(99, 31, 5)];
        utilisation(Ok(samples), &mut cursor, &mut processes, &mut rejected);
        assert_eq!(processes.iter().map(|p| p.sm_util).collect::<Vec<_>>(), [Some(40.0), None, None]);
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
