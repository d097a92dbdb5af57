//! What the parts of a GPU that is split by MIG look like at an instant, and what they make of the whole board.
//!
//! The board works as its instances do, each by its compute slices of 7: a 3g instance at 70 percent is 30 percent of the
//! board. Its energy follows from that, and its used memory is that of its instances together.

use std::borrow::Cow;

use crate::curve::Curve;
use crate::mig_profiles::MigProfile;
use crate::model::{Alive, FULL, ProcessState, part};
use crate::profiles::Profile;
use crate::scenario::GpuSpec;
use crate::scenario::mig::{MigSpec, Slot};

/// Compute slices of a board.
const COMPUTE_SLICES: u64 = 7;

/// Memory slices of a board.
const MEMORY_SLICES: u64 = 8;

/// A MIG device at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceState {
    /// Utilisation of its own part in thousandths of a percent.
    pub utilization: u64,
    /// All memory, in bytes: reserved + used + free.
    pub memory_total: u64,
    /// Kept by driver and firmware, in bytes.
    pub memory_reserved: u64,
    /// Held by processes, in bytes.
    pub memory_used: u64,
    /// Free, in bytes.
    pub memory_free: u64,
    /// The processes that hold it, with their parts of its utilisation.
    pub processes: Vec<ProcessState>,
}

impl MigProfile {
    /// Memory of an instance, in bytes.
    pub fn total(&self) -> u64 {
        self.mib * 1_048_576
    }

    /// What driver and firmware keep of it, in bytes: its part of what they keep of the board's.
    pub fn reserved(&self, board: &Profile) -> u64 {
        board.memory_reserved * u64::from(self.memory) / MEMORY_SLICES
    }

    /// What processes can have of it, in bytes.
    pub fn capacity(&self, board: &Profile) -> u64 {
        self.total() - self.reserved(board)
    }
}

impl GpuSpec {
    /// The state of a MIG device of this GPU.
    pub fn instance(&self, slot: &Slot, t: u64, alive: &Alive) -> InstanceState {
        let utilization = self.instance_load(slot.load, alive).at(t).min(FULL);
        let processes = self.split(utilization, alive, Some(slot));
        let held: u64 = processes.iter().map(|process| process.memory_bytes).sum();
        let declared = self.load_spec(slot.load).and_then(|load| load.memory.as_ref());
        let deserted = self.is_instance_deserted(slot.load, alive);
        let declared = if deserted { 0 } else { declared.map_or(0, |curve| curve.at(t)) };
        let (memory_total, memory_reserved) = (slot.profile.total(), slot.profile.reserved(self.profile));
        let memory_used = declared.max(held).min(memory_total - memory_reserved);
        let memory_free = memory_total - memory_reserved - memory_used;
        InstanceState { utilization, memory_total, memory_reserved, memory_used, memory_free, processes }
    }

    /// The board's utilisation, in thousandths of a percent.
    pub(crate) fn board_utilization(&self, mig: &MigSpec, t: u64, alive: &Alive) -> u64 {
        let weighted = |slot: &Slot| {
            let own = self.instance_load(slot.load, alive).at(t).min(FULL);
            own * u64::from(slot.profile.compute) / COMPUTE_SLICES
        };
        mig.slots(t).map(weighted).sum()
    }

    /// The integral of the board's utilisation from 0 to `t`; never falls as `t` rises.
    pub(crate) fn board_busy(&self, mig: &MigSpec, t: u64, alive: &Alive) -> u128 {
        let ends = mig.layouts.iter().skip(1).map(|layout| layout.from_ms).chain([u64::MAX]);
        let pieces = mig.layouts.iter().zip(ends).take_while(|(layout, _)| layout.from_ms < t).map(|(layout, end)| {
            let weighted = |slot: &Slot| {
                let load = self.instance_load(slot.load, alive);
                let own = load.area(t.min(end)) - load.area(layout.from_ms);
                own * u128::from(slot.profile.compute) / u128::from(COMPUTE_SLICES)
            };
            layout.places.iter().flatten().map(weighted).sum::<u128>()
        });
        pieces.sum()
    }

