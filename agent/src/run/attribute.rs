//! A device's sample and the owners of its processes, as a tick of the ledger.

use std::collections::HashMap;

use contador_schemas::owner::{Owner, OwnerKind};

use crate::ledger::Tick;
use crate::ledger::tick::{holders, ppm};
use crate::sensors::{GpuSample, Reading};

/// The tick that a sample makes; `None` when the driver failed to say who holds the device: the state before holds on
/// then, for as long as a state may.
///
/// `owners` has the owner of each process that exists; when it is not `fresh`, a process that it lacks may be a new one,
/// and there is no tick either. A driver that can't tell processes at all makes the holder
/// *unattributed* while the device works or has memory in use.
pub fn tick(sample: &GpuSample, simulated: bool, owners: &HashMap<u32, Owner>, fresh: bool) -> Option<Tick> {
    let held = match &sample.processes {
        Reading::Value(processes) => {
            if !fresh && processes.iter().any(|process| !owners.contains_key(&process.pid)) {
                return None;
            }
            let found = processes.iter().filter_map(|process| {
                let owner = owners.get(&process.pid)?;
                Some((owner.clone(), process.memory_bytes.get().unwrap_or(0), process.sm_util))
            });
            holders(found)
        }
        Reading::Unsupported(_) => {
            let used = sample.memory_used_bytes.get().unwrap_or(0);
            let busy = sample.utilization_gpu.get().unwrap_or(0.0) > 0.0;
            let unknown = (busy || used > 0).then(|| (Owner::of_kind(OwnerKind::Unattributed), used, None));
            holders(unknown)
        }
        Reading::Failed(_) => return None,
    };
    Some(Tick {
        device: sample.uuid.clone(),
        simulated,
        instant_ms: sample.ts_ms,
        holders: held,
        utilization_ppm: sample.utilization_gpu.get().map(|percent| ppm(percent / 100.0)),
        energy_mj: sample.energy_mj.get(),
    })
}
