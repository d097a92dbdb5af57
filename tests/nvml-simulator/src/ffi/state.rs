//! The one simulator of the process: scenario, clock, machine and count of inits, behind a lock.

use std::ffi::c_uint;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};

use super::code;
use super::gpm::Samples;
use crate::clock::Clock;
use crate::machine::{Machine, View};
use crate::scenario::call::{Answer, Call, Refusal};
use crate::scenario::mig::Slot;
use crate::scenario::{Scenario, ScenarioError, Seed};

/// How long a look at the machine's processes is good for, in real milliseconds.
const RESCAN_MS: f64 = 500.0;

static SIMULATOR: Mutex<Simulator> = Mutex::new(Simulator {
    seed: None,
    scenario: None,
    clock: None,
    machine: None,
    inits: 0,
    calls: 0,
    gpm: Samples::NONE,
});

pub(super) struct Simulator {
    /// What `contador_nvml_simulator_seed` took.
    seed: Option<String>,
    /// What `contador_nvml_simulator_load` took; otherwise the environment says.
    scenario: Option<Scenario>,
    clock: Option<Clock>,
    /// Stays over shutdown and init, as the driver stays loaded: energy goes on.
    machine: Option<Machine>,
    inits: u32,
    /// How many calls about a device were answered.
    calls: u64,
    gpm: Samples,
}

/// Takes the lock. A panic of another thread does not matter: the state is whole between any two statements.
pub(super) fn simulator() -> MutexGuard<'static, Simulator> {
    SIMULATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Simulator {
    /// Takes the scenario of a file, or the built-in one, from the next init on.
    pub(super) fn load(&mut self, path: Option<&Path>) -> Result<(), ScenarioError> {
        self.scenario = Some(scenario(path, self.seed.as_deref())?);
        Ok(())
    }

    /// Takes a seed for scenarios without one, from the next load or init on.
    pub(super) fn seed(&mut self, seed: Option<String>) {
        self.seed = seed;
    }

    pub(super) fn init(&mut self) -> Result<(), ScenarioError> {
        if self.inits == 0 {
            let scenario = match &self.scenario {
                Some(scenario) => scenario.clone(),
                None => scenario(
                    std::env::var_os("CONTADOR_NVML_SCENARIO").map(PathBuf::from).as_deref(),
                    self.seed.as_deref(),
                )?,
            };
            if self.machine.as_ref().is_none_or(|machine| *machine.scenario() != scenario) {
                self.machine = Some(Machine::new(scenario, PathBuf::from("/proc")));
            }
            self.clock();
        }
        self.inits = self.inits.saturating_add(1);
        Ok(())
    }

    pub(super) fn shutdown(&mut self) -> nvmlReturn_t {
        if self.inits == 0 {
            return code::UNINITIALIZED;
        }
        self.inits -= 1;
        code::SUCCESS
    }

    /// The clock, which starts when it is first asked for.
    pub(super) fn clock(&mut self) -> &mut Clock {
        self.clock.get_or_insert_with(|| Clock::start(time_scale()))
    }

    /// The GPM samples that are allocated.
    pub(super) fn gpm(&mut self) -> &mut Samples {
        &mut self.gpm
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    pub(super) fn machine(&mut self) -> Option<&mut Machine> {
        self.machine.as_mut().filter(|_| self.inits > 0)
    }
}

fn scenario(path: Option<&Path>, otherwise: Option<&str>) -> Result<Scenario, ScenarioError> {
    let forced = std::env::var("CONTADOR_NVML_SEED").ok();
    let seed = Seed { forced: forced.as_deref(), otherwise };
    match path {
        Some(path) => Scenario::read(path, seed),
        None => Scenario::built_in(seed),
    }
}

/// Simulated seconds a second. A value that is not a number above 0 is said to be wrong, and 1 is taken.
fn time_scale() -> f64 {
    let Ok(text) = std::env::var("CONTADOR_NVML_TIME_SCALE") else { return 1.0 };
    match text.parse() {
        Ok(scale) if scale > 0.0 && scale <= 1e6 => scale,
        _ => {
            eprintln!("CONTADOR_NVML_TIME_SCALE: \"{text}\": expected a number above 0, at most 1000000; 1 is taken");
            1.0
        }
    }
}

/// What a handle means: a GPU, or a MIG device of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle {
    /// Index of the GPU.
    pub gpu: usize,
    /// Of a MIG device: how many layouts had begun when it was asked for, and its index.
    pub instance: Option<(usize, usize)>,
}

