//! Handles and identity.

use std::ffi::{CStr, c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlPciInfo_t, nvmlReturn_t};

use super::code;
use super::out::{array, write, write_text};
use super::state::{self, Handle, answer, answer_any, handle, simulator};
use crate::scenario::GpuSpec;
use crate::scenario::call::Call;
use crate::scenario::mig::Slot;

/// Writes the handle of the first GPU that `is` accepts, or answers `otherwise`. It is told the GPU's place among those
/// that are counted, its position in the scenario, and itself.
unsafe fn find(
    device: *mut nvmlDevice_t,
    otherwise: nvmlReturn_t,
    is: impl Fn(usize, usize, &GpuSpec) -> bool,
) -> nvmlReturn_t {
    match state::find(is) {
        // SAFETY: `device` is valid or null by NVML's contract.
        Ok(Some(index)) => unsafe { write(device, handle(index)) },
        Ok(None) => otherwise,
        Err(refused) => refused,
    }
}

/// The text behind a C caller's pointer, if it is text.
unsafe fn text<'a>(from: *const c_char) -> Option<&'a str> {
    if from.is_null() {
        return None;
    }
    // SAFETY: not null, and then a C string by NVML's contract.
    unsafe { CStr::from_ptr(from) }.to_str().ok()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut nvmlDevice_t) -> nvmlReturn_t {
    // SAFETY: as NVML's contract has it.
    unsafe { find(device, code::INVALID_ARGUMENT, |place, _, _| place == index as usize) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut nvmlDevice_t) -> nvmlReturn_t {
    // SAFETY: as NVML's contract has it.
    unsafe {
        let Some(uuid) = text(uuid) else { return code::INVALID_ARGUMENT };
        match instance(uuid) {
            Some(found) => write(device, found.encode()),
            None => find(device, code::NOT_FOUND, |_, _, gpu| gpu.uuid == uuid),
        }
    }
}

/// The MIG device of this UUID, if it exists now.
fn instance(uuid: &str) -> Option<Handle> {
    let mut simulator = simulator();
    let now_ms = simulator.clock().now_ms();
    let mut gpus = simulator.machine()?.scenario().gpus.iter().enumerate();
    gpus.find_map(|(gpu, spec)| {
        let mig = spec.mig.as_ref()?;
        let is = |slot: &Option<Slot>| slot.as_ref().is_some_and(|slot| slot.uuid == uuid);
        let place = mig.places(now_ms).iter().position(is)?;
        Some(Handle { gpu, instance: Some((mig.generation(now_ms), place)) })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(bus: *const c_char, device: *mut nvmlDevice_t) -> nvmlReturn_t {
    // SAFETY: as NVML's contract has it.
    unsafe {
        let Some(bus) = text(bus) else { return code::INVALID_ARGUMENT };
        find(device, code::NOT_FOUND, |_, at, _| bus_id(at).eq_ignore_ascii_case(bus))
    }
}

/// GPUs sit on buses 0x01, 0x11, 0x21, …, sixteen to a PCI domain.
fn bus_id(index: usize) -> String {
    format!("{:08X}:{:02X}:00.0", index / 16, index % 16 * 16 + 1)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetName(device: nvmlDevice_t, name: *mut c_char, length: c_uint) -> nvmlReturn_t {
    answer_any(device, None, |gpu, slot| {
        let mut text = gpu.spec.profile.name.to_owned();
        if let Some(slot) = slot {
            text.push_str(" MIG ");
            text.push_str(slot.profile.name);
        }
        // SAFETY: `name` has `length` bytes by NVML's contract.
        unsafe { write_text(name, length, &text) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetUUID(device: nvmlDevice_t, uuid: *mut c_char, length: c_uint) -> nvmlReturn_t {
    answer_any(device, None, |gpu, slot| {
        let text = slot.map_or(&gpu.spec.uuid, |slot| &slot.uuid);
        // SAFETY: `uuid` has `length` bytes by NVML's contract.
        unsafe { write_text(uuid, length, text) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetSerial(device: nvmlDevice_t, serial: *mut c_char, length: c_uint) -> nvmlReturn_t {
    answer(device, Some(Call::Serial), |gpu| {
        if !gpu.spec.profile.has_serial {
            return code::NOT_SUPPORTED;
        }
        let digits: u64 = gpu.spec.uuid.bytes().fold(7, |sum, byte| (sum * 31 + u64::from(byte)) % 10_000_000_000);
        // SAFETY: `serial` has `length` bytes by NVML's contract.
        unsafe { write_text(serial, length, &format!("165{digits:010}")) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetIndex(device: nvmlDevice_t, index: *mut c_uint) -> nvmlReturn_t {
    let place = device.addr().checked_sub(1).and_then(state::place).and_then(|place| c_uint::try_from(place).ok());
    // SAFETY: `index` is valid or null by NVML's contract.
    answer(device, None, |gpu| unsafe { write(index, place.unwrap_or(gpu.index)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMinorNumber(device: nvmlDevice_t, minor: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `minor` is valid or null by NVML's contract.
    answer(device, Some(Call::MinorNumber), |gpu| unsafe { write(minor, gpu.index) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetBrand(device: nvmlDevice_t, brand: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `brand` is valid or null by NVML's contract.
    answer(device, None, |gpu| unsafe { write(brand, gpu.spec.profile.brand) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetArchitecture(device: nvmlDevice_t, architecture: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `architecture` is valid or null by NVML's contract.
    answer(device, Some(Call::Architecture), |gpu| unsafe { write(architecture, gpu.spec.profile.architecture) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: nvmlDevice_t,
    major: *mut c_int,
    minor: *mut c_int,
) -> nvmlReturn_t {
    answer(device, None, |gpu| {
        let capability = gpu.spec.profile.compute_capability;
        // SAFETY: both are valid or null by NVML's contract.
        match unsafe { write(major, capability.0) } {
            // SAFETY: as above.
            code::SUCCESS => unsafe { write(minor, capability.1) },
            refused => refused,
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: nvmlDevice_t, pci: *mut nvmlPciInfo_t) -> nvmlReturn_t {
    answer(device, Some(Call::PciInfo), |gpu| {
        let index = gpu.index as usize;
        let bus = bus_id(index);
        let info = nvmlPciInfo_t {
            // The legacy form has four digits of domain.
            busIdLegacy: array(bus.get(4..).unwrap_or_default()),
            domain: gpu.index / 16,
            bus: gpu.index % 16 * 16 + 1,
            device: 0,
            pciDeviceId: gpu.spec.profile.pci_device_id,
            pciSubSystemId: gpu.spec.profile.pci_device_id,
            busId: array(&bus),
        };
        // SAFETY: `pci` is valid or null by NVML's contract.
        unsafe { write(pci, info) }
    })
}
