//! GPM on Hopper and later: counters that two samples are the difference of.
//!
//! A sample keeps how far the utilisation's integral had come, of a GPU or of a MIG instance in terms of its own part. Every
//! metric follows from the mean utilisation between two samples, by a fixed factor. On a GPU that is split by MIG, only
//! what the board has as a whole, its links, is told of it; the rest is told of its instances.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};

use nvml_wrapper_sys::bindings::{
    NVML_GPM_METRICS_GET_VERSION, NVML_GPM_SUPPORT_VERSION, nvmlDevice_t, nvmlGpmMetric_t,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_ANY_TENSOR_UTIL as ANY_TENSOR,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_DRAM_BW_UTIL as DRAM, nvmlGpmMetricId_t_NVML_GPM_METRIC_FP16_UTIL as FP16,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_FP32_UTIL as FP32, nvmlGpmMetricId_t_NVML_GPM_METRIC_FP64_UTIL as FP64,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_GRAPHICS_UTIL as GRAPHICS,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_INTEGER_UTIL as INTEGER,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC as NVLINK_RX,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC as NVLINK_TX,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_PCIE_RX_PER_SEC as PCIE_RX,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_PCIE_TX_PER_SEC as PCIE_TX,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_OCCUPANCY as OCCUPANCY, nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_UTIL as SM,
    nvmlGpmMetricsGet_t, nvmlGpmSample_t, nvmlGpmSupport_t, nvmlReturn_t,
};

use super::code;
use super::out::write;
use super::state::{answer, simulator};
use crate::machine::View;
use crate::scenario::call::{Answer, Call};
use crate::scenario::mig::Slot;

/// Hopper, by NVML's number.
const HOPPER: u32 = 9;

/// The driver refreshes its counters this often, in milliseconds: samples that are nearer have nothing between them.
const REFRESH_MS: u64 = 100;

/// The samples that are allocated, by the number that is their handle.
#[derive(Debug)]
pub(super) struct Samples {
    taken: BTreeMap<usize, Option<Sample>>,
    last: usize,
}

/// The counters of a sample.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    gpu: String,
    /// Of which GPU instance; absent: of the whole GPU.
    instance: Option<u32>,
    /// Whether the GPU was split.
    split: bool,
    at_ms: u64,
    busy: u128,
    /// What the scenario has SM_UTIL replaced by, in percent.
    sm_util: Option<u64>,
}

impl Samples {
    pub(super) const NONE: Self = Self { taken: BTreeMap::new(), last: 0 };

