//! The plain values that the sensors hand on. Counters are raw: as the driver or the kernel counts them.

use smallvec::smallvec;
use std::borrow::Cow;

use contador_schemas::names::{self, Fixed};
use serde::Serialize;

use super::nvml::status;
use super::{Facts, Measures, Number, Reading};
use crate::sensors::measure::Varying;

/// What a GPU is: read once, when the driver is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuIdentity {
    /// The driver's own id, `GPU-…`; the device's key everywhere.
    pub uuid: String,
    /// The model as the driver names it, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// The driver's index at this moment; not stable over reboots.
    pub index: u32,
    /// PCI address, `00000000:01:00.0`.
    pub pci_bus_id: Option<String>,
    /// N of `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// The board's serial number, where it has one.
    pub serial: Option<String>,
    /// All memory, the driver's reserved part included, in bytes.
    pub memory_total_bytes: Reading<u64>,
    /// The power limit in force, in milliwatts.
    pub power_limit_mw: Reading<u32>,
    /// Version of the NVIDIA driver.
    pub driver_version: String,
    /// The newest CUDA version that the driver supports, such as `12.8`.
    pub cuda_version: Option<String>,
    /// `Ampere`, `Ada`, `Hopper`, …
    pub architecture: Option<String>,
    /// True when the values come from contador's NVML simulator and not from hardware.
    pub simulated: bool,
    /// Of which GPU it is a part, when it is a MIG instance; absent for a GPU, also for one that is split.
    pub mig: Option<MigIdentity>,
    /// What else is known of it, and of its node; nothing of a MIG instance.
    pub facts: Facts,
}

impl GpuIdentity {
    /// Forgets the serial number.
    pub fn forget_serial(&mut self) {
        self.serial = None;
        self.facts.forget(names::HW_SERIAL);
    }
}

/// What a MIG instance is: a compute instance within a GPU instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MigIdentity {
    /// [`GpuIdentity::uuid`] of the GPU.
    pub parent: String,
    /// Its profile as the driver names it, such as `1g.10gb`.
    pub profile: String,
    /// Id of its GPU instance.
    pub gpu_instance: u32,
    /// Id of its compute instance within that.
    pub compute_instance: u32,
    /// Compute slices, of the GPU's 7.
    pub compute_slices: Option<u32>,
    /// Memory slices, of the GPU's 8. Compute instances of one GPU instance share them.
    pub memory_slices: Option<u32>,
    /// Where its GPU instance is. The driver tells root only.
    pub placement: Option<Placement>,
}

/// Where a GPU instance is on its GPU. Two at one place are compute instances of one GPU instance.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Placement {
    /// The driver's id of the profile that it was made with.
    pub profile: u32,
    /// Its first memory slice.
    pub start: u32,
}

/// One GPU, or one MIG instance, at one instant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuSample {
    /// When it was taken, in Unix milliseconds.
    pub ts_ms: i64,
    /// Whose it is: [`GpuIdentity::uuid`].
    pub uuid: String,
    /// UUID of the GPU that a MIG instance is a part of; absent for a GPU.
    pub parent: Option<String>,
    /// What it measures: metrics of [`contador_schemas::names::Group::Gpu`], and series of the device.
    pub measures: Measures,
    /// Processes that are alive and hold a context on the device, by PID, of all of the driver's lists. Those of a GPU that is
    /// split are those of all its MIG instances.
    pub processes: Reading<Vec<GpuProcess>>,
    /// Why it is degraded or failed ([`names::STATUS`]), for people; empty while it is ok.
    pub faults: Vec<String>,
    /// How many of the driver's answers were impossible (such as 2619 percent) and dropped from this sample.
    pub rejected: u32,
}

impl GpuSample {
    /// A sample of which nothing can be had, for one reason, but that the device has failed.
    pub fn failed(ts_ms: i64, uuid: &str, reason: impl Into<Cow<'static, str>>) -> Self {
        let (reason, mut measures) = (reason.into(), Measures::default());
        let faults = status::add_failed(&mut measures, reason.to_string());
        let processes = Reading::Failed(reason);
        Self { ts_ms, uuid: uuid.to_owned(), parent: None, measures, processes, faults, rejected: 0 }
    }
}

