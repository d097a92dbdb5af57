//! A GPU's utilisation, memory, power, energy, temperatures, fan, clocks and PCIe link at an instant.

use contador_schemas::names::{self, Fixed};
use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, PerformancePolicy, PerformanceState, TemperatureSensor};
use nvml_wrapper::error::{Bits, NvmlError};
use nvml_wrapper::struct_wrappers::device::MemoryInfo;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_PCIE_COUNT_RX_BYTES, NVML_FI_DEV_PCIE_COUNT_TX_BYTES,
    NVML_FI_DEV_POWER_AVERAGE, NVML_FI_DEV_POWER_INSTANT,
};

use super::answer::{is_blank_64, known_64, thousandths, whole, wide};
use super::asking::Asking;
use super::fields::{Field, FieldAnswers};
use crate::sensors::{Measures, Number, Reading};

/// The fields that are read here.
pub(super) const FIELDS: [Field; 5] = [
    (NVML_FI_DEV_POWER_AVERAGE, 0),
    (NVML_FI_DEV_POWER_INSTANT, 0),
    (NVML_FI_DEV_MEMORY_TEMP, 0),
    (NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0),
    (NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0),
];

/// The greatest speed of a fan that is believed, in percent: it may be above 100, as NVML's documentation says.
const FASTEST: u32 = 200;

/// Everything that is a number of the board at this instant.
pub(super) fn read(asking: &mut Asking<'_, '_>, fields: &FieldAnswers) {
    utilisation(asking);
    memory_use(asking);
    power(asking, fields);
    clocks(asking);
    throttle(asking);
    pcie(asking, fields);
}

fn utilisation(asking: &mut Asking<'_, '_>) {
    let rates = asking.ask("nvmlDeviceGetUtilizationRates", Device::utilization_rates);
    let gpu = asking.share(rates.clone().map(|rates| rates.gpu));
    asking.add(names::GPU_UTILIZATION, gpu);
    let activity = asking.share(rates.map(|rates| rates.memory));
    asking.add(names::GPU_MEMORY_UTILIZATION, activity);
    let encoder = asking.ask("nvmlDeviceGetEncoderUtilization", Device::encoder_utilization);
    let encoder = asking.share(encoder.map(|engine| engine.utilization));
    asking.add_as(names::GPU_UTILIZATION, &[(names::GPU_TASK, "encoder")], encoder);
    let decoder = asking.ask("nvmlDeviceGetDecoderUtilization", Device::decoder_utilization);
    let decoder = asking.share(decoder.map(|engine| engine.utilization));
    asking.add_as(names::GPU_UTILIZATION, &[(names::GPU_TASK, "decoder")], decoder);
}

fn memory_use(asking: &mut Asking<'_, '_>) {
    let info = asking.ask("nvmlDeviceGetMemoryInfo_v2", Device::memory_info);
    memory(info, &mut asking.measures, &mut asking.rejected);
    let window = asking.ask("nvmlDeviceGetBAR1MemoryInfo", Device::bar1_memory_info);
    let total = window.clone().and_then(|window| known_64(window.total));
    let used = window.and_then(|window| match window.used {
        used if used > window.total && !is_blank_64(used) => {
            asking.rejected += 1;
            Reading::Failed(format!("{used} bytes mapped: expected at most {}", window.total).into())
        }
        used => known_64(used),
    });
    asking.add(names::GPU_BAR1_LIMIT, total.map(Number::Whole));
    asking.add(names::GPU_BAR1_USAGE, used.map(Number::Whole));
}

