//! Init, shutdown, versions, the count of devices, and the texts of errors.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::nvmlReturn_t;

use super::code;
use super::out::{write, write_text};
use super::state::{self, init, simulator};
use crate::scenario::Scenario;

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    init()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> nvmlReturn_t {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    simulator().shutdown()
}

fn with(answer: impl FnOnce(&Scenario) -> nvmlReturn_t) -> nvmlReturn_t {
    let mut simulator = simulator();
    simulator.settle();
    simulator.machine().map_or(code::UNINITIALIZED, |machine| answer(machine.scenario()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> nvmlReturn_t {
    let mut simulator = simulator();
    simulator.settle();
    match simulator.driver_version() {
        // SAFETY: `version` has `length` bytes by NVML's contract.
        Some(text) => unsafe { write_text(version, length, &text) },
        None => code::UNINITIALIZED,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) -> nvmlReturn_t {
    // SAFETY: `version` has `length` bytes by NVML's contract.
    with(|scenario| unsafe { write_text(version, length, &scenario.nvml_version) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) -> nvmlReturn_t {
    // SAFETY: `version` is valid or null by NVML's contract.
    with(|scenario| unsafe { write(version, scenario.cuda_version) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) -> nvmlReturn_t {
    // SAFETY: as for the older symbol.
    unsafe { nvmlSystemGetCudaDriverVersion(version) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> nvmlReturn_t {
    match state::count() {
        // SAFETY: `count` is valid or null by NVML's contract.
        Ok(gpus) => unsafe { write(count, c_uint::try_from(gpus).unwrap_or(c_uint::MAX)) },
        Err(refused) => refused,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    let text = match result {
        code::SUCCESS => c"Success",
        code::UNINITIALIZED => c"Uninitialized",
        code::INVALID_ARGUMENT => c"Invalid Argument",
        code::NOT_SUPPORTED => c"Not Supported",
        code::NO_PERMISSION => c"Insufficient Permissions",
        code::NOT_FOUND => c"Not Found",
        code::INSUFFICIENT_SIZE => c"Insufficient Size",
        code::TIMEOUT => c"Timeout",
        code::DRIVER_NOT_LOADED => c"Driver Not Loaded",
        code::GPU_IS_LOST => c"GPU is lost",
        code::RESET_REQUIRED => c"GPU requires reset",
        code::NO_DATA => c"No data",
        code::VERSION_MISMATCH => c"Argument version mismatch",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}
