//! Every name on the wire, with unit and meaning: OpenTelemetry's semantic conventions where they exist, `contador.*`
//! where they don't.
//!
//! How the agent's facts travel as OTLP metrics (all times are the sample's own):
//!
//! - A **device sample** is one point of each metric of [`Group::Gpu`] with the same [`HW_ID`] and time, in one request;
//!   the collector makes one row of them. [`SIMULATED`] marks simulated devices. A MIG instance is a device of its own; whose
//!   part it is, is told by its [`DEVICE_INFO`], with [`HW_PARENT`]. What could
//!   not be read now is no point at all. What the device can't tell is a point with the *no recorded value* flag and
//!   [`UNSUPPORTED`], sent along with [`DEVICE_INFO`] once a minute, and not with every sample.
//! - A **disk**, **mount** or **node sample** likewise, by [`Group::Storage`] (with [`SYSTEM_DEVICE`], or
//!   [`MOUNTPOINT`]) and [`Group::Node`].
//! - A point of [`Group::Series`] is a row of `metrics`: what a device has several of, such as links.
//! - A **ledger row** is one point of each metric of [`Group::Ledger`] with the same [`HW_ID`], [`OWNER_ID`] and interval,
//!   which is one UTC minute. What an owner id means is told by [`OWNER_INFO`], what a device is by [`DEVICE_INFO`].
//! - An **event** is a point of [`EVENT`].
//! - A **latency** is any histogram whose unit is a time. Those of [`LATENCY`] come from an agent: their unit is `us`, each
//!   bucket's upper bound is a cell's upper edge, and its lower bound is the greatest 64-bit float below the cell's lower
//!   edge, so that nothing is lost. The values of a point with [`LATENCY_CENSORED`] are lower bounds: of requests that
//!   were aborted is known how long they have taken so far, and not how long they would have.
//! - What a service **served** is one point of some metrics of [`Group::Served`] with the same [`SERVICE_NAME`], [`MODEL`],
//!   [`OWNER_ID`], replica and interval. What the service does not count has no point.

use std::collections::HashMap;
use std::sync::LazyLock;

mod attributes;
mod gpu;
mod made;
mod storage;

pub use attributes::*;
pub use gpu::*;
pub use made::*;
pub use storage::*;

/// Shape of a metric on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Instrument {
    /// A value at an instant.
    Gauge,
    /// A sum since a start that only rises.
    Counter,
    /// A sum since a start that may fall.
    UpDownCounter,
    /// A sum over the point's own interval.
    Delta,
    /// A histogram.
    Histogram,
}

/// Which row a metric is a part of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Group {
    /// `gpu_samples`.
    Gpu,
    /// `storage_samples`.
    Storage,
    /// `node_samples`.
    Node,
    /// `ledger`.
    Ledger,
    /// `devices`, `owners` or `events`: a point is a row.
    Info,
    /// `latency`.
    Latency,
    /// `served`.
    Served,
    /// `metrics`: a point is a row.
    Series,
}

/// Which GPUs, or which kernels, have a value.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Support {
    /// Every device; every kernel that the agent runs on.
    Always,
    /// GPUs that are not split by MIG, and no MIG instance.
    Whole,
    /// Whole GPUs and parents of MIG instances: what the board has, and no instance of its own.
    Board,
    /// Whole GPUs and MIG instances of Hopper and later (GPM).
    Gpm,
    /// GPUs of Hopper and later, without MIG instances: GPM of what the board has.
    GpmBoard,
    /// Boards with NVLink.
    NvLink,
    /// Boards with NVLink before the fifth, which does not count these errors.
    NvLink4,
    /// Boards with ECC: those for data centers.
    Ecc,
    /// Boards that remap rows: Ampere and later, for data centers.
    RowRemapping,
    /// Boards with HBM.
    Hbm,
    /// Boards with fans of their own.
    Fan,
    /// Drivers that count PCIe bytes (fields 197 and 198): Hopper and later.
    PcieBytes,
    /// GPUs while MIG is on.
    Mig,
    /// GPUs of vGPU hosts.
    VgpuHost,
    /// Where the kernel, the file system or the hardware has it.
    Kernel,
}

