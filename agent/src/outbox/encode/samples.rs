//! What sensors saw, as points.

use contador_schemas::names;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;

use super::points::{Points, int, nanoseconds, text, thousandths, yes};
use crate::sensors::{DiskSample, GpuSample, HostSample, Reading};

/// Adds one device's sample.
pub fn gpu(points: &mut Points, sample: &GpuSample, simulated: bool) {
    let time = nanoseconds(sample.ts_ms);
    let mut attributes = vec![text(names::HW_ID, &sample.uuid)];
    if simulated {
        attributes.push(yes(names::SIMULATED));
    }
    let ratio = |percent: f64| Number::AsDouble(percent / 100.0);
    let mut add = |name: &str, reading: Reading<Number>| match reading {
        Reading::Value(value) => points.push(name, (0, time), attributes.clone(), value),
        Reading::Unsupported(_) => points.push_unsupported(name, time, attributes.clone()),
        Reading::Failed(_) => {}
    };
    add(names::GPU_UTILIZATION, sample.utilization_gpu.clone().map(ratio));
    add(names::GPU_MEMORY_UTILIZATION, sample.utilization_memory.clone().map(ratio));
    add(names::GPU_MEMORY_LIMIT, sample.memory_total_bytes.clone().map(int));
    add(names::GPU_MEMORY_USAGE, sample.memory_used_bytes.clone().map(int));
    add(names::GPU_MEMORY_FREE, sample.memory_free_bytes.clone().map(int));
    add(names::GPU_MEMORY_RESERVED, sample.memory_reserved_bytes.clone().map(int));
    add(names::POWER, sample.power_mw.clone().map(|power| thousandths(power.into())));
    add(names::ENERGY, sample.energy_mj.clone().map(thousandths));
    add(names::TEMPERATURE, sample.temperature_c.clone().map(|celsius| int(celsius.into())));
    add(names::GPU_CLOCK_SM, sample.clock_sm_mhz.clone().map(|clock| int(clock.into())));
    add(names::GPU_CLOCK_MEMORY, sample.clock_memory_mhz.clone().map(|clock| int(clock.into())));
    add(names::GPU_CLOCK_GRAPHICS, sample.clock_graphics_mhz.clone().map(|clock| int(clock.into())));
    add(names::GPU_PROCESSES, sample.processes.clone().map(|processes| int(processes.len() as u64)));
}

/// Adds one block device's sample.
pub fn disk(points: &mut Points, sample: &DiskSample) {
    let times = (0, nanoseconds(sample.ts_ms));
    let device = || vec![text(names::SYSTEM_DEVICE, &sample.device)];
    let direction = |which: &str| vec![text(names::SYSTEM_DEVICE, &sample.device), text(names::DISK_DIRECTION, which)];
    points.push(names::DISK_IO, times, direction("read"), int(sample.read_bytes));
    points.push(names::DISK_IO, times, direction("write"), int(sample.written_bytes));
    points.push(names::DISK_OPERATIONS, times, direction("read"), int(sample.reads));
    points.push(names::DISK_OPERATIONS, times, direction("write"), int(sample.writes));
    points.push(names::DISK_OPERATION_TIME, times, direction("read"), thousandths(sample.read_time_ms));
    points.push(names::DISK_OPERATION_TIME, times, direction("write"), thousandths(sample.write_time_ms));
    points.push(names::DISK_IO_TIME, times, device(), thousandths(sample.io_time_ms));
    points.push(names::DISK_IN_FLIGHT, times, device(), int(sample.in_flight));
}

/// Adds the node's sample.
pub fn host(points: &mut Points, sample: &HostSample) {
    let times = (0, nanoseconds(sample.ts_ms));
    let one = |name: &str, value: &str| -> Vec<KeyValue> { vec![text(name, value)] };
    for (mode, ms) in [
        ("user", sample.cpu_user_ms),
        ("nice", sample.cpu_nice_ms),
        ("system", sample.cpu_system_ms),
        ("idle", sample.cpu_idle_ms),
        ("iowait", sample.cpu_iowait_ms),
        ("interrupt", sample.cpu_irq_ms + sample.cpu_softirq_ms),
        ("steal", sample.cpu_steal_ms),
    ] {
        points.push(names::CPU_TIME, times, one(names::CPU_MODE, mode), thousandths(ms));
    }
    points.push(names::CPU_COUNT, times, Vec::new(), int(sample.cpu_count.into()));
    points.push(names::CPU_LOAD_1M, times, Vec::new(), Number::AsDouble(sample.load_1m));
    points.push(names::MEMORY_LIMIT, times, Vec::new(), int(sample.memory_total_bytes));
    let states = [
        ("free", sample.memory_free_bytes),
        ("buffers", sample.memory_buffers_bytes),
        ("cached", sample.memory_cached_bytes),
    ];
    for (state, bytes) in states {
        points.push(names::MEMORY_USAGE, times, one(names::MEMORY_STATE, state), int(bytes));
    }
    if let Some(available) = sample.memory_available_bytes {
        points.push(names::MEMORY_AVAILABLE, times, Vec::new(), int(available));
    }
}
