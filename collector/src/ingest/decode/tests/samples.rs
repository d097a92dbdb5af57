//! Samples: each value that a sensor reads arrives in its own column, exactly; a stranger's point of the same name doesn't.

use contador_schemas::names::{MetricName, Variant};
use contador_schemas::rows::{ByColumn, GpuSample, NodeSample, Slot, StorageSample};
use serde_json::{Value as Json, json};

use prost::Message as _;

use super::*;

/// A request of an agent of version 0.1.0: samples of two GPUs, disks and the host, minutes of the ledger, an event. Agents
/// are upgraded after collectors, so that this must be read for ever.
const OF_0_1_0: &[u8] = include_bytes!("../../../../tests/data/wire/agent-0.1.0.otlp");

/// What says of what a point of this group is.
fn of_thing(metric: &MetricName) -> Vec<(&'static str, &'static str)> {
    match metric.group {
        Group::Gpu => vec![(names::HW_ID, "GPU-1"), (names::SIMULATED, "true")],
        Group::Storage if metric.name.contains(".disk.") => vec![(names::SYSTEM_DEVICE, "sda")],
        Group::Storage => vec![(names::MOUNTPOINT, "/data"), (names::FILESYSTEM_TYPE, "nfs4")],
        _ => Vec::new(),
    }
}

/// A point of a variant.
fn of_variant(metric: &MetricName, variant: &Variant, value: number_data_point::Value) -> Sent {
    let pairs: Vec<_> = of_thing(metric).into_iter().chain(variant.attributes.iter().copied()).collect();
    sent(shaped(metric.name, point(value, &pairs)))
}

/// The columns of the one row of the metric's table.
fn row(decoded: &Decoded, group: Group) -> Json {
    let rows = &decoded.rows;
    let all = match group {
        Group::Gpu => serde_json::to_value(&rows.gpu),
        Group::Storage => serde_json::to_value(&rows.storage),
        _ => serde_json::to_value(&rows.node),
    };
    match all.unwrap() {
        Json::Array(mut all) if all.len() == 1 && rows.len() == 1 => all.remove(0),
        other => panic!("one row, not {other} and {:?}", decoded.rejected),
    }
}

/// What is sent and what the column must have: in its own unit, by the end of the column's name and by its type.
fn case(metric: &MetricName, column: &str, salt: u32) -> (number_data_point::Value, Json) {
    let number = f64::from(1_000 + salt);
    let (kind, end) = (kind_of(metric.group, column), column.rsplit('_').next().unwrap());
    match (kind, end) {
        ("real", _) => (double(f64::from(salt) / 256.0), json!(f64::from(salt) / 256.0)),
        ("flag", _) => (int(1), json!(true)),
        ("word", _) => (int(1), Json::Null),
        (_, "mw" | "mj" | "ms") => (double(number / 1e3), json!(1_000 + salt)),
        (_, "us") => (double(number / 1e6), json!(1_000 + salt)),
        _ => (int(i64::from(salt) + 1_000), json!(1_000 + salt)),
    }
}

fn kind_of(group: Group, column: &str) -> &'static str {
    fn of<R: ByColumn>(column: &str) -> &'static str {
        match R::column(column).unwrap_or_else(|| panic!("no column {column}"))(&mut R::default()) {
            Slot::F32(_) => "real",
            Slot::Bool(_) => "flag",
            Slot::Text(_) => "word",
            Slot::U64(_) | Slot::U32(_) | Slot::I16(_) => "whole",
        }
    }
    match group {
        Group::Gpu => of::<GpuSample>(column),
        Group::Storage => of::<StorageSample>(column),
        _ => of::<NodeSample>(column),
    }
}

