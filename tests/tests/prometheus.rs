//! A real Prometheus scrapes the agent, and answers what dashboards for dcgm-exporter ask.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use contador_agent::exposition::{Device, Exposition, Latest};
use contador_agent::sensors::{Measures, Number, Reading};
use contador_agent::telemetry::Telemetry;
use contador_schemas::names::{self, Fixed};

mod nvml_support;
mod prometheus_support;

use nvml_support::Simulator;
use prometheus_support::{Prometheus, Running, promtool, serve};

const HELD: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";

/// The agent itself, in compatibility mode on the simulator.
fn agent(simulator: &Simulator, scenario: &Path, state: &Path) -> (Running, SocketAddr) {
    let mut child = Command::new(contador_tests::binary("contador-agent").unwrap())
        .args(["run", "--dcgm", "--node", "n1", "--listen", "127.0.0.1:0", "--log-format", "json"])
        .args(["--endpoint", "http://127.0.0.1:9", "--state-dir"])
        .arg(state)
        .arg("--simulate")
        .arg(scenario)
        .env("CONTADOR_NVML_SIMULATOR", simulator.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let running = Running(child);
    let mut said = String::new();
    loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "the agent ended: {said}");
        said.push_str(&line);
        let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
        if let Some(address) = entry["fields"]["address"].as_str() {
            let address = address.parse().unwrap();
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return (running, address);
        }
    }
}

