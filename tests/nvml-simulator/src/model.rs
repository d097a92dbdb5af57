//! What a GPU looks like at an instant: a pure function of the scenario, the time and the living processes.

use std::borrow::Cow;

use crate::curve::Curve;
use crate::scenario::{GpuSpec, List};

/// 100 percent, in thousandths of a percent.
pub const FULL: u64 = 100_000;

const MIB: u64 = 1024 * 1024;

/// The PIDs that are alive, for each process entry of a GPU's scenario, in its order.
pub type Alive = Vec<Vec<u32>>;

/// A GPU at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuState {
    /// Utilisation of the GPU in thousandths of a percent.
    pub utilization: u64,
    /// Utilisation of the memory interface in thousandths of a percent; three fifths of the GPU's.
    pub memory_utilization: u64,
    /// All memory, in bytes: reserved + used + free.
    pub memory_total: u64,
    /// Kept by driver and firmware, in bytes.
    pub memory_reserved: u64,
    /// Held by processes, in bytes.
    pub memory_used: u64,
    /// Free, in bytes.
    pub memory_free: u64,
    /// Power in milliwatts: from idle at 0 percent in a straight line to the limit at 100 percent.
    pub power_mw: u32,
    /// Core temperature in degrees Celsius.
    pub temperature_c: u32,
    /// SM and graphics clock in MHz.
    pub sm_mhz: u32,
    /// Memory clock in MHz.
    pub memory_mhz: u32,
    /// Video clock in MHz.
    pub video_mhz: u32,
    /// Temperature of the memory in degrees Celsius, where the board measures it.
    pub memory_c: Option<u32>,
    /// Speed of the fan in percent, where the board has one.
    pub fan: Option<u32>,
    /// Utilisation of encoder and decoder in thousandths of a percent.
    pub engines: [u64; 2],
    /// Mapped part of BAR1 in bytes: 2 MiB of each process, and 1 MiB of the driver.
    pub bar1_used: u64,
    /// 0 at work, 8 when idle.
    pub performance_state: u32,
    /// Why clocks are below what was asked, as NVML's bits; that it is idle, unless the scenario says otherwise.
    pub throttle: u64,
    /// The processes that hold it.
    pub processes: Vec<ProcessState>,
}

/// A process on a GPU at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessState {
    /// Its PID.
    pub pid: u32,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Its part of the GPU's utilisation, in thousandths of a percent.
    pub sm_util: u64,
    /// The driver's list that it is in.
    pub list: List,
    /// The GPU instance that it is on, of a GPU that is split by MIG.
    pub gpu_instance: Option<u32>,
}

impl GpuSpec {
    /// The GPU's state at `t` milliseconds with these processes alive.
    pub fn state(&self, t: u64, alive: &Alive) -> GpuState {
        let p = self.profile;
        let capacity = p.memory_total - p.memory_reserved;
        let utilization = self.utilization_at(t, alive);
        let (processes, memory_used) = match &self.mig {
            Some(mig) => {
                let parts: Vec<_> = mig.slots(t).map(|slot| self.instance(slot, t, alive)).collect();
                let used = parts.iter().map(|part| part.memory_used).sum();
                let processes = parts.into_iter().flat_map(|part| part.processes).collect();
                (processes, used)
            }
            None => {
                let processes = self.split(utilization, alive, None);
                let held: u64 = processes.iter().map(|process| process.memory_bytes).sum();
                let declared = self.memory.as_ref().filter(|_| !self.is_deserted(alive));
                (processes, declared.map_or(0, |curve| curve.at(t)).max(held))
            }
        };
        let memory_used = memory_used.min(capacity);
        let busy = utilization > 0;
        GpuState {
            utilization,
            memory_utilization: utilization * 3 / 5,
            memory_total: p.memory_total,
            memory_reserved: p.memory_reserved,
            memory_used,
            memory_free: capacity - memory_used,
            power_mw: self.power_mw(utilization),
            temperature_c: between(p.temperature_c, utilization),
            sm_mhz: if busy { p.sm_mhz.1 } else { p.sm_mhz.0 },
            memory_mhz: if busy { p.memory_mhz.1 } else { p.memory_mhz.0 },
            video_mhz: if busy { p.video_mhz.1 } else { p.video_mhz.0 },
            memory_c: p.hbm_c.map(|range| between(range, utilization)),
            fan: p.fan.map(|range| between(range, utilization)),
            engines: self.engines.each_ref().map(|curve| curve.at(t).min(FULL)),
            bar1_used: MIB + 2 * MIB * processes.len() as u64,
            performance_state: if busy { 0 } else { 8 },
            throttle: self.board.throttle.unwrap_or(u64::from(!busy)),
            processes,
        }
    }