impl Support {
    /// For people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Always => "all",
            Self::Whole => "GPUs that are not split by MIG",
            Self::Board => "GPUs and parents of MIG instances",
            Self::Gpm => "Hopper and later: GPUs, and MIG instances",
            Self::GpmBoard => "Hopper and later: GPUs",
            Self::NvLink => "boards with NVLink",
            Self::NvLink4 => "boards with NVLink, before Blackwell",
            Self::Ecc => "boards with ECC",
            Self::RowRemapping => "Ampere and later, for data centers",
            Self::Hbm => "boards with HBM",
            Self::Fan => "boards with fans",
            Self::PcieBytes => "Hopper and later",
            Self::Mig => "parents of MIG instances",
            Self::VgpuHost => "GPUs of vGPU hosts",
            Self::Kernel => "where the kernel or the hardware has it",
        }
    }
}

/// One value of a metric that a sensor reads, told from the others by fixed attributes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Variant {
    /// Attributes and their values; others may come beside them, such as a link's number.
    pub attributes: Fixed,
    /// Who has it.
    pub support: Support,
    /// The call or the file that it is read from.
    pub source: &'static str,
    /// Its column in the group's table; empty for rows of `metrics`.
    pub column: &'static str,
}

/// Attributes with values that don't vary.
pub type Fixed = &'static [(&'static str, &'static str)];

/// One metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MetricName {
    /// Its name.
    pub name: &'static str,
    /// UCUM unit.
    pub unit: &'static str,
    /// Its shape.
    pub instrument: Instrument,
    /// The row that it is a part of.
    pub group: Group,
    /// What it means, for people.
    pub meaning: &'static str,
    /// The values that sensors read; none when it is not read but made.
    pub variants: &'static [Variant],
}

/// One attribute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AttributeName {
    /// Its name.
    pub name: &'static str,
    /// What it means, for people.
    pub meaning: &'static str,
}

/// Declares metrics: constant, name, unit, shape and group, meaning, and in brackets what sensors read:
/// `{attribute "value", …} Support "source" => "column"`.
macro_rules! registry {
    ($list:ident $($constant:ident $name:literal $unit:literal $instrument:ident $group:ident $meaning:literal
        [$({$($attribute:ident $value:literal),*} $support:ident $source:literal => $column:literal),* $(,)?])*) => {
        $(#[doc = $meaning] pub const $constant: &str = $name;)*
        pub(super) const $list: &[MetricName] = &[$(MetricName {
            name: $name,
            unit: $unit,
            instrument: Instrument::$instrument,
            group: Group::$group,
            meaning: $meaning,
            variants: &[$(Variant {
                attributes: &[$(($attribute, $value)),*],
                support: Support::$support,
                source: $source,
                column: $column,
            }),*],
        }),*];
    };
}
use registry;

/// Every metric that contador itself sends.
pub const METRICS: [&[MetricName]; 3] = [GPU, STORAGE, MADE];

/// Each metric that contador itself sends, in the order of the documentation.
pub fn metrics() -> impl Iterator<Item = &'static MetricName> {
    METRICS.into_iter().flatten()
}

/// The attribute that carries each field of an owner (the field's column name first).
pub const OWNER_ATTRIBUTES: [(&str, &str); 13] = [
    ("environment", ENVIRONMENT),
    ("cluster", CLUSTER),
    ("namespace", NAMESPACE),
    ("pod", POD),
    ("container", CONTAINER),
    ("job", JOB),
    ("user", USER),
    ("department", DEPARTMENT),
    ("project", PROJECT),
    ("experiment", EXPERIMENT),
    ("service", OWNER_SERVICE),
    ("model", MODEL),
    ("command", COMMAND),
];

