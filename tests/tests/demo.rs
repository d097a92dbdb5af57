//! `contador demo`, whole: every part as a process of its own, on this machine.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use contador_tests::binary;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

/// In so many seconds a minute closes in which the agent was ended and started again: the restarts wait for the next minute when
/// this one is past its 36th second, and that minute's end is then up to 84 s away.
const SECONDS: &str = "90";

#[test]
fn the_demo_meters_this_machine_and_everything_that_it_stored_adds_up() {
    let output = Command::new(binary("contador").unwrap())
        .args(["demo", "--json", "--seconds", SECONDS])
        .env("CONTADOR_NVML_SIMULATOR", contador_nvml_simulator::library::find().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let summary: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap();
    assert_eq!(summary["conserved"], true, "{summary} {said}");
    for count in ["gpu_samples", "storage_samples", "latency_rows", "ledger_rows"] {
        assert!(summary[count].as_u64().is_some_and(|rows| rows > 0), "{count}: {summary}");
    }
    assert_eq!(summary["agent_restarts"], 2, "{summary} {said}");
    if summary["simulated"] == true {
        // Seven GPUs and two MIG instances, once a second, less what starting and stopping took.
        assert!(summary["gpu_samples"].as_u64().is_some_and(|rows| rows >= 9 * 50), "{summary}");
        owners_of_all_kinds_are_named(&summary);
    }
    assert!(summary["engine_version"].as_str().is_some_and(|version| version.starts_with("26.7")), "{summary}");
    assert!(summary["sample_visible_ms_max"].as_i64().is_some_and(|ms| ms >= 0), "{summary}");
    assert_eq!(summary["bill_currency"], "EUR", "{summary}");
    assert!(summary["bill_total"].as_str().is_some_and(|total| total.parse::<f64>().is_ok_and(|total| total > 0.0)));
    let keys: Vec<&str> = summary.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "engine_version",
            "simulated",
            "gpu_samples",
            "storage_samples",
            "latency_rows",
            "ledger_rows",
            "sample_visible_ms_p50",
            "sample_visible_ms_max",
            "bill_total",
            "bill_currency",
            "owners",
            "agent_restarts",
            "conserved"
        ]
    );
}

/// Each owner that the simulated node has, by what it is, and none that it does not have; with GPU time.
fn owners_of_all_kinds_are_named(summary: &Value) {
    let owners: BTreeMap<(&str, &str), &Value> = summary["owners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|owner| ((owner["kind"].as_str().unwrap(), owner["name"].as_str().unwrap()), owner))
        .collect();
    let expected = [
        ("idle", ""),
        ("job", "4711 physics batch"),
        ("pod", "lab/evaluation-0 research lab"),
        ("pod", "lab/jupyter-0 research lab"),
        ("pod", "search/ranker-0 product search ranker-v3"),
        ("process", "finance forecasting q4-model"),
        ("process", "product search ranker-v3"),
        ("process", "research language lora-14"),
        ("process", "research vision resnet-sweep-7"),
        ("stranded", ""),
        ("unattributed", ""),
        ("unmetered", ""),
    ];
    assert_eq!(owners.keys().copied().collect::<Vec<_>>(), expected, "{summary}");
    let ms = |owner: (&str, &str), what: &str| owners[&owner][what].as_u64().unwrap();
    assert!(expected.iter().all(|owner| ms(*owner, "share_ms") > 0), "{summary}");
    // A pod has one of two replicas of a GPU and does nothing there: the other half is idle as long, but for what is rounded
    // in each minute, and longer by the time until the agent knows of the pod.
    let pod = ("pod", "lab/jupyter-0 research lab");
    assert!(ms(("idle", ""), "share_ms") + 1_000 >= ms(pod, "share_ms"), "{summary}");
    assert!(
        ms(pod, "idle_ms") > 0 && ms(("pod", "search/ranker-0 product search ranker-v3"), "idle_ms") == 0,
        "{summary}"
    );
}

/// A demo of its own process group, as a shell starts it, with what a user of ClickHouse may have in her environment.
fn start(seconds: &str) -> Child {
    Command::new(binary("contador").unwrap())
        .args(["demo", "--json", "--seconds", seconds])
        .env("CONTADOR_NVML_SIMULATOR", contador_nvml_simulator::library::find().unwrap())
        .env("CONTADOR_CLICKHOUSE_DATABASE", "elsewhere")
        .env("CONTADOR_CLICKHOUSE_USER", "somebody")
        .env("CONTADOR_CLICKHOUSE_PASSWORD", "secret")
        .env("CONTADOR_ENGINE_PASSWORD", "secret")
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Processes whose parent is, or was, this one: those that still run.
fn children(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        fields.get(1) == Some(&parent.to_string().as_str())
    };
    let pids =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(is_child).collect()
}

fn running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has ended.
    !stat.is_empty() && !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

/// The demo's parts once all of them run: engine, collector, four workloads, a job where it is simulated, and at last the agent.
fn parts(demo: u32) -> Vec<u32> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_agent = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|argument| argument == b"--state-dir")
    };
    loop {
        let parts = children(demo);
        if parts.len() >= 7 && parts.iter().any(is_agent) {
            return parts;
        }
        assert!(running(demo), "the demo ended while it started");
        assert!(Instant::now() < deadline, "only {} parts run", parts.len());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn all_end(parts: &[u32]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while parts.iter().any(|pid| running(*pid)) {
        assert!(Instant::now() < deadline, "these still run: {parts:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn ctrl_c_ends_the_demo_in_order() {
    let demo = start("600");
    let parts = parts(demo.id());
    // As a terminal does: to every process of the demo's group.
    kill_process_group(Pid::from_raw(i32::try_from(demo.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let output = demo.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["bill_total"].is_string(), "{summary}");
    all_end(&parts);
}

#[test]
fn a_killed_demo_leaves_nothing_running() {
    let mut demo = start("600");
    let parts = parts(demo.id());
    signal(i32::try_from(demo.id()).unwrap(), Signal::KILL);
    demo.wait().unwrap();
    all_end(&parts);
}
