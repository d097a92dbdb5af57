//! NVML's C interface, answered from the machine.
//!
//! One process has one simulator, behind one lock. A call comes in by a symbol of `system`, `device`, `gauges`,
//! `samples`, `throttle`, `pcie`, `nvlink`, `ecc`, `inventory`, `fields`, `processes`, `mig`, `gpm`, `events` or `unsupported`; [`state`]
//! finds the GPU of its handle and refuses what the scenario refuses; [`out`] writes the answer through the caller's
//! pointers. `control` has the symbols that NVML does not have. This is the only place with `unsafe`: every pointer comes
//! from a C caller that keeps NVML's contract (valid for the type, or for the stated length, or null).
#![allow(unsafe_code, non_snake_case, non_upper_case_globals)]

mod control;
mod device;
mod ecc;
mod events;
mod fields;
mod gauges;
mod gpm;
mod inventory;
mod mig;
mod nvlink;
mod out;
mod pcie;
mod processes;
mod samples;
mod state;
mod system;
mod throttle;
mod unsupported;

/// The return codes that are used here, under short names.
mod code {
    pub use nvml_wrapper_sys::bindings::{
        nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH as VERSION_MISMATCH,
        nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED as DRIVER_NOT_LOADED,
        nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST as GPU_IS_LOST,
        nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as INSUFFICIENT_SIZE,
        nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT, nvmlReturn_enum_NVML_ERROR_NO_DATA as NO_DATA,
        nvmlReturn_enum_NVML_ERROR_NO_PERMISSION as NO_PERMISSION, nvmlReturn_enum_NVML_ERROR_NOT_FOUND as NOT_FOUND,
        nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
        nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED as RESET_REQUIRED, nvmlReturn_enum_NVML_ERROR_TIMEOUT as TIMEOUT,
        nvmlReturn_enum_NVML_ERROR_UNINITIALIZED as UNINITIALIZED, nvmlReturn_enum_NVML_ERROR_UNKNOWN as UNKNOWN,
        nvmlReturn_enum_NVML_SUCCESS as SUCCESS,
    };
}
