//! The calls about MIG that the wrapper lacks.
#![allow(unsafe_code)]

use std::ffi::c_uint;
use std::mem::MaybeUninit;

use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlGpuInstanceInfo_t};

use crate::sensors::sample::Placement;

/// Id of the GPU instance that a MIG device is of.
pub(super) fn gpu_instance_id(nvml: &Nvml, instance: &Device<'_>) -> Result<u32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetGpuInstanceId.as_ref())?;
    // SAFETY: the handle is the wrapper's, and the call takes a handle and a number to write to, as `id` has them.
    id(instance, |device, id| unsafe { call(device, id) })
}

/// Id of a MIG device's compute instance within its GPU instance.
pub(super) fn compute_instance_id(nvml: &Nvml, instance: &Device<'_>) -> Result<u32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetComputeInstanceId.as_ref())?;
    // SAFETY: as above.
    id(instance, |device, id| unsafe { call(device, id) })
}

fn id(instance: &Device<'_>, call: impl FnOnce(nvmlDevice_t, *mut c_uint) -> c_uint) -> Result<u32, NvmlError> {
    let mut id = 0;
    // SAFETY: the handle is used for this call only, while the device is borrowed.
    let device = unsafe { instance.handle() };
    nvml_try(call(device, &raw mut id))?;
    Ok(id)
}

/// Where a GPU instance is on its GPU, and how many of its memory slices it takes. The driver tells root only.
pub(super) fn place(nvml: &Nvml, gpu: &Device<'_>, gpu_instance: u32) -> Result<(Placement, u32), NvmlError> {
    let find = nvml_sym(nvml.lib().nvmlDeviceGetGpuInstanceById.as_ref())?;
    let ask = nvml_sym(nvml.lib().nvmlGpuInstanceGetInfo.as_ref())?;
    let mut instance = std::ptr::null_mut();
    let mut info = MaybeUninit::<nvmlGpuInstanceInfo_t>::zeroed();
    // SAFETY: the GPU is borrowed while its handle is used; both calls write to what they are given, and the second one
    // gets the handle that the first one has found. Zeros are a value of the answer, which has no references.
    let info = unsafe {
        nvml_try(find(gpu.handle(), gpu_instance, &raw mut instance))?;
        nvml_try(ask(instance, info.as_mut_ptr()))?;
        info.assume_init()
    };
    Ok((Placement { profile: info.profileId, start: info.placement.start }, info.placement.size))
}