/// The attribute of [`DEVICE_INFO`] that carries each fact of a device (its column in `devices` first), beside those that
/// every device has.
pub const DEVICE_FACTS: [(&str, &str); 28] = [
    ("serial_number", HW_SERIAL),
    ("vbios_version", HW_FIRMWARE),
    ("gsp_firmware_version", GSP_FIRMWARE),
    ("part_number", DEVICE_PART),
    ("architecture", DEVICE_ARCHITECTURE),
    ("compute_capability", COMPUTE_CAPABILITY),
    ("device_index", DEVICE_INDEX),
    ("minor", DEVICE_MINOR),
    ("pcie_generation_max", PCIE_GENERATION_MAX),
    ("pcie_width_max", PCIE_WIDTH_MAX),
    ("power_limit_default_mw", POWER_LIMIT_DEFAULT),
    ("power_limit_min_mw", POWER_LIMIT_MIN),
    ("power_limit_max_mw", POWER_LIMIT_MAX),
    ("clock_sm_max_mhz", CLOCK_SM_MAX),
    ("clock_memory_max_mhz", CLOCK_MEMORY_MAX),
    ("ecc_mode", ECC_MODE),
    ("persistence_mode", PERSISTENCE_MODE),
    ("compute_mode", COMPUTE_MODE),
    ("mig_mode", MIG_MODE),
    ("virtualization_mode", VIRTUALIZATION_MODE),
    ("topology", DEVICE_TOPOLOGY),
    ("nvml_version", NVML_VERSION),
    ("cuda_version", CUDA_VERSION),
    ("kernel_version", KERNEL_VERSION),
    ("mig_gpu_instance", MIG_GPU_INSTANCE),
    ("mig_compute_instance", MIG_COMPUTE_INSTANCE),
    ("mig_compute_slices", MIG_COMPUTE_SLICES),
    ("mig_memory_slices", MIG_MEMORY_SLICES),
];

/// Prefix of the environment variables that label a process tree, one for each field of an owner:
/// `CONTADOR_OWNER_DEPARTMENT`, `CONTADOR_OWNER_PROJECT`, `CONTADOR_OWNER_EXPERIMENT`, `CONTADOR_OWNER_USER` and so on.
pub const LABEL_VARIABLE_PREFIX: &str = "CONTADOR_OWNER_";

/// The metric of this name, when it is one of contador's.
pub fn metric(name: &str) -> Option<&'static MetricName> {
    static BY_NAME: LazyLock<HashMap<&str, &MetricName>> =
        LazyLock::new(|| metrics().map(|metric| (metric.name, metric)).collect());
    BY_NAME.get(name).copied()
}

/// Microseconds in one of a unit of time; `None` for other units.
pub fn microseconds_in(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e-3),
        "us" | "µs" => Some(1.0),
        "ms" => Some(1e3),
        "s" => Some(1e6),
        "min" => Some(6e7),
        "h" => Some(3.6e9),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::owner::Owner;

    #[test]
    fn names_are_unique_and_explained() {
        let names: HashSet<&str> = metrics().map(|metric| metric.name).collect();
        assert_eq!(names.len(), metrics().count());
        let attributes: HashSet<&str> = ATTRIBUTES.iter().map(|attribute| attribute.name).collect();
        assert_eq!(attributes.len(), ATTRIBUTES.len());
        assert!(metrics().all(|metric| metric.meaning.ends_with('.') && !metric.unit.is_empty()));
        assert!(ATTRIBUTES.iter().all(|attribute| attribute.meaning.ends_with('.')));
    }

    #[test]
    fn what_sensors_read_is_told_apart_and_has_a_place() {
        for metric in metrics() {
            let variants: HashSet<Fixed> = metric.variants.iter().map(|variant| variant.attributes).collect();
            assert_eq!(variants.len(), metric.variants.len(), "{}", metric.name);
            for variant in metric.variants {
                assert_eq!(variant.column.is_empty(), metric.group == Group::Series, "{}", metric.name);
                let known = |name: &str| ATTRIBUTES.iter().any(|attribute| attribute.name == name);
                assert!(variant.attributes.iter().all(|(name, _)| known(name)), "{}", metric.name);
            }
        }
    }

    #[test]
    fn each_field_of_an_owner_has_an_attribute() {
        let columns: Vec<&str> = OWNER_ATTRIBUTES.iter().map(|(column, _)| *column).collect();
        let fields: Vec<&str> = Owner::default().attributes().iter().map(|(name, _)| *name).collect();
        assert_eq!(columns, fields);
        assert!(OWNER_ATTRIBUTES.iter().all(|(_, name)| ATTRIBUTES.iter().any(|attribute| attribute.name == *name)));
    }
}