#[test]
fn each_value_that_a_sensor_reads_arrives_in_its_own_column_and_in_no_other() {
    let mut salt = 0;
    for metric in names::metrics() {
        for variant in metric.variants.iter().filter(|variant| !variant.column.is_empty()) {
            salt = salt % 200 + 1;
            let (value, mut expected) = case(metric, variant.column, salt);
            if expected.is_null() {
                expected = json!(variant.attributes[0].1);
            }
            let decoded = decode(&request([of_variant(metric, variant, value)]));
            let row = row(&decoded, metric.group);
            assert_eq!(row[variant.column], expected, "{} {:?}", metric.name, variant.attributes);
            let filled: Vec<&String> =
                row.as_object().unwrap().iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name).collect();
            let keys = ["ts", "device", "node", "simulated", "unsupported", "kind"];
            let values: Vec<_> = filled.into_iter().filter(|name| !keys.contains(&name.as_str())).collect();
            assert_eq!(values, [variant.column], "{}", metric.name);
        }
    }
}

#[test]
fn all_values_of_an_instant_are_one_row_of_each_thing() {
    let all = names::metrics().flat_map(|metric| {
        let variants = metric.variants.iter().filter(|variant| !variant.column.is_empty());
        variants.map(|variant| {
            of_variant(
                metric,
                variant,
                int(i64::from(variant.column != "status" || variant.attributes[0].1 == "degraded")),
            )
        })
    });
    let decoded = decode(&request(all));
    assert_eq!(decoded.rejected, Rejected::default());
    let [gpu] = decoded.rows.gpu.as_slice() else { panic!("{:?}", decoded.rows.gpu) };
    assert_eq!((gpu.status.as_deref(), gpu.simulated), (Some("degraded"), true));
    let kinds: Vec<_> = decoded.rows.storage.iter().map(|row| (row.device.as_str(), row.kind.as_str())).collect();
    assert_eq!(kinds, [("/data", "mount"), ("sda", "disk")]);
    let mount = &decoded.rows.storage[0];
    assert_eq!((mount.reachable, mount.nfs_operations, mount.reads), (Some(true), Some(1), None));
    assert_eq!((decoded.rows.node.len(), decoded.rows.metrics.len()), (1, 0));
    let blank: Vec<&str> = GpuSample::COLUMNS
        .iter()
        .copied()
        .filter(|column| serde_json::to_value(gpu).unwrap()[column].is_null())
        .collect();
    assert_eq!(blank, [""; 0]);
}

#[test]
fn of_three_states_the_one_that_holds_is_the_status() {
    let states = |values: [i64; 3]| {
        let states = ["ok", "degraded", "failed"].into_iter().zip(values);
        decode(&request(states.map(|(state, value)| {
            sent(shaped(names::STATUS, point(int(value), &[(names::HW_ID, "GPU-1"), (names::STATE, state)])))
        })))
    };
    assert_eq!(states([0, 0, 1]).rows.gpu[0].status.as_deref(), Some("failed"));
    assert_eq!(states([1, 0, 0]).rows.gpu[0].status.as_deref(), Some("ok"));
    assert_eq!(states([0, 0, 0]).rows.gpu[0].status, None);
    assert_eq!(states([1, 0, 1]).rejected.of(Reason::Conflicting), 1);
    assert_eq!(states([2, 0, 0]).rejected.of(Reason::OutOfRange), 1);
    // A state that nobody here sends is another's.
    let other =
        sent(shaped(names::STATUS, point(int(1), &[(names::HW_ID, "GPU-1"), (names::STATE, "predicted_failure")])));
    let decoded = decode(&request([other]));
    assert_eq!((decoded.rows.gpu.len(), decoded.rows.metrics.len()), (0, 1));
}

#[test]
fn a_share_is_at_most_the_whole_and_a_fan_may_be_faster() {
    let decoded = decode(&request([gpu(names::FAN_SPEED, double(1.07)), gpu(names::GPM_SM, double(1.07))]));
    assert_eq!((decoded.rows.gpu[0].fan_speed, decoded.rows.gpu[0].sm_activity), (Some(1.07), None));
    assert_eq!(decoded.rejected.of(Reason::OutOfRange), 1);
}

