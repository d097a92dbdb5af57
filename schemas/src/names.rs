//! Every name on the wire, with unit and meaning: OpenTelemetry's semantic conventions where they exist, `contador.*`
//! where they don't.
//!
//! How the agent's facts travel as OTLP metrics (all times are the sample's own):
//!
//! - A **device sample** is one point of each metric of [`Group::Gpu`] with the same [`HW_ID`] and time, in one request;
//!   the collector makes one row of them. [`SIMULATED`] marks simulated devices. What the device can't tell is a point
//!   with the *no recorded value* flag and [`UNSUPPORTED`]; what could not be read now is no point at all.
//! - A **disk** or **node sample** likewise, by [`Group::Storage`] (with [`SYSTEM_DEVICE`]) and [`Group::Node`].
//! - A **ledger row** is one point of each metric of [`Group::Ledger`] with the same [`HW_ID`], [`OWNER_ID`] and interval,
//!   which is one UTC minute. What an owner id means is told by [`OWNER_INFO`], what a device is by [`DEVICE_INFO`].
//! - An **event** is a point of [`EVENT`].
//! - A **latency** is any histogram whose unit is a time. Those of [`LATENCY`] come from HDR histograms: their unit is
//!   `us`, their values are whole, each bucket's upper bound is a cell's upper edge, and its lower bound is the greatest
//!   64-bit float below the cell's lower edge, so that nothing is lost.

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
}

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
}

/// One attribute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AttributeName {
    /// Its name.
    pub name: &'static str,
    /// What it means, for people.
    pub meaning: &'static str,
}

