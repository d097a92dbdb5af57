//! What a probe looks like.

use contador_schemas::names;

use super::*;
use crate::sensors::{Facts, GpuProcess, Measures, Number, ProcessKind};

fn gpu(index: u32, simulated: bool) -> (GpuIdentity, GpuSample) {
    let uuid = format!("GPU-0000000{index}-1111-2222-3333-444444444444");
    let reason = || "not offered by this device".into();
    let identity = GpuIdentity {
        uuid: uuid.clone(),
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        index,
        pci_bus_id: Some("00000000:01:00.0".to_owned()),
        minor: Some(index),
        serial: None,
        memory_total_bytes: Reading::Value(80 << 30),
        power_limit_mw: Reading::Value(700_000),
        driver_version: "570.133.20".to_owned(),
        cuda_version: Some("12.8".to_owned()),
        architecture: Some("Hopper".to_owned()),
        simulated,
        facts: Facts::default(),
    };
    let mut measures = Measures::default();
    let mut add = |metric, value| measures.add(metric, Reading::Value(value));
    add(names::GPU_MEMORY_UTILIZATION, Number::Real(0.12));
    add(names::GPU_MEMORY_LIMIT, Number::Whole(80 << 30));
    add(names::GPU_MEMORY_USAGE, Number::Whole(40 << 30));
    add(names::ENERGY, Number::Thousandths(4_500_000_000));
    if index == 0 {
        add(names::GPU_UTILIZATION, Number::Real(0.0));
        add(names::POWER, Number::Thousandths(416_400));
        add(names::TEMPERATURE, Number::Whole(53));
    } else {
        measures.add(names::GPU_UTILIZATION, Reading::Unsupported(reason()));
        measures.add(names::POWER, Reading::Unsupported(reason()));
        measures.add(names::TEMPERATURE, Reading::Failed("an internal error".into()));
    }
    let sample = GpuSample {
        ts_ms: 1_700_000_000_000,
        uuid,
        measures,
        processes: Reading::Value(vec![GpuProcess {
            pid: 4_711,
            kind: ProcessKind::Compute,
            memory_bytes: Reading::Value(40 << 30),
            sm_util: (index == 0).then_some(80.0),
        }]),
        rejected: 0,
    };
    (identity, sample)
}

fn report(simulated: bool) -> ProbeReport {
    let devices = vec![gpu(0, simulated), gpu(1, simulated)];
    let owners = vec![
        (devices[0].0.uuid.clone(), "ml / llm-chat / sweep-7".to_owned()),
        (devices[0].0.uuid.clone(), "ml / ranking".to_owned()),
    ];
    ProbeReport {
        node: "node-a".to_owned(),
        ts_ms: 1_700_000_000_000,
        gpus: Reading::Value(ProbeGpus {
            devices,
            unreadable: vec![(2, "device fell off the bus".to_owned())],
            simulated,
        }),
        disks: Reading::Value(vec![DiskSample {
            ts_ms: 0,
            device: "nvme0n1".to_owned(),
            reads: 10,
            read_bytes: 3 << 30,
            read_time_ms: 0,
            writes: 20,
            written_bytes: 5 << 30,
            write_time_ms: 0,
            in_flight: 1,
            io_time_ms: 0,
            weighted_io_time_ms: 0,
            discards: None,
            discarded_bytes: None,
            flushes: None,
            flush_time_ms: None,
        }]),
        host: Reading::Failed("/proc/stat: cut short".into()),
        owners,
    }
}

#[test]
fn a_table_fits_80_columns_and_says_everything() {
    let text = render_table(&report(true), 80);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{}: {line}", line.chars().count());
    }
    for part in [
        "node-a at 2023-11-14T22:13:20Z",
        "host: failed (/proc/stat: cut short)",
        "GPUs: 2 (simulated), driver 570.133.20, CUDA 12.8",
        "40.0 / 80.0",
        "416 / 700",
        "1.250",
        "0 %",
        "nobody",
        "GPU 0: pid 4711: memory 40.0 GiB, 80 % of the SMs",
        "GPU 1: hw.gpu.utilization: unsupported (not offered by this device)",
        "GPU 1: hw.power: unsupported (not offered by this device)",
        "GPU 1: hw.temperature: failed (an internal error)",
        "GPU 2: failed (device fell off the bus)",
        "nvme0n1",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn only_simulated_gpus_are_called_simulated() {
    assert!(!render_table(&report(false), 80).contains("simulated"));
    assert!(render_table(&report(true), 80).matches("simulated").count() >= 3, "in the head and at each GPU");
}

#[test]
fn a_node_without_a_driver_still_has_disks() {
    let mut report = report(false);
    report.gpus = Reading::Unsupported("no NVIDIA driver: libnvidia-ml.so.1: cannot open shared object file".into());
    let text = render_table(&report, 80);
    assert!(text.contains("GPUs: unsupported (no NVIDIA driver: libnvidia-ml.so.1"), "{text}");
    assert!(text.contains("nvme0n1"), "{text}");
    for line in render_table(&report, 60).lines() {
        assert!(line.chars().count() <= 60, "{line}");
    }
    assert!(render_table(&report, 60).contains("libnvidia-ml.so.1:\n  cannot open shared object file)"), "{text}");
    assert_eq!(
        render_json(&report)["gpus"]["unsupported"],
        "no NVIDIA driver: libnvidia-ml.so.1: cannot open shared object file"
    );
}

#[test]
fn json_keeps_value_unsupported_and_failed_apart() {
    let json = render_json(&report(true));
    let gpus = &json["gpus"]["value"];
    assert_eq!(gpus["simulated"], true);
    let reading = |position: usize, metric: &str| {
        let measures = gpus["devices"][position]["sample"]["measures"].as_array().expect("a list");
        measures.iter().find(|measure| measure["metric"] == metric).expect(metric).clone()
    };
    assert_eq!(reading(0, names::GPU_UTILIZATION)["value"], 0.0);
    assert_eq!(reading(1, names::GPU_UTILIZATION)["unsupported"], "not offered by this device");
    assert_eq!(reading(1, names::TEMPERATURE)["failed"], "an internal error");
    assert_eq!(gpus["devices"][0]["owners"].as_array().map(Vec::len), Some(2));
    assert_eq!(gpus["devices"][1]["owners"].as_array().map(Vec::len), Some(0));
    assert_eq!(json["disks"]["value"][0]["written_bytes"], 5_368_709_120_u64);
    assert_eq!(json["host"]["failed"], "/proc/stat: cut short");
}
