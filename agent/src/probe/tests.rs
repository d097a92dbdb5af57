//! What a probe looks like.

use std::borrow::Cow;
use std::collections::BTreeMap;

use contador_schemas::names::{self, Fixed};

use super::*;
use crate::owners::claim::Part;
use crate::sensors::{Facts, GpuProcess, MigIdentity, Number, ProcessKind};

const REASON: &str = "not offered by this device";

fn gpu(index: u32, simulated: bool) -> (GpuIdentity, GpuSample) {
    let uuid = format!("GPU-{index:08}-1111-2222-3333-444444444444");
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
        mig: None,
        facts: Facts::default(),
    };
    let mut measures = Measures::default();
    let mut add = |metric, fixed: Fixed, value| measures.add_as(metric, fixed, Reading::Value(value));
    add(names::GPU_MEMORY_UTILIZATION, &[], Number::Real(0.12));
    add(names::GPU_MEMORY_LIMIT, &[], Number::Whole(80 << 30));
    add(names::GPU_MEMORY_USAGE, &[], Number::Whole(40 << 30));
    add(names::ENERGY, &[], Number::Thousandths(4_500_000_000));
    add(names::GPU_CLOCK_SM, &[], Number::Whole(1_980));
    add(names::GPU_CLOCK_MEMORY, &[], Number::Whole(2_619));
    add(names::NVLINK_LINKS, &[], Number::Whole(18));
    if index == 0 {
        add(names::GPU_UTILIZATION, &[], Number::Real(0.0));
        add(names::POWER, &[], Number::Thousandths(416_400));
        add(names::TEMPERATURE, &[], Number::Whole(53));
        add(names::NVLINK_LINKS_ACTIVE, &[], Number::Whole(18));
        add(names::STATUS, &[(names::STATE, "ok")], Number::Whole(1));
        add(names::GPM_SM, &[], Number::Real(0.81));
        add(names::GPM_TENSOR, &[], Number::Real(0.35));
    } else {
        add(names::NVLINK_LINKS_ACTIVE, &[], Number::Whole(16));
        add(names::STATUS, &[(names::STATE, "degraded")], Number::Whole(1));
        add(names::GPU_XID_LAST, &[], Number::Whole(79));
        add(names::GPU_THROTTLE_REASONS, &[], Number::Whole(4 | 32 | 1));
        measures.add(names::GPU_UTILIZATION, Reading::Unsupported(REASON.into()));
        measures.add(names::POWER, Reading::Unsupported(REASON.into()));
        measures.add(names::TEMPERATURE, Reading::Failed("an internal error".into()));
    }
    // As on a board without most of them.
    for metric in names::metrics().filter(|metric| metric.name.starts_with("contador.gpu.pcie")) {
        for variant in metric.variants {
            measures.add_as(metric.name, variant.attributes, Reading::Unsupported(REASON.into()));
        }
    }
    measures.add_as(names::GPM_PIPE, &[(names::PIPE, "fp64")], Reading::Unsupported(REASON.into()));
    let processes = Reading::Value(vec![GpuProcess {
        pid: 4_711,
        kind: ProcessKind::Compute,
        memory_bytes: Reading::Value(40 << 30),
        sm_util: (index == 0).then_some(80.0),
        gpu_instance: None,
        compute_instance: None,
    }]);
    let faults = Vec::new();
    (identity, GpuSample { ts_ms: 1_700_000_000_000, uuid, parent: None, measures, processes, faults, rejected: 0 })
}

fn owner(service: &str) -> Owner {
    Owner { department: "ml".into(), project: service.into(), ..Owner::default() }
}

fn disk(read_bytes: u64) -> Measures {
    let mut measures = Measures::default();
    let mut add = |metric, fixed: Fixed, value| {
        measures.add_with(metric, fixed, vec![(names::SYSTEM_DEVICE, "nvme0n1".into())], Reading::Value(value));
    };
    add(names::DISK_IO, &[(names::DISK_DIRECTION, "read")], Number::Whole(read_bytes));
    add(names::DISK_IO, &[(names::DISK_DIRECTION, "write")], Number::Whole(5 << 30));
    add(names::DISK_IO_TIME, &[], Number::Whole(3));
    add(names::DISK_IN_FLIGHT, &[], Number::Whole(1));
    measures
}