macro_rules! metrics {
    ($($constant:ident $name:literal $unit:literal $instrument:ident $group:ident $meaning:literal)*) => {
        $(#[doc = $meaning] pub const $constant: &str = $name;)*
        /// Every metric that contador itself sends.
        pub const METRICS: &[MetricName] = &[$(MetricName {
            name: $name,
            unit: $unit,
            instrument: Instrument::$instrument,
            group: Group::$group,
            meaning: $meaning,
        }),*];
    };
}

macro_rules! attributes {
    ($($constant:ident $name:literal $meaning:literal)*) => {
        $(#[doc = $meaning] pub const $constant: &str = $name;)*
        /// Every attribute that contador itself sends or understands.
        pub const ATTRIBUTES: &[AttributeName] = &[$(AttributeName { name: $name, meaning: $meaning }),*];
    };
}

metrics! {
    GPU_UTILIZATION "hw.gpu.utilization" "1" Gauge Gpu "Share of the driver's last sampling interval in which any kernel ran, 0 to 1."
    GPU_MEMORY_UTILIZATION "contador.gpu.memory.activity" "1" Gauge Gpu "Share of the driver's last sampling interval in which device memory was read or written, 0 to 1."
    GPU_MEMORY_LIMIT "hw.gpu.memory.limit" "By" UpDownCounter Gpu "Memory of the device: used, free and reserved together."
    GPU_MEMORY_USAGE "hw.gpu.memory.usage" "By" UpDownCounter Gpu "Memory that is allocated, without what the driver reserves."
    GPU_MEMORY_FREE "contador.gpu.memory.free" "By" UpDownCounter Gpu "Memory that is free."
    GPU_MEMORY_RESERVED "contador.gpu.memory.reserved" "By" UpDownCounter Gpu "Memory that the driver and firmware keep for themselves."
    POWER "hw.power" "W" Gauge Gpu "Power draw."
    ENERGY "hw.energy" "J" Counter Gpu "Energy since the driver was loaded; whole millijoules."
    TEMPERATURE "hw.temperature" "Cel" Gauge Gpu "Temperature of the die."
    GPU_CLOCK_SM "contador.gpu.clock.sm" "MHz" Gauge Gpu "Clock of the streaming multiprocessors."
    GPU_CLOCK_MEMORY "contador.gpu.clock.memory" "MHz" Gauge Gpu "Clock of the memory."
    GPU_CLOCK_GRAPHICS "contador.gpu.clock.graphics" "MHz" Gauge Gpu "Clock of the graphics engine."
    GPU_PROCESSES "contador.gpu.processes" "{process}" UpDownCounter Gpu "Processes that hold the device."
    DISK_IO "system.disk.io" "By" Counter Storage "Bytes read or written, by direction; a sector is 512 bytes."
    DISK_OPERATIONS "system.disk.operations" "{operation}" Counter Storage "Completed requests, by direction."
    DISK_OPERATION_TIME "system.disk.operation_time" "s" Counter Storage "Time spent on requests, summed over requests, by direction; 32 bits of milliseconds in the kernel."
    DISK_IO_TIME "system.disk.io_time" "s" Counter Storage "Time with at least one request in flight; 32 bits of milliseconds in the kernel."
    DISK_IN_FLIGHT "contador.disk.in_flight" "{operation}" UpDownCounter Storage "Requests in flight."
    CPU_TIME "system.cpu.time" "s" Counter Node "CPU time since the node's start, by mode, summed over CPUs."
    CPU_COUNT "system.cpu.logical.count" "{cpu}" UpDownCounter Node "Logical CPUs."
    CPU_LOAD_1M "system.cpu.load_average.1m" "{thread}" Gauge Node "Load average of a minute."
    MEMORY_LIMIT "system.memory.limit" "By" UpDownCounter Node "Memory of the node."
    MEMORY_USAGE "system.memory.usage" "By" UpDownCounter Node "Memory by state: free, buffers, cached."
    MEMORY_AVAILABLE "system.memory.linux.available" "By" UpDownCounter Node "Memory that new work could have."
    LEDGER_HELD "contador.ledger.held" "ms" Delta Ledger "How long the owner held any part of the device in the minute."
    LEDGER_SHARE "contador.ledger.share" "ms" Delta Ledger "The owner's part of the minute; over a device's owners, 60,000."
    LEDGER_BUSY "contador.ledger.busy" "ms" Delta Ledger "The owner's part of the time in which the device was busy."
    LEDGER_MEMORY "contador.ledger.memory" "MiBy.ms" Delta Ledger "Memory held by the owner, times time."
    LEDGER_ENERGY "contador.ledger.energy" "mJ" Delta Ledger "The owner's part of the energy that the device drew."
    LEDGER_REQUESTS "contador.ledger.requests" "{request}" Delta Ledger "Requests that the owner served on the device."
    DEVICE_INFO "contador.device.info" "1" Gauge Info "Always 1; its attributes are what the device is."
    OWNER_INFO "contador.owner.info" "1" Gauge Info "Always 1; its attributes are what an owner id means."
    EVENT "contador.event" "{event}" Delta Info "Always 1; its attributes are what happened."
    LATENCY "contador.latency" "us" Histogram Latency "Latencies that were pushed to an agent as an HDR histogram; attribute contador.latency.metric says what was timed."
}

attributes! {
    HOST_NAME "host.name" "Node."
    SERVICE_NAME "service.name" "Service."
    SERVICE_VERSION "service.version" "Version of the service."
    SERVICE_INSTANCE_ID "service.instance.id" "Replica of the service."
    ENVIRONMENT "deployment.environment.name" "Environment, such as production."
    HTTP_ROUTE "http.route" "Route that was asked."
    HW_ID "hw.id" "UUID of a device, as its driver gives it."
    HW_TYPE "hw.type" "What kind of hardware: gpu."
    HW_MODEL "hw.model" "Model of a device, as its driver names it."
    HW_VENDOR "hw.vendor" "Maker of a device."
    HW_PARENT "hw.parent" "UUID of the GPU that a MIG instance is part of."
    HW_DRIVER_VERSION "hw.driver_version" "Version of the driver."
    DEVICE_MEMORY "contador.device.memory" "Memory of a device in bytes, a whole number."
    DEVICE_PCI "contador.device.pci_bus_id" "PCI address of a device."
    MIG_PROFILE "contador.mig.profile" "Profile of a MIG instance, as the driver names it."
    SIMULATED "contador.simulated" "true: the value comes from a simulation; absent otherwise."
    UNSUPPORTED "contador.unsupported" "true: the device can't tell this value; absent otherwise."
    SYSTEM_DEVICE "system.device" "Block device, as the kernel names it."
    DISK_DIRECTION "disk.io.direction" "read or write."
    CPU_MODE "cpu.mode" "user, nice, system, idle, iowait, interrupt or steal."
    MEMORY_STATE "system.memory.state" "free, buffers or cached."
    OWNER_ID "contador.owner.id" "UUID of an owner, of its attributes."
    OWNER_KIND "contador.owner.kind" "workload, idle, stranded, unattributed or unmetered."
    CLUSTER "k8s.cluster.name" "Cluster."
    NAMESPACE "k8s.namespace.name" "Kubernetes namespace."
    POD "k8s.pod.name" "Kubernetes pod."
    CONTAINER "container.id" "Container."
    JOB "contador.job" "Batch job."
    USER "user.name" "User."
    DEPARTMENT "contador.department" "Department that pays."
    PROJECT "contador.project" "Project."
    EXPERIMENT "contador.experiment" "Experiment."
    OWNER_SERVICE "contador.service" "Service that an owner serves."
    MODEL "contador.model" "Machine-learning model."
    COMMAND "process.command" "Program name."
    EVENT_ID "contador.event.id" "UUID of an event."
    EVENT_KIND "contador.event.kind" "Kind of an event, such as agent_started."
    EVENT_MESSAGE "contador.event.message" "What happened, for people."
    LATENCY_METRIC "contador.latency.metric" "What was timed: request_duration, time_to_first_token, time_per_output_token, queue_time."
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

/// Prefix of the environment variables that label a process tree, one for each field of an owner:
/// `CONTADOR_OWNER_DEPARTMENT`, `CONTADOR_OWNER_PROJECT`, `CONTADOR_OWNER_EXPERIMENT`, `CONTADOR_OWNER_USER` and so on.
pub const LABEL_VARIABLE_PREFIX: &str = "CONTADOR_OWNER_";

/// The metric of this name, when it is one of contador's.
pub fn metric(name: &str) -> Option<&'static MetricName> {
    METRICS.iter().find(|metric| metric.name == name)
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
        let metrics: HashSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(metrics.len(), METRICS.len());
        let attributes: HashSet<&str> = ATTRIBUTES.iter().map(|attribute| attribute.name).collect();
        assert_eq!(attributes.len(), ATTRIBUTES.len());
        assert!(METRICS.iter().all(|metric| metric.meaning.ends_with('.') && !metric.unit.is_empty()));
        assert!(ATTRIBUTES.iter().all(|attribute| attribute.meaning.ends_with('.')));
    }

    #[test]
    fn each_field_of_an_owner_has_an_attribute() {
        let columns: Vec<&str> = OWNER_ATTRIBUTES.iter().map(|(column, _)| *column).collect();
        let fields: Vec<&str> = Owner::default().attributes().iter().map(|(name, _)| *name).collect();
        assert_eq!(columns, fields);
        assert!(OWNER_ATTRIBUTES.iter().all(|(_, name)| ATTRIBUTES.iter().any(|attribute| attribute.name == *name)));
    }
}