fn map<const N: usize>(values: [(&str, f64); N]) -> BTreeMap<String, f64> {
    values.into_iter().map(|(label, value)| (label.to_owned(), value)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn dashboards_of_dcgm_exporter_go_on_working() {
    let mark = format!("CONTADOR_TEST_PROMETHEUS={}", std::process::id());
    let simulator = Simulator::without_scenario();
    let scenario = simulator.scenario_file(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{HELD}\"\nutilization = 40\nmemory_mib = 1000\n\
         answers = {{ temperature = 61, power_usage = 300500 }}\n[[gpu.process]]\nenviron = \"{mark}\"\nmemory_mib = 1000\n\
         [[gpu]]\nmodel = \"l4\"\nutilization = 75\nmemory_mib = 2000\nunsupported = [\"temperature\"]\n\
         answers = {{ power_usage = 58000 }}\n"
    ));
    let (name, value) = mark.split_once('=').unwrap();
    let mut holder = Command::new("sleep");
    holder
        .arg("1000")
        .env(name, value)
        .env("CONTADOR_OWNER_DEPARTMENT", "research")
        .env("CONTADOR_OWNER_PROJECT", "vision");
    let holder = Running(holder.spawn().unwrap());
    let state = tempfile::tempdir().unwrap();
    let (_agent, address) = agent(&simulator, &scenario, state.path());
    let prometheus = Prometheus::scraping(address);

    // The variables $Hostname and $gpu, and the panels, with what Grafana puts in their place.
    prometheus.until("DCGM_FI_DEV_FB_FREE", |series| series.len() == 2).await;
    assert_eq!(prometheus.label_values("DCGM_FI_DEV_FB_FREE", "Hostname").await, ["n1"]);
    assert_eq!(prometheus.label_values("DCGM_FI_DEV_FB_FREE{Hostname=~\"(n1|n2)\"}", "gpu").await, ["0", "1"]);
    let filter = "{Hostname=~\"(n1|n2)\", gpu=~\"(0|1)\"}";
    let by_gpu = async |query: &str| prometheus.by("gpu", query).await;
    assert_eq!(by_gpu(&format!("avg by (gpu) (DCGM_FI_DEV_GPU_UTIL{filter})")).await, map([("0", 40.0), ("1", 75.0)]));
    let used = format!("max(DCGM_FI_DEV_FB_USED{filter}) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)");
    assert_eq!(by_gpu(&used).await, map([("0", 1_000.0), ("1", 2_000.0)]));
    assert_eq!(prometheus.value(&format!("sum(DCGM_FI_DEV_FB_USED{filter})")).await, 3_000.0);
    let temperature = format!("max(DCGM_FI_DEV_GPU_TEMP{filter}) by (Hostname, gpu, uuid)");
    assert_eq!(by_gpu(&temperature).await, map([("0", 61.0)]), "what the other can't tell is absent, not 0");
    let power = format!("max(DCGM_FI_DEV_POWER_USAGE{filter}) by (Hostname, gpu, uuid)");
    assert_eq!(by_gpu(&power).await, map([("0", 300.5), ("1", 58.0)]));
    assert_eq!(prometheus.value(&format!("sum(max(DCGM_FI_DEV_POWER_USAGE{filter}) by (gpu))")).await, 358.5);
    let clock = format!("max(DCGM_FI_DEV_SM_CLOCK{filter} * 1000000) by (Hostname, UUID, gpu)");
    assert_eq!(by_gpu(&clock).await, map([("0", 1_980e6), ("1", 2_040e6)]));
    let whole = prometheus.by("gpu", "DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE + DCGM_FI_DEV_FB_RESERVED").await;
    assert_eq!(whole, prometheus.by("gpu", "DCGM_FI_DEV_FB_TOTAL").await);
    // A counter that rises, in millijoules: two scrapes are enough for a rate.
    let rate = "sum(rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[30s])) / 1000";
    prometheus.until(rate, |series| series.first().is_some_and(|(_, watts)| *watts > 0.0)).await;

    // The agent's own names, and the joins of docs/metrics.md.
    assert_eq!(prometheus.by("hw_id", "hw_gpu_utilization_ratio{hw_gpu_task=\"\"}").await[HELD], 0.4);
    let owned = "sum by (contador_department) (contador_gpu_owner_info * on (hw_id) group_left hw_power_watts)";
    let research = |series: &prometheus_support::Series| {
        series.iter().any(|(labels, watts)| {
            labels.get("contador_department").is_some_and(|d| d == "research") && *watts == 300.5
        })
    };
    prometheus.until(owned, research).await;
    let models = "sum by (hw_model) (contador_gpu_info * on (hw_id) group_left hw_gpu_memory_usage_bytes)";
    let expected = map([("NVIDIA H100 80GB HBM3", 1_000.0 * 1_048_576.0), ("NVIDIA L4", 2_000.0 * 1_048_576.0)]);
    assert_eq!(prometheus.by("hw_model", models).await, expected);
    let dcgm = "sum by (contador_project) (contador_gpu_owner_info * on (hw_id) group_left \
                label_replace(DCGM_FI_DEV_GPU_UTIL, \"hw_id\", \"$1\", \"UUID\", \"(.*)\"))";
    assert_eq!(prometheus.by("contador_project", dcgm).await["vision"], 40.0);
    assert!(prometheus.by("contador_simulated", "contador_gpu_info").await.contains_key("true"));
    // What can be set is no label of it.
    let infos = prometheus.ask(&format!("contador_gpu_info{{hw_id=\"{HELD}\"}}")).await.unwrap();
    let labels: Vec<&str> = infos[0].0.keys().map(String::as_str).collect();
    let of_device = ["architecture", "index", "minor", "pci_bus_id"].map(|name| format!("contador_device_{name}"));
    let others = ["__name__", "contador_simulated", "hw_driver_version", "hw_id", "hw_model", "hw_serial_number"];
    let mut expected: Vec<&str> =
        of_device.iter().map(String::as_str).chain(others).chain(["instance", "job"]).collect();
    expected.sort_unstable();
    assert_eq!(labels, expected);
    let queries = documented();
    assert_eq!(queries.len(), 5);
    for query in &queries {
        let answer = prometheus.ask(query).await.unwrap();
        assert_eq!(answer.is_empty(), query.contains("> 60") || query.contains("[15m]"), "{query}: {answer:?}");
    }
    // An owner that has gone is no series any more, and the device's own goes on.
    drop(holder);
    prometheus.until(owned, |series| !research(series)).await;
    assert_eq!(by_gpu(&power).await, map([("0", 300.5), ("1", 58.0)]));
}

/// The queries of docs/metrics.md.
fn documented() -> Vec<String> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md")).unwrap();
    let (_, block) = page.split_once("```promql\n").unwrap();
    block.split_once("```").unwrap().0.split("\n\n").map(str::to_owned).collect()
}