fn power(asking: &mut Asking<'_, '_>, fields: &FieldAnswers) {
    let usage = asking.narrow("nvmlDeviceGetPowerUsage", Device::power_usage);
    asking.add(names::POWER, usage.map(thousandths));
    asking.add(names::GPU_POWER_AVERAGE, fields.whole(NVML_FI_DEV_POWER_AVERAGE).map(Number::Thousandths));
    asking.add(names::GPU_POWER_INSTANT, fields.whole(NVML_FI_DEV_POWER_INSTANT).map(Number::Thousandths));
    let limit = asking.narrow("nvmlDeviceGetEnforcedPowerLimit", Device::enforced_power_limit);
    asking.add(names::GPU_POWER_LIMIT, limit.map(thousandths));
    let energy = asking.wide("nvmlDeviceGetTotalEnergyConsumption", Device::total_energy_consumption);
    asking.add(names::ENERGY, energy.map(Number::Thousandths));
    let core = asking.narrow("nvmlDeviceGetTemperature", |device| device.temperature(TemperatureSensor::Gpu));
    asking.add(names::TEMPERATURE, core.map(whole));
    asking.add(names::GPU_MEMORY_TEMPERATURE, fields.whole(NVML_FI_DEV_MEMORY_TEMP).map(Number::Whole));
    let fan = asking.narrow("nvmlDeviceGetFanSpeed_v2", |device| device.fan_speed(0));
    let fan = fan.and_then(|percent| match percent {
        0..=FASTEST => Reading::Value(Number::Real(f64::from(percent) / 100.0)),
        _ => {
            asking.rejected += 1;
            Reading::Failed(format!("{percent} percent: expected at most {FASTEST}").into())
        }
    });
    asking.add(names::FAN_SPEED, fan);
}

fn clocks(asking: &mut Asking<'_, '_>) {
    for (metric, call, clock) in [
        (names::GPU_CLOCK_SM, "nvmlDeviceGetClockInfo, SM", Clock::SM),
        (names::GPU_CLOCK_MEMORY, "nvmlDeviceGetClockInfo, MEM", Clock::Memory),
        (names::GPU_CLOCK_GRAPHICS, "nvmlDeviceGetClockInfo, GRAPHICS", Clock::Graphics),
        (names::GPU_CLOCK_VIDEO, "nvmlDeviceGetClockInfo, VIDEO", Clock::Video),
    ] {
        let mhz = asking.narrow(call, |device| device.clock_info(clock));
        asking.add(metric, mhz.map(whole));
    }
    let state = asking.ask("nvmlDeviceGetPerformanceState", Device::performance_state);
    let state = state.and_then(|state| match state {
        PerformanceState::Unknown => Reading::Unsupported("the driver answered that it is unknown".into()),
        known => Reading::Value(whole(known.as_c())),
    });
    asking.add(names::GPU_PERFORMANCE_STATE, state);
}

fn throttle(asking: &mut Asking<'_, '_>) {
    let reasons = asking.ask("nvmlDeviceGetCurrentClocksThrottleReasons", |device| {
        match device.current_throttle_reasons_strict() {
            // Reasons that the wrapper does not know are reasons too.
            Err(NvmlError::IncorrectBits(Bits::U64(bits))) => Ok(bits),
            reasons => reasons.map(|reasons: ThrottleReasons| reasons.bits()),
        }
    });
    asking.add(names::GPU_THROTTLE_REASONS, reasons.and_then(known_64).map(Number::Whole));
    for (fixed, call, policy) in [
        (
            &[(names::THROTTLE_REASON, "power")] as Fixed,
            "nvmlDeviceGetViolationStatus, POWER",
            PerformancePolicy::Power,
        ),
        (&[(names::THROTTLE_REASON, "thermal")], "nvmlDeviceGetViolationStatus, THERMAL", PerformancePolicy::Thermal),
    ] {
        let held = asking.wide(call, |device| device.violation_status(policy).map(|status| status.violation_time));
        // Nanoseconds.
        asking.add_as(names::GPU_THROTTLE_TIME, fixed, held.map(|ns| Number::Millionths(ns / 1_000)));
    }
}

