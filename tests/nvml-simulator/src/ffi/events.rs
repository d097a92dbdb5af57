//! Event sets, on which nothing happens yet.

use std::ffi::{c_uint, c_ulonglong, c_void};
use std::time::Duration;

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};

use super::code;
use super::out::write;
use super::state::answer;

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlEventSetCreate(set: *mut *mut c_void) -> nvmlReturn_t {
    // SAFETY: `set` is valid or null by NVML's contract. The handle is a number that nobody follows.
    unsafe { write(set, std::ptr::without_provenance_mut(1)) }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetFree(_set: *mut c_void) -> nvmlReturn_t {
    code::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceRegisterEvents(device: nvmlDevice_t, _types: c_ulonglong, _set: *mut c_void) -> nvmlReturn_t {
    answer(device, None, |_| code::SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetSupportedEventTypes(device: nvmlDevice_t, types: *mut c_ulonglong) -> nvmlReturn_t {
    // 8 is nvmlEventTypeXidCriticalError.
    // SAFETY: `types` is valid or null by NVML's contract.
    answer(device, None, |_| unsafe { write(types, 8) })
}

/// Waits for as long as it may, in milliseconds of real time, and finds nothing.
#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait_v2(_set: *mut c_void, _data: *mut c_void, timeout_ms: c_uint) -> nvmlReturn_t {
    std::thread::sleep(Duration::from_millis(u64::from(timeout_ms)));
    code::TIMEOUT
}