/// Each MIG instance has its own owners, also where dcgm-exporter's names are joined with them, and nothing of a split GPU is
/// there twice.
#[tokio::test(flavor = "multi_thread")]
async fn the_owners_of_mig_instances_are_their_own() {
    let mark = |project: &str| format!("{}-{project}", std::process::id());
    let process = |project: &str, mib: u32| {
        format!("process]]\nenviron = \"CONTADOR_TEST_MIG={}\"\nmemory_mib = {mib}\n", mark(project))
    };
    let simulator = Simulator::without_scenario();
    let scenario = simulator.scenario_file(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{HELD}\"\nmig = [\"3g.40gb\", \"1g.10gb\"]\n\
         answers = {{ power_usage = 300500 }}\n[[gpu.instance]]\nprofile = \"3g.40gb\"\n[[gpu.instance.{}\
         [[gpu.instance]]\nprofile = \"1g.10gb\"\n[[gpu.instance.{}\
         [[gpu]]\nmodel = \"l4\"\nmemory_mib = 2000\nanswers = {{ power_usage = 58000 }}\n[[gpu.{}",
        process("vision", 500),
        process("speech", 100),
        process("audio", 2_000),
    ));
    let hold = |project: &str| {
        let mut holder = Command::new("sleep");
        holder.arg("1000").env("CONTADOR_TEST_MIG", mark(project)).env("CONTADOR_OWNER_PROJECT", project);
        Running(holder.env("CONTADOR_OWNER_DEPARTMENT", "a \"quoted\" \\ name").spawn().unwrap())
    };
    let (vision, _speech, _audio) = (hold("vision"), hold("speech"), hold("audio"));
    let state = tempfile::tempdir().unwrap();
    let (_agent, address) = agent(&simulator, &scenario, state.path());
    let prometheus = Prometheus::scraping(address);

    let owners = "contador_gpu_owner_info{hw_id=~\"MIG-.+\"}";
    let series = prometheus.until(owners, |series| series.len() == 2).await;
    assert!(series.iter().all(|(labels, _)| labels["contador_department"] == "a \"quoted\" \\ name"));
    let profiles = format!("{owners} * on (hw_id) group_left (contador_mig_profile) contador_gpu_info");
    let series = prometheus.ask(&profiles).await.unwrap();
    let held: BTreeMap<&str, &str> =
        series.iter().map(|(labels, _)| (&*labels["contador_mig_profile"], &*labels["contador_project"])).collect();
    assert_eq!(held, BTreeMap::from([("1g.10gb", "speech"), ("3g.40gb", "vision")]));
    let of_board = prometheus.by("contador_project", &format!("contador_gpu_owner_info{{hw_id=\"{HELD}\"}}")).await;
    assert_eq!(of_board, map([("speech", 1.0), ("vision", 1.0)]));

    let queries = documented();
    let join = queries.iter().find(|query| query.contains("DCGM_FI_DEV_FB_USED")).unwrap();
    let expected = map([("vision", 500.0), ("speech", 100.0), ("audio", 2_000.0)]);
    assert_eq!(prometheus.by("contador_project", join).await, expected);
    assert_eq!(prometheus.value("sum(DCGM_FI_DEV_FB_USED)").await, 2_600.0);
    let power = join.replace("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE");
    let expected = map([("vision", 300.5), ("speech", 300.5), ("audio", 58.0)]);
    assert_eq!(prometheus.by("contador_project", &power).await, expected, "an instance has no power of its own");
    prometheus.until("DCGM_FI_PROF_GR_ENGINE_ACTIVE", |series| series.len() == 2).await;
    let active = join.replace("DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_GR_ENGINE_ACTIVE");
    assert_eq!(prometheus.by("contador_project", &active).await.len(), 2);
    let all = prometheus.ask("{__name__=~\"DCGM_.+\",gpu=\"0\"}").await.unwrap();
    let of = |is_instance: bool| {
        let some = all.iter().filter(move |(labels, _)| labels.contains_key("GPU_I_ID") == is_instance);
        some.map(|(labels, _)| labels["__name__"].as_str()).collect::<BTreeSet<_>>()
    };
    assert!(of(true).len() >= 4 && of(false).len() >= 10, "{all:?}");
    assert_eq!(of(true).intersection(&of(false)).collect::<Vec<_>>(), [&""; 0], "on a split GPU and on its instances");

    drop(vision);
    prometheus.until(owners, |series| series.len() == 1).await;
}

