//! The processes on a GPU or a MIG instance, and their share of it; and the virtual GPUs on it.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlProcessInfo_t, nvmlProcessUtilizationSample_t, nvmlReturn_t, nvmlVgpuInstance_t,
};

use super::code;
use super::out::write_list;
use super::state::{answer, answer_any, percent};
use crate::machine::View;
use crate::scenario::List;
use crate::scenario::call::{Answer, Call};
use crate::scenario::mig::Slot;

/// The driver takes a sample of the processes this often, in milliseconds.
const SAMPLING_MS: u64 = 100;

/// What a process has for an instance id on a GPU that is not split.
const NO_INSTANCE: c_uint = c_uint::MAX;

/// Of a GPU that is split: those of all its instances.
fn list(gpu: &View<'_>, slot: Option<&Slot>, list: List) -> Vec<nvmlProcessInfo_t> {
    let own = |id: Option<u32>| slot.is_none_or(|slot| Some(slot.gpu_instance) == id);
    let processes = gpu.state.processes.iter().filter(|process| process.list == list && own(process.gpu_instance));
    processes
        .map(|process| nvmlProcessInfo_t {
            pid: process.pid,
            usedGpuMemory: gpu.wide(Answer::ProcessMemory, process.memory_bytes),
            gpuInstanceId: process.gpu_instance.unwrap_or(NO_INSTANCE),
            computeInstanceId: process.gpu_instance.map_or(NO_INSTANCE, |_| 0),
        })
        .collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: nvmlDevice_t,
    count: *mut c_uint,
    infos: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t {
    answer_any(device, Some(Call::ComputeProcesses), |gpu, slot| {
        // SAFETY: `count` and `infos` are as `write_list` wants them by NVML's contract.
        unsafe { write_list(infos, count, list(gpu, slot, List::Compute)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: nvmlDevice_t,
    count: *mut c_uint,
    infos: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t {
    answer_any(device, Some(Call::GraphicsProcesses), |gpu, slot| {
        // SAFETY: `count` and `infos` are as `write_list` wants them by NVML's contract.
        unsafe { write_list(infos, count, list(gpu, slot, List::Graphics)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    device: nvmlDevice_t,
    count: *mut c_uint,
    infos: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t {
    answer_any(device, Some(Call::MpsProcesses), |gpu, slot| {
        // SAFETY: `count` and `infos` are as `write_list` wants them by NVML's contract.
        unsafe { write_list(infos, count, list(gpu, slot, List::Mps)) }
    })
}

/// Virtual GPUs are numbered from 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetActiveVgpus(
    device: nvmlDevice_t,
    count: *mut c_uint,
    vgpus: *mut nvmlVgpuInstance_t,
) -> nvmlReturn_t {
    answer(device, Some(Call::ActiveVgpus), |gpu| match gpu.spec.vgpus {
        // SAFETY: `count` and `vgpus` are as `write_list` wants them by NVML's contract.
        Some(running) => unsafe { write_list(vgpus, count, (1..=running).collect()) },
        None => code::NOT_SUPPORTED,
    })
}

/// Samples after `last_seen` (µs of the simulated clock). None, as on an idle GPU, is NOT_FOUND.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetProcessUtilization(
    device: nvmlDevice_t,
    samples: *mut nvmlProcessUtilizationSample_t,
    count: *mut c_uint,
    last_seen: c_ulonglong,
) -> nvmlReturn_t {
    answer(device, Some(Call::ProcessUtilization), |gpu| {
        // The first sample has a timestamp above 0, so that a cursor of 0 is before it.
        let taken_us = (gpu.now_ms / SAMPLING_MS + 1).saturating_mul(SAMPLING_MS * 1_000);
        let busy = gpu.state.processes.iter().filter(|process| process.sm_util > 0 && taken_us > last_seen);
        let list: Vec<_> = busy
            .map(|process| nvmlProcessUtilizationSample_t {
                pid: process.pid,
                timeStamp: taken_us,
                smUtil: gpu.narrow(Answer::ProcessSmUtil, percent(process.sm_util)),
                memUtil: percent(process.sm_util * 3 / 5),
                encUtil: 0,
                decUtil: 0,
            })
            .collect();
        if list.is_empty() {
            return code::NOT_FOUND;
        }
        // SAFETY: `count` and `samples` are as `write_list` wants them by NVML's contract.
        unsafe { write_list(samples, count, list) }
    })
}