    /// The energy in microjoules from 0 to `t` milliseconds, if these processes are alive all the time.
    ///
    /// The exact integral of the power, rounded down; never falls as `t` rises.
    pub fn energy_uj(&self, t: u64, alive: &Alive) -> u128 {
        let (idle, limit) = (self.profile.power_idle_mw, self.profile.power_limit_mw);
        // mW · ms = µJ
        let active = u128::from(limit - idle) * self.busy(t, alive) / u128::from(FULL);
        u128::from(idle) * u128::from(t) + active
    }

    /// The utilisation at `t` milliseconds in thousandths of a percent, if these processes are alive then.
    pub fn utilization_at(&self, t: u64, alive: &Alive) -> u64 {
        match &self.mig {
            Some(mig) => self.board_utilization(mig, t, alive),
            None => self.load(alive).at(t).min(FULL),
        }
    }

    /// The power in milliwatts at a utilisation in thousandths of a percent.
    pub fn power_mw(&self, utilization: u64) -> u32 {
        between((self.profile.power_idle_mw, self.profile.power_limit_mw), utilization)
    }

    /// The integral of the utilisation from 0 to `t` milliseconds, in thousandths of a percent · ms, if these processes are
    /// alive all the time. Never falls as `t` rises.
    pub fn busy(&self, t: u64, alive: &Alive) -> u128 {
        match &self.mig {
            Some(mig) => self.board_busy(mig, t, alive),
            None => self.load(alive).area(t),
        }
    }

    /// Bytes sent and received over PCIe by a GPU that was `busy` that much; none where nobody counts them.
    pub fn pcie_bytes(&self, busy: u128) -> Option<(u128, u128)> {
        self.profile.pcie.bytes_per_ms.map(|rates| moved(rates, busy))
    }

    /// Bytes sent and received over one NVLink by a GPU that was `busy` that much; none where there is no such link, and
    /// none moved by one that is down.
    pub fn link_bytes(&self, link: u32, busy: u128) -> Option<(u128, u128)> {
        let nvlink = self.profile.nvlink.filter(|nvlink| link < nvlink.links)?;
        Some(if self.board.nvlink.down.contains(&link) { (0, 0) } else { moved(nvlink.bytes_per_ms, busy) })
    }

    fn is_deserted(&self, alive: &Alive) -> bool {
        self.idle_without_processes && alive.iter().all(Vec::is_empty)
    }

    /// The utilisation over time while these processes are alive.
    fn load(&self, alive: &Alive) -> Cow<'_, Curve> {
        if self.is_deserted(alive) {
            return Cow::Owned(Curve::constant(0));
        }
        match &self.utilization {
            Some(curve) => Cow::Borrowed(curve),
            None => Cow::Owned(Curve::constant(self.asked(alive, None).min(FULL))),
        }
    }
}

/// What rates at 100 percent, a millisecond, add up to. The exact integral, rounded down; never falls.
fn moved((sent, received): (u64, u64), busy: u128) -> (u128, u128) {
    (u128::from(sent) * busy / u128::from(FULL), u128::from(received) * busy / u128::from(FULL))
}

/// The `position`th of `count` even parts of `whole`; they add up to it.
pub(crate) fn part(whole: u64, count: u64, position: u64) -> u64 {
    whole / count + u64::from(position < whole % count)
}

