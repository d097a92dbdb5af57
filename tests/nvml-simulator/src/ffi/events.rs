//! Event sets: who is registered gets the XIDs that faults raise.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_uint, c_ulonglong, c_void};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlEventData_t, nvmlReturn_t};

use super::code;
use super::out::write;
use super::state::{answer, handle, simulator, wait};
use crate::scenario::call::Call;
use crate::scenario::fault::Xid;

/// `nvmlEventTypeXidCriticalError`, the only type that there is.
const XID: c_ulonglong = 8;

/// What an event has in place of an instance's id when it is of none.
const NO_INSTANCE: c_uint = c_uint::MAX;

/// Most events that wait in a set; beyond that the oldest are forgotten.
const MOST: usize = 1 << 16;

/// The event sets that were created, by their handles.
pub(super) struct EventSets {
    sets: BTreeMap<usize, EventSet>,
    last: usize,
}

#[derive(Default)]
struct EventSet {
    /// The registered GPUs' positions.
    gpus: Vec<usize>,
    waiting: VecDeque<(usize, Xid)>,
}

impl EventSets {
    pub(super) const fn none() -> Self {
        Self { sets: BTreeMap::new(), last: 0 }
    }

    /// Frees all, as the end of NVML does.
    pub(super) fn clear(&mut self) {
        self.sets.clear();
    }

    /// Puts XIDs of a GPU into each set that it is registered in.
    pub(super) fn raise(&mut self, gpu: usize, xid: Xid) {
        for set in self.sets.values_mut().filter(|set| set.gpus.contains(&gpu)) {
            set.waiting.extend(std::iter::repeat_n((gpu, xid), xid.count as usize));
            let beyond = set.waiting.len().saturating_sub(MOST);
            set.waiting.drain(..beyond);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlEventSetCreate(set: *mut *mut c_void) -> nvmlReturn_t {
    let mut simulator = simulator();
    if simulator.machine().is_none() {
        return code::UNINITIALIZED;
    }
    simulator.sets.last += 1;
    let number = simulator.sets.last;
    simulator.sets.sets.insert(number, EventSet::default());
    // SAFETY: `set` is valid or null by NVML's contract. The handle is a number that nobody follows.
    unsafe { write(set, std::ptr::without_provenance_mut(number)) }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetFree(set: *mut c_void) -> nvmlReturn_t {
    match simulator().sets.sets.remove(&set.addr()) {
        Some(_) => code::SUCCESS,
        None => code::INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceRegisterEvents(device: nvmlDevice_t, types: c_ulonglong, set: *mut c_void) -> nvmlReturn_t {
    let answered = answer(device, Some(Call::RegisterEvents), |_| match types {
        0 | XID => code::SUCCESS,
        _ => code::NOT_SUPPORTED,
    });
    if answered != code::SUCCESS || types == 0 {
        return answered;
    }
    let (mut simulator, Some(gpu)) = (simulator(), device.addr().checked_sub(1)) else { return code::INVALID_ARGUMENT };
    let Some(set) = simulator.sets.sets.get_mut(&set.addr()) else { return code::INVALID_ARGUMENT };
    if !set.gpus.contains(&gpu) {
        set.gpus.push(gpu);
    }
    code::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetSupportedEventTypes(device: nvmlDevice_t, types: *mut c_ulonglong) -> nvmlReturn_t {
    // SAFETY: `types` is valid or null by NVML's contract.
    answer(device, Some(Call::RegisterEvents), |_| unsafe { write(types, XID) })
}

/// Gives the next event, waiting for it for as long as it may, in milliseconds of real time.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlEventSetWait_v2(
    set: *mut c_void,
    data: *mut nvmlEventData_t,
    timeout_ms: c_uint,
) -> nvmlReturn_t {
    let deadline = Instant::now() + Duration::from_millis(timeout_ms.into());
    let mut simulator = simulator();
    loop {
        simulator.settle();
        if simulator.machine().is_none() {
            return code::UNINITIALIZED;
        }
        let Some(set) = simulator.sets.sets.get_mut(&set.addr()) else { return code::INVALID_ARGUMENT };
        if let Some((gpu, xid)) = set.waiting.pop_front() {
            let event = nvmlEventData_t {
                device: handle(gpu),
                eventType: XID,
                eventData: xid.code,
                gpuInstanceId: xid.gpu_instance.unwrap_or(NO_INSTANCE),
                computeInstanceId: xid.compute_instance.unwrap_or(NO_INSTANCE),
            };
            // SAFETY: `data` is valid or null by NVML's contract.
            return unsafe { write(data, event) };
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return code::TIMEOUT;
        }
        simulator = wait(simulator, left);
    }
}

/// The older symbol, without the instances.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlEventSetWait(
    set: *mut c_void,
    data: *mut nvmlEventData_t,
    timeout_ms: c_uint,
) -> nvmlReturn_t {
    // SAFETY: as for the newer symbol; an event has the same shape in both.
    unsafe { nvmlEventSetWait_v2(set, data, timeout_ms) }
}
