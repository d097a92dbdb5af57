//! The machine: what cannot be a pure function of time, because processes come and go.
//!
//! A GPU's energy is added up piece by piece: each time that other processes are found alive, what the old ones
//! drew until then is settled, and the new ones count from there on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::mig::InstanceState;
use crate::model::{Alive, GpuState};
use crate::procscan::holders;
use crate::scenario::call::{Answer, Call, Refusal};
use crate::scenario::fault::{FaultKind, FaultSpec};
use crate::scenario::mig::Slot;
use crate::scenario::{GpuSpec, Scenario, Which};

/// The GPUs of a scenario, at work.
#[derive(Debug)]
pub struct Machine {
    scenario: Scenario,
    proc_root: PathBuf,
    entries: BTreeSet<String>,
    scanned_ms: Option<u64>,
    gpus: Vec<Meter>,
}

/// What one GPU has drawn until `since_ms`, and who has been on it since.
#[derive(Debug)]
struct Meter {
    settled_uj: u128,
    settled_busy: u128,
    /// The same as `settled_busy`, of each of the loads of its instances.
    settled_loads: Vec<u128>,
    since_ms: u64,
    restarted_ms: u64,
    alive: Alive,
}

/// One GPU at an instant, for an answer.
#[derive(Debug)]
pub struct View<'m> {
    /// Its scenario.
    pub spec: &'m GpuSpec,
    /// Its state.
    pub state: GpuState,
    /// Energy in millijoules since the driver was loaded or the GPU was reset; never falls in between.
    pub energy_mj: u64,
    /// Its utilisation, integrated since the start, in thousandths of a percent · ms; never falls.
    pub busy: u128,
    /// As `busy`, of each of the loads of its instances, in terms of their own parts.
    pub busy_loads: Vec<u128>,
    /// Who is on it.
    pub alive: &'m Alive,
    /// Its position in the scenario.
    pub index: u32,
    /// The instant, in milliseconds since the start.
    pub now_ms: u64,
    /// Since when counters count, in milliseconds since the start: the driver was loaded then, or the GPU was reset.
    pub counters_since_ms: u64,
    /// What faults make of it.
    pub overrides: Overrides,
}

/// What the faults in force make of a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Calls that answer an error, beside those of the scenario.
    pub refused: BTreeMap<Call, Refusal>,
    /// Values that are replaced, before those of the scenario.
    pub answers: BTreeMap<Answer, u64>,
    /// NVLinks that are down.
    pub links_down: BTreeSet<u32>,
    /// All NVLinks are down.
    pub all_links_down: bool,
    /// Corrected ECC errors beside those of the scenario.
    pub ecc_corrected: u64,
    /// Uncorrected ECC errors beside those of the scenario.
    pub ecc_uncorrected: u64,
    /// How many bits its counters have; absent: 64.
    pub counter_bits: Option<u32>,
}

impl Overrides {
    /// What `faults`, all in force, make of the GPU at position `gpu`.
    pub fn of<'f>(gpu: usize, faults: impl Iterator<Item = &'f FaultSpec>) -> Self {
        let mut made = Self::default();
        for fault in faults.filter(|fault| fault.is_about(gpu)) {
            match &fault.kind {
                FaultKind::Ecc { corrected, uncorrected } => {
                    made.ecc_corrected += corrected;
                    made.ecc_uncorrected += uncorrected;
                }
                FaultKind::LinkDown(links) => {
                    made.all_links_down |= links.is_empty();
                    made.links_down.extend(links);
                }
                FaultKind::Calls { refused, answers } => {
                    made.refused.extend(refused);
                    made.answers.extend(answers);
                }
                FaultKind::Wrap(bits) => made.counter_bits = Some(*bits),
                _ => {}
            }
        }
        made
    }
}