fn pcie(asking: &mut Asking<'_, '_>, fields: &FieldAnswers) {
    let bytes = |id| fields.whole(id).map(Number::Whole);
    asking.add_as(names::GPU_IO, &[(names::IO_DIRECTION, "transmit")], bytes(NVML_FI_DEV_PCIE_COUNT_TX_BYTES));
    asking.add_as(names::GPU_IO, &[(names::IO_DIRECTION, "receive")], bytes(NVML_FI_DEV_PCIE_COUNT_RX_BYTES));
    let generation = asking.narrow("nvmlDeviceGetCurrPcieLinkGeneration", Device::current_pcie_link_gen);
    asking.add(names::GPU_PCIE_GENERATION, generation.map(whole));
    let width = asking.narrow("nvmlDeviceGetCurrPcieLinkWidth", Device::current_pcie_link_width);
    asking.add(names::GPU_PCIE_WIDTH, width.map(whole));
    let replays = asking.narrow("nvmlDeviceGetPcieReplayCounter", Device::pcie_replay_counter);
    asking.add_as(names::ERRORS, &[(names::ERROR_TYPE, "pcie_replay")], replays.map(whole));
}

/// Memory, of a GPU or of a MIG instance.
pub(super) fn memory(info: Reading<MemoryInfo>, measures: &mut Measures, rejected: &mut u32) {
    let memory = parts(info, rejected);
    measures.add(names::GPU_MEMORY_LIMIT, memory.total.map(Number::Whole));
    measures.add(names::GPU_MEMORY_USAGE, memory.used.map(Number::Whole));
    measures.add(names::GPU_MEMORY_FREE, memory.free.map(Number::Whole));
    measures.add(names::GPU_MEMORY_RESERVED, memory.reserved.map(Number::Whole));
}

struct Memory {
    total: Reading<u64>,
    used: Reading<u64>,
    free: Reading<u64>,
    reserved: Reading<u64>,
}

/// Memory whose parts add up: reserved is what is neither free nor used, which is what the driver tells. More free
/// and used than there is cannot be: it is dropped and counted.
fn parts(info: Reading<MemoryInfo>, rejected: &mut u32) -> Memory {
    let info = match info {
        Reading::Value(info) => info,
        missing => {
            let missing = missing.map(|_| 0);
            return Memory { total: missing.clone(), used: missing.clone(), free: missing.clone(), reserved: missing };
        }
    };
    let total = wide(Ok(info.total));
    let rest = info.free.checked_add(info.used).and_then(|held| info.total.checked_sub(held));
    match (&total, rest) {
        (Reading::Value(_), Some(reserved)) => Memory {
            total,
            used: Reading::Value(info.used),
            free: Reading::Value(info.free),
            reserved: Reading::Value(reserved),
        },
        (Reading::Value(_), None) => {
            *rejected += 1;
            let reason = format!("{} bytes free and {} used: expected at most {}", info.free, info.used, info.total);
            let failed = || Reading::Failed(reason.clone().into());
            Memory { total, used: failed(), free: failed(), reserved: failed() }
        }
        _ => Memory { used: total.clone(), free: total.clone(), reserved: total.clone(), total },
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::reading;
    use super::*;
    use proptest::prelude::*;

    fn info(total: u64, free: u64, used: u64, reserved: u64) -> Reading<MemoryInfo> {
        Reading::Value(MemoryInfo { free, reserved, total, used, version: 2 })
    }

    proptest! {
        #[test]
        fn free_used_and_reserved_are_the_total(total in 0u64..1 << 40, free in 0u64..1 << 40, used in 0u64..1 << 40) {
            let mut rejected = 0;
            let memory = parts(info(total, free, used, 0), &mut rejected);
            match (memory.free, memory.used, memory.reserved) {
                (Reading::Value(f), Reading::Value(u), Reading::Value(r)) => {
                    prop_assert_eq!((f + u + r, rejected), (total, 0));
                }
                (f, u, r) => prop_assert!(f.is_failed() && u.is_failed() && r.is_failed() && rejected == 1 && free + used > total),
            }
        }
    }

    #[test]
    fn memory_that_cannot_be_had_is_unsupported_in_all_its_parts() {
        let mut rejected = 0;
        let memory = parts(reading(Err(NvmlError::NotSupported)), &mut rejected);
        for part in [memory.total, memory.used, memory.free, memory.reserved] {
            assert!(matches!(part, Reading::Unsupported(_)));
        }
        assert_eq!(rejected, 0);
    }
}
