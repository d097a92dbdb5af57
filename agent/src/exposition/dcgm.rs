//! The same values by the names, units and labels of dcgm-exporter, so that dashboards and alerts that were made for it
//! go on working.
//!
//! These are its default counters and those that are most often switched on. What differs, on purpose:
//!
//! - no series carries a pod: join `contador_gpu_owner_info`. Its `hw_id` is the label `UUID` here for a GPU alone; a MIG
//!   instance is told by its GPU's `UUID` and its `GPU_I_ID`, which `contador_gpu_info` has as `hw_parent` and
//!   `contador_mig_gpu_instance`. `docs/metrics.md` has the join;
//! - what MIG instances tell themselves (memory, profiling) is on them, with `GPU_I_PROFILE` and `GPU_I_ID`, in place of
//!   their GPU; what only the board has (power, temperature, …) is on the GPU alone. So sums count everything once.
//!   Compute instances of one GPU instance share what it has, and are one series;
//! - `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL` is what its type says, a counter: bytes of data, both directions;
//! - memory keeps its fraction of a MiB.

use contador_schemas::names::{self, Fixed};

use super::family::{Families, Labels};
use super::latest::{Device, Snapshot};
use crate::sensors::nvml::xids;
use crate::sensors::{Measures, Number};

/// What MIG instances tell themselves; of a GPU that is split it would be counted twice.
const OF_INSTANCES: [&str; 10] = [
    names::GPU_MEMORY_LIMIT,
    names::GPU_MEMORY_FREE,
    names::GPU_MEMORY_USAGE,
    names::GPU_MEMORY_RESERVED,
    names::GPM_GRAPHICS,
    names::GPM_SM,
    names::GPM_OCCUPANCY,
    names::GPM_TENSOR,
    names::GPM_DRAM,
    names::GPM_PIPE,
];

/// A counter of dcgm-exporter.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Whether it is typed as a counter there.
    pub is_counter: bool,
    /// What it is, and its unit.
    pub help: &'static str,
    /// The metric's variants that it is made of; the sum, of several.
    pub of: &'static [(&'static str, Fixed)],
    /// From the metric's unit to its own.
    convert: fn(Number) -> f64,
}

macro_rules! fields {
    ($($name:ident $kind:ident $help:literal $convert:ident [$($metric:ident $({$($attribute:ident $value:literal)*})?),+])*) => {
        /// What is shown, in the order of its documentation.
        pub const FIELDS: &[Field] = &[$(Field {
            name: stringify!($name),
            is_counter: fields!(@counter $kind),
            help: $help,
            of: &[$((names::$metric, &[$($((names::$attribute, $value)),*)?])),+],
            convert: $convert,
        }),*];
    };
    (@counter counter) => { true };
    (@counter gauge) => { false };
}