fn mounts() -> Measures {
    let mut measures = Measures::default();
    for (point, reachable, probe_us) in [("/data", 1, 300), ("/mnt/nfs", 0, 12_000_000)] {
        let of = || vec![(names::MOUNTPOINT, Cow::Borrowed(point)), (names::FILESYSTEM_TYPE, "nfs4".into())];
        let mut add = |metric, fixed: Fixed, value| measures.add_with(metric, fixed, of(), Reading::Value(value));
        add(names::MOUNT_REACHABLE, &[], Number::Whole(reachable));
        add(names::MOUNT_PROBE_TIME, &[], Number::Millionths(probe_us));
        if reachable == 1 {
            add(names::FILESYSTEM_USAGE, &[(names::FILESYSTEM_STATE, "used")], Number::Whole(7 << 30));
            add(names::FILESYSTEM_USAGE, &[(names::FILESYSTEM_STATE, "free")], Number::Whole(9 << 30));
        }
    }
    measures
}

fn node() -> Measures {
    let mut measures = Measures::default();
    let mut add = |metric, fixed: Fixed, value| measures.add_as(metric, fixed, Reading::Value(value));
    add(names::CPU_COUNT, &[], Number::Whole(8));
    add(names::CPU_LOAD_1M, &[], Number::Real(1.5));
    add(names::MEMORY_LIMIT, &[], Number::Whole(64 << 30));
    add(names::MEMORY_AVAILABLE, &[], Number::Whole(48 << 30));
    add(names::NETWORK_IO, &[(names::IO_DIRECTION, "transmit")], Number::Whole(2 << 30));
    add(names::NETWORK_IO, &[(names::IO_DIRECTION, "receive")], Number::Whole(3 << 30));
    add(names::PSI_STALLED, &[(names::PSI_RESOURCE, "io"), (names::PSI_KIND, "some")], Number::Millionths(2_500_000));
    measures
}

fn report(gpus: u32, simulated: bool) -> ProbeReport {
    let devices: Vec<_> = (0..gpus).map(|index| gpu(index, simulated)).collect();
    let first = "GPU-00000000-1111-2222-3333-444444444444".to_owned();
    let answered = |measures| Asked::Answered(Reading::Value(measures));
    let mut before = node();
    before.add_as(names::CPU_TIME, &[], Reading::Value(Number::Whole(1)));
    let mut earlier = Measures::default();
    earlier.add_as(
        names::PSI_STALLED,
        &[(names::PSI_RESOURCE, "io"), (names::PSI_KIND, "some")],
        Reading::Value(Number::Millionths(2_000_000)),
    );
    ProbeReport {
        given: Claims::new(),
        silent: Vec::new(),
        node: "node-a".to_owned(),
        ts_ms: 1_700_000_000_000,
        gpus: Asked::Answered(Reading::Value(ProbeGpus {
            devices,
            unreadable: vec![(gpus, "device fell off the bus".to_owned())],
            stuck: Vec::new(),
            driver_version: "570.133.20".to_owned(),
            topology: Asked::Answered(Reading::Value(BTreeMap::new())),
            simulated,
        })),
        sensors: vec![
            ("disks", answered(disk(3 << 30))),
            ("host", answered(node())),
            ("mounts", answered(mounts())),
            ("network", Asked::Stuck(Duration::from_millis(3_400))),
            ("rdma", Asked::Answered(Reading::Failed("/sys: permission denied".into()))),
        ],
        before: HashMap::from([
            ("disks", (Duration::from_secs(2), disk((3 << 30) - (8 << 20)))),
            ("host", (Duration::from_secs(1), earlier)),
        ]),
        owners: vec![(first.clone(), owner("llm-chat")), (first, owner("ranking"))],
        processes: HashMap::from([(4_711, owner("llm-chat").into())]),
        decided: Decided::new(),
    }
}

fn fits(text: &str, columns: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= columns, "{} > {columns}: {line}\n{text}", line.chars().count());
    }
}

