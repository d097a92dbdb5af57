//! `contador-agent probe` as a user runs it, on the simulator.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

mod nvml_support;
use nvml_support::Simulator;

fn probe(simulator: &Simulator, scenario: &str) -> Command {
    let mut command = Command::new(contador_tests::binary("contador-agent").unwrap());
    command.args(["probe", "--node", "n1", "--simulate"]).arg(simulator.scenario_file(scenario));
    command.env("CONTADOR_NVML_SIMULATOR", simulator.path()).env_remove("COLUMNS");
    command
}

const SCENARIO: &str = "[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77\"\n\
                        utilization = 40\nmemory_mib = 20480\nunsupported = [\"power_usage\"]\n";

#[test]
fn a_probe_shows_what_there_is_and_why_something_is_not() {
    let simulator = Simulator::without_scenario();
    let output = probe(&simulator, SCENARIO).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "n1 at ",
        "CPUs, ",
        "1 GPU (simulated), driver 570.133.20, CUDA 12.8",
        "GPU 0: H100 80GB HBM3, GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77",
        "40 %",
        "20.0/79.6",
        "unattributed",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80) && !text.contains('\x1b'), "{text}");
    let missing: Vec<&str> = text.lines().skip_while(|line| !line.contains("unsupported (not offered")).collect();
    let missing = missing.join(" ");
    assert!(missing.contains("power"), "{text}");

    let output = probe(&simulator, SCENARIO).arg("--json").output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let device = &json["gpus"]["value"]["devices"][0];
    assert_eq!(device["identity"]["uuid"], "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77");
    assert_eq!(device["owners"][0]["kind"], "unattributed");
    let of = |sample: &Value, metric: &str| {
        let measures = sample.as_array().unwrap().iter().find(|measure| measure["metric"] == metric);
        measures.unwrap_or_else(|| panic!("{metric}")).clone()
    };
    let measures = &device["sample"]["measures"];
    assert_eq!(of(measures, "hw.gpu.utilization")["value"], 0.4);
    assert_eq!(of(measures, "hw.power")["unsupported"], "not offered by this device");
    assert!(of(&json["sensors"]["host"]["value"], "system.cpu.logical.count")["value"].as_u64().unwrap() > 0);
}

#[test]
fn watching_writes_a_line_a_report_and_ends_well() {
    let simulator = Simulator::without_scenario();
    for signal in [Signal::INT, Signal::TERM] {
        let mut child =
            probe(&simulator, SCENARIO).args(["--json", "--watch", "0.5"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let stamps: Vec<i64> = (0..3)
            .map(|_| {
                let report: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
                assert!(report["gpus"]["value"]["devices"][0]["sample"].is_object(), "{report}");
                report["ts_ms"].as_i64().unwrap()
            })
            .collect();
        assert!(stamps.is_sorted_by(|left, right| left < right), "{stamps:?}");
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    // A reader that leaves is an end, too.
    let mut child = probe(&simulator, SCENARIO).args(["--watch", "0.5"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("n1 at "), "{first}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let refused = probe(&simulator, SCENARIO).args(["--watch", "0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("expected a number of seconds from 0.5 to 3600"));
}