fields! {
    DCGM_FI_DEV_SM_CLOCK gauge "Clock of the SMs (in MHz)." same [GPU_CLOCK_SM]
    DCGM_FI_DEV_MEM_CLOCK gauge "Clock of the memory (in MHz)." same [GPU_CLOCK_MEMORY]
    DCGM_FI_DEV_GPU_TEMP gauge "Temperature of the GPU (in C)." same [TEMPERATURE]
    DCGM_FI_DEV_MEMORY_TEMP gauge "Temperature of the memory (in C)." same [GPU_MEMORY_TEMPERATURE]
    DCGM_FI_DEV_POWER_USAGE gauge "Power draw (in W)." same [POWER]
    DCGM_FI_DEV_POWER_MGMT_LIMIT gauge "Power limit in force (in W)." same [GPU_POWER_LIMIT]
    DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter "Energy since the driver was loaded (in mJ)." thousandths [ENERGY]
    DCGM_FI_DEV_POWER_VIOLATION counter "Time for which the power cap held clocks down (in us)." millionths [GPU_THROTTLE_TIME {THROTTLE_REASON "power"}]
    DCGM_FI_DEV_THERMAL_VIOLATION counter "Time for which the temperature held clocks down (in us)." millionths [GPU_THROTTLE_TIME {THROTTLE_REASON "thermal"}]
    DCGM_FI_DEV_PCIE_REPLAY_COUNTER counter "PCIe retries." same [ERRORS {ERROR_TYPE "pcie_replay"}]
    DCGM_FI_DEV_GPU_UTIL gauge "Utilisation of the GPU (in %)." percent [GPU_UTILIZATION]
    DCGM_FI_DEV_MEM_COPY_UTIL gauge "Utilisation of the memory (in %)." percent [GPU_MEMORY_UTILIZATION]
    DCGM_FI_DEV_ENC_UTIL gauge "Utilisation of the encoder (in %)." percent [GPU_UTILIZATION {GPU_TASK "encoder"}]
    DCGM_FI_DEV_DEC_UTIL gauge "Utilisation of the decoder (in %)." percent [GPU_UTILIZATION {GPU_TASK "decoder"}]
    DCGM_FI_DEV_XID_ERRORS gauge "Code of the last XID." same [GPU_XID_LAST]
    DCGM_FI_DEV_CLOCK_THROTTLE_REASONS gauge "Why clocks are low, a set of bits." same [GPU_THROTTLE_REASONS]
    DCGM_FI_DEV_PSTATE gauge "Performance state, 0 the fastest." same [GPU_PERFORMANCE_STATE]
    DCGM_FI_DEV_FAN_SPEED gauge "Speed of the fan (in %)." percent [FAN_SPEED]
    DCGM_FI_DEV_FB_TOTAL gauge "Device memory (in MiB)." mebi [GPU_MEMORY_LIMIT]
    DCGM_FI_DEV_FB_FREE gauge "Device memory that is free (in MiB)." mebi [GPU_MEMORY_FREE]
    DCGM_FI_DEV_FB_USED gauge "Device memory that is used (in MiB)." mebi [GPU_MEMORY_USAGE]
    DCGM_FI_DEV_FB_RESERVED gauge "Device memory that the driver reserves (in MiB)." mebi [GPU_MEMORY_RESERVED]
    DCGM_FI_DEV_ECC_SBE_VOL_TOTAL counter "Corrected ECC errors since the driver was loaded." same [ERRORS {ERROR_TYPE "ecc_corrected_volatile"}]
    DCGM_FI_DEV_ECC_DBE_VOL_TOTAL counter "Uncorrected ECC errors since the driver was loaded." same [ERRORS {ERROR_TYPE "ecc_uncorrected_volatile"}]
    DCGM_FI_DEV_ECC_SBE_AGG_TOTAL counter "Corrected ECC errors of the board's life." same [ERRORS {ERROR_TYPE "ecc_corrected_aggregate"}]
    DCGM_FI_DEV_ECC_DBE_AGG_TOTAL counter "Uncorrected ECC errors of the board's life." same [ERRORS {ERROR_TYPE "ecc_uncorrected_aggregate"}]
    DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS counter "Rows remapped for uncorrected errors." same [GPU_REMAPPED_ROWS {ERROR_TYPE "uncorrected"}]
    DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS counter "Rows remapped for corrected errors." same [GPU_REMAPPED_ROWS {ERROR_TYPE "corrected"}]
    DCGM_FI_DEV_ROW_REMAP_PENDING gauge "1 while a row waits for a reset to be remapped." same [GPU_REMAP_PENDING]
    DCGM_FI_DEV_ROW_REMAP_FAILURE gauge "1 when remapping a row has failed." same [GPU_REMAP_FAILED]
    DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL counter "Data over all NVLinks, both directions (in bytes)." same [NVLINK_IO {IO_DIRECTION "transmit"}, NVLINK_IO {IO_DIRECTION "receive"}]
    DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL counter "CRC errors of flow control on all NVLinks." same [ERRORS {ERROR_TYPE "nvlink_crc_flit"}]
    DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL counter "CRC errors of data on all NVLinks." same [ERRORS {ERROR_TYPE "nvlink_crc_data"}]
    DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL counter "Retries on all NVLinks." same [ERRORS {ERROR_TYPE "nvlink_replay"}]
    DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL counter "Recoveries on all NVLinks." same [ERRORS {ERROR_TYPE "nvlink_recovery"}]
    DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge "Share of time in which an engine was active (0 to 1)." same [GPM_GRAPHICS]
    DCGM_FI_PROF_SM_ACTIVE gauge "Share of time in which an SM had a warp (0 to 1)." same [GPM_SM]
    DCGM_FI_PROF_SM_OCCUPANCY gauge "Resident warps as a share of the most (0 to 1)." same [GPM_OCCUPANCY]
    DCGM_FI_PROF_PIPE_TENSOR_ACTIVE gauge "Share of time in which tensor cores were active (0 to 1)." same [GPM_TENSOR]
    DCGM_FI_PROF_DRAM_ACTIVE gauge "Share of the memory's bandwidth that was used (0 to 1)." same [GPM_DRAM]
    DCGM_FI_PROF_PIPE_FP64_ACTIVE gauge "Share of time in which the FP64 pipes were active (0 to 1)." same [GPM_PIPE {PIPE "fp64"}]
    DCGM_FI_PROF_PIPE_FP32_ACTIVE gauge "Share of time in which the FP32 pipes were active (0 to 1)." same [GPM_PIPE {PIPE "fp32"}]
    DCGM_FI_PROF_PIPE_FP16_ACTIVE gauge "Share of time in which the FP16 pipes were active (0 to 1)." same [GPM_PIPE {PIPE "fp16"}]
    DCGM_FI_PROF_PCIE_TX_BYTES gauge "Sent over PCIe (in bytes a second)." same [GPM_PCIE {IO_DIRECTION "transmit"}]
    DCGM_FI_PROF_PCIE_RX_BYTES gauge "Received over PCIe (in bytes a second)." same [GPM_PCIE {IO_DIRECTION "receive"}]
    DCGM_FI_PROF_NVLINK_TX_BYTES gauge "Sent over all NVLinks (in bytes a second)." same [GPM_NVLINK {IO_DIRECTION "transmit"}]
    DCGM_FI_PROF_NVLINK_RX_BYTES gauge "Received over all NVLinks (in bytes a second)." same [GPM_NVLINK {IO_DIRECTION "receive"}]
}

