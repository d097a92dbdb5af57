//! Performance state, and why and for how long clocks are held down.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t, nvmlViolationTime_t};

use super::code;
use super::out::write;
use super::state::answer;
use crate::machine::View;
use crate::scenario::call::{Answer, Call};

/// Software power cap, and hardware power brake.
const POWER: u64 = 0x4 | 0x80;
/// Software and hardware thermal slowdown.
const THERMAL: u64 = 0x20 | 0x40;

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPerformanceState(device: nvmlDevice_t, state: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `state` is valid or null by NVML's contract.
    answer(device, Some(Call::PerformanceState), |gpu| unsafe {
        write(state, gpu.narrow(Answer::PerformanceState, gpu.state.performance_state))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPowerState(device: nvmlDevice_t, state: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: as for the performance state.
    unsafe { nvmlDeviceGetPerformanceState(device, state) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCurrentClocksEventReasons(
    device: nvmlDevice_t,
    reasons: *mut c_ulonglong,
) -> nvmlReturn_t {
    // SAFETY: `reasons` is valid or null by NVML's contract.
    answer(device, Some(Call::ThrottleReasons), |gpu| unsafe {
        write(reasons, gpu.wide(Answer::ThrottleReasons, gpu.state.throttle))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    device: nvmlDevice_t,
    reasons: *mut c_ulonglong,
) -> nvmlReturn_t {
    // SAFETY: as for the newer symbol.
    unsafe { nvmlDeviceGetCurrentClocksEventReasons(device, reasons) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetSupportedClocksThrottleReasons(
    device: nvmlDevice_t,
    reasons: *mut c_ulonglong,
) -> nvmlReturn_t {
    // SAFETY: `reasons` is valid or null by NVML's contract.
    answer(device, Some(Call::ThrottleReasons), |_| unsafe { write(reasons, 0x1ff) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetSupportedClocksEventReasons(
    device: nvmlDevice_t,
    reasons: *mut c_ulonglong,
) -> nvmlReturn_t {
    // SAFETY: as for the older symbol.
    unsafe { nvmlDeviceGetSupportedClocksThrottleReasons(device, reasons) }
}

/// Nanoseconds for which any of these reasons has held: since the start, if it holds at all.
pub(super) fn held_ns(gpu: &View<'_>, reasons: u64) -> u64 {
    let holds = gpu.spec.board.throttle.unwrap_or(0) & reasons != 0;
    gpu.wide(Answer::Violation, if holds { gpu.now_ms.saturating_mul(1_000_000) } else { 0 })
}

/// Nanoseconds for which a policy has held clocks down, if it is one that is simulated.
pub(super) fn violation_ns(gpu: &View<'_>, policy: c_uint) -> Option<u64> {
    match policy {
        0 => Some(held_ns(gpu, POWER)),
        1 => Some(held_ns(gpu, THERMAL)),
        _ => None,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetViolationStatus(
    device: nvmlDevice_t,
    policy: c_uint,
    time: *mut nvmlViolationTime_t,
) -> nvmlReturn_t {
    answer(device, Some(Call::ViolationStatus), |gpu| match violation_ns(gpu, policy) {
        Some(ns) => {
            let value = nvmlViolationTime_t { referenceTime: gpu.now_ms.saturating_mul(1_000), violationTime: ns };
            // SAFETY: `time` is valid or null by NVML's contract.
            unsafe { write(time, value) }
        }
        None => code::NOT_SUPPORTED,
    })
}
