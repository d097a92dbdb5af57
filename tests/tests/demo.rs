//! `contador demo`, whole: every part as a process of its own, on this machine.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use contador_tests::binary;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

/// A minute closes at least once in so many seconds, so that there is something to conserve.
const SECONDS: &str = "66";

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
    // Four devices, once a second, less what starting and stopping took.
    if summary["simulated"] == true {
        assert!(summary["gpu_samples"].as_u64().is_some_and(|rows| rows >= 4 * 50), "{summary}");
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
            "conserved"
        ]
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

/// The demo's parts once all of them run: engine, collector, agent, four workloads.
fn parts(demo: u32) -> Vec<u32> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let parts = children(demo);
        if parts.len() >= 7 {
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
