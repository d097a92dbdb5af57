//! The PCIe link: generation, width and replays. Its bytes are fields.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};

use super::out::write;
use super::state::answer;
use crate::scenario::call::{Answer, Call};

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCurrPcieLinkGeneration(
    device: nvmlDevice_t,
    generation: *mut c_uint,
) -> nvmlReturn_t {
    answer(device, Some(Call::PcieGeneration), |gpu| {
        let now = gpu.spec.board.pcie.generation.unwrap_or(gpu.spec.profile.pcie.generation);
        // SAFETY: `generation` is valid or null by NVML's contract.
        unsafe { write(generation, gpu.narrow(Answer::PcieGeneration, now)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxPcieLinkGeneration(device: nvmlDevice_t, generation: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `generation` is valid or null by NVML's contract.
    answer(device, Some(Call::PcieGeneration), |gpu| unsafe { write(generation, gpu.spec.profile.pcie.generation) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGpuMaxPcieLinkGeneration(
    device: nvmlDevice_t,
    generation: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: as for the link's.
    unsafe { nvmlDeviceGetMaxPcieLinkGeneration(device, generation) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCurrPcieLinkWidth(device: nvmlDevice_t, width: *mut c_uint) -> nvmlReturn_t {
    answer(device, Some(Call::PcieWidth), |gpu| {
        let now = gpu.spec.board.pcie.width.unwrap_or(gpu.spec.profile.pcie.width);
        // SAFETY: `width` is valid or null by NVML's contract.
        unsafe { write(width, gpu.narrow(Answer::PcieWidth, now)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxPcieLinkWidth(device: nvmlDevice_t, width: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `width` is valid or null by NVML's contract.
    answer(device, Some(Call::PcieWidth), |gpu| unsafe { write(width, gpu.spec.profile.pcie.width) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPcieReplayCounter(device: nvmlDevice_t, replays: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `replays` is valid or null by NVML's contract.
    answer(device, Some(Call::PcieReplays), |gpu| unsafe {
        write(replays, gpu.narrow(Answer::PcieReplays, gpu.spec.board.pcie.replays))
    })
}
