//! Values by field id. A field that is not known here answers NOT_SUPPORTED in its own entry, as the driver does.

use std::ffi::{c_int, c_longlong};

use nvml_wrapper_sys::bindings::field_id::{
    NVML_FI_DEV_POWER_AVERAGE, NVML_FI_DEV_POWER_CURRENT_LIMIT, NVML_FI_DEV_POWER_INSTANT,
    NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION,
};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlFieldValue_t, nvmlReturn_t, nvmlValue_t, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
};

use super::code;
use super::state::{answer, refusal_code};
use crate::machine::View;
use crate::scenario::call::{Answer, Call};

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: nvmlDevice_t,
    count: c_int,
    values: *mut nvmlFieldValue_t,
) -> nvmlReturn_t {
    answer(device, Some(Call::FieldValues), |gpu| {
        let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0 && !values.is_null()) else {
            return code::INVALID_ARGUMENT;
        };
        // SAFETY: not null, and valid for `count` entries by NVML's contract.
        for entry in unsafe { std::slice::from_raw_parts_mut(values, count) } {
            fill(gpu, entry);
        }
        code::SUCCESS
    })
}

fn fill(gpu: &View<'_>, entry: &mut nvmlFieldValue_t) {
    entry.timestamp = c_longlong::try_from(gpu.now_ms.saturating_mul(1_000)).unwrap_or(c_longlong::MAX);
    entry.latencyUsec = 0;
    let (call, wide, value) = match (entry.fieldId, entry.scopeId) {
        (NVML_FI_DEV_POWER_AVERAGE, 0) => {
            let power = gpu.narrow(Answer::PowerAverage, gpu.state.power_mw);
            (Some(Call::PowerAverage), false, u64::from(power))
        }
        (NVML_FI_DEV_POWER_INSTANT, 0) => (Some(Call::PowerInstant), false, u64::from(gpu.state.power_mw)),
        (NVML_FI_DEV_POWER_CURRENT_LIMIT, 0) => {
            (Some(Call::PowerLimit), false, u64::from(gpu.spec.profile.power_limit_mw))
        }
        (NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0) => (Some(Call::TotalEnergyConsumption), true, gpu.energy_mj),
        _ => {
            entry.nvmlReturn = code::NOT_SUPPORTED;
            return;
        }
    };
    entry.nvmlReturn = match call.and_then(|call| gpu.refusal(call)) {
        Some(refusal) => refusal_code(refusal),
        None => code::SUCCESS,
    };
    if wide {
        entry.valueType = nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        entry.value = nvmlValue_t { ullVal: value };
    } else {
        entry.valueType = nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT;
        entry.value = nvmlValue_t { uiVal: u32::try_from(value).unwrap_or(u32::MAX) };
    }
}
