//! A GPU's utilisation, memory, power, energy, temperature and clocks at an instant.

use contador_schemas::names;
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{FieldValueSample, MemoryInfo};
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::{NVML_FI_DEV_POWER_AVERAGE, NVML_FI_DEV_POWER_INSTANT};

use super::answer::{narrow, percent, reading, share, thousandths, whole, wide};
use crate::sensors::{Measures, Number, Reading};

/// Utilisation, memory, power, energy, temperature and clocks.
pub(super) fn read(device: &Device<'_>, measures: &mut Measures, rejected: &mut u32) {
    let rates = reading(device.utilization_rates());
    let gpu = rates.clone().and_then(|rates| percent(rates.gpu, rejected));
    measures.add(names::GPU_UTILIZATION, gpu.map(share));
    let activity = rates.and_then(|rates| percent(rates.memory, rejected));
    measures.add(names::GPU_MEMORY_UTILIZATION, activity.map(share));
    memory(device, measures, rejected);
    let [average, instant] = power_fields(device);
    measures.add(names::POWER, narrow(device.power_usage()).map(thousandths));
    measures.add(names::GPU_POWER_AVERAGE, average.map(thousandths));
    measures.add(names::GPU_POWER_INSTANT, instant.map(thousandths));
    measures.add(names::ENERGY, wide(device.total_energy_consumption()).map(Number::Thousandths));
    measures.add(names::TEMPERATURE, narrow(device.temperature(TemperatureSensor::Gpu)).map(whole));
    measures.add(names::GPU_CLOCK_SM, narrow(device.clock_info(Clock::SM)).map(whole));
    measures.add(names::GPU_CLOCK_MEMORY, narrow(device.clock_info(Clock::Memory)).map(whole));
    measures.add(names::GPU_CLOCK_GRAPHICS, narrow(device.clock_info(Clock::Graphics)).map(whole));
}

/// Memory, of a GPU or of a MIG instance.
pub(super) fn memory(device: &Device<'_>, measures: &mut Measures, rejected: &mut u32) {
    let memory = parts(reading(device.memory_info()), rejected);
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

/// Average and instant power, by field; the answers come in the order of the questions.
fn power_fields(device: &Device<'_>) -> [Reading<u32>; 2] {
    match device.field_values_for(&[FieldId(NVML_FI_DEV_POWER_AVERAGE), FieldId(NVML_FI_DEV_POWER_INSTANT)]) {
        Ok(fields) => {
            let mut fields = fields.into_iter().map(milliwatts);
            let mut next = || fields.next().unwrap_or_else(|| Reading::Failed("the driver gave no answer".into()));
            [next(), next()]
        }
        Err(error) => {
            let missing = reading::<u32>(Err(error));
            [missing.clone(), missing]
        }
    }
}

fn milliwatts(field: Result<FieldValueSample, NvmlError>) -> Reading<u32> {
    reading(field.and_then(|field| field.value)).and_then(|value| match value {
        SampleValue::U32(power) => narrow(Ok(power)),
        other => Reading::Failed(format!("{other:?}: expected an unsigned 32-bit number of milliwatts").into()),
    })
}

#[cfg(test)]
mod tests {
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
