//! What a node measured at one instant.

use clickhouse::Row;
use serde::{Deserialize, Serialize};

/// One device at one instant. `None` is *not measured*; names of metrics in `unsupported` are what the device can't tell.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Row, Serialize)]
pub struct GpuSample {
    /// Unix milliseconds.
    pub ts: i64,
    /// UUID as the driver gives it, `GPU-…` or `MIG-…`.
    pub device: String,
    /// Host name.
    pub node: String,
    /// Whether the device is a simulated one.
    pub simulated: bool,
    /// Names (of [`crate::names`]) of the metrics that the device does not support.
    pub unsupported: Vec<String>,
    /// Share of the interval in which a kernel ran, 0 to 1.
    pub utilization: Option<f32>,
    /// Share of the interval in which memory was read or written, 0 to 1.
    pub memory_utilization: Option<f32>,
    /// Bytes; used + free + reserved.
    pub memory_total: Option<u64>,
    /// Bytes.
    pub memory_used: Option<u64>,
    /// Bytes.
    pub memory_free: Option<u64>,
    /// Bytes.
    pub memory_reserved: Option<u64>,
    /// Milliwatts.
    pub power_mw: Option<u32>,
    /// Millijoules since the driver was loaded.
    pub energy_mj: Option<u64>,
    /// Degrees Celsius.
    pub temperature_c: Option<i16>,
    /// Megahertz.
    pub clock_sm_mhz: Option<u32>,
    /// Megahertz.
    pub clock_memory_mhz: Option<u32>,
    /// Megahertz.
    pub clock_graphics_mhz: Option<u32>,
    /// Processes that hold the device.
    pub processes: Option<u32>,
}

/// One block device or mount at one instant; counters since the kernel's start.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Row, Serialize)]
pub struct StorageSample {
    /// Unix milliseconds.
    pub ts: i64,
    /// Host name.
    pub node: String,
    /// Kernel's name of the device, or the mount point.
    pub device: String,
    /// `disk` or `mount`.
    pub kind: String,
    /// Whether the device is a simulated one.
    pub simulated: bool,
    /// Completed reads.
    pub reads: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Milliseconds spent on reads.
    pub read_ms: Option<u64>,
    /// Completed writes.
    pub writes: Option<u64>,
    /// Bytes written.
    pub written_bytes: Option<u64>,
    /// Milliseconds spent on writes.
    pub write_ms: Option<u64>,
    /// Milliseconds with any request in flight.
    pub io_ms: Option<u64>,
    /// Requests in flight.
    pub in_flight: Option<u64>,
    /// Mounts: whether the probe came back.
    pub reachable: Option<bool>,
    /// Mounts: milliseconds that the probe took.
    pub probe_ms: Option<u32>,
}

/// CPU and memory of one node at one instant; CPU times since the node's start.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Row, Serialize)]
pub struct NodeSample {
    /// Unix milliseconds.
    pub ts: i64,
    /// Host name.
    pub node: String,
    /// Logical CPUs.
    pub cpus: Option<u32>,
    /// Milliseconds in user mode.
    pub cpu_user_ms: Option<u64>,
    /// Milliseconds in user mode at low priority.
    pub cpu_nice_ms: Option<u64>,
    /// Milliseconds in the kernel.
    pub cpu_system_ms: Option<u64>,
    /// Milliseconds idle.
    pub cpu_idle_ms: Option<u64>,
    /// Milliseconds idle while waiting for I/O.
    pub cpu_iowait_ms: Option<u64>,
    /// Milliseconds in interrupts, hard and soft.
    pub cpu_interrupt_ms: Option<u64>,
    /// Milliseconds that the hypervisor took.
    pub cpu_steal_ms: Option<u64>,
    /// Load average of a minute.
    pub load_1m: Option<f32>,
    /// Bytes.
    pub memory_total: Option<u64>,
    /// Bytes that new work could have.
    pub memory_available: Option<u64>,
    /// Bytes.
    pub memory_free: Option<u64>,
    /// Bytes.
    pub memory_buffers: Option<u64>,
    /// Bytes.
    pub memory_cached: Option<u64>,
}
