//! The processes on a GPU, and their share of it.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlProcessInfo_t, nvmlProcessUtilizationSample_t, nvmlReturn_t};

use super::code;
use super::out::write_list;
use super::state::{answer, percent};
use crate::machine::View;
use crate::scenario::call::{Answer, Call};

/// The driver takes a sample of the processes this often, in milliseconds.
const SAMPLING_MS: u64 = 100;

/// What a process has for an instance id on a GPU that is not split.
const NO_INSTANCE: c_uint = c_uint::MAX;

fn list(gpu: &View<'_>, graphics: bool) -> Vec<nvmlProcessInfo_t> {
    let processes = gpu.state.processes.iter().filter(|process| process.graphics == graphics);
    processes
        .map(|process| nvmlProcessInfo_t {
            pid: process.pid,
            usedGpuMemory: gpu.wide(Answer::ProcessMemory, process.memory_bytes),
            gpuInstanceId: NO_INSTANCE,
            computeInstanceId: NO_INSTANCE,
        })
        .collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: nvmlDevice_t,
    count: *mut c_uint,
    infos: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t {
    // SAFETY: `count` and `infos` are as `write_list` wants them by NVML's contract.
    answer(device, Some(Call::ComputeProcesses), |gpu| unsafe { write_list(infos, count, list(gpu, false)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: nvmlDevice_t,
    count: *mut c_uint,
    infos: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t {
    // SAFETY: `count` and `infos` are as `write_list` wants them by NVML's contract.
    answer(device, Some(Call::GraphicsProcesses), |gpu| unsafe { write_list(infos, count, list(gpu, true)) })
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
