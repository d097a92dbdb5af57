//! A device's sample and the owners of its processes, as a tick of the ledger.

use std::collections::HashMap;

use contador_schemas::names;
use contador_schemas::owner::{Owner, OwnerKind};

use crate::ledger::Tick;
use crate::ledger::tick::{holders, ppm};
use crate::sensors::{GpuSample, Reading};

/// The tick that a sample makes; `None` when the driver failed to say who holds the device, and the state before still
/// holds: until it is `stale`, that is, would be too old at the next tick.
///
/// `owners` has the owner of each process that exists; when it is not `fresh`, a process that it lacks may be a new one,
/// and there is no tick either. The holder is *unattributed*
///
/// - while the device works (its utilisation is above 0) and no process of it can be seen: the driver lists none, or those
///   that it lists are not under `/proc`, as in a container without the host's PIDs;
/// - while the device works or has memory in use, and the driver can't tell processes at all, or has failed to for as long
///   as a state may hold.
pub fn tick(
    sample: &GpuSample,
    simulated: bool,
    owners: &HashMap<u32, Owner>,
    fresh: bool,
    stale: bool,
) -> Option<Tick> {
    let memory = sample.measures.count(names::GPU_MEMORY_USAGE);
    let used = memory.unwrap_or(0);
    let utilization = sample.measures.f64(names::GPU_UTILIZATION);
    let busy = utilization.is_some_and(|share| share > 0.0);
    let unattributed = || holders([(Owner::of_kind(OwnerKind::Unattributed), used, None)]);
    let held = match &sample.processes {
        Reading::Value(processes) => {
            if !fresh && processes.iter().any(|process| !owners.contains_key(&process.pid)) {
                return None;
            }
            let found = processes.iter().filter_map(|process| {
                let owner = owners.get(&process.pid)?;
                Some((owner.clone(), process.memory_bytes.get().unwrap_or(0), process.sm_util))
            });
            let held = holders(found);
            if held.is_empty() && busy { unattributed() } else { held }
        }
        // A device of which nothing is known is not metered at all. Of one that is split by MIG only its memory is.
        Reading::Failed(_) if !stale || (utilization.is_none() && memory.is_none()) => return None,
        Reading::Unsupported(_) | Reading::Failed(_) if busy || used > 0 => unattributed(),
        Reading::Unsupported(_) | Reading::Failed(_) => Vec::new(),
    };
    Some(Tick {
        device: sample.uuid.clone(),
        simulated,
        instant_ms: sample.ts_ms,
        holders: held,
        utilization_ppm: utilization.map(ppm),
        energy_mj: sample.measures.count(names::ENERGY),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensors::{GpuProcess, Measures, Number, ProcessKind};

    fn sample(utilization: f64, used: u64, processes: Reading<Vec<GpuProcess>>) -> GpuSample {
        let mut measures = Measures::default();
        measures.add(names::GPU_UTILIZATION, Reading::Value(Number::Real(utilization / 100.0)));
        measures.add(names::GPU_MEMORY_USAGE, Reading::Value(Number::Whole(used)));
        let faults = Vec::new();
        GpuSample { ts_ms: 1_000, uuid: "GPU-1".into(), parent: None, measures, processes, faults, rejected: 0 }
    }

    fn held(sample: &GpuSample, stale: bool) -> Option<Vec<String>> {
        let owners = HashMap::from([(7, Owner { department: "research".into(), ..Owner::default() })]);
        let tick = tick(sample, false, &owners, true, stale)?;
        Some(tick.holders.iter().map(|holder| holder.owner.label()).collect())
    }

    #[test]
    fn a_device_that_works_is_never_idle() {
        let process = |pid| {
            let memory_bytes = Reading::Value(1);
            let (gpu_instance, compute_instance) = (None, None);
            GpuProcess { pid, kind: ProcessKind::Compute, memory_bytes, sm_util: None, gpu_instance, compute_instance }
        };
        let unattributed = vec![Owner::of_kind(OwnerKind::Unattributed).label()];
        let list = |pids: &[u32]| Reading::Value(pids.iter().map(|&pid| process(pid)).collect());
        // A list that is there: a PID that can't be seen, or none at all.
        for pids in [&[99][..], &[]] {
            assert_eq!(held(&sample(40.0, 0, list(pids)), false), Some(unattributed.clone()), "{pids:?}");
            assert_eq!(held(&sample(0.0, 1 << 30, list(pids)), false), Some(vec![]), "{pids:?}: the dead hold nothing");
        }
        assert_eq!(held(&sample(40.0, 0, list(&[7, 99])), false), Some(vec!["research".to_owned()]));
        // No list.
        let unsupported = || Reading::Unsupported("no".into());
        assert_eq!(held(&sample(40.0, 0, unsupported()), false), Some(unattributed.clone()));
        assert_eq!(held(&sample(0.0, 1, unsupported()), false), Some(unattributed.clone()));
        assert_eq!(held(&sample(0.0, 0, unsupported()), false), Some(vec![]));
        let failed = || Reading::Failed("lost".into());
        assert_eq!(held(&sample(40.0, 0, failed()), false), None, "the state before holds");
        assert_eq!(held(&sample(40.0, 0, failed()), true), Some(unattributed));
        assert_eq!(held(&sample(0.0, 0, failed()), true), Some(vec![]));
        let split = |used| {
            let mut sample = sample(0.0, used, failed());
            sample.measures = Measures::default();
            sample.measures.add(names::GPU_UTILIZATION, Reading::Unsupported("MIG".into()));
            sample.measures.add(names::GPU_MEMORY_USAGE, Reading::Value(Number::Whole(used)));
            sample
        };
        assert_eq!(held(&split(1), true).map(|held| held.len()), Some(1), "its memory says that it is held");
        assert_eq!((held(&split(0), true), held(&split(1), false)), (Some(vec![]), None));
        let lost = GpuSample::failed(1_000, "GPU-1", "lost");
        assert_eq!(held(&lost, true), None);
    }
}