    /// How many are allocated.
    pub(super) fn count(&self) -> usize {
        self.taken.len()
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlGpmQueryDeviceSupport(device: nvmlDevice_t, support: *mut nvmlGpmSupport_t) -> nvmlReturn_t {
    answer(device, None, |gpu| {
        // SAFETY: valid with its version set, or null, by NVML's contract.
        let Some(support) = (unsafe { support.as_mut() }) else { return code::INVALID_ARGUMENT };
        if support.version != NVML_GPM_SUPPORT_VERSION {
            return code::VERSION_MISMATCH;
        }
        support.isSupportedDevice = c_uint::from(gpu.spec.profile.architecture >= HOPPER);
        code::SUCCESS
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlGpmSampleAlloc(sample: *mut nvmlGpmSample_t) -> nvmlReturn_t {
    let mut simulator = simulator();
    let samples = simulator.gpm();
    let handle = samples.last + 1;
    // SAFETY: `sample` is valid or null by NVML's contract. The handle is a number that nobody follows.
    let written = unsafe { write(sample, std::ptr::without_provenance_mut(handle)) };
    if written == code::SUCCESS {
        samples.last = handle;
        samples.taken.insert(handle, None);
    }
    written
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleFree(sample: *mut c_void) -> nvmlReturn_t {
    match simulator().gpm().taken.remove(&sample.addr()) {
        Some(_) => code::SUCCESS,
        None => code::INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleGet(device: nvmlDevice_t, sample: nvmlGpmSample_t) -> nvmlReturn_t {
    fill(device, sample, |_| Some(None))
}

/// Of a GPU instance, by the handle of the GPU that it is part of.
#[unsafe(no_mangle)]
extern "C" fn nvmlGpmMigSampleGet(device: nvmlDevice_t, id: c_uint, sample: nvmlGpmSample_t) -> nvmlReturn_t {
    fill(device, sample, |gpu| {
        let mut slots = gpu.spec.mig.as_ref()?.slots(gpu.now_ms);
        slots.find(|slot| slot.gpu_instance == id).map(Some)
    })
}

/// Takes a sample of what `of` finds, into one that was allocated.
fn fill(
    device: nvmlDevice_t,
    sample: nvmlGpmSample_t,
    of: impl for<'v> Fn(&'v View<'_>) -> Option<Option<&'v Slot>>,
) -> nvmlReturn_t {
    let mut taken = None;
    let answered = answer(device, Some(Call::GpmSample), |gpu| {
        if gpu.spec.profile.architecture < HOPPER {
            return code::NOT_SUPPORTED;
        }
        let Some(slot) = of(gpu) else { return code::INVALID_ARGUMENT };
        taken = Some(Sample {
            gpu: gpu.spec.uuid.clone(),
            instance: slot.map(|slot| slot.gpu_instance),
            split: gpu.spec.mig.is_some(),
            at_ms: gpu.now_ms,
            busy: gpu.busy_of(slot),
            sm_util: gpu.replaced(Answer::GpmSmUtil),
        });
        code::SUCCESS
    });
    if answered == code::SUCCESS {
        match simulator().gpm().taken.get_mut(&sample.addr()) {
            Some(place) => *place = taken,
            None => return code::INVALID_ARGUMENT,
        }
    }
    answered
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlGpmMetricsGet(request: *mut nvmlGpmMetricsGet_t) -> nvmlReturn_t {
    // SAFETY: valid with its version, number and samples set, or null, by NVML's contract.
    let Some(request) = (unsafe { request.as_mut() }) else { return code::INVALID_ARGUMENT };
    if request.version != NVML_GPM_METRICS_GET_VERSION {
        return code::VERSION_MISMATCH;
    }
    let mut simulator = simulator();
    let samples = &simulator.gpm().taken;
    let sample = |handle: nvmlGpmSample_t| samples.get(&handle.addr()).and_then(Option::as_ref);
    let (Some(first), Some(second)) = (sample(request.sample1), sample(request.sample2)) else {
        return code::INVALID_ARGUMENT;
    };
    let Some(metrics) = request.metrics.get_mut(..request.numMetrics as usize) else { return code::INVALID_ARGUMENT };
    if (&first.gpu, first.instance) != (&second.gpu, second.instance) {
        return code::INVALID_ARGUMENT;
    }
    for metric in metrics {
        compute(first, second, metric);
    }
    code::SUCCESS
}

/// One metric between two samples of the same.
#[expect(clippy::cast_precision_loss, reason = "integrals of a few seconds are exact, and of years good to 15 digits")]
fn compute(first: &Sample, second: &Sample, metric: &mut nvmlGpmMetric_t) {
    let id = metric.metricId;
    let is_board = matches!(id, PCIE_TX | PCIE_RX | NVLINK_TX | NVLINK_RX);
    // Of a board's links an instance knows nothing, and a board that is split knows nothing else.
    let is_told = if is_board { second.instance.is_none() } else { second.instance.is_some() || !second.split };
    let elapsed = second.at_ms.saturating_sub(first.at_ms);
    let percent = second.busy.saturating_sub(first.busy) as f64 / elapsed as f64 / 1_000.0;
    let value = match id {
        _ if !is_told => None,
        SM => Some(second.sm_util.map_or(percent, |replaced| replaced as f64)),
        GRAPHICS => Some(percent),
        OCCUPANCY => Some(percent * 0.5),
        ANY_TENSOR => Some(percent * 0.4),
        DRAM => Some(percent * 0.6),
        FP64 => Some(0.0),
        FP32 => Some(percent * 0.2),
        FP16 | INTEGER => Some(percent * 0.1),
        // MiB/s.
        PCIE_TX => Some(percent * 10.0),
        PCIE_RX => Some(percent * 20.0),
        NVLINK_TX | NVLINK_RX => Some(percent * 100.0),
        _ => None,
    };
    metric.nvmlReturn = match value {
        None => code::NOT_SUPPORTED,
        Some(_) if elapsed < REFRESH_MS => code::NO_DATA,
        Some(value) => {
            metric.value = value;
            code::SUCCESS
        }
    };
}