/// The straight line from `low` at 0 percent to `high` at 100 percent, rounded down.
fn between((low, high): (u32, u32), utilization: u64) -> u32 {
    let above = u64::from(high - low) * utilization.min(FULL) / FULL;
    low + u32::try_from(above).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, Seed};
    use proptest::prelude::*;
    use std::path::Path;

    fn gpu(settings: &str) -> GpuSpec {
        let text = format!("[[gpu]]\nmodel = \"h100-80gb\"\n{settings}");
        Scenario::parse(Path::new("test"), &text, Seed::default()).expect("a scenario").gpus.remove(0)
    }

    const TWO_PROCESSES: &str = r#"
        [[gpu.process]]
        environ = "JOB=a"
        memory_mib = 1000
        sm_util = 60
        [[gpu.process]]
        environ = "JOB=b"
        memory_mib = 500
        sm_util = 20
    "#;

    #[test]
    fn a_deserted_gpu_is_idle_and_only_its_reserved_memory_is_gone() {
        let gpu = gpu(&format!("utilization = 70\nmemory_mib = 9000\nidle_without_processes = true\n{TWO_PROCESSES}"));
        let state = gpu.state(5_000, &vec![vec![], vec![]]);
        assert_eq!((state.utilization, state.memory_used, state.power_mw), (0, 0, 70_000));
        assert_eq!(state.memory_free, state.memory_total - state.memory_reserved);
        assert_eq!(gpu.energy_uj(5_000, &vec![vec![], vec![]]), 70_000 * 5_000);
        assert_eq!(gpu.state(5_000, &vec![vec![], vec![9]]).utilization, 70_000);
    }

    #[test]
    fn processes_share_what_their_entry_declares() {
        let gpu = gpu(TWO_PROCESSES);
        let state = gpu.state(0, &vec![vec![10, 11, 12], vec![20]]);
        assert_eq!(state.utilization, 80_000);
        assert_eq!(state.processes.iter().map(|p| p.sm_util).collect::<Vec<_>>(), [20_000, 20_000, 20_000, 20_000]);
        assert_eq!(state.memory_used, 1_500 * 1024 * 1024);
        // 70 W + 80 % of 630 W.
        assert_eq!(state.power_mw, 574_000);
    }

    proptest! {
        #[test]
        fn memory_and_utilisation_always_add_up(
            t in 0u64..10_000_000, a in proptest::collection::vec(1u32..9_999, 0..5), b in proptest::collection::vec(1u32..9_999, 0..5),
            used in 0u32..80_000, util in 0u32..=100,
        ) {
            let gpu = gpu(&format!("utilization = {util}\nmemory_mib = {used}\n{TWO_PROCESSES}"));
            let alive = vec![a, b];
            let s = gpu.state(t, &alive);
            prop_assert_eq!(s.memory_free + s.memory_used + s.memory_reserved, s.memory_total);
            prop_assert!(s.processes.iter().map(|p| p.sm_util).sum::<u64>() <= s.utilization);
            prop_assert!(s.processes.iter().map(|p| p.memory_bytes).sum::<u64>() <= s.memory_used);
            prop_assert!((70_000..=700_000).contains(&s.power_mw));
        }

        #[test]
        fn energy_is_monotonic_and_the_integral_of_power(t in 0u64..200_000, step in 1u64..2_000) {
            let gpu = gpu("utilization = { wave = { min = 3, max = 97, period = \"7s\" } }");
            let (from, to) = (gpu.energy_uj(t, &vec![]), gpu.energy_uj(t + step, &vec![]));
            prop_assert!(to >= from);
            let sum: u64 = (t..t + step).map(|ms| u64::from(gpu.state(ms, &vec![]).power_mw)).sum();
            // Left sums: within half the change of power over each millisecond (at most 0.2 W here).
            let off = (to - from).abs_diff(u128::from(sum));
            prop_assert!(off <= u128::from(step) * 200 + 2, "{off} µJ off after {step} ms");
        }
    }
}
