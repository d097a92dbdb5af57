//! What a scrape is answered with, of measures that are made by hand.

use std::time::Duration;

use contador_schemas::owner::{Owner, OwnerKind};

use super::*;
use crate::sensors::{Measures, Number, Reading};
use contador_schemas::names::{self, Fixed};

const GPU: &str = "GPU-1";
const INSTANCE: &str = "MIG-1";

fn measures(values: &[(&'static str, Fixed, Number)]) -> Measures {
    let mut measures = Measures::default();
    for (metric, fixed, value) in values {
        measures.add_as(metric, fixed, Reading::Value(*value));
    }
    measures
}

fn device(uuid: &str, attributes: &[(&str, &str)]) -> Device {
    let mut device = Device { uuid: uuid.to_owned(), attributes: Vec::new() };
    device.set(names::HW_ID, uuid.to_owned());
    attributes.iter().for_each(|(name, value)| device.set(name, (*value).to_owned()));
    device
}

/// A GPU that is split, and its instance.
fn split(latest: &Latest, now: Instant) {
    let board = [
        (names::DEVICE_INDEX, "3"),
        (names::DEVICE_MINOR, "5"),
        (names::DEVICE_PCI, "00000000:3B:00.0"),
        (names::HW_MODEL, "NVIDIA H100 80GB HBM3"),
        (names::HW_DRIVER_VERSION, "570.133.20"),
        (names::SIMULATED, "true"),
        (names::PERSISTENCE_MODE, "enabled"),
        (names::POWER_LIMIT_MAX, "700000"),
    ];
    let instance = [(names::HW_PARENT, GPU), (names::MIG_PROFILE, "1c.2g.20gb"), (names::MIG_GPU_INSTANCE, "7")];
    latest.identified(vec![device(GPU, &board), device(INSTANCE, &instance)]);
    let mut board = measures(&[
        (names::POWER, &[], Number::Thousandths(123_456)),
        (names::ENERGY, &[], Number::Thousandths(9_007_199_254_740_993)),
        (names::GPU_MEMORY_USAGE, &[], Number::Whole(3 << 19)),
        (names::GPU_XID_LAST, &[], Number::Whole(79)),
        (names::NVLINK_IO, &[(names::IO_DIRECTION, "transmit")], Number::Whole(1_024)),
        (names::NVLINK_IO, &[(names::IO_DIRECTION, "receive")], Number::Whole(2_048)),
        (names::GPU_CLOCK_SM, &[], Number::Whole(1_980)),
        (names::GPU_THROTTLE_TIME, &[(names::THROTTLE_REASON, "power")], Number::Thousandths(1_250)),
        (names::GPU_THROTTLE_TIME, &[(names::THROTTLE_REASON, "thermal")], Number::Thousandths(0)),
        (names::GPM_TENSOR, &[], Number::Real(0.5)),
        (names::GPM_PCIE, &[(names::IO_DIRECTION, "transmit")], Number::Real(4_096.0)),
    ]);
    board.add(names::GPU_UTILIZATION, Reading::Unsupported("while it is split".into()));
    board.add(names::TEMPERATURE, Reading::Failed("lost".into()));
    latest.device(GPU, board, now);
    let instance = measures(&[
        (names::GPM_TENSOR, &[], Number::Real(0.25)),
        (names::GPU_MEMORY_USAGE, &[], Number::Whole(1 << 30)),
    ]);
    latest.device(INSTANCE, instance, now);
}

fn text(latest: &Latest, now: Instant, dcgm: bool) -> String {
    let exposition = Exposition::new(latest.clone(), "node-a", dcgm);
    String::from_utf8(exposition.text(&Telemetry::new().unwrap(), now).unwrap()).unwrap()
}

/// The lines of a family.
fn lines<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    text.lines().filter(of).collect()
}

#[test]
fn what_is_there_is_shown_and_what_is_not_has_no_series() {
    let (latest, now) = (Latest::new(Duration::from_secs(1)), Instant::now());
    split(&latest, now);
    let text = text(&latest, now, false);
    assert_eq!(lines(&text, "hw_power_watts"), [r#"hw_power_watts{hw_id="GPU-1"} 123.456"#]);
    assert_eq!(
        lines(&text, "contador_gpu_clock_sm_hertz"),
        [r#"contador_gpu_clock_sm_hertz{hw_id="GPU-1"} 1980000000"#]
    );
    assert_eq!(lines(&text, "hw_gpu_memory_usage_bytes").len(), 2);
    let sent = r#"contador_gpu_nvlink_io_bytes_total{hw_id="GPU-1",network_io_direction="transmit"} 1024"#;
    assert!(lines(&text, "contador_gpu_nvlink_io_bytes_total").contains(&sent), "{text}");
    assert!(text.contains("# TYPE hw_energy_joules_total counter\n"));
    for absent in ["hw_gpu_utilization_ratio", "hw_temperature_celsius", "DCGM_FI_DEV_POWER_USAGE"] {
        assert_eq!(lines(&text, absent), [""; 0], "{absent}");
    }
    assert_eq!(lines(&text, "contador_gpu_info").len(), 2);
    // By what the board is known, and nothing that can be set.
    let board = r#"contador_gpu_info{hw_id="GPU-1",contador_device_index="3",contador_device_minor="5",contador_device_pci_bus_id="00000000:3B:00.0",hw_model="NVIDIA H100 80GB HBM3",hw_driver_version="570.133.20",contador_simulated="true"} 1"#;
    assert!(lines(&text, "contador_gpu_info").contains(&board), "{text}");
    // Twice is once: an export that is mounted twice.
    let mut twice = Measures::default();
    for _ in 0..2 {
        let mount = vec![(names::MOUNTPOINT, "/a\"b\\c\n".into())];
        twice.add_with(names::MOUNT_REACHABLE, &[], mount, Reading::Value(Number::Whole(1)));
    }
    latest.sensor("mounts", twice, now, Duration::ZERO);
    let mounts = self::text(&latest, now, false);
    let escaped = r#"contador_mount_reachable{system_filesystem_mountpoint="/a\"b\\c\n"} 1"#;
    assert_eq!(lines(&mounts, "contador_mount_reachable"), [escaped]);
}

#[test]
fn dcgm_exporters_names_units_and_labels_are_kept() {
    let (latest, now) = (Latest::new(Duration::from_secs(1)), Instant::now());
    split(&latest, now);
    let text = text(&latest, now, true);
    let gpu =
        r#"gpu="3",UUID="GPU-1",pci_bus_id="00000000:3B:00.0",device="nvidia5",modelName="NVIDIA H100 80GB HBM3""#;
    // The GPU instance's profile, of a compute instance that is a part of it; and what it tells itself is not its GPU's.
    let of_instance = r#"GPU_I_PROFILE="2g.20gb",GPU_I_ID="7""#;
    let rest = r#"Hostname="node-a",DCGM_FI_DRIVER_VERSION="570.133.20""#;
    for (name, labels, value) in [
        ("DCGM_FI_DEV_POWER_USAGE", rest.to_owned(), "123.456"),
        ("DCGM_FI_DEV_SM_CLOCK", rest.to_owned(), "1980"),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", rest.to_owned(), "9007199254740992"),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", rest.to_owned(), "3072"),
        ("DCGM_FI_DEV_XID_ERRORS", format!(r#"{rest},err_code="79",err_msg="the GPU has fallen off the bus""#), "79"),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", format!(r#"{of_instance},{rest}"#), "0.25"),
        ("DCGM_FI_PROF_PCIE_TX_BYTES", rest.to_owned(), "4096"),
        ("DCGM_FI_DEV_FB_USED", format!(r#"{of_instance},{rest}"#), "1024"),
        ("DCGM_FI_DEV_POWER_VIOLATION", rest.to_owned(), "1250000"),
        ("DCGM_FI_DEV_THERMAL_VIOLATION", rest.to_owned(), "0"),
    ] {
        assert_eq!(lines(&text, name), [format!("{name}{{{gpu},{labels}}} {value}")]);
    }
    assert!(text.contains("# TYPE DCGM_FI_DEV_POWER_VIOLATION counter\n"));
    let whole = Latest::new(Duration::from_secs(1));
    whole.identified(vec![device(GPU, &[])]);
    whole.device(GPU, measures(&[(names::GPU_MEMORY_USAGE, &[], Number::Whole(3 << 19))]), now);
    let used = r#"DCGM_FI_DEV_FB_USED{UUID="GPU-1",device="nvidia",Hostname="node-a"} 1.5"#;
    assert_eq!(lines(&self::text(&whole, now, true), "DCGM_FI_DEV_FB_USED"), [used], "with its fraction of a MiB");
    assert!(text.contains("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"));
    for absent in ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_VGPU_LICENSE_STATUS"] {
        assert!(!text.contains(absent), "{absent}");
    }
}

/// D15: what is not measured any more is not shown as if it were, and how old it is goes on to be shown.
#[test]
fn d15_values_expire_and_their_age_stays() {
    let (latest, start) = (Latest::new(Duration::from_secs(1)), Instant::now());
    split(&latest, start);
    latest.sensor("host", measures(&[(names::CPU_COUNT, &[], Number::Whole(8))]), start, Duration::ZERO);
    latest.hold(GPU, [Owner { department: "research".into(), ..Owner::default() }.into()].iter());
    let at = |seconds| start + Duration::from_secs(seconds);
    let fresh = text(&latest, at(4), false);
    assert_eq!(lines(&fresh, "hw_power_watts").len(), 1);
    assert_eq!(lines(&fresh, "contador_gpu_owner_info").len(), 1);
    // The host goes on, the GPUs hang.
    latest.sensor("host", measures(&[(names::CPU_COUNT, &[], Number::Whole(8))]), at(6), Duration::ZERO);
    let stale = text(&latest, at(6), true);
    for gone in ["hw_power_watts", "contador_gpu_owner_info", "DCGM_FI_DEV_POWER_USAGE"] {
        assert_eq!(lines(&stale, gone), [""; 0], "{gone}");
    }
    assert_eq!(lines(&stale, "system_cpu_logical"), ["system_cpu_logical 8"]);
    let ages = lines(&stale, "contador_sensor_age_seconds");
    assert!(ages.contains(&r#"contador_sensor_age_seconds{contador_sensor="GPU-1"} 6"#), "{ages:?}");
    assert!(ages.contains(&r#"contador_sensor_age_seconds{contador_sensor="host"} 0"#), "{ages:?}");
    // A device that answers nothing but failures has no values at once, and is as old as its last one.
    let mut failed = Measures::default();
    failed.add(names::POWER, Reading::Failed("lost".into()));
    failed.add_as(names::STATUS, &[(names::STATE, "failed")], Reading::Value(Number::Whole(1)));
    latest.device(GPU, failed, at(7));
    let lost = text(&latest, at(7), false);
    assert_eq!(lines(&lost, "hw_power_watts"), [""; 0]);
    assert_eq!(lines(&lost, "contador_gpu_owner_info"), [""; 0], "nobody is known to hold it");
    assert_eq!(lines(&lost, "hw_status"), [r#"hw_status{hw_id="GPU-1",hw_state="failed"} 1"#]);
    assert!(lost.contains(r#"contador_sensor_age_seconds{contador_sensor="GPU-1"} 7"#), "{lost}");
    // Slow sensors are given five intervals.
    assert_eq!(Latest::new(Duration::from_secs(10)).lifetime(), Duration::from_secs(50));
}

#[test]
fn each_owner_that_holds_a_device_now_has_a_series_and_no_other() {
    let (latest, now) = (Latest::new(Duration::from_secs(1)), Instant::now());
    split(&latest, now);
    let research = Owner { department: "research".into(), user: "ana".into(), ..Owner::default() }.into();
    let sales = Owner { department: "sales".into(), pod: "chat-0".into(), ..Owner::default() }.into();
    latest.hold(GPU, [&research, &sales].into_iter());
    let shared = text(&latest, now, false);
    let id = research.id();
    let expected = format!(
        r#"contador_gpu_owner_info{{hw_id="GPU-1",contador_owner_id="{id}",contador_owner_kind="workload",user_name="ana",contador_department="research"}} 1"#
    );
    assert!(lines(&shared, "contador_gpu_owner_info").contains(&expected.as_str()), "{shared}");
    assert_eq!(lines(&shared, "contador_gpu_owner_info").len(), 2);
    assert!(lines(&shared, "hw_power_watts").iter().all(|line| !line.contains("research")), "a series of the device");
    latest.hold(GPU, [&sales].into_iter());
    assert_eq!(lines(&text(&latest, now, false), "contador_gpu_owner_info").len(), 1);
    let unattributed = Owner::of_kind(OwnerKind::Unattributed).into();
    latest.hold(GPU, [&unattributed].into_iter());
    assert!(text(&latest, now, false).contains(r#"contador_owner_kind="unattributed"} 1"#));
    latest.hold(GPU, [].into_iter());
    assert_eq!(lines(&text(&latest, now, false), "contador_gpu_owner_info"), [""; 0]);
}

/// How old a sensor's answer is, and for how long it is stuck, is told once, whoever tells it.
#[test]
fn the_age_of_a_sensor_is_there_once() {
    let (latest, now) = (Latest::new(Duration::from_secs(1)), Instant::now());
    split(&latest, now);
    let telemetry = Telemetry::new().unwrap();
    for sensor in [GPU, "owners"] {
        telemetry.sensor_answered.with_label_values(&[sensor]).set(1.0);
        telemetry.sensor_stuck.with_label_values(&[sensor]).set(7.0);
    }
    let mut stuck = Measures::default();
    let of = vec![(names::SENSOR, "/data".into())];
    stuck.add_with(names::SENSOR_STUCK, &[], of, Reading::Value(Number::Whole(9)));
    latest.sensor("mounts", stuck, now, Duration::ZERO);
    let text = Exposition::new(latest, "node-a", false).text(&telemetry, now).unwrap();
    let text = String::from_utf8(text).unwrap();
    let sensors = |name| -> Vec<&str> {
        lines(&text, name)
            .iter()
            .map(|line| line.split_once("contador_sensor=\"").unwrap().1)
            .map(|rest| rest.split_once('"').unwrap().0)
            .collect()
    };
    assert_eq!(sensors("contador_sensor_age_seconds"), [GPU, INSTANCE, "mounts", "owners"]);
    assert!(text.contains("contador_sensor_age_seconds{contador_sensor=\"GPU-1\"} 0\n"), "its stream's own");
    assert_eq!(sensors("contador_sensor_stuck_seconds"), ["/data", GPU, "owners"]);
    assert!(!text.contains("contador_agent_sensor_age") && !text.contains("contador_agent_sensor_stuck"));
}

#[test]
fn every_field_is_a_metric_of_the_registry() {
    for field in dcgm::FIELDS {
        for (metric, fixed) in field.of {
            let known = names::metric(metric).unwrap();
            assert!(known.variants.iter().any(|variant| variant.attributes == *fixed), "{}: {metric}", field.name);
        }
    }
    let mut names: Vec<&str> = dcgm::FIELDS.iter().map(|field| field.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), dcgm::FIELDS.len());
}