#[test]
fn a_table_fits_80_columns_and_says_everything() {
    let text = render_table(&report(2, true), 80);
    fits(&text, 80);
    for part in [
        "node-a at 2023-11-14T22:13:20Z",
        "8 CPUs, load 1.50, memory 48.0 of 64.0 GiB available",
        "pressure, share of time in which work waited: io 50 %",
        "network: 2.0 GiB sent, 3.0 GiB received",
        "3 GPUs (simulated), driver 570.133.20, CUDA 12.8",
        "GPU 0: H100 80GB HBM3, GPU-00000000-1111-2222-3333-444444444444",
        "40.0/80.0",
        "416/700",
        "18/18",
        "16/18",
        "0 %",
        "degraded",
        "XID 79",
        "nobody",
        "ml/llm-chat",
        "GPU 0: SM 81 %, tensor 35 %; 1980 MHz, memory 2619 MHz",
        "held down by the power cap and",
        "GPU 0: pid 4711: 40.0 GiB, 80 % of the SMs, ml/llm-chat",
        "GPU 1: failed (an internal error): temperature",
        "GPU 2: failed (device fell off the bus)",
        "/mnt/nfs",
        "stuck (12 s)",
        "0.3 ms",
        "nvme0n1",
        "4.0",
        "network: stuck (3 s)",
        "rdma: failed (/sys: permission denied)",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn what_is_missing_for_one_reason_is_one_paragraph() {
    let text = render_table(&report(16, true), 80);
    fits(&text, 80);
    let paragraphs: Vec<&str> = text.lines().filter(|line| line.contains("unsupported (")).collect();
    let expected = [
        "GPU 0: unsupported (not offered by this device): pcie.generation,",
        "GPU 1-15: unsupported (not offered by this device): pcie.generation,",
    ];
    assert_eq!(paragraphs, expected, "{text}");
    assert!(text.contains("pipe.activity (fp64)"), "the variant that is missing\n{text}");
    assert!(text.contains("pcie.throughput, pcie.width"), "without variants, when all are\n{text}");
    assert!(text.contains("GPU 1-15: failed (an internal error): temperature"), "{text}");
}

#[test]
fn it_fits_other_widths_and_other_numbers_of_gpus() {
    for columns in [60, 80, 120] {
        for gpus in [0, 1, 16] {
            let text = render_table(&report(gpus, false), columns);
            fits(&text, usize::from(columns));
            assert_eq!(text.matches("40.0/80.0").count(), gpus as usize, "a number is not broken\n{text}");
        }
    }
    let none = render_table(&report(0, false), 80);
    assert!(none.contains("\n1 GPU, driver 570.133.20\n"), "{none}");
    assert!(!render_table(&report(2, false), 80).contains("simulated"));
}

#[test]
fn colour_is_only_where_it_is_wanted_and_changes_no_text() {
    let report = report(2, false);
    let (plain, painted) = (render_table(&report, 80), render_painted(&report, 80));
    assert!(!plain.contains('\x1b') && plain.is_ascii() == painted.is_ascii());
    assert!(painted.contains("\x1b[33mdegraded\x1b[0m") && painted.contains("\x1b[32mok\x1b[0m"), "{painted}");
    let mut rest = painted.as_str();
    let mut stripped = String::new();
    while let Some((text, code)) = rest.split_once('\x1b') {
        stripped += text;
        rest = code.split_once('m').expect("an SGR code").1;
    }
    assert_eq!(stripped + rest, plain);
}

#[test]
fn a_node_without_a_driver_or_with_one_that_hangs_still_has_disks() {
    let mut report = report(2, false);
    let reason = "no NVIDIA driver: libnvidia-ml.so.1: cannot open shared object file";
    report.gpus = Asked::Answered(Reading::Unsupported(reason.into()));
    let text = render_table(&report, 80);
    assert!(text.contains("GPUs: unsupported (no NVIDIA driver: libnvidia-ml.so.1"), "{text}");
    assert!(text.contains("nvme0n1"), "{text}");
    fits(&render_table(&report, 60), 60);
    assert!(render_table(&report, 60).contains("libnvidia-ml.so.1:\n  cannot open shared object file)"), "{text}");
    assert_eq!(render_json(&report)["gpus"]["unsupported"], reason);
    report.gpus = Asked::Stuck(Duration::from_millis(3_500));
    let text = render_table(&report, 80);
    assert!(text.contains("GPUs: stuck (3 s)") && text.contains("nvme0n1"), "{text}");
    assert_eq!(render_json(&report)["gpus"]["stuck_seconds"], 3.5);
}

#[test]
fn json_keeps_value_unsupported_and_failed_apart() {
    let json = render_json(&report(2, true));
    let gpus = &json["gpus"]["value"];
    assert_eq!(gpus["simulated"], true);
    let reading = |position: usize, metric: &str| {
        let measures = gpus["devices"][position]["sample"]["measures"].as_array().expect("a list");
        measures.iter().find(|measure| measure["metric"] == metric).expect(metric).clone()
    };
    assert_eq!(reading(0, names::GPU_UTILIZATION)["value"], 0.0);
    assert_eq!(reading(1, names::GPU_UTILIZATION)["unsupported"], REASON);
    assert_eq!(reading(1, names::TEMPERATURE)["failed"], "an internal error");
    let owners = gpus["devices"][0]["owners"].as_array().expect("a list");
    assert_eq!((owners.len(), &owners[0]["project"], &owners[0]["kind"]), (2, &"llm-chat".into(), &"workload".into()));
    assert_eq!(gpus["devices"][1]["owners"].as_array().map(Vec::len), Some(0));
    assert_eq!(json["process_owners"]["4711"]["label"], "ml/llm-chat");
    assert_eq!(json["sensors"]["disks"]["value"][0]["value"], 3_u64 << 30);
    assert_eq!(json["sensors"]["network"]["stuck_seconds"], 3.4);
    assert_eq!(json["sensors"]["rdma"]["failed"], "/sys: permission denied");
    assert!(!json.to_string().contains('\n'), "a line, when it is asked for");
}

#[test]
fn what_decided_on_an_owner_is_said_of_each() {
    let mut report = report(2, true);
    assert!(!render_table(&report, 80).contains("by no rule"));
    let alone = Owner { user: "ana".into(), command: "python3".into(), ..Owner::default() };
    let rule = || BTreeSet::from([Decision::Rule("pods of ml".into())]);
    report.decided = Decided::from([
        (owner("llm-chat"), rule()),
        (owner("ranking"), rule().into_iter().chain([Decision::Itself]).collect()),
        (owner("search"), BTreeSet::from([Decision::Default])),
        (alone, BTreeSet::from([Decision::Nobody])),
        (Owner::of_kind(contador_schemas::owner::OwnerKind::Unattributed), BTreeSet::from([Decision::Nobody])),
    ]);
    for columns in [60, 80, 120] {
        let text = render_table(&report, columns);
        fits(&text, usize::from(columns));
        for line in [
            "owners by rule \"pods of ml\": ml/llm-chat, ml/ranking",
            "owners by the default: ml/search",
            "owners as they say themselves: ml/ranking",
            "owners by no rule: ana:python3",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }
    let json = render_json(&report);
    let owners = json["gpus"]["value"]["devices"][0]["owners"].as_array().expect("a list");
    let rules: Vec<_> = owners.iter().map(|owner| owner["rules"].clone()).collect();
    assert_eq!(rules, [serde_json::json!(["pods of ml"]), serde_json::json!(["pods of ml", "itself"])]);
    assert_eq!(json["process_owners"]["4711"]["rules"], serde_json::json!(["pods of ml"]));
}

/// The GPUs of a report, to be changed.
fn gpus(report: &mut ProbeReport) -> &mut ProbeGpus {
    match &mut report.gpus {
        Asked::Answered(Reading::Value(gpus)) => gpus,
        other => panic!("{other:?}"),
    }
}

/// The row of the table that begins with this, without its blanks.
fn row(text: &str, label: &str) -> String {
    let row = text.lines().find(|line| line.starts_with(&format!("{label} ")) && !line.starts_with("GPU"));
    row.unwrap_or_else(|| panic!("{label}\n{text}")).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_gpu_that_hangs_has_a_row_of_its_own_and_the_others_theirs() {
    let mut report = report(3, true);
    let of = gpus(&mut report);
    let (identity, _) = of.devices.remove(1);
    of.unreadable.clear();
    of.stuck = vec![StuckGpu { index: 1, identity: None, passed: Duration::from_millis(3_200) }];
    of.topology = Asked::Stuck(Duration::from_millis(3_200));
    for columns in [60, 80, 120] {
        let text = render_table(&report, columns);
        fits(&text, usize::from(columns));
        assert!(text.contains("\n3 GPUs (simulated)") && text.contains("\ntopology: stuck (3 s)\n"), "{text}");
        let links = if columns < 72 { "" } else { "– " };
        assert_eq!(row(&text, "1"), format!("1 – – – – {links}stuck (3 s) –"));
        assert!(row(&text, "0").starts_with("0 0 % 40.0/80.0") && row(&text, "2").starts_with("2 – 40.0/80.0"));
        assert!(!text.contains("GPU 1: H100"), "nobody knows what it is\n{text}");
    }
    let json = render_json(&report);
    let of = &json["gpus"]["value"];
    assert_eq!(of["stuck"], serde_json::json!([{ "index": 1, "identity": null, "stuck_seconds": 3.2 }]));
    assert_eq!(of["topology"]["stuck_seconds"], 3.2);
    // What it was known to be before, it is still.
    gpus(&mut report).stuck[0].identity = Some(identity);
    let text = render_table(&report, 80);
    let position = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}\n{text}"));
    assert!(position("GPU 0: H100") < position("GPU 1: H100") && position("GPU 1: H100") < position("GPU 2: H100"));
    assert_eq!(render_json(&report)["gpus"]["value"]["stuck"][0]["identity"]["minor"], 1);
}

#[test]
fn why_a_device_is_degraded_or_failed_is_said_once_for_all_that_are() {
    let mut report = report(4, true);
    let of = gpus(&mut report);
    for (_, sample) in &mut of.devices[1..3] {
        sample.faults = vec!["NVLinks 3, 7 are down".to_owned(), "a row of memory could not be remapped".to_owned()];
        let xid = vec![(names::XID, Cow::Borrowed("79"))];
        sample.measures.add_with(names::GPU_XIDS, &[], xid, Reading::Value(Number::Whole(2)));
    }
    let (identity, sample) = &mut of.devices[3];
    *sample = GpuSample::failed(sample.ts_ms, &identity.uuid, "GPU is lost");
    let text = render_table(&report, 120);
    for line in [
        "GPU 4: failed (device fell off the bus)",
        "GPU 1-2: degraded (NVLinks 3, 7 are down; a row of memory could not be remapped)",
        "GPU 1-2: XID 79 (the GPU has fallen off the bus), 2 times",
        "GPU 3: failed (GPU is lost)",
    ] {
        assert_eq!(text.lines().filter(|shown| *shown == line).count(), 1, "{line}\n{text}");
    }
    assert_eq!(text.matches("GPU is lost").count(), 1, "not once more for each value\n{text}");
    assert_eq!(row(&text, "3"), "3 – – – – – failed –", "whose it is can't be known");
    assert_eq!(row(&text, "4"), "4 – – – – – failed –");
    let sample = render_json(&report)["gpus"]["value"]["devices"][1]["sample"].clone();
    assert_eq!(sample["faults"][0], "NVLinks 3, 7 are down");
}

#[test]
fn an_instance_is_a_row_below_its_gpu_and_its_processes_are_its_own() {
    let mut report = report(2, true);
    let of = gpus(&mut report);
    let (mut identity, mut sample) = gpu(0, true);
    identity.mig = Some(MigIdentity {
        parent: identity.uuid.clone(),
        profile: "1g.10gb".to_owned(),
        gpu_instance: 13,
        compute_instance: 0,
        compute_slices: Some(1),
        memory_slices: Some(1),
        placement: None,
    });
    identity.uuid = "MIG-1".to_owned();
    sample.uuid = "MIG-1".to_owned();
    sample.measures = Measures::default();
    sample.measures.add(names::GPM_GRAPHICS, Reading::Value(Number::Real(0.35)));
    sample.measures.add(names::GPU_MEMORY_USAGE, Reading::Value(Number::Whole(4 << 30)));
    for sample in [&mut sample, &mut of.devices[0].1] {
        let Reading::Value(processes) = &mut sample.processes else { panic!("{sample:?}") };
        processes[0].gpu_instance = Some(13);
    }
    of.devices.insert(1, (identity, sample));
    for columns in [60, 80, 120] {
        let text = render_table(&report, columns);
        fits(&text, usize::from(columns));
        assert!(text.contains("3 GPUs (simulated) with 1 MIG instance,"), "{text}");
        let profile = if columns < 72 { "" } else { "1g.10gb " };
        assert!(row(&text, "└").starts_with(&format!("└ 13/0 {profile}35 % 4.0 –")), "{text}");
        let rows = text.lines().skip_while(|line| !line.starts_with('─')).skip(1);
        let rows: Vec<&str> = rows.filter(|line| !line.starts_with(' ')).collect();
        assert!(rows[0].starts_with("0 ") && rows[1].starts_with('└'), "{text}");
        let own = text.lines().filter(|line| line.contains("pid 4711")).collect::<Vec<_>>();
        assert_eq!(own.len(), 2, "{text}");
        assert!(own[0].starts_with("MIG 0/13/0 (1g.10gb): pid") && own[1].starts_with("GPU 1: pid"), "{text}");
    }
}

#[test]
fn firmware_and_topology_are_a_line_each() {
    let mut report = report(3, true);
    let uuid = |index: u32| format!("GPU-{index:08}-1111-2222-3333-444444444444");
    let of = gpus(&mut report);
    for (identity, _) in &mut of.devices {
        let version = if identity.index == 1 { "96.00.01" } else { "96.00.02" };
        identity.facts.set(names::HW_FIRMWARE, Some(version.to_owned()));
        identity.facts.set(names::GSP_FIRMWARE, Some("570.133.20".to_owned()));
        identity.serial = Some("1655".to_owned());
    }
    let all = |paths: [&str; 3]| -> Topology {
        let [ab, ac, bc] = paths;
        let described = [[(ab, 1), (ac, 2)], [(ab, 0), (bc, 2)], [(ac, 0), (bc, 1)]];
        let described = described.map(|to| to.map(|(path, other)| format!("{path}:{}", uuid(other))).join(" "));
        described.into_iter().zip(0..).map(|(paths, index)| (uuid(index), Some(paths))).collect()
    };
    of.topology = Asked::Answered(Reading::Value(all(["NV18"; 3])));
    let text = render_table(&report, 80);
    assert!(text.contains("\nfirmware: VBIOS 96.00.02 (GPU 0, 2), 96.00.01 (GPU 1); GSP 570.133.20\n"), "{text}");
    assert!(text.contains("\ntopology: NV18 between all\n"), "{text}");
    gpus(&mut report).topology = Asked::Answered(Reading::Value(all(["NV4", "SYS", "SYS"])));
    let text = render_table(&report, 80);
    assert!(text.contains("\ntopology: NV4 0↔1, SYS 0↔2 1↔2\n"), "{text}");
    assert!(!text.contains("serial") && render_table(&report, 120).contains(", serial 1655\n"), "{text}");
    let json = render_json(&report);
    assert_eq!(json["gpus"]["value"]["topology"]["value"][uuid(2)], format!("SYS:{} SYS:{}", uuid(0), uuid(1)));
}

#[test]
fn who_was_given_a_gpu_and_has_no_process_is_said() {
    let mut report = report(1, false);
    let first = "GPU-00000000-1111-2222-3333-444444444444";
    let given = vec![(Part::Even, owner("llm-chat").into()), (Part::Ppm(250_000), owner("ranking").into())];
    report.given.insert(first.to_owned(), given);
    report.silent.push("kubelet at /k: no answer within 2 s (for 0 s)".to_owned());
    let text = render_table(&report, 80);
    let lines: Vec<&str> =
        text.lines().filter(|line| line.contains("given to") || line.starts_with("owners")).collect();
    let silent = "owners: kubelet at /k: no answer within 2 s (for 0 s)";
    assert_eq!(lines, ["GPU 0: given to ml/ranking, no process", silent]);
    let json = render_json(&report);
    let given = json["gpus"]["value"]["devices"][0]["given"].as_array().unwrap().iter();
    let told: Vec<_> =
        given.map(|of| (of["label"].as_str(), of["ppm"].as_u64(), of["has_process"].as_bool())).collect();
    let expected = [(Some("ml/llm-chat"), None, Some(true)), (Some("ml/ranking"), Some(250_000), Some(false))];
    assert_eq!(told, expected);
}