impl View<'_> {
    /// The error that a call answers, by a fault or by the scenario.
    pub fn refusal(&self, call: Call) -> Option<Refusal> {
        self.overrides.refused.get(&call).or_else(|| self.spec.refused.get(&call)).copied()
    }

    /// What a value is replaced by, by a fault or by the scenario.
    pub fn replaced(&self, answer: Answer) -> Option<u64> {
        self.overrides.answers.get(&answer).or_else(|| self.spec.answers.get(&answer)).copied()
    }

    /// A counter's value, with as many bits as counters have now.
    pub fn counter(&self, value: u64) -> u64 {
        self.overrides.counter_bits.map_or(value, |bits| value & ((1 << bits) - 1))
    }

    /// True while the NVLink is down by a fault.
    pub fn is_link_down(&self, link: u32) -> bool {
        self.overrides.all_links_down || self.overrides.links_down.contains(&link)
    }
}

impl Machine {
    /// A machine at the start of its time; processes are looked for under `proc_root` (`/proc`).
    pub fn new(scenario: Scenario, proc_root: PathBuf) -> Self {
        let entries = scenario
            .gpus
            .iter()
            .flat_map(|gpu| &gpu.processes)
            .filter_map(|process| match &process.which {
                Which::Environ(entry) => Some(entry.clone()),
                Which::Pid(_) => None,
            })
            .collect();
        let gpus = scenario
            .gpus
            .iter()
            .map(|gpu| {
                let settled_loads = vec![0; gpu.mig.as_ref().map_or(0, |mig| mig.loads.len())];
                let alive = alive(gpu, &BTreeMap::new());
                Meter { settled_uj: 0, settled_busy: 0, settled_loads, since_ms: 0, restarted_ms: 0, alive }
            })
            .collect();
        Self { scenario, proc_root, entries, scanned_ms: None, gpus }
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// GPU `index` at `now_ms`. Processes are looked for again when the last look is at least `rescan_ms` old.
    pub fn view(&mut self, index: usize, now_ms: u64, rescan_ms: u64) -> Option<View<'_>> {
        self.look(now_ms, rescan_ms);
        let (spec, meter) = (self.scenario.gpus.get(index)?, self.gpus.get(index)?);
        let energy_uj = meter.energy_uj(spec, now_ms);
        Some(View {
            spec,
            state: spec.state(now_ms, &meter.alive),
            busy: meter.busy(spec, now_ms),
            alive: &meter.alive,
            energy_mj: u64::try_from(energy_uj / 1_000).unwrap_or(u64::MAX),
            index: u32::try_from(index).ok()?,
            now_ms,
            busy_loads: meter.busy_loads(spec, now_ms),
            counters_since_ms: meter.restarted_ms,
            overrides: Overrides::default(),
        })
    }

    /// Counters of these GPUs start at 0 now.
    pub fn restart(&mut self, now_ms: u64, which: impl Fn(usize) -> bool) {
        for (_, meter) in self.gpus.iter_mut().enumerate().filter(|(index, _)| which(*index)) {
            let (settled_loads, alive) = (vec![0; meter.settled_loads.len()], meter.alive.clone());
            *meter =
                Meter { settled_uj: 0, settled_busy: 0, settled_loads, since_ms: now_ms, restarted_ms: now_ms, alive };
        }
    }

    fn look(&mut self, now_ms: u64, rescan_ms: u64) {
        let fresh = self.scanned_ms.is_some_and(|at| now_ms.saturating_sub(at) < rescan_ms);
        if self.entries.is_empty() || fresh {
            return;
        }
        self.scanned_ms = Some(now_ms);
        let found = holders(&self.proc_root, &self.entries);
        for (spec, meter) in self.scenario.gpus.iter().zip(&mut self.gpus) {
            let alive = alive(spec, &found);
            if alive != meter.alive {
                meter.settled_uj = meter.energy_uj(spec, now_ms);
                meter.settled_busy = meter.busy(spec, now_ms);
                meter.settled_loads = meter.busy_loads(spec, now_ms);
                meter.since_ms = meter.since_ms.max(now_ms);
                meter.alive = alive;
            }
        }
    }
}

impl Meter {
    fn energy_uj(&self, spec: &GpuSpec, now_ms: u64) -> u128 {
        let drawn = spec.energy_uj(now_ms.max(self.since_ms), &self.alive) - spec.energy_uj(self.since_ms, &self.alive);
        self.settled_uj + drawn
    }