fn same(value: Number) -> f64 {
    value.f64()
}

fn mebi(bytes: Number) -> f64 {
    bytes.f64() / f64::from(1 << 20)
}

fn thousandths(value: Number) -> f64 {
    match value {
        Number::Thousandths(count) => Number::Whole(count).f64(),
        other => other.f64() * 1e3,
    }
}

fn millionths(value: Number) -> f64 {
    thousandths(value) * 1e3
}

/// Without the noise of a share such as 0.57 in binary.
fn percent(share: Number) -> f64 {
    (share.f64() * 1e8).round() / 1e6
}

/// Adds each field of each device.
pub fn add(families: &mut Families, snapshot: &Snapshot, node: &str) {
    for stream in snapshot.streams.iter().filter(|stream| stream.is_device) {
        let Some(device) = snapshot.find(&stream.name) else { continue };
        let parent = snapshot.find(device.get(names::HW_PARENT));
        let minor = format!("nvidia{}", first(parent, device, names::DEVICE_MINOR));
        let labels = labels(device, parent, &minor, node);
        let is_split = snapshot.devices.iter().any(|other| other.get(names::HW_PARENT) == device.uuid);
        for field in FIELDS.iter().filter(|field| !is_split || !field.is_of_instances()) {
            let Some(value) = field.value(&stream.measures) else { continue };
            if field.name == "DCGM_FI_DEV_XID_ERRORS" {
                let code = stream.measures.count(names::GPU_XID_LAST).unwrap_or(0);
                let text = code.to_string();
                let mut labels = labels.clone();
                labels.extend([("err_code", text.as_str()), ("err_msg", message(code))]);
                families.gauge(field.name, field.help, &labels, value);
            } else if field.is_counter {
                families.counter(field.name, field.help, &labels, value);
            } else {
                families.gauge(field.name, field.help, &labels, value);
            }
        }
    }
}

/// A code in words; as there, also when there was none.
fn message(code: u64) -> &'static str {
    match code {
        0 => "No Error",
        code => xids::meaning(code).unwrap_or("Unknown Error"),
    }
}

/// The profile of the GPU instance that a MIG instance is in: `3g.40gb` of the compute instance `1c.3g.40gb`.
fn profile(device: &Device) -> &str {
    let whole = device.get(names::MIG_PROFILE);
    match whole.split_once("c.") {
        Some((slices, profile)) if slices.bytes().all(|digit| digit.is_ascii_digit()) => profile,
        _ => whole,
    }
}

impl Field {
    fn is_of_instances(&self) -> bool {
        self.of.iter().any(|(metric, _)| OF_INSTANCES.contains(metric))
    }

    fn value(&self, measures: &Measures) -> Option<f64> {
        let values = self.of.iter().map(|(metric, fixed)| measures.reading_as(metric, fixed)?.get().map(self.convert));
        values.sum()
    }
}

/// What the board has is told of a MIG instance's GPU.
fn first<'d>(parent: Option<&'d Device>, device: &'d Device, attribute: &str) -> &'d str {
    parent
        .map(|parent| parent.get(attribute))
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| device.get(attribute))
}

fn labels<'d>(device: &'d Device, parent: Option<&'d Device>, minor: &'d str, node: &'d str) -> Labels<'d> {
    let of_board = |attribute| first(parent, device, attribute);
    let uuid = match device.get(names::HW_PARENT) {
        "" => device.uuid.as_str(),
        parent => parent,
    };
    vec![
        ("gpu", of_board(names::DEVICE_INDEX)),
        ("UUID", uuid),
        ("pci_bus_id", of_board(names::DEVICE_PCI)),
        ("device", minor),
        ("modelName", of_board(names::HW_MODEL)),
        ("GPU_I_PROFILE", profile(device)),
        ("GPU_I_ID", device.get(names::MIG_GPU_INSTANCE)),
        ("Hostname", node),
        ("DCGM_FI_DRIVER_VERSION", of_board(names::HW_DRIVER_VERSION)),
    ]
}
