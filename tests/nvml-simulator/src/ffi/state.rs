//! The one simulator of the process: scenario, clock, machine, faults and count of inits, behind a lock.
//!
//! Each call first settles what has gone wrong by now. Who is to hang waits without the lock, so that others go on.

use std::ffi::c_uint;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};

use super::code;
use super::events::EventSets;
use super::gpm::Samples;
use crate::clock::Clock;
use crate::faults::Faults;
use crate::machine::{Machine, Overrides, View};
use crate::scenario::call::{Answer, Call, Refusal};
use crate::scenario::fault::{self, FaultKind, FaultSpec, Hung, Xid};
use crate::scenario::mig::Slot;
use crate::scenario::{GpuSpec, Scenario, ScenarioError, Seed};

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
    faults: Faults::none(),
    reload: None,
    driver_version: None,
    sets: EventSets::none(),
});

/// Told when something has changed that a blocked caller may wait for.
static CHANGED: Condvar = Condvar::new();

/// How often a blocked caller looks whether the clock or the control file let it go, in real time.
const GLANCE: Duration = Duration::from_millis(20);

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
    faults: Faults,
    /// The driver is being reloaded, to this version.
    reload: Option<Option<String>>,
    /// The version since the last reload that changed it.
    driver_version: Option<String>,
    /// The event sets that there are.
    pub sets: EventSets,
}

/// Takes the lock. A panic of another thread does not matter: the state is whole between any two statements.
pub(super) fn simulator() -> MutexGuard<'static, Simulator> {
    SIMULATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets go of the lock until something may have changed, or `at_most` has passed.
