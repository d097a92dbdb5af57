//! The symbols that NVML does not have: scenario, clock and faults, for programs that know they talk to the simulator.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_ulonglong};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::out::write_text;
use super::state::simulator;
use crate::scenario::ScenarioError;

/// Takes the scenario at `path` (null: the built-in one) from the next init on; 0, or 1 with the reason in `message`.
#[unsafe(no_mangle)]
unsafe extern "C" fn contador_nvml_simulator_load(path: *const c_char, message: *mut c_char, length: c_uint) -> c_int {
    let path = if path.is_null() {
        None
    } else {
        // SAFETY: not null, and then a C string by contract.
        let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
        Some(Path::new(OsStr::from_bytes(bytes)))
    };
    let result = simulator().load(path);
    // SAFETY: `message` is null or has `length` bytes by contract.
    unsafe { said(result, message, length) }
}

/// 0, or 1 with the reason in `message`.
///
/// # Safety
/// `message` is null or valid for writing `length` bytes.
unsafe fn said(result: Result<(), ScenarioError>, message: *mut c_char, length: c_uint) -> c_int {
    let Err(error) = result else { return 0 };
    let mut reason = error.to_string();
    while reason.len() >= length.max(1) as usize {
        reason.pop();
    }
    // SAFETY: by this function's contract.
    unsafe { write_text(message, length, &reason) };
    1
}

/// Takes `[[fault]]` entries (null: none) in place of those that it took before; 0, or 1 with the reason in `message`.
#[unsafe(no_mangle)]
unsafe extern "C" fn contador_nvml_simulator_faults(
    entries: *const c_char,
    message: *mut c_char,
    length: c_uint,
) -> c_int {
    let text = if entries.is_null() {
        String::new()
    } else {
        // SAFETY: not null, and then a C string by contract.
        unsafe { CStr::from_ptr(entries) }.to_string_lossy().into_owned()
    };
    let result = simulator().give(&text);
    // SAFETY: `message` is null or has `length` bytes by contract.
    unsafe { said(result, message, length) }
}

/// How many inits have not been shut down.
#[unsafe(no_mangle)]
extern "C" fn contador_nvml_simulator_inits() -> c_uint {
    simulator().inits()
}

/// Takes a seed for scenarios without one (null: none), from the next load or init on.
#[unsafe(no_mangle)]
unsafe extern "C" fn contador_nvml_simulator_seed(seed: *const c_char) {
    let seed = if seed.is_null() {
        None
    } else {
        // SAFETY: not null, and then a C string by contract.
        Some(unsafe { CStr::from_ptr(seed) }.to_string_lossy().into_owned())
    };
    simulator().seed(seed);
}

/// Holds the clock at `milliseconds`; 0, or 1 when it is already later.
#[unsafe(no_mangle)]
extern "C" fn contador_nvml_simulator_hold_clock(milliseconds: c_ulonglong) -> c_int {
    c_int::from(!simulator().clock().hold(milliseconds))
}

/// How many GPM samples are allocated and not freed.
#[unsafe(no_mangle)]
extern "C" fn contador_nvml_simulator_gpm_samples() -> c_uint {
    c_uint::try_from(simulator().gpm().count()).unwrap_or(c_uint::MAX)
}

/// Lets the clock run on.
#[unsafe(no_mangle)]
extern "C" fn contador_nvml_simulator_run_clock() {
    simulator().clock().run();
}

/// How many calls about a device have been answered since the library was loaded.
#[unsafe(no_mangle)]
extern "C" fn contador_nvml_simulator_calls() -> c_ulonglong {
    simulator().calls()
}
