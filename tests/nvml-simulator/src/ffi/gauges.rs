//! Utilisation, memory, power, energy, temperature and clocks.

use std::ffi::{c_uint, c_ulonglong};
use std::mem::size_of;

use nvml_wrapper_sys::bindings::{
    nvmlClockType_enum_NVML_CLOCK_COUNT, nvmlClockType_enum_NVML_CLOCK_MEM, nvmlDevice_t, nvmlMemory_t,
    nvmlMemory_v2_t, nvmlReturn_t, nvmlUtilization_t,
};

use super::code;
use super::out::write;
use super::state::{answer, answer_any, percent};
use crate::machine::View;
use crate::scenario::call::{Answer, Call};
use crate::scenario::mig::Slot;

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    device: nvmlDevice_t,
    rates: *mut nvmlUtilization_t,
) -> nvmlReturn_t {
    answer(device, Some(Call::UtilizationRates), |gpu| {
        let value = nvmlUtilization_t {
            gpu: gpu.narrow(Answer::UtilizationGpu, percent(gpu.state.utilization)),
            memory: gpu.narrow(Answer::UtilizationMemory, percent(gpu.state.memory_utilization)),
        };
        // SAFETY: `rates` is valid or null by NVML's contract.
        unsafe { write(rates, value) }
    })
}

/// Version 1: the reserved part is inside `used`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: nvmlDevice_t, info: *mut nvmlMemory_t) -> nvmlReturn_t {
    answer_any(device, Some(Call::MemoryInfo), |gpu, slot| {
        let [total, reserved, free, used] = memory(gpu, slot);
        let value = nvmlMemory_t { total, free, used: gpu.wide(Answer::MemoryUsed, used + reserved) };
        // SAFETY: `info` is valid or null by NVML's contract.
        unsafe { write(info, value) }
    })
}

/// Total, reserved, free and used, of a GPU or of a MIG instance.
fn memory(gpu: &View<'_>, slot: Option<&Slot>) -> [u64; 4] {
    let state = &gpu.state;
    match slot.map(|slot| gpu.instance(slot)) {
        None => [state.memory_total, state.memory_reserved, state.memory_free, state.memory_used],
        Some(own) => [own.memory_total, own.memory_reserved, own.memory_free, own.memory_used],
    }
}

/// Version 2: free + used + reserved = total. The caller says the version that it means.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: nvmlDevice_t, info: *mut nvmlMemory_v2_t) -> nvmlReturn_t {
    answer_any(device, Some(Call::MemoryInfo), |gpu, slot| {
        if info.is_null() {
            return code::INVALID_ARGUMENT;
        }
        // SAFETY: not null, and then valid with its version set, by NVML's contract.
        let version = unsafe { (*info).version };
        if version as usize != size_of::<nvmlMemory_v2_t>() | 2 << 24 {
            return code::VERSION_MISMATCH;
        }
        let [total, reserved, free, used] = memory(gpu, slot);
        let value = nvmlMemory_v2_t { version, total, reserved, free, used: gpu.wide(Answer::MemoryUsed, used) };
        // SAFETY: not null, and valid.
        unsafe { write(info, value) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPowerUsage(device: nvmlDevice_t, power: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `power` is valid or null by NVML's contract.
    answer(device, Some(Call::PowerUsage), |gpu| unsafe {
        write(power, gpu.narrow(Answer::PowerUsage, gpu.state.power_mw))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: nvmlDevice_t, limit: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `limit` is valid or null by NVML's contract.
    answer(device, Some(Call::PowerLimit), |gpu| unsafe { write(limit, gpu.spec.profile.power_limit_mw) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPowerManagementLimit(device: nvmlDevice_t, limit: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: as for the enforced limit.
    unsafe { nvmlDeviceGetEnforcedPowerLimit(device, limit) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(
    device: nvmlDevice_t,
    energy: *mut c_ulonglong,
) -> nvmlReturn_t {
    // SAFETY: `energy` is valid or null by NVML's contract.
    answer(device, Some(Call::TotalEnergyConsumption), |gpu| unsafe {
        write(energy, gpu.wide(Answer::TotalEnergyConsumption, gpu.energy_mj))
    })
}

/// Sensor 0, the core, is the only one.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTemperature(
    device: nvmlDevice_t,
    sensor: c_uint,
    temperature: *mut c_uint,
) -> nvmlReturn_t {
    answer(device, Some(Call::Temperature), |gpu| match sensor {
        // SAFETY: `temperature` is valid or null by NVML's contract.
        0 => unsafe { write(temperature, gpu.narrow(Answer::Temperature, gpu.state.temperature_c)) },
        _ => code::INVALID_ARGUMENT,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetClockInfo(device: nvmlDevice_t, clock: c_uint, mhz: *mut c_uint) -> nvmlReturn_t {
    answer(device, Some(Call::ClockInfo), |gpu| match clock {
        // SAFETY: `mhz` is valid or null by NVML's contract.
        nvmlClockType_enum_NVML_CLOCK_MEM => unsafe { write(mhz, gpu.state.memory_mhz) },
        // SAFETY: as above.
        0..nvmlClockType_enum_NVML_CLOCK_COUNT => unsafe { write(mhz, gpu.state.sm_mhz) },
        _ => code::INVALID_ARGUMENT,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(device: nvmlDevice_t, clock: c_uint, mhz: *mut c_uint) -> nvmlReturn_t {
    answer(device, Some(Call::MaxClockInfo), |gpu| match clock {
        // SAFETY: `mhz` is valid or null by NVML's contract.
        nvmlClockType_enum_NVML_CLOCK_MEM => unsafe { write(mhz, gpu.spec.profile.memory_mhz.1) },
        // SAFETY: as above.
        0..nvmlClockType_enum_NVML_CLOCK_COUNT => unsafe { write(mhz, gpu.spec.profile.sm_mhz.1) },
        _ => code::INVALID_ARGUMENT,
    })
}