pub(super) fn wait(simulator: MutexGuard<'static, Simulator>, at_most: Duration) -> MutexGuard<'static, Simulator> {
    let slice = if simulator.faults.is_quiet() { at_most } else { at_most.min(GLANCE) };
    CHANGED.wait_timeout(simulator, slice).unwrap_or_else(PoisonError::into_inner).0
}

/// Starts NVML: once more, when it is started already.
pub(super) fn init() -> nvmlReturn_t {
    let mut simulator = simulator();
    if let Err(error) = simulator.load_machine() {
        eprintln!("contador's NVML simulator cannot start: {error}");
        return code::INVALID_ARGUMENT;
    }
    loop {
        let now_ms = simulator.settle();
        if !simulator.hangs(now_ms, |hung, _| hung == Hung::Init) {
            break;
        }
        simulator = wait(simulator, GLANCE);
    }
    if simulator.reload.is_some() {
        return code::DRIVER_NOT_LOADED;
    }
    simulator.inits = simulator.inits.saturating_add(1);
    code::SUCCESS
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

    /// Takes `[[fault]]` entries in place of those that it took before.
    pub(super) fn give(&mut self, text: &str) -> Result<(), ScenarioError> {
        let gpus = self.machine.as_ref().map_or(usize::MAX, |machine| machine.scenario().gpus.len());
        self.faults.give(fault::parse(Path::new("given faults"), text, gpus)?);
        self.settle();
        CHANGED.notify_all();
        Ok(())
    }

    /// Handles that are open: inits without their shutdown.
    pub(super) fn inits(&self) -> u32 {
        self.inits
    }

    fn load_machine(&mut self) -> Result<(), ScenarioError> {
        if self.inits > 0 {
            return Ok(());
        }
        let scenario = match &self.scenario {
            Some(scenario) => scenario.clone(),
            None => scenario(
                std::env::var_os("CONTADOR_NVML_SCENARIO").map(PathBuf::from).as_deref(),
                self.seed.as_deref(),
            )?,
        };
        if self.machine.as_ref().is_none_or(|machine| *machine.scenario() != scenario) {
            let control = std::env::var_os("CONTADOR_NVML_FAULTS").map(PathBuf::from);
            self.faults.take_scenario(&scenario.faults, control.or_else(|| scenario.control.clone()));
            self.driver_version = None;
            self.machine = Some(Machine::new(scenario, PathBuf::from("/proc")));
        }
        self.clock();
        Ok(())
    }

    pub(super) fn shutdown(&mut self) -> nvmlReturn_t {
        if self.inits == 0 {
            return code::UNINITIALIZED;
        }
        self.inits -= 1;
        if self.inits == 0 {
            self.sets.clear();
        }
        self.settle();
        CHANGED.notify_all();
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

    /// The machine, while it can be asked: NVML is started, and the driver not being reloaded.
    pub(super) fn machine(&mut self) -> Option<&mut Machine> {
        self.machine.as_mut().filter(|_| self.inits > 0 && self.reload.is_none())
    }

    /// The driver's version, while it can be asked.
    pub(super) fn driver_version(&mut self) -> Option<String> {
        let reloaded = self.driver_version.clone();
        self.machine().map(|machine| reloaded.unwrap_or_else(|| machine.scenario().driver_version.clone()))
    }

    /// Brings the faults up to this instant, which is what it gives.
    pub(super) fn settle(&mut self) -> u64 {
        let now_ms = self.clock().now_ms();
        self.faults.look(self.machine.as_ref().map_or(usize::MAX, |machine| machine.scenario().gpus.len()));
        for fault in self.faults.begin(now_ms) {
            self.begin(&fault, now_ms);
        }
        let reloads = |fault: &FaultSpec| matches!(fault.kind, FaultKind::DriverReload { .. });
        if self.reload.is_some() && self.inits == 0 && !self.faults.active(now_ms).any(reloads) {
            // Nobody holds it any more: it can be unloaded, and is loaded again.
            self.driver_version = self.reload.take().flatten().or(self.driver_version.take());
            if let Some(machine) = &mut self.machine {
                machine.restart(now_ms, |_| true);
            }
        }
        now_ms
    }

    fn begin(&mut self, fault: &FaultSpec, now_ms: u64) {
        let gpus = self.machine.as_ref().map_or(0, |machine| machine.scenario().gpus.len());
        let raised = match &fault.kind {
            FaultKind::DriverReload { driver_version } => {
                self.reload = Some(driver_version.clone());
                return;
            }
            FaultKind::Restart => {
                if let Some(machine) = &mut self.machine {
                    machine.restart(now_ms, |gpu| fault.is_about(gpu));
                }
                return;
            }
            FaultKind::OffTheBus => Xid { code: 79, count: 1, gpu_instance: None, compute_instance: None },
            FaultKind::Xid(xid) => *xid,
            _ => return,
        };
        for gpu in (0..gpus).filter(|gpu| fault.is_about(*gpu)) {
            self.sets.raise(gpu, raised);
        }
        CHANGED.notify_all();
    }

    /// Whether a call is to hang: `hangs` is asked of each fault in force.
    pub(super) fn hangs(&self, now_ms: u64, hangs: impl Fn(Hung, &FaultSpec) -> bool) -> bool {
        self.faults.active(now_ms).any(|fault| match fault.kind {
            FaultKind::Hang(hung) => hangs(hung, fault),
            _ => false,
        })
    }

    /// What has become of the GPU at this position.
    fn presence(&self, gpu: usize, now_ms: u64) -> Presence {
        let about = self.faults.active(now_ms).filter(|fault| fault.is_about(gpu));
        about.fold(Presence::There, |before, fault| {
            before.max(match fault.kind {
                FaultKind::Absent => Presence::Absent,
                FaultKind::OffTheBus => Presence::OffTheBus,
                FaultKind::Lost => Presence::Lost,
                _ => Presence::There,
            })
        })
    }

    /// The positions of the GPUs that are there, in order: the driver's index is the place in this list.
    pub(super) fn present(&mut self, now_ms: u64) -> Option<Vec<usize>> {
        let gpus = self.machine()?.scenario().gpus.len();
        Some((0..gpus).filter(|gpu| self.presence(*gpu, now_ms) != Presence::Absent).collect())
    }
}

/// What has become of a GPU, from nothing to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Presence {
    There,
    Lost,
    OffTheBus,
    Absent,
}

/// How many GPUs are counted.
pub(super) fn count() -> Result<usize, nvmlReturn_t> {
    let mut simulator = simulator();
    loop {
        let now_ms = simulator.settle();
        if !simulator.hangs(now_ms, |hung, _| hung == Hung::Count) {
            return simulator.present(now_ms).map(|present| present.len()).ok_or(code::UNINITIALIZED);
        }
        simulator = wait(simulator, GLANCE);
    }
}

/// The position of the GPU that `is` accepts, by its place among those that are counted, its position, and itself.
pub(super) fn find(is: impl Fn(usize, usize, &GpuSpec) -> bool) -> Result<Option<usize>, nvmlReturn_t> {
    let mut simulator = simulator();
    let mut now_ms = simulator.settle();
    let present = simulator.present(now_ms).ok_or(code::UNINITIALIZED)?;
    let machine = simulator.machine().ok_or(code::UNINITIALIZED)?;
    let gpus = &machine.scenario().gpus;
    let found =
        present.iter().enumerate().find(|&(place, &gpu)| gpus.get(gpu).is_some_and(|spec| is(place, gpu, spec)));
    let Some((_, &gpu)) = found else { return Ok(None) };
    // Nothing but its end lets go of a call that hangs, not even that the driver has gone.
    while simulator.hangs(now_ms, |hung, fault| hung == Hung::All && fault.is_about(gpu)) {
        simulator = wait(simulator, GLANCE);
        now_ms = simulator.settle();
    }
    match simulator.presence(gpu, now_ms) {
        _ if simulator.machine().is_none() => Err(code::UNINITIALIZED),
        Presence::OffTheBus => Err(code::GPU_IS_LOST),
        Presence::Absent => Ok(None),
        Presence::There | Presence::Lost => Ok(Some(gpu)),
    }
}

/// The place of a GPU among those that are counted.
pub(super) fn place(gpu: usize) -> Option<usize> {
    let mut simulator = simulator();
    let now_ms = simulator.settle();
    simulator.present(now_ms)?.iter().position(|present| *present == gpu)
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

/// Answers a call about a GPU or a MIG device: finds it, refuses what its scenario or a fault refuses, and hands its view on.
/// A call that hangs blocks its caller, and nobody else.
pub(super) fn answer_any(
    device: nvmlDevice_t,
    call: Option<Call>,
    answer: impl FnOnce(&View<'_>, Option<&Slot>) -> nvmlReturn_t,
) -> nvmlReturn_t {
    let Some(Handle { gpu: index, instance }) = Handle::decode(device) else { return code::INVALID_ARGUMENT };
    let mut simulator = simulator();
    simulator.calls += 1;
    let now_ms = loop {
        let now_ms = simulator.settle();
        let this = |hung| hung == Hung::All || call.is_some_and(|call| hung == Hung::Call(call));
        if !simulator.hangs(now_ms, |hung, fault| this(hung) && fault.is_about(index)) {
            break now_ms;
        }
        simulator = wait(simulator, GLANCE);
    };
    let rescan_ms = simulator.clock().scaled_ms(RESCAN_MS);
    if simulator.machine().is_none() {
        return code::UNINITIALIZED;
    }
    match simulator.presence(index, now_ms) {
        Presence::There => {}
        Presence::Lost | Presence::OffTheBus => return code::GPU_IS_LOST,
        Presence::Absent => return code::INVALID_ARGUMENT,
    }
    let overrides = Overrides::of(index, simulator.faults.active(now_ms));
    let Some(machine) = simulator.machine() else { return code::UNINITIALIZED };
    let Some(mut view) = machine.view(index, now_ms, rescan_ms) else { return code::INVALID_ARGUMENT };
    view.overrides = overrides;
    view.energy_mj = view.counter(view.energy_mj);
    let slot = match instance.map(|(generation, place)| view.slot(generation, place)) {
        None => None,
        Some(Some(slot)) => Some(slot),
        Some(None) => return code::INVALID_ARGUMENT,
    };
    match call.and_then(|call| view.refusal(call)) {
        Some(refusal) => refusal_code(refusal),
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
        self.replaced(answer).unwrap_or(value)
    }

    /// `value`, or the low 32 bits of what the scenario replaces it by.
    pub(super) fn narrow(&self, answer: Answer, value: u32) -> c_uint {
        match self.replaced(answer) {
            Some(replaced) => (replaced & u64::from(u32::MAX)) as c_uint,
            None => value,
        }
    }
}

/// Thousandths of a percent as whole percent, to the nearest.
pub(super) fn percent(thousandths: u64) -> u32 {
    u32::try_from((thousandths + 500) / 1_000).unwrap_or(u32::MAX)
}