    fn busy(&self, spec: &GpuSpec, now_ms: u64) -> u128 {
        let (from, to) = (self.since_ms, now_ms.max(self.since_ms));
        self.settled_busy + spec.busy(to, &self.alive) - spec.busy(from, &self.alive)
    }

    fn busy_loads(&self, spec: &GpuSpec, now_ms: u64) -> Vec<u128> {
        let (from, to) = (self.since_ms, now_ms.max(self.since_ms));
        let busy = |(load, settled): (usize, &u128)| {
            let curve = spec.instance_load(Some(load), &self.alive);
            settled + curve.area(to) - curve.area(from)
        };
        self.settled_loads.iter().enumerate().map(busy).collect()
    }
}

impl View<'_> {
    /// The MIG device at `place` while its handles of this `generation` are valid.
    pub fn slot(&self, generation: usize, place: usize) -> Option<&Slot> {
        let mig = self.spec.mig.as_ref().filter(|mig| mig.generation(self.now_ms) == generation)?;
        mig.places(self.now_ms).get(place)?.as_ref()
    }

    /// A MIG device of the GPU now.
    pub fn instance(&self, slot: &Slot) -> InstanceState {
        self.spec.instance(slot, self.now_ms, self.alive)
    }

    /// [`busy`](Self::busy) of the GPU, or of a MIG device in terms of its own part.
    pub fn busy_of(&self, slot: Option<&Slot>) -> u128 {
        match slot {
            None => self.busy,
            Some(slot) => slot.load.and_then(|load| self.busy_loads.get(load)).copied().unwrap_or(0),
        }
    }
}

/// The living processes of each entry. A PID that the scenario names counts as alive: whether it exists is the
/// caller's to find out, as with the driver.
fn alive(spec: &GpuSpec, found: &BTreeMap<String, Vec<u32>>) -> Alive {
    spec.processes
        .iter()
        .map(|process| match &process.which {
            Which::Pid(pid) => vec![*pid],
            Which::Environ(entry) => found.get(entry).cloned().unwrap_or_default(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Seed;
    use std::fs;
    use std::path::Path;

    fn machine(settings: &str, root: &Path) -> Machine {
        let text = format!("[[gpu]]\nmodel = \"h100-80gb\"\n{settings}");
        Machine::new(Scenario::parse(Path::new("test"), &text, Seed::default()).expect("a scenario"), root.to_owned())
    }

    #[test]
    fn energy_follows_the_processes_that_come_and_go() {
        let root = tempfile::tempdir().expect("a directory");
        let process = root.path().join("42");
        let settings = "idle_without_processes = true\n[[gpu.process]]\nenviron = \"JOB=a\"\nsm_util = 50";
        let mut machine = machine(settings, root.path());
        let mut energy = |now_ms| machine.view(0, now_ms, 500).expect("a GPU").energy_mj;
        // Idle: 70 W.
        assert_eq!(energy(0), 0);
        assert_eq!(energy(10_000), 700_000);
        fs::create_dir(&process).expect("a process");
        fs::write(process.join("environ"), "A=1\0JOB=a\0").expect("its environment");
        // Seen at 10.5 s only; then 385 W.
        assert_eq!(energy(10_499), 734_930);
        assert_eq!(energy(10_500), 735_000);
        assert_eq!(energy(20_500), 735_000 + 3_850_000);
        fs::remove_dir_all(&process).expect("its end");
        assert_eq!(energy(21_000), 735_000 + 3_850_000 + 192_500);
        assert_eq!(energy(22_000), 735_000 + 3_850_000 + 192_500 + 70_000);
    }

    #[test]
    fn a_named_pid_is_listed_even_when_it_does_not_exist() {
        let mut machine = machine("[[gpu.process]]\npid = 4194304\nmemory_mib = 7", Path::new("/nonexistent"));
        let view = machine.view(0, 0, 500).expect("a GPU");
        assert_eq!(view.state.processes[0].pid, 4_194_304);
        assert_eq!(view.state.utilization, 100_000);
        assert!(machine.view(1, 0, 500).is_none());
    }
}
