//! Utilisation, memory, power, energy, temperatures, fans and clocks.

use std::ffi::{c_uint, c_ulonglong};
use std::mem::size_of;

use nvml_wrapper_sys::bindings::{
    nvmlBAR1Memory_t, nvmlClockType_enum_NVML_CLOCK_COUNT, nvmlClockType_enum_NVML_CLOCK_MEM,
    nvmlClockType_enum_NVML_CLOCK_VIDEO, nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlReturn_t, nvmlUtilization_t,
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
    answer(device, Some(Call::PowerLimit), |gpu| unsafe {
        write(limit, gpu.narrow(Answer::PowerLimit, gpu.spec.profile.power_limit_mw))
    })
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
        nvmlClockType_enum_NVML_CLOCK_MEM => unsafe { write(mhz, gpu.narrow(Answer::Clock, gpu.state.memory_mhz)) },
        // SAFETY: as above.
        nvmlClockType_enum_NVML_CLOCK_VIDEO => unsafe { write(mhz, gpu.narrow(Answer::Clock, gpu.state.video_mhz)) },
        // SAFETY: as above.
        0..nvmlClockType_enum_NVML_CLOCK_COUNT => unsafe { write(mhz, gpu.narrow(Answer::Clock, gpu.state.sm_mhz)) },
        _ => code::INVALID_ARGUMENT,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(device: nvmlDevice_t, clock: c_uint, mhz: *mut c_uint) -> nvmlReturn_t {
    answer(device, Some(Call::MaxClockInfo), |gpu| match clock {
        // SAFETY: `mhz` is valid or null by NVML's contract.
        nvmlClockType_enum_NVML_CLOCK_MEM => unsafe { write(mhz, gpu.spec.profile.memory_mhz.1) },
        // SAFETY: as above.
        nvmlClockType_enum_NVML_CLOCK_VIDEO => unsafe { write(mhz, gpu.spec.profile.video_mhz.1) },
        // SAFETY: as above.
        0..nvmlClockType_enum_NVML_CLOCK_COUNT => unsafe { write(mhz, gpu.spec.profile.sm_mhz.1) },
        _ => code::INVALID_ARGUMENT,
    })
}

/// How long the driver looks at encoder and decoder for one answer, in microseconds.
const ENGINE_SAMPLING_US: c_uint = 167_000;

/// Answers one engine's utilisation and how long it was looked at.
unsafe fn engine(
    device: nvmlDevice_t,
    (call, falsified, position): (Call, Answer, usize),
    utilization: *mut c_uint,
    sampling_us: *mut c_uint,
) -> nvmlReturn_t {
    answer(device, Some(call), |gpu| {
        let value = gpu.narrow(falsified, percent(gpu.state.engines[position]));
        // SAFETY: both are valid or null by NVML's contract.
        match unsafe { write(utilization, value) } {
            // SAFETY: as above.
            code::SUCCESS => unsafe { write(sampling_us, ENGINE_SAMPLING_US) },
            refused => refused,
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetEncoderUtilization(
    device: nvmlDevice_t,
    utilization: *mut c_uint,
    sampling_us: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: as NVML's contract has it.
    unsafe { engine(device, (Call::EncoderUtilization, Answer::Encoder, 0), utilization, sampling_us) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetDecoderUtilization(
    device: nvmlDevice_t,
    utilization: *mut c_uint,
    sampling_us: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: as NVML's contract has it.
    unsafe { engine(device, (Call::DecoderUtilization, Answer::Decoder, 1), utilization, sampling_us) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetBAR1MemoryInfo(device: nvmlDevice_t, memory: *mut nvmlBAR1Memory_t) -> nvmlReturn_t {
    answer(device, Some(Call::Bar1MemoryInfo), |gpu| {
        let (total, mapped) = (gpu.spec.profile.bar1_total, gpu.state.bar1_used);
        let used = gpu.wide(Answer::Bar1Used, mapped);
        let value = nvmlBAR1Memory_t { bar1Total: total, bar1Free: total.saturating_sub(mapped), bar1Used: used };
        // SAFETY: `memory` is valid or null by NVML's contract.
        unsafe { write(memory, value) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetNumFans(device: nvmlDevice_t, count: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: `count` is valid or null by NVML's contract.
    answer(device, Some(Call::FanSpeed), |gpu| unsafe { write(count, c_uint::from(gpu.state.fan.is_some())) })
}

/// Fan 0 is the only one.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetFanSpeed_v2(device: nvmlDevice_t, fan: c_uint, speed: *mut c_uint) -> nvmlReturn_t {
    answer(device, Some(Call::FanSpeed), |gpu| match gpu.state.fan {
        None => code::NOT_SUPPORTED,
        Some(_) if fan > 0 => code::INVALID_ARGUMENT,
        // SAFETY: `speed` is valid or null by NVML's contract.
        Some(percent) => unsafe { write(speed, gpu.narrow(Answer::FanSpeed, percent)) },
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetFanSpeed(device: nvmlDevice_t, speed: *mut c_uint) -> nvmlReturn_t {
    // SAFETY: as for the newer symbol.
    unsafe { nvmlDeviceGetFanSpeed_v2(device, 0, speed) }
}

/// Shutdown, slowdown, and the most for memory and core: 15, 12, 10 and 8 degrees above the temperature at 100 percent.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTemperatureThreshold(
    device: nvmlDevice_t,
    threshold: c_uint,
    temperature: *mut c_uint,
) -> nvmlReturn_t {
    answer(device, Some(Call::TemperatureThreshold), |gpu| {
        let (core, memory) = (gpu.spec.profile.temperature_c.1, gpu.spec.profile.hbm_c.map(|range| range.1));
        let limit = match threshold {
            0 => Some(core + 15),
            1 => Some(core + 12),
            2 => memory.map(|memory| memory + 10),
            3 => Some(core + 8),
            _ => None,
        };
        // SAFETY: `temperature` is valid or null by NVML's contract.
        limit.map_or(code::NOT_SUPPORTED, |limit| unsafe { write(temperature, limit) })
    })
}
