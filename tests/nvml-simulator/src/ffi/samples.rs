//! The driver's own samples, which it keeps in a ring.
//!
//! Like the driver's they are handed out in the order of the ring, not of time, and none is taken while the GPU is idle. Their
//! timestamps count from an instant that nothing else is counted from: they are good for telling newer from older.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlReturn_t, nvmlSample_t, nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES as GPU,
    nvmlSamplingType_enum_NVML_MEMORY_UTILIZATION_SAMPLES as MEMORY,
    nvmlSamplingType_enum_NVML_TOTAL_POWER_SAMPLES as POWER, nvmlValue_t,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT, nvmlValueType_t,
};

use super::code;
use super::out::{write, write_list};
use super::state::{answer, percent};
use crate::machine::View;
use crate::scenario::call::{Answer, Call};

/// The timestamp of what was sampled at the start, in microseconds.
const START_US: u64 = 1_000_000;

const SECOND_US: u64 = 1_000_000;

/// A ring: samples a second, and how many it keeps.
struct Ring {
    hertz: u64,
    places: u64,
}

impl Ring {
    fn of(kind: c_uint) -> Option<Self> {
        match kind {
            GPU | MEMORY => Some(Self { hertz: 6, places: 120 }),
            POWER => Some(Self { hertz: 50, places: 119 }),
            _ => None,
        }
    }

    /// What it holds at `now_ms`: microseconds since the start, in the order of its places.
    fn taken_us(&self, now_ms: u64) -> Vec<u64> {
        let newest = (now_ms.saturating_mul(1_000).saturating_add(1).saturating_mul(self.hertz) - 1) / SECOND_US;
        let oldest = (newest + 1).saturating_sub(self.places);
        let mut numbers: Vec<u64> = (oldest..=newest).collect();
        numbers.sort_by_key(|number| number % self.places);
        numbers.into_iter().map(|number| number.saturating_mul(SECOND_US) / self.hertz).collect()
    }
}

/// Those after `last_seen`; NOT_FOUND when there are none.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetSamples(
    device: nvmlDevice_t,
    kind: c_uint,
    last_seen: c_ulonglong,
    value_type: *mut nvmlValueType_t,
    count: *mut c_uint,
    samples: *mut nvmlSample_t,
) -> nvmlReturn_t {
    answer(device, Some(Call::Samples), |gpu| {
        let Some(ring) = Ring::of(kind) else { return code::NOT_SUPPORTED };
        if gpu.spec.mig.is_some() && kind != POWER {
            return code::NOT_SUPPORTED;
        }
        let newer = ring.taken_us(gpu.now_ms).into_iter().filter(|taken| START_US + taken > last_seen);
        let list: Vec<_> = newer.filter_map(|taken| sample(gpu, kind, taken)).collect();
        if list.is_empty() {
            return code::NOT_FOUND;
        }
        // SAFETY: `value_type` is valid or null, `count` and `samples` are as `write_list` wants them, by NVML's contract.
        unsafe {
            match write(value_type, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT) {
                code::SUCCESS => write_list(samples, count, list),
                refused => refused,
            }
        }
    })
}

/// What was sampled at `taken_us`, as if those who are on the GPU now were there then; nothing while it was idle.
fn sample(gpu: &View<'_>, kind: c_uint, taken_us: u64) -> Option<nvmlSample_t> {
    let utilization = gpu.spec.utilization_at(taken_us / 1_000, gpu.alive);
    if utilization == 0 {
        return None;
    }
    let value = match kind {
        GPU => gpu.narrow(Answer::SampleGpu, percent(utilization)),
        MEMORY => gpu.narrow(Answer::SampleMemory, percent(utilization * 3 / 5)),
        _ => gpu.narrow(Answer::SamplePower, gpu.spec.power_mw(utilization)),
    };
    Some(nvmlSample_t { timeStamp: START_US + taken_us, sampleValue: nvmlValue_t { uiVal: value } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_turns_and_keeps_the_newest() {
        let ring = Ring { hertz: 6, places: 4 };
        assert_eq!(ring.taken_us(0), [0]);
        assert_eq!(ring.taken_us(166), [0]);
        assert_eq!(ring.taken_us(167), [0, 166_666]);
        // Numbers 3 to 6, in places 3, 0, 1 and 2.
        assert_eq!(ring.taken_us(1_000), [666_666, 833_333, 1_000_000, 500_000]);
    }
}