/// A process that holds a context on a GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuProcess {
    /// PID in the host's namespace.
    pub pid: u32,
    /// Which of the driver's lists it is in; the first of [`ProcessKind`]'s when in several.
    pub kind: ProcessKind,
    /// Device memory it holds, in bytes.
    pub memory_bytes: Reading<u64>,
    /// Its share of the streaming multiprocessors since the last sample, 0 to 100 percent, where the driver tells it.
    pub sm_util: Option<f64>,
    /// Id of the GPU instance that it is on, of a GPU that is split by MIG.
    pub gpu_instance: Option<u32>,
    /// Id of its compute instance within that.
    pub compute_instance: Option<u32>,
}

/// The driver's list that a process is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessKind {
    /// A client of an MPS server, which shares its context with others.
    Mps,
    /// A CUDA context.
    Compute,
    /// A graphics context.
    Graphics,
}

/// One whole block device at one instant; all but `in_flight` are counters since the device appeared.
///
/// Source: `/proc/diskstats`. The kernel's times are 32-bit milliseconds that wrap after 49.7 days: they are
/// passed on as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiskSample {
    /// When it was taken, in Unix milliseconds.
    pub ts_ms: i64,
    /// Kernel name, such as `nvme0n1`.
    pub device: String,
    /// Reads completed.
    pub reads: u64,
    /// Bytes read (sectors of 512 bytes).
    pub read_bytes: u64,
    /// Time that all reads took together, in milliseconds.
    pub read_time_ms: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written (sectors of 512 bytes).
    pub written_bytes: u64,
    /// Time that all writes took together, in milliseconds.
    pub write_time_ms: u64,
    /// Requests in flight now; a gauge.
    pub in_flight: u64,
    /// Time with at least one request in flight, in milliseconds.
    pub io_time_ms: u64,
    /// Time weighted by the requests in flight, in milliseconds.
    pub weighted_io_time_ms: u64,
    /// Discards completed; absent on kernels before 4.18.
    pub discards: Option<u64>,
    /// Bytes discarded; absent on kernels before 4.18.
    pub discarded_bytes: Option<u64>,
    /// Flushes completed; absent on kernels before 5.5.
    pub flushes: Option<u64>,
    /// Time that all flushes took together, in milliseconds; absent on kernels before 5.5.
    pub flush_time_ms: Option<u64>,
}

/// The machine at one instant. CPU times are counters since boot, summed over all CPUs.
///
/// Sources: `/proc/stat`, `/proc/meminfo`, `/proc/loadavg`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostSample {
    /// When it was taken, in Unix milliseconds.
    pub ts_ms: i64,
    /// Time in user mode, guests included, in milliseconds.
    pub cpu_user_ms: u64,
    /// Time in user mode at low priority, guests included, in milliseconds.
    pub cpu_nice_ms: u64,
    /// Time in kernel mode, in milliseconds.
    pub cpu_system_ms: u64,
    /// Idle time, in milliseconds.
    pub cpu_idle_ms: u64,
    /// Idle time with a disk request outstanding, in milliseconds.
    pub cpu_iowait_ms: u64,
    /// Time in hardware interrupts, in milliseconds.
    pub cpu_irq_ms: u64,
    /// Time in software interrupts, in milliseconds.
    pub cpu_softirq_ms: u64,
    /// Time that the hypervisor gave to others, in milliseconds.
    pub cpu_steal_ms: u64,
    /// CPUs online.
    pub cpu_count: u32,
    /// Usable memory in bytes.
    pub memory_total_bytes: u64,
    /// Memory that can be had without swapping, in bytes; absent on kernels before 3.14.
    pub memory_available_bytes: Option<u64>,
    /// Unused memory in bytes.
    pub memory_free_bytes: u64,
    /// Buffers of block devices, in bytes.
    pub memory_buffers_bytes: u64,
    /// Page cache without buffers, in bytes.
    pub memory_cached_bytes: u64,
    /// Swap space in bytes.
    pub swap_total_bytes: u64,
    /// Free swap space in bytes.
    pub swap_free_bytes: u64,
    /// Load average over 1 minute.
    pub load_1m: f64,
    /// Load average over 5 minutes.
    pub load_5m: f64,
    /// Load average over 15 minutes.
    pub load_15m: f64,
}