fn device(uuid: &str, attributes: &[(&str, &str)]) -> Device {
    let mut device = Device { uuid: uuid.to_owned(), attributes: Vec::new() };
    device.set(names::HW_ID, uuid.to_owned());
    attributes.iter().for_each(|(name, value)| device.set(name, (*value).to_owned()));
    device
}

fn measures(values: &[(&'static str, Fixed, Number)]) -> Measures {
    let mut measures = Measures::default();
    for (metric, fixed, value) in values {
        measures.add_as(metric, fixed, Reading::Value(*value));
    }
    measures
}

/// A GPU with two MIG instances and an XID, that goes on being shown for as long as a test takes.
fn split() -> Latest {
    let (latest, now) = (Latest::new(Duration::from_secs(3_600)), Instant::now());
    let board = [
        (names::DEVICE_INDEX, "0"),
        (names::DEVICE_MINOR, "0"),
        (names::DEVICE_PCI, "00000000:3B:00.0"),
        (names::HW_MODEL, "NVIDIA H100 80GB HBM3"),
        (names::HW_DRIVER_VERSION, "570.133.20"),
    ];
    let instance = |uuid, profile, id| {
        device(uuid, &[(names::HW_PARENT, HELD), (names::MIG_PROFILE, profile), (names::MIG_GPU_INSTANCE, id)])
    };
    latest.identified(vec![device(HELD, &board), instance("MIG-1", "3g.40gb", "1"), instance("MIG-2", "1g.10gb", "9")]);
    let of_board = measures(&[
        (names::GPU_MEMORY_USAGE, &[], Number::Whole(5 << 30)),
        (names::POWER, &[], Number::Thousandths(412_000)),
        (names::GPU_XID_LAST, &[], Number::Whole(79)),
        (names::ERRORS, &[(names::ERROR_TYPE, "pcie_replay")], Number::Whole(3)),
        (names::NVLINK_IO, &[(names::IO_DIRECTION, "transmit")], Number::Whole(1 << 20)),
        (names::NVLINK_IO, &[(names::IO_DIRECTION, "receive")], Number::Whole(1 << 21)),
    ]);
    latest.device(HELD, of_board, now);
    for (uuid, active, tensor, memory) in [("MIG-1", 0.875, 0.5, 4_u64 << 30), ("MIG-2", 0.125, 0.0, 1 << 30)] {
        let own = measures(&[
            (names::GPM_GRAPHICS, &[], Number::Real(active)),
            (names::GPM_TENSOR, &[], Number::Real(tensor)),
            (names::GPU_MEMORY_USAGE, &[], Number::Whole(memory)),
        ]);
        latest.device(uuid, own, now);
    }
    latest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_gpu_and_its_errors_are_in_the_panels_too() {
    let prometheus = Prometheus::scraping(serve(Exposition::new(split(), "n1", true)));
    let filter = "{Hostname=~\"(n1)\", gpu=~\"(0)\"}";
    for (metric, expected) in [
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", map([("1", 0.875), ("9", 0.125)])),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", map([("1", 0.5), ("9", 0.0)])),
        ("DCGM_FI_DEV_FB_USED", map([("1", 4_096.0), ("9", 1_024.0)])),
    ] {
        let panel = format!("max({metric}{filter}) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)");
        assert_eq!(prometheus.by("GPU_I_ID", &panel).await, expected, "{metric}");
    }
    assert_eq!(prometheus.value("sum(DCGM_FI_DEV_FB_USED)").await, 5_120.0, "each instance once, and not with its GPU");
    let profiles = prometheus.by("GPU_I_PROFILE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE").await;
    assert_eq!(profiles, map([("3g.40gb", 0.875), ("1g.10gb", 0.125)]));
    assert_eq!(prometheus.value("max by (Hostname, gpu) (DCGM_FI_DEV_XID_ERRORS)").await, 79.0);
    let message = prometheus.by("err_msg", "DCGM_FI_DEV_XID_ERRORS{err_code=\"79\"}").await;
    assert_eq!(message, map([("the GPU has fallen off the bus", 79.0)]));
    assert_eq!(prometheus.value("sum(DCGM_FI_DEV_POWER_USAGE)").await, 412.0, "the board is counted once");
    assert_eq!(prometheus.value("DCGM_FI_DEV_PCIE_REPLAY_COUNTER").await, 3.0);
    assert_eq!(prometheus.value("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL").await, 3_145_728.0);
    assert_eq!(prometheus.value("scrape_samples_scraped > bool 0").await, 1.0);
}

#[test]
fn promtool_finds_nothing_in_our_names_and_only_what_is_dcgm_exporters_own_in_its() {
    let dir = tempfile::tempdir().unwrap();
    let telemetry = Telemetry::new().unwrap();
    telemetry.ticks.with_label_values(&["done"]).inc();
    // Every metric that a sensor can read has a value.
    let latest = split();
    let mut everything = Measures::default();
    for metric in names::metrics() {
        for variant in metric.variants {
            everything.add_as(metric.name, variant.attributes, Reading::Value(Number::Whole(1)));
        }
    }
    latest.device(HELD, everything, Instant::now());
    let text = |dcgm| Exposition::new(latest.clone(), "n1", dcgm).text(&telemetry, Instant::now()).unwrap();
    assert_eq!(promtool(&text(false), dir.path()), [""; 0]);
    let known = ["camelCase", "\"_total\" suffix", "metric name should not include type"];
    for line in promtool(&text(true), dir.path()) {
        assert!(line.starts_with("DCGM_FI_") && known.iter().any(|known| line.contains(known)), "{line}");
    }
}

#[test]
fn a_field_is_there_for_each_default_counter() {
    // The default counters of dcgm-exporter 4, but for the state of a vGPU licence.
    let shown = contador_agent::exposition::dcgm::FIELDS;
    for (name, is_counter) in [
        ("DCGM_FI_DEV_SM_CLOCK", false),
        ("DCGM_FI_DEV_MEM_CLOCK", false),
        ("DCGM_FI_DEV_MEMORY_TEMP", false),
        ("DCGM_FI_DEV_GPU_TEMP", false),
        ("DCGM_FI_DEV_POWER_USAGE", false),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", true),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", true),
        ("DCGM_FI_DEV_GPU_UTIL", false),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", false),
        ("DCGM_FI_DEV_ENC_UTIL", false),
        ("DCGM_FI_DEV_DEC_UTIL", false),
        ("DCGM_FI_DEV_XID_ERRORS", false),
        ("DCGM_FI_DEV_FB_FREE", false),
        ("DCGM_FI_DEV_FB_USED", false),
        ("DCGM_FI_DEV_FB_RESERVED", false),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", true),
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", true),
        ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", true),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", false),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", false),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", false),
        ("DCGM_FI_PROF_DRAM_ACTIVE", false),
        ("DCGM_FI_PROF_PCIE_TX_BYTES", false),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", false),
    ] {
        let field = shown.iter().find(|field| field.name == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(field.is_counter, is_counter, "{name}");
    }
}
