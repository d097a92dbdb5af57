//! Values by field id. A field that is not known here answers NOT_SUPPORTED in its own entry, as the driver does.

use std::ffi::{c_int, c_longlong};

use nvml_wrapper_sys::bindings::field_id::{
    NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN as HW_POWER_BRAKE,
    NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN as HW_THERMAL,
    NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN as SW_THERMAL, NVML_FI_DEV_MEMORY_TEMP as MEMORY_TEMP,
    NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS as LINK_RECOVERIES,
    NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES as LINK_RECEIVED, NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES as LINK_SENT,
    NVML_FI_DEV_NVLINK_LINK_COUNT as LINK_COUNT, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX as RECEIVED_KIB,
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX as SENT_KIB, NVML_FI_DEV_PCIE_COUNT_RX_BYTES as PCIE_RECEIVED,
    NVML_FI_DEV_PCIE_COUNT_TX_BYTES as PCIE_SENT, NVML_FI_DEV_PCIE_REPLAY_COUNTER as PCIE_REPLAYS,
    NVML_FI_DEV_PERF_POLICY_POWER as POLICY_POWER, NVML_FI_DEV_PERF_POLICY_THERMAL as POLICY_THERMAL,
    NVML_FI_DEV_POWER_AVERAGE as POWER_AVERAGE, NVML_FI_DEV_POWER_CURRENT_LIMIT as POWER_LIMIT,
    NVML_FI_DEV_POWER_INSTANT as POWER_INSTANT, NVML_FI_DEV_REMAPPED_COR as REMAPPED_CORRECTED,
    NVML_FI_DEV_REMAPPED_FAILURE as REMAP_FAILED, NVML_FI_DEV_REMAPPED_PENDING as REMAP_PENDING,
    NVML_FI_DEV_REMAPPED_UNC as REMAPPED_UNCORRECTED, NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION as ENERGY,
};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlFieldValue_t, nvmlReturn_t, nvmlValue_t, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
};

use super::code;
use super::nvlink::errors;
use super::state::{answer, refusal_code};
use super::throttle::{held_ns, violation_ns};
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

/// The scope of all links together.
const ALL_LINKS: u32 = u32::MAX;

/// A field's value, in the type that it has.
enum Value {
    Narrow(u32),
    Wide(u64),
}

fn fill(gpu: &View<'_>, entry: &mut nvmlFieldValue_t) {
    entry.timestamp = c_longlong::try_from(gpu.now_ms.saturating_mul(1_000)).unwrap_or(c_longlong::MAX);
    entry.latencyUsec = 0;
    let Some((call, value)) = value(gpu, known_as(entry.fieldId, gpu.spec.fields_moved), entry.scopeId) else {
        entry.nvmlReturn = code::NOT_SUPPORTED;
        return;
    };
    entry.nvmlReturn = match gpu.refusal(call) {
        Some(refusal) => refusal_code(refusal),
        None => code::SUCCESS,
    };
    match value {
        Value::Wide(value) => {
            entry.valueType = nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
            entry.value = nvmlValue_t { ullVal: value };
        }
        Value::Narrow(value) => {
            entry.valueType = nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT;
            entry.value = nvmlValue_t { uiVal: value };
        }
    }
}

/// The number in the headers before 580.82 of what a driver calls `id`: since then, 269 to 273 are what 251 to 255 were,
/// and 251 to 268 what 256 to 273 were. The entry keeps the number that was asked for.
fn known_as(id: u32, moved: bool) -> u32 {
    match id {
        269..=273 if moved => id - 18,
        251..=268 if moved => id + 5,
        other => other,
    }
}

