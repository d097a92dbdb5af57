//! Memory errors and remapped rows. All errors are of the device memory.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlEccErrorCounts_t, nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_DEVICE_MEMORY as DEVICE_MEMORY,
    nvmlReturn_t,
};

use super::code;
use super::out::write;
use super::state::answer;
use crate::machine::View;
use crate::scenario::call::{Answer, Call};

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetEccMode(
    device: nvmlDevice_t,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> nvmlReturn_t {
    answer(device, Some(Call::EccMode), |gpu| {
        if !gpu.spec.profile.ecc {
            return code::NOT_SUPPORTED;
        }
        let mode = c_uint::from(gpu.spec.board.ecc.enabled);
        // SAFETY: both are valid or null by NVML's contract.
        match unsafe { write(current, mode) } {
            // SAFETY: as above.
            code::SUCCESS => unsafe { write(pending, mode) },
            refused => refused,
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetDefaultEccMode(device: nvmlDevice_t, mode: *mut c_uint) -> nvmlReturn_t {
    answer(device, Some(Call::EccMode), |gpu| match gpu.spec.profile.ecc {
        // SAFETY: `mode` is valid or null by NVML's contract.
        true => unsafe { write(mode, 1) },
        false => code::NOT_SUPPORTED,
    })
}

/// The count of a kind of error (0 corrected, 1 not) since the driver was loaded (0) or in the board's life (1).
fn count(gpu: &View<'_>, kind: c_uint, counter: c_uint) -> Result<u64, nvmlReturn_t> {
    let ecc = gpu.spec.board.ecc;
    if !gpu.spec.profile.ecc || !ecc.enabled {
        return Err(code::NOT_SUPPORTED);
    }
    let (corrected, uncorrected) = (gpu.overrides.ecc_corrected, gpu.overrides.ecc_uncorrected);
    let count = match (kind, counter) {
        (0, 0) => ecc.corrected_volatile + corrected,
        (1, 0) => ecc.uncorrected_volatile + uncorrected,
        (0, 1) => ecc.corrected_aggregate + corrected,
        (1, 1) => ecc.uncorrected_aggregate + uncorrected,
        _ => return Err(code::INVALID_ARGUMENT),
    };
    Ok(gpu.wide(Answer::EccErrors, count))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: nvmlDevice_t,
    kind: c_uint,
    counter: c_uint,
    errors: *mut c_ulonglong,
) -> nvmlReturn_t {
    answer(device, Some(Call::EccErrors), |gpu| match count(gpu, kind, counter) {
        // SAFETY: `errors` is valid or null by NVML's contract.
        Ok(count) => unsafe { write(errors, count) },
        Err(refused) => refused,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetDetailedEccErrors(
    device: nvmlDevice_t,
    kind: c_uint,
    counter: c_uint,
    errors: *mut nvmlEccErrorCounts_t,
) -> nvmlReturn_t {
    answer(device, Some(Call::EccErrors), |gpu| match count(gpu, kind, counter) {
        Ok(count) => {
            let value = nvmlEccErrorCounts_t { l1Cache: 0, l2Cache: 0, deviceMemory: count, registerFile: 0 };
            // SAFETY: `errors` is valid or null by NVML's contract.
            unsafe { write(errors, value) }
        }
        Err(refused) => refused,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryErrorCounter(
    device: nvmlDevice_t,
    kind: c_uint,
    counter: c_uint,
    location: c_uint,
    errors: *mut c_ulonglong,
) -> nvmlReturn_t {
    answer(device, Some(Call::EccErrors), |gpu| match count(gpu, kind, counter) {
        // SAFETY: `errors` is valid or null by NVML's contract.
        Ok(count) => unsafe { write(errors, if location == DEVICE_MEMORY { count } else { 0 }) },
        Err(refused) => refused,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetRemappedRows(
    device: nvmlDevice_t,
    corrected: *mut c_uint,
    uncorrected: *mut c_uint,
    pending: *mut c_uint,
    failed: *mut c_uint,
) -> nvmlReturn_t {
    answer(device, Some(Call::RemappedRows), |gpu| {
        let rows = gpu.spec.board.remapped_rows;
        if !gpu.spec.profile.row_remapping {
            return code::NOT_SUPPORTED;
        }
        let values = [rows.corrected, rows.uncorrected, c_uint::from(rows.pending), c_uint::from(rows.failed)];
        for (to, value) in [corrected, uncorrected, pending, failed].into_iter().zip(values) {
            // SAFETY: each is valid or null by NVML's contract.
            let written = unsafe { write(to, value) };
            if written != code::SUCCESS {
                return written;
            }
        }
        code::SUCCESS
    })
}