impl DiskSample {
    /// By the names of the registry.
    pub fn measures(&self) -> Measures {
        let mut measures = Measures::default();
        let mut add = |metric, fixed, value| {
            let device: Varying = smallvec![(names::SYSTEM_DEVICE, Cow::Owned(self.device.clone()))];
            measures.add_with(metric, fixed, device, Reading::Value(value));
        };
        add(names::DISK_IO, READ, Number::Whole(self.read_bytes));
        add(names::DISK_IO, WRITE, Number::Whole(self.written_bytes));
        add(names::DISK_OPERATIONS, READ, Number::Whole(self.reads));
        add(names::DISK_OPERATIONS, WRITE, Number::Whole(self.writes));
        add(names::DISK_OPERATION_TIME, READ, Number::Thousandths(self.read_time_ms));
        add(names::DISK_OPERATION_TIME, WRITE, Number::Thousandths(self.write_time_ms));
        add(names::DISK_IO_TIME, &[], Number::Thousandths(self.io_time_ms));
        add(names::DISK_WEIGHTED_IO_TIME, &[], Number::Thousandths(self.weighted_io_time_ms));
        add(names::DISK_IN_FLIGHT, &[], Number::Whole(self.in_flight));
        measures
    }
}

const READ: Fixed = &[(names::DISK_DIRECTION, "read")];
const WRITE: Fixed = &[(names::DISK_DIRECTION, "write")];

impl HostSample {
    /// By the names of the registry.
    pub fn measures(&self) -> Measures {
        let mut measures = Measures::default();
        let mut add = |metric, fixed, value| measures.add_as(metric, fixed, Reading::Value(value));
        let interrupt_ms = self.cpu_irq_ms + self.cpu_softirq_ms;
        add(names::CPU_TIME, &[(names::CPU_MODE, "user")], Number::Thousandths(self.cpu_user_ms));
        add(names::CPU_TIME, &[(names::CPU_MODE, "nice")], Number::Thousandths(self.cpu_nice_ms));
        add(names::CPU_TIME, &[(names::CPU_MODE, "system")], Number::Thousandths(self.cpu_system_ms));
        add(names::CPU_TIME, &[(names::CPU_MODE, "idle")], Number::Thousandths(self.cpu_idle_ms));
        add(names::CPU_TIME, &[(names::CPU_MODE, "iowait")], Number::Thousandths(self.cpu_iowait_ms));
        add(names::CPU_TIME, &[(names::CPU_MODE, "interrupt")], Number::Thousandths(interrupt_ms));
        add(names::CPU_TIME, &[(names::CPU_MODE, "steal")], Number::Thousandths(self.cpu_steal_ms));
        add(names::CPU_COUNT, &[], Number::Whole(self.cpu_count.into()));
        add(names::CPU_LOAD_1M, &[], Number::Real(self.load_1m));
        add(names::MEMORY_LIMIT, &[], Number::Whole(self.memory_total_bytes));
        add(names::MEMORY_USAGE, &[(names::MEMORY_STATE, "free")], Number::Whole(self.memory_free_bytes));
        add(names::MEMORY_USAGE, &[(names::MEMORY_STATE, "buffers")], Number::Whole(self.memory_buffers_bytes));
        add(names::MEMORY_USAGE, &[(names::MEMORY_STATE, "cached")], Number::Whole(self.memory_cached_bytes));
        if let Some(available) = self.memory_available_bytes {
            add(names::MEMORY_AVAILABLE, &[], Number::Whole(available));
        }
        let swap_used = self.swap_total_bytes.saturating_sub(self.swap_free_bytes);
        add(names::SWAP_USAGE, &[(names::PAGING_STATE, "used")], Number::Whole(swap_used));
        add(names::SWAP_USAGE, &[(names::PAGING_STATE, "free")], Number::Whole(self.swap_free_bytes));
        measures
    }
}