/// Which call refuses the field, and its value; none where the board has no such thing.
fn value(gpu: &View<'_>, id: u32, scope: u32) -> Option<(Call, Value)> {
    let profile = gpu.spec.profile;
    let narrow = |call, answer, value| Some((call, Value::Narrow(gpu.narrow(answer, value))));
    let rows = gpu.spec.board.remapped_rows;
    let row = |value| profile.row_remapping.then(|| narrow(Call::RemappedRows, Answer::RemappedRows, value))?;
    match (id, scope) {
        (SENT_KIB | RECEIVED_KIB | LINK_SENT | LINK_RECEIVED, _) => link_bytes(gpu, id, scope),
        (LINK_RECOVERIES, link) => {
            let nvlink = profile.nvlink.filter(|nvlink| nvlink.version >= 5 && link < nvlink.links);
            let count = gpu.wide(Answer::NvlinkErrors, errors(gpu, link).recovery);
            nvlink.map(|_| (Call::NvlinkErrors, Value::Wide(count)))
        }
        (POWER_AVERAGE, 0) => narrow(Call::PowerAverage, Answer::PowerAverage, gpu.state.power_mw),
        (POWER_INSTANT, 0) => narrow(Call::PowerInstant, Answer::PowerInstant, gpu.state.power_mw),
        (POWER_LIMIT, 0) => narrow(Call::PowerLimit, Answer::PowerLimit, profile.power_limit_mw),
        (ENERGY, 0) => {
            let energy = gpu.wide(Answer::TotalEnergyConsumption, gpu.energy_mj);
            Some((Call::TotalEnergyConsumption, Value::Wide(energy)))
        }
        (MEMORY_TEMP, 0) => narrow(Call::MemoryTemperature, Answer::MemoryTemperature, gpu.state.memory_c?),
        (REMAPPED_CORRECTED, 0) => row(rows.corrected),
        (REMAPPED_UNCORRECTED, 0) => row(rows.uncorrected),
        (REMAP_PENDING, 0) => row(u32::from(rows.pending)),
        (REMAP_FAILED, 0) => row(u32::from(rows.failed)),
        (PCIE_SENT | PCIE_RECEIVED, 0) => {
            let (sent, received) = gpu.spec.pcie_bytes(gpu.busy)?;
            let pcie = gpu.spec.board.pcie;
            let bytes = pcie.counter_bits.shown(pcie.start, if id == PCIE_SENT { sent } else { received });
            Some((Call::PcieBytes, Value::Wide(gpu.wide(Answer::PcieBytes, gpu.counter(bytes)))))
        }
        (PCIE_REPLAYS, 0) => narrow(Call::PcieReplays, Answer::PcieReplays, gpu.spec.board.pcie.replays),
        (LINK_COUNT, 0) => Some((Call::NvlinkState, Value::Narrow(profile.nvlink?.links))),
        (POLICY_POWER, 0) => Some((Call::ViolationStatus, Value::Wide(violation_ns(gpu, 0)?))),
        (POLICY_THERMAL, 0) => Some((Call::ViolationStatus, Value::Wide(violation_ns(gpu, 1)?))),
        (SW_THERMAL, 0) => Some((Call::ViolationStatus, Value::Wide(held_ns(gpu, 0x20)))),
        (HW_THERMAL, 0) => Some((Call::ViolationStatus, Value::Wide(held_ns(gpu, 0x40)))),
        (HW_POWER_BRAKE, 0) => Some((Call::ViolationStatus, Value::Wide(held_ns(gpu, 0x80)))),
        _ => None,
    }
}

/// Bytes over one link or all: in KiB up to NVLink 4, where all links can be asked at once; in bytes on NVLink 5, where
/// they can't.
fn link_bytes(gpu: &View<'_>, id: u32, scope: u32) -> Option<(Call, Value)> {
    let (profile, links) = (gpu.spec.profile.nvlink?, &gpu.spec.board.nvlink);
    let in_kib = matches!(id, SENT_KIB | RECEIVED_KIB);
    if in_kib != (profile.version < 5) {
        return None;
    }
    let counted = |link: u32| {
        let (sent, received) = gpu.spec.link_bytes(link, gpu.busy)?;
        let bytes = if matches!(id, SENT_KIB | LINK_SENT) { sent } else { received };
        Some(if in_kib { bytes / 1_024 } else { bytes })
    };
    let counted = match scope {
        ALL_LINKS if in_kib => (0..profile.links).filter_map(counted).sum(),
        link => counted(link)?,
    };
    let shown = links.counter_bits.shown(links.start, counted);
    Some((Call::NvlinkBytes, Value::Wide(gpu.wide(Answer::NvlinkBytes, gpu.counter(shown)))))
}