#[test]
fn what_a_device_cannot_tell_is_named_by_value() {
    let blank = |name: &str, pairs: &[(&str, &str)]| {
        let mut pairs = pairs.to_vec();
        pairs.extend([(names::HW_ID, "GPU-1"), (names::UNSUPPORTED, "true")]);
        let mut blank = point(double(0.0), &pairs);
        (blank.value, blank.flags) = (None, 1);
        sent(shaped(name, blank))
    };
    let decoded = decode(&request([
        blank(names::ERRORS, &[(names::ERROR_TYPE, "ecc_corrected_volatile")]),
        blank(names::POWER, &[]),
        gpu(names::TEMPERATURE, int(40)),
    ]));
    assert_eq!(decoded.rows.gpu[0].unsupported, ["hw.errors{error.type=ecc_corrected_volatile}", "hw.power"]);
    // A value that was not there now, and could be, is neither.
    let mut failed = point(double(0.0), &[(names::HW_ID, "GPU-1")]);
    (failed.value, failed.flags) = (None, 1);
    assert_eq!(decode(&request([sent(shaped(names::POWER, failed))])).rows.len(), 0);
}

#[test]
fn strangers_of_the_same_name_are_numbers_of_their_own() {
    let strangers = [
        (names::ERRORS, vec![(names::HW_ID, "GPU-1"), (names::ERROR_TYPE, "parity")]),
        (names::ERRORS, vec![(names::HW_ID, "GPU-1")]),
        (names::GPU_IO, vec![(names::HW_ID, "GPU-1")]),
        (names::POWER, vec![(names::HW_ID, "GPU-1"), ("rail", "12V")]),
        (names::TEMPERATURE, vec![(names::HW_ID, "GPU-1"), (names::NVLINK_LINK, "3")]),
        (names::GPU_UTILIZATION, vec![(names::HW_ID, "GPU-1"), (names::GPU_TASK, "general")]),
        (
            names::FILESYSTEM_USAGE,
            vec![(names::MOUNTPOINT, "/"), (names::FILESYSTEM_STATE, "used"), ("system.filesystem.mode", "rw")],
        ),
        (names::FILESYSTEM_USAGE, vec![(names::SYSTEM_DEVICE, "/dev/sda1"), (names::FILESYSTEM_STATE, "used")]),
        (names::DISK_IO, vec![(names::SYSTEM_DEVICE, "sda")]),
        (names::DISK_IO_TIME, vec![(names::SYSTEM_DEVICE, "/dev/sda")]),
        (names::MOUNT_REACHABLE, vec![(names::MOUNTPOINT, "data")]),
        (names::CPU_TIME, vec![(names::CPU_MODE, "user"), ("cpu.logical_number", "0")]),
        (names::MEMORY_USAGE, vec![(names::MEMORY_STATE, "used")]),
        (names::SWAP_USAGE, vec![(names::SYSTEM_DEVICE, "/dev/dm-1"), (names::PAGING_STATE, "used")]),
    ];
    for (name, pairs) in strangers {
        let decoded = decode(&request([sent(shaped(name, point(int(1), &pairs)))]));
        let rows = &decoded.rows;
        assert_eq!((rows.metrics.len(), rows.len()), (1, 1), "{name} {pairs:?}");
    }
}

#[test]
fn what_a_device_has_several_of_keeps_all_that_tells_it_apart() {
    let series = names::metrics().filter(|metric| metric.group == Group::Series);
    for metric in series {
        let fixed = metric.variants.first().map_or(&[][..], |variant| variant.attributes);
        let mut pairs = vec![(names::HW_ID, "GPU-1"), (names::SIMULATED, "true"), (names::NVLINK_LINK, "7")];
        pairs.extend(fixed);
        let decoded = decode(&request([sent(shaped(metric.name, point(int(1), &pairs)))]));
        let [row] = decoded.rows.metrics.as_slice() else { panic!("{}: {:?}", metric.name, decoded.rejected) };
        for (name, value) in pairs {
            assert!(row.attributes.contains(&(name.to_owned(), value.to_owned())), "{} {name}", metric.name);
        }
        assert_eq!((row.node.as_str(), row.value), ("node-1", Some(1.0)));
    }
}

