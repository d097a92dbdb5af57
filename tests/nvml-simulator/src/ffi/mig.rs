//! MIG: the mode, the instances that exist, and what they are. Their names, UUIDs, memory and processes are answered where
//! those of GPUs are; what is asked of an instance and answered nowhere is NOT_SUPPORTED.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlDeviceAttributes_t, nvmlGpuInstance_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t,
    nvmlReturn_t,
};

use super::code;
use super::out::write;
use super::state::{Handle, answer, answer_any, handle};
use crate::mig_profiles::mig_profiles;
use crate::scenario::call::Call;
use crate::scenario::mig::PLACES;

/// The mode is on or off for all of the time, and nothing is pending.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: nvmlDevice_t,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> nvmlReturn_t {
    answer(device, Some(Call::MigMode), |gpu| {
        if !gpu.spec.profile.mig_capable {
            return code::NOT_SUPPORTED;
        }
        let mode = c_uint::from(gpu.spec.mig.is_some());
        // SAFETY: both are valid or null by NVML's contract.
        match unsafe { write(current, mode) } {
            // SAFETY: as above.
            code::SUCCESS => unsafe { write(pending, mode) },
            refused => refused,
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceIsMigDeviceHandle(device: nvmlDevice_t, is_mig: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `is_mig` is valid or null by NVML's contract.
    answer_any(device, None, |_, slot| unsafe { write(is_mig, c_uint::from(slot.is_some())) })
}

/// 0 while the mode is off.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: nvmlDevice_t, count: *mut c_uint) -> nvmlReturn_t {
    answer(device, None, |gpu| {
        let places = if gpu.spec.mig.is_some() { PLACES } else { 0 };
        // SAFETY: `count` is valid or null by NVML's contract.
        unsafe { write(count, c_uint::try_from(places).unwrap_or(0)) }
    })
}

/// NOT_FOUND where there is a hole.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: nvmlDevice_t,
    index: c_uint,
    instance: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    answer(device, Some(Call::MigDeviceHandle), |gpu| {
        let (Some(mig), place) = (&gpu.spec.mig, index as usize) else { return code::NOT_SUPPORTED };
        if place >= PLACES {
            return code::INVALID_ARGUMENT;
        }
        let generation = mig.generation(gpu.now_ms);
        if gpu.slot(generation, place).is_none() {
            return code::NOT_FOUND;
        }
        let found = Handle { gpu: gpu.index as usize, instance: Some((generation, place)) };
        // SAFETY: `instance` is valid or null by NVML's contract.
        unsafe { write(instance, found.encode()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(
    instance: nvmlDevice_t,
    device: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    answer_any(instance, None, |gpu, slot| match slot {
        // SAFETY: `device` is valid or null by NVML's contract.
        Some(_) => unsafe { write(device, handle(gpu.index as usize)) },
        None => code::INVALID_ARGUMENT,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGpuInstanceId(device: nvmlDevice_t, id: *mut c_uint) -> nvmlReturn_t {
    answer_any(device, None, |_, slot| match slot {
        // SAFETY: `id` is valid or null by NVML's contract.
        Some(slot) => unsafe { write(id, slot.gpu_instance) },
        None => code::INVALID_ARGUMENT,
    })
}

/// Each GPU instance has one compute instance.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetComputeInstanceId(device: nvmlDevice_t, id: *mut c_uint) -> nvmlReturn_t {
    answer_any(device, None, |_, slot| match slot {
        // SAFETY: `id` is valid or null by NVML's contract.
        Some(_) => unsafe { write(id, 0) },
        None => code::INVALID_ARGUMENT,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetAttributes_v2(
    device: nvmlDevice_t,
    attributes: *mut nvmlDeviceAttributes_t,
) -> nvmlReturn_t {
    answer_any(device, None, |_, slot| {
        let Some(slot) = slot else { return code::NOT_SUPPORTED };
        let profile = slot.profile;
        let value = nvmlDeviceAttributes_t {
            multiprocessorCount: profile.sms,
            sharedCopyEngineCount: profile.compute,
            sharedDecoderCount: profile.compute,
            sharedEncoderCount: 0,
            sharedJpegCount: profile.compute,
            sharedOfaCount: c_uint::from(profile.compute == 7),
            gpuInstanceSliceCount: profile.compute,
            computeInstanceSliceCount: profile.compute,
            memorySizeMB: profile.mib,
        };
        // SAFETY: `attributes` is valid or null by NVML's contract.
        unsafe { write(attributes, value) }
    })
}

/// The handle of a GPU instance is that of its MIG device, under another type.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGpuInstanceById(
    device: nvmlDevice_t,
    id: c_uint,
    instance: *mut nvmlGpuInstance_t,
) -> nvmlReturn_t {
    answer(device, Some(Call::GpuInstance), |gpu| {
        let Some(mig) = &gpu.spec.mig else { return code::NOT_SUPPORTED };
        let is = |slot: &Option<crate::scenario::mig::Slot>| slot.as_ref().is_some_and(|slot| slot.gpu_instance == id);
        let Some(place) = mig.places(gpu.now_ms).iter().position(is) else { return code::NOT_FOUND };
        let found = Handle { gpu: gpu.index as usize, instance: Some((mig.generation(gpu.now_ms), place)) };
        // SAFETY: `instance` is valid or null by NVML's contract.
        unsafe { write(instance, found.encode().cast()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlGpuInstanceGetInfo(
    instance: nvmlGpuInstance_t,
    info: *mut nvmlGpuInstanceInfo_t,
) -> nvmlReturn_t {
    answer_any(instance.cast(), None, |gpu, slot| {
        let Some(slot) = slot else { return code::INVALID_ARGUMENT };
        let profiles = mig_profiles(gpu.spec.profile.key);
        let profile = profiles.iter().position(|profile| profile == slot.profile).unwrap_or(0);
        let value = nvmlGpuInstanceInfo_t {
            device: handle(gpu.index as usize),
            id: slot.gpu_instance,
            profileId: c_uint::try_from(profile).unwrap_or(0),
            placement: nvmlGpuInstancePlacement_t { start: slot.start, size: slot.profile.memory },
        };
        // SAFETY: `info` is valid or null by NVML's contract.
        unsafe { write(info, value) }
    })
}
