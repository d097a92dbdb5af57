//! What a board is: firmware, part number, modes, the bounds of its power limit, and where it sits beside the others.

use std::ffi::{c_char, c_uint};

use nvml_wrapper_sys::bindings::{NVML_GSP_FIRMWARE_VERSION_BUF_SIZE, nvmlDevice_t, nvmlReturn_t};

use super::code;
use super::out::{write, write_text};
use super::state::{answer, simulator};
use crate::profiles::Profile;
use crate::scenario::call::Call;

/// Levels of a common ancestor, as NVML numbers them.
const SINGLE: c_uint = 10;
const NODE: c_uint = 40;
const SYSTEM: c_uint = 50;

/// Peer-to-peer access works.
const P2P_OK: c_uint = 0;
/// The GPUs can't.
const P2P_GPU_NOT_SUPPORTED: c_uint = 2;

/// Versions of the form that the boards have.
fn vbios(profile: &Profile) -> &'static str {
    match profile.key {
        "a100-80gb" => "92.00.45.00.03",
        "h100-80gb" => "96.00.74.00.1A",
        "h200-141gb" => "96.00.A5.00.05",
        "l4" => "95.04.29.00.06",
        "rtx-4090" => "95.02.3C.00.8E",
        _ => "97.00.00.00.01",
    }
}

/// The least limit that can be set, in milliwatts; the greatest is the profile's, but on boards for gamers.
fn power_bounds(profile: &Profile) -> (u32, u32) {
    let greatest = if profile.has_serial { profile.power_limit_mw } else { profile.power_limit_mw / 3 * 4 };
    (profile.power_limit_mw / 4, greatest)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetVbiosVersion(
    device: nvmlDevice_t,
    version: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    answer(device, Some(Call::VbiosVersion), |gpu| {
        // SAFETY: `version` has `length` bytes by NVML's contract.
        unsafe { write_text(version, length, vbios(gpu.spec.profile)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetBoardPartNumber(
    device: nvmlDevice_t,
    number: *mut c_char,
    length: c_uint,
) -> nvmlReturn_t {
    answer(device, Some(Call::BoardPartNumber), |gpu| {
        let profile = gpu.spec.profile;
        if !profile.has_serial {
            return code::NOT_SUPPORTED;
        }
        let text = format!("900-2{:04X}-0000-000", profile.pci_device_id >> 16);
        // SAFETY: `number` has `length` bytes by NVML's contract.
        unsafe { write_text(number, length, &text) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPersistenceMode(device: nvmlDevice_t, mode: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `mode` is valid or null by NVML's contract.
    answer(device, Some(Call::PersistenceMode), |_| unsafe { write(mode, 1) })
}

/// Any number of contexts.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetComputeMode(device: nvmlDevice_t, mode: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `mode` is valid or null by NVML's contract.
    answer(device, None, |_| unsafe { write(mode, 0) })
}

/// Bare metal.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetVirtualizationMode(device: nvmlDevice_t, mode: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `mode` is valid or null by NVML's contract.
    answer(device, None, |_| unsafe { write(mode, 0) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGspFirmwareMode(
    device: nvmlDevice_t,
    enabled: *mut c_uint,
    default: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: both are valid or null by NVML's contract.
    answer(device, None, |_| match unsafe { write(enabled, 1) } {
        // SAFETY: as above.
        code::SUCCESS => unsafe { write(default, 1) },
        refused => refused,
    })
}

/// The firmware comes with the driver.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGspFirmwareVersion(device: nvmlDevice_t, version: *mut c_char) -> nvmlReturn_t {
    let driver = match simulator().machine() {
        Some(machine) => machine.scenario().driver_version.clone(),
        None => return code::UNINITIALIZED,
    };
    // SAFETY: `version` has this many bytes by NVML's contract.
    answer(device, None, |_| unsafe { write_text(version, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE, &driver) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPowerManagementDefaultLimit(
    device: nvmlDevice_t,
    limit: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: `limit` is valid or null by NVML's contract.
    answer(device, Some(Call::PowerConstraints), |gpu| unsafe { write(limit, gpu.spec.profile.power_limit_mw) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPowerManagementLimitConstraints(
    device: nvmlDevice_t,
    least: *mut c_uint,
    greatest: *mut c_uint,
) -> nvmlReturn_t {
    answer(device, Some(Call::PowerConstraints), |gpu| {
        let bounds = power_bounds(gpu.spec.profile);
        // SAFETY: both are valid or null by NVML's contract.
        match unsafe { write(least, bounds.0) } {
            // SAFETY: as above.
            code::SUCCESS => unsafe { write(greatest, bounds.1) },
            refused => refused,
        }
    })
}

/// The indexes of two GPUs, or why not.
fn pair(one: nvmlDevice_t, other: nvmlDevice_t) -> Result<(u32, u32), nvmlReturn_t> {
    let mut found = [0; 2];
    for (device, index) in [one, other].into_iter().zip(&mut found) {
        let code = answer(device, Some(Call::Topology), |gpu| {
            *index = gpu.index;
            code::SUCCESS
        });
        if code != code::SUCCESS {
            return Err(code);
        }
    }
    Ok((found[0], found[1]))
}

/// Two GPUs share a PCIe switch, four a NUMA node.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    one: nvmlDevice_t,
    other: nvmlDevice_t,
    level: *mut c_uint,
) -> nvmlReturn_t {
    let nearest = match pair(one, other) {
        Err(code) => return code,
        Ok((one, other)) if one == other => return code::INVALID_ARGUMENT,
        Ok((one, other)) if one / 2 == other / 2 => SINGLE,
        Ok((one, other)) if one / 4 == other / 4 => NODE,
        Ok(_) => SYSTEM,
    };
    // SAFETY: `level` is valid or null by NVML's contract.
    unsafe { write(level, nearest) }
}

/// Boards for data centers reach each other's memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetP2PStatus(
    one: nvmlDevice_t,
    other: nvmlDevice_t,
    _capability: c_uint,
    status: *mut c_uint,
) -> nvmlReturn_t {
    if let Err(code) = pair(one, other) {
        return code;
    }
    answer(one, None, |gpu| {
        let told = if gpu.spec.profile.has_serial { P2P_OK } else { P2P_GPU_NOT_SUPPORTED };
        // SAFETY: `status` is valid or null by NVML's contract.
        unsafe { write(status, told) }
    })
}