    /// The utilisation over time of what the scenario has at `load`; 0 where it has nothing.
    pub(crate) fn instance_load(&self, load: Option<usize>, alive: &Alive) -> Cow<'_, Curve> {
        let Some(spec) = self.load_spec(load).filter(|_| !self.is_instance_deserted(load, alive)) else {
            return Cow::Owned(Curve::constant(0));
        };
        match &spec.utilization {
            Some(curve) => Cow::Borrowed(curve),
            None => Cow::Owned(Curve::constant(self.asked(alive, load).min(FULL))),
        }
    }

    fn load_spec(&self, load: Option<usize>) -> Option<&crate::scenario::mig::InstanceSpec> {
        self.mig.as_ref()?.loads.get(load?)
    }

    fn is_instance_deserted(&self, load: Option<usize>, alive: &Alive) -> bool {
        let mut own = self.processes.iter().zip(alive).filter(|(process, _)| process.instance == load);
        self.idle_without_processes && own.all(|(_, pids)| pids.is_empty())
    }

    /// What the living processes of an instance, or of a whole GPU, ask for together; can be above 100 percent.
    pub(crate) fn asked(&self, alive: &Alive, instance: Option<usize>) -> u64 {
        let own = self.processes.iter().zip(alive).filter(|(process, _)| process.instance == instance);
        own.filter(|(_, pids)| !pids.is_empty()).map(|(process, _)| process.sm_util).sum()
    }

    /// The living processes of a MIG device, or of a whole GPU, with its utilisation split in proportion to what they
    /// ask for.
    pub(crate) fn split(&self, utilization: u64, alive: &Alive, slot: Option<&Slot>) -> Vec<ProcessState> {
        let instance = slot.and_then(|slot| slot.load);
        if slot.is_some() && instance.is_none() {
            return Vec::new();
        }
        let asked = self.asked(alive, instance).max(1);
        let mut processes = Vec::new();
        for (spec, pids) in self.processes.iter().zip(alive).filter(|(process, _)| process.instance == instance) {
            let count = pids.len().max(1) as u64;
            let sm_util = utilization * spec.sm_util / asked;
            for (position, &pid) in (0u64..).zip(pids) {
                processes.push(ProcessState {
                    pid,
                    memory_bytes: part(spec.memory_bytes, count, position),
                    sm_util: part(sm_util, count, position),
                    list: spec.list,
                    gpu_instance: slot.map(|slot| slot.gpu_instance),
                });
            }
        }
        processes
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Scenario, Seed};
    use std::path::Path;

    const TWO_INSTANCES: &str = r#"
        [[gpu]]
        model = "h100-80gb"
        mig = [{ at = "0s", layout = ["3g.40gb", "-", "1g.10gb"] }, { at = "10s", layout = ["1g.10gb"] }]
        [[gpu.instance]]
        profile = "3g.40gb"
        utilization = 70
        memory_mib = 1000
        [[gpu.instance]]
        profile = "1g.10gb"
        [[gpu.instance.process]]
        pid = 7
        memory_mib = 500
        sm_util = 35
    "#;

    #[test]
    fn a_board_is_the_sum_of_its_instances() {
        let gpu =
            Scenario::parse(Path::new("test"), TWO_INSTANCES, Seed::default()).expect("a scenario").gpus.remove(0);
        let alive = vec![vec![7]];
        let mib = 1_048_576;
        // 3/7 of 70 percent, and 1/7 of 35 percent; 70 W idle, and 630 W times that.
        let state = gpu.state(0, &alive);
        assert_eq!((state.utilization, state.memory_used, state.power_mw), (35_000, 1_500 * mib, 290_500));
        assert_eq!(state.processes.iter().map(|p| (p.pid, p.gpu_instance)).collect::<Vec<_>>(), [(7, Some(11))]);
        let later = gpu.state(10_000, &alive);
        assert_eq!((later.utilization, later.memory_used), (5_000, 500 * mib));
        let mig = gpu.mig.as_ref().expect("split");
        assert_eq!((mig.generation(0), mig.generation(9_999), mig.generation(10_000)), (1, 1, 2));
        let energy = gpu.energy_uj(20_000, &alive);
        assert_eq!(energy, 70_000 * 20_000 + 630_000 * (35 * 10_000 + 5 * 10_000) / 100);
        let slot = mig.slots(0).next().expect("an instance");
        let own = gpu.instance(slot, 0, &alive);
        assert_eq!((own.utilization, own.memory_used), (70_000, 1_000 * mib));
        assert_eq!(own.memory_total, own.memory_free + own.memory_used + own.memory_reserved);
    }
}