#[test]
fn what_is_known_of_a_device_is_in_its_row() {
    let pairs = [
        (names::HW_ID, "GPU-1"),
        (names::HW_SERIAL, "1654"),
        (names::DEVICE_INDEX, "3"),
        (names::DEVICE_TOPOLOGY, "NV18:GPU-2 PIX:GPU-3"),
        (names::KERNEL_VERSION, "6.12.0"),
    ];
    let decoded = decode(&request([sent(shaped(names::DEVICE_INFO, point(int(1), &pairs)))]));
    let device = &decoded.rows.devices[0];
    assert_eq!((device.serial_number.as_deref(), device.device_index, device.minor), (Some("1654"), Some(3), None));
    assert_eq!(device.topology.as_deref(), Some("NV18:GPU-2 PIX:GPU-3"));
    assert_eq!(device.kernel_version.as_deref(), Some("6.12.0"));
    let wrong = [(names::HW_ID, "GPU-1"), (names::DEVICE_INDEX, "third")];
    let decoded = decode(&request([sent(shaped(names::DEVICE_INFO, point(int(1), &wrong)))]));
    assert_eq!((decoded.rows.len(), decoded.rejected.of(Reason::Attribute)), (0, 1));
}

#[test]
fn what_agents_of_0_1_0_sent_is_still_read() {
    let sent = ExportMetricsServiceRequest::decode(OF_0_1_0).unwrap();
    let time =
        sent.resource_metrics[0].scope_metrics[0].metrics.iter().find_map(|metric| match metric.data.as_ref()? {
            Data::Gauge(gauge) => Some(gauge.data_points[0].time_unix_nano),
            _ => None,
        });
    let decoded = super::super::decode(&sent, i64::try_from(time.unwrap()).unwrap());
    assert_eq!(decoded.rejected, Rejected::default());
    let rows = &decoded.rows;
    assert!(rows.metrics.is_empty() && rows.latency.is_empty(), "{:?}", rows.metrics);
    // The scenario: one GPU at 40 % by a process of research/vision with 1000 MiB, and an idle one without two values.
    let [busy, idle] = if rows.gpu[0].utilization == Some(0.4) { [0, 1] } else { [1, 0] }.map(|at| &rows.gpu[at]);
    assert_eq!((busy.node.as_str(), busy.simulated, busy.processes), ("old-node", true, Some(1)));
    // 70 W and 40 % of the 630 W above; 30 °C and 40 % of the 42 °C above.
    assert_eq!((busy.power_mw, busy.power_average_mw, busy.temperature_c), (Some(322_000), Some(322_000), Some(46)));
    assert_eq!((busy.memory_used, busy.clock_sm_mhz), (Some(1_000 << 20), Some(1_980)));
    assert!(idle.unsupported.contains(&"hw.power".to_owned()) && idle.unsupported.contains(&"hw.energy".to_owned()));
    assert_eq!((idle.power_mw, idle.utilization, idle.status.as_deref()), (None, Some(0.0), None));
    assert!(rows.storage.iter().all(|disk| disk.kind == "disk" && disk.read_bytes.is_some()));
    let [node] = rows.node.as_slice() else { panic!("{:?}", rows.node) };
    assert!(node.cpu_user_ms.is_some() && node.swap_free.is_some() && node.psi_io_full_us.is_none());
    assert_eq!((rows.devices.len(), rows.devices[0].serial_number.as_deref()), (2, None));
    assert_eq!(rows.events[0].kind, "agent_started");
    let shares: u32 = rows.ledger.iter().filter(|row| row.device == busy.device).map(|row| row.share_ms).sum();
    assert!(shares > 0 && shares.is_multiple_of(60_000), "{shares}");
    let owner = rows.owners.iter().find(|owner| owner.kind == "workload").unwrap();
    assert_eq!((owner.department.as_str(), owner.project.as_str(), owner.user.as_str()), ("research", "vision", "ana"));
}