impl Handle {
    const INDEX: u32 = 16;
    const PLACE: u32 = 4;

    /// An opaque number above 0, never followed as a pointer: from the right, the index plus 1, the place plus 1 and the
    /// layouts.
    pub(super) fn encode(self) -> nvmlDevice_t {
        let instance = self.instance.map_or(0, |(generation, place)| (generation << Self::PLACE) + place + 1);
        std::ptr::without_provenance_mut((instance << Self::INDEX) + self.gpu + 1)
    }

    fn decode(device: nvmlDevice_t) -> Option<Self> {
        let (low, high) = (device.addr() & ((1 << Self::INDEX) - 1), device.addr() >> Self::INDEX);
        let place = (high & ((1 << Self::PLACE) - 1)).checked_sub(1);
        Some(Self { gpu: low.checked_sub(1)?, instance: place.map(|place| (high >> Self::PLACE, place)) })
    }
}

/// The handle of the GPU at `index`.
pub(super) fn handle(index: usize) -> nvmlDevice_t {
    Handle { gpu: index, instance: None }.encode()
}

/// Calls that the driver refuses of a GPU that is split by MIG.
fn is_refused_when_split(call: Call) -> bool {
    matches!(
        call,
        Call::UtilizationRates | Call::ProcessUtilization | Call::EncoderUtilization | Call::DecoderUtilization
    )
}

/// Answers a call about a GPU: as [`answer_any`]; of a MIG device the call is not supported.
pub(super) fn answer(
    device: nvmlDevice_t,
    call: Option<Call>,
    answer: impl FnOnce(&View<'_>) -> nvmlReturn_t,
) -> nvmlReturn_t {
    answer_any(device, call, |view, slot| if slot.is_some() { code::NOT_SUPPORTED } else { answer(view) })
}

/// Answers a call about a GPU or a MIG device: finds it, refuses what its scenario refuses, and hands its view on.
pub(super) fn answer_any(
    device: nvmlDevice_t,
    call: Option<Call>,
    answer: impl FnOnce(&View<'_>, Option<&Slot>) -> nvmlReturn_t,
) -> nvmlReturn_t {
    let mut simulator = simulator();
    simulator.calls += 1;
    let clock = simulator.clock();
    let (now_ms, rescan_ms) = (clock.now_ms(), clock.scaled_ms(RESCAN_MS));
    let Some(machine) = simulator.machine() else { return code::UNINITIALIZED };
    let Some(handle) = Handle::decode(device) else { return code::INVALID_ARGUMENT };
    let Some(view) = machine.view(handle.gpu, now_ms, rescan_ms) else { return code::INVALID_ARGUMENT };
    let slot = match handle.instance.map(|(generation, place)| view.slot(generation, place)) {
        None => None,
        Some(Some(slot)) => Some(slot),
        Some(None) => return code::INVALID_ARGUMENT,
    };
    match call.and_then(|call| view.spec.refused.get(&call)) {
        Some(refusal) => refusal_code(*refusal),
        None if view.spec.mig.is_some() && call.is_some_and(is_refused_when_split) => code::NOT_SUPPORTED,
        None => answer(&view, slot),
    }
}

pub(super) fn refusal_code(refusal: Refusal) -> nvmlReturn_t {
    match refusal {
        Refusal::NotSupported => code::NOT_SUPPORTED,
        Refusal::NoPermission => code::NO_PERMISSION,
        Refusal::NotFound => code::NOT_FOUND,
        Refusal::Timeout => code::TIMEOUT,
        Refusal::GpuIsLost => code::GPU_IS_LOST,
        Refusal::ResetRequired => code::RESET_REQUIRED,
        Refusal::NoData => code::NO_DATA,
        Refusal::Unknown => code::UNKNOWN,
    }
}

impl View<'_> {
    /// `value`, or what the scenario replaces it by.
    pub(super) fn wide(&self, answer: Answer, value: u64) -> u64 {
        self.spec.answers.get(&answer).copied().unwrap_or(value)
    }

    /// `value`, or the low 32 bits of what the scenario replaces it by.
    pub(super) fn narrow(&self, answer: Answer, value: u32) -> c_uint {
        match self.spec.answers.get(&answer) {
            Some(replaced) => (replaced & u64::from(u32::MAX)) as c_uint,
            None => value,
        }
    }
}

/// Thousandths of a percent as whole percent, to the nearest.
pub(super) fn percent(thousandths: u64) -> u32 {
    u32::try_from((thousandths + 500) / 1_000).unwrap_or(u32::MAX)
}
