//! `contador-agent probe` as a user runs it, on the simulator.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use contador_tests::hung_mount::HungMount;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

mod kube_support;
mod nvml_support;
use kube_support::{Cluster, Manner};
use nvml_support::Simulator;

fn probe(simulator: &Simulator, scenario: &str) -> Command {
    let mut command = Command::new(contador_tests::binary("contador-agent").unwrap());
    command.args(["probe", "--node", "n1", "--simulate"]).arg(simulator.scenario_file(scenario));
    command.env("CONTADOR_NVML_SIMULATOR", simulator.path()).env_remove("COLUMNS");
    command
}

/// What it wrote, of a probe that has done well.
fn shown(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(command: &mut Command) -> Value {
    serde_json::from_str(&shown(command.arg("--json").output().unwrap())).unwrap()
}

/// The table, which fits these columns.
fn table(command: &mut Command, columns: usize) -> String {
    let text = shown(command.env("COLUMNS", columns.to_string()).output().unwrap());
    assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
    text
}

/// The row of the table that begins with this, without its blanks.
fn row(text: &str, label: &str) -> String {
    let rows = text.lines().skip_while(|line| !line.starts_with('─'));
    let row = rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    row.into_iter().find(|row| row.starts_with(&format!("{label} "))).unwrap_or_else(|| panic!("{label}\n{text}"))
}

/// A process that is ended with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn watch(command: &mut Command) -> (Running, Lines<BufReader<ChildStdout>>) {
    let mut child = command.args(["--json", "--watch", "0.5"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (Running(child), lines)
}

fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Value {
    serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
}

fn ends_well(mut running: Running) {
    kill_process(Pid::from_child(&running.0), Signal::INT).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}

/// Most reports in which something is waited for.
const REPORTS: usize = 120;

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
    // One that stays and does not read is none: the pipe is full, and a signal is heard all the same.
    let eight = SCENARIO.replacen("[[gpu]]", "[[gpu]]\ncount = 8", 1);
    let eight = eight.lines().filter(|line| !line.starts_with("uuid")).collect::<Vec<_>>().join("\n");
    let (running, mut lines) = watch(&mut probe(&simulator, &eight));
    next(&mut lines);
    let written = |running: &Running| {
        let path = format!("/proc/{}/io", running.0.id());
        let io = std::fs::read_to_string(path).unwrap();
        io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok()).unwrap()
    };
    let (mut before, mut still) = (0, 0);
    // For two intervals it has written nothing more.
    while still < 20 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let now = written(&running);
        still = if now == before { still + 1 } else { 0 };
        before = now;
    }
    ends_well(running);
    let refused = probe(&simulator, SCENARIO).args(["--watch", "0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("expected a number of seconds from 0.5 to 3600"));
}

#[test]
fn a_gpu_that_hangs_is_stuck_alone_and_keeps_nobody_from_ending() {
    let simulator = Simulator::without_scenario();
    let control = simulator.path().with_file_name("faults.toml");
    simulator.file("faults.toml", "[[fault]]\nkind = \"hang\"\ngpu = 1\n");
    let scenario = "[[gpu]]\nmodel = \"h100-80gb\"\ncount = 3\nutilization = 40\n";
    let probe = || {
        let mut command = probe(&simulator, scenario);
        command.env("CONTADOR_NVML_FAULTS", &control);
        command
    };
    let text = table(&mut probe(), 80);
    assert!(row(&text, "1").starts_with("1 – – – – – stuck (") && row(&text, "1").ends_with("s) –"), "{text}");
    for other in ["0", "2"] {
        assert!(row(&text, other).starts_with(&format!("{other} 40 % 0.0/79.6 ")), "{text}");
    }
    assert!(text.contains("3 GPUs (simulated)") && text.contains("GPU 2: H100") && !text.contains("GPU 1:"), "{text}");

    // Ended while it hangs; and when it comes back, it is known.
    let (running, mut lines) = watch(&mut probe());
    let report = next(&mut lines);
    let gpus = &report["gpus"]["value"];
    assert_eq!((&gpus["stuck"][0]["index"], gpus["stuck"].as_array().unwrap().len()), (&1.into(), 1));
    assert!(gpus["stuck"][0]["stuck_seconds"].as_f64().unwrap() >= 3.0 && gpus["stuck"][0]["identity"].is_null());
    let there: Vec<_> = gpus["devices"].as_array().unwrap().iter().map(|gpu| &gpu["identity"]["index"]).collect();
    assert_eq!(there, [0, 2]);
    next(&mut lines);
    ends_well(running);
    let (running, mut lines) = watch(&mut probe());
    assert_eq!(next(&mut lines)["gpus"]["value"]["stuck"][0]["index"], 1);
    simulator.file("faults.toml", "");
    let back = |report: &Value| report["gpus"]["value"]["devices"].as_array().unwrap().len() == 3;
    let report = std::iter::repeat_with(|| next(&mut lines)).take(REPORTS).find(back).expect("it is back");
    assert_eq!(report["gpus"]["value"]["stuck"], serde_json::json!([]));
    ends_well(running);
}

#[test]
fn a_lost_gpu_is_a_row_that_failed_and_xids_are_counted() {
    let simulator = Simulator::without_scenario();
    let control = simulator.path().with_file_name("faults.toml");
    simulator.file("faults.toml", "[[fault]]\nkind = \"lost\"\ngpu = 1\n");
    let scenario = "[[gpu]]\nmodel = \"h100-80gb\"\ncount = 2\nnvlink = { down = [3] }\n";
    let probe = || {
        let mut command = probe(&simulator, scenario);
        command.env("CONTADOR_NVML_FAULTS", &control);
        command
    };
    let text = table(&mut probe(), 80);
    assert_eq!(row(&text, "1"), "1 – – – – – failed –");
    assert!(text.contains("\nGPU 1: failed (") && text.contains("\nGPU 0: degraded (NVLink 3 is down)\n"), "{text}");

    simulator.file("faults.toml", "");
    let (running, mut lines) = watch(&mut probe());
    let xids = |report: &Value| {
        let measures = report["gpus"]["value"]["devices"][1]["sample"]["measures"].as_array().unwrap().clone();
        let all = measures.into_iter().filter(|measure| measure["metric"] == "hw.errors");
        let mut xids = all.filter(|measure| measure["attributes"]["error.type"] == "xid");
        xids.next().unwrap_or_else(|| panic!("{report}"))["value"].as_u64()
    };
    assert_eq!(xids(&next(&mut lines)), Some(0), "it is watched from the first report on");
    simulator.file("faults.toml", "[[fault]]\nkind = \"xid\"\ngpu = 1\ncode = 48\ncount = 2\n");
    let mut reports = std::iter::repeat_with(|| next(&mut lines)).take(REPORTS);
    assert!(reports.any(|report| xids(&report) == Some(2)), "they came");
    ends_well(running);
}

#[test]
fn instances_are_rows_below_their_gpu() {
    let simulator = Simulator::without_scenario();
    let entry = format!("probe-{}", std::process::id());
    let scenario = format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nmig = [\"3g.40gb\", \"-\", \"1g.10gb\"]\n\
         [[gpu.instance]]\nprofile = \"3g.40gb\"\nutilization = 70\nmemory_mib = 20480\n\
         [[gpu.instance]]\nprofile = \"1g.10gb\"\n\
         [[gpu.instance.process]]\nenviron = \"CONTADOR_SIM_GPU={entry}\"\nmemory_mib = 4096\nsm_util = 35\n"
    );
    let held = Running(Command::new("sleep").arg("600").env("CONTADOR_SIM_GPU", &entry).spawn().unwrap());
    let report = json(&mut probe(&simulator, &scenario));
    let devices = report["gpus"]["value"]["devices"].as_array().unwrap();
    let migs: Vec<&Value> = devices.iter().map(|device| &device["identity"]["mig"]).collect();
    assert!(migs.len() == 3 && migs[0].is_null() && migs[1]["profile"] == "3g.40gb", "{migs:?}");
    assert_eq!(devices[2]["sample"]["processes"]["value"][0]["pid"], held.0.id());
    let ids = |mig: &Value| format!("{}/{}", mig["gpu_instance"], mig["compute_instance"]);
    for columns in [60, 80, 120] {
        let text = table(&mut probe(&simulator, &scenario), columns);
        let rows: Vec<&str> = text.lines().skip_while(|line| !line.starts_with('─')).skip(1).take(3).collect();
        assert!(rows[0].starts_with("0 ") && rows[1..].iter().all(|row| row.starts_with("└ ")), "{text}");
        let label = |mig: &Value, profile: &str| match columns {
            60 => format!("└ {}", ids(mig)),
            _ => format!("└ {} {profile}", ids(mig)),
        };
        assert!(row(&text, &label(migs[1], "3g.40gb")).contains(" 70 % 20.0/"), "{text}");
        let notebook = row(&text, &label(migs[2], "1g.10gb"));
        assert!(notebook.contains(" 35 % 4.0/") && !notebook.ends_with("nobody"), "{text}");
        let process = format!("MIG 0/{} (1g.10gb): pid {}: 4.0 GiB", ids(migs[2]), held.0.id());
        assert!(text.contains(&process) && text.matches(": pid ").count() == 1, "{text}");
    }
}

#[test]
fn serial_numbers_are_hidden_where_they_are_not_wanted() {
    let simulator = Simulator::without_scenario();
    simulator.file("agent.toml", "[sensors]\nserial_numbers = false\n");
    let hiding = || {
        let mut command = probe(&simulator, SCENARIO);
        command.arg("--config").arg(simulator.path().with_file_name("agent.toml"));
        command
    };
    let identity = json(&mut probe(&simulator, SCENARIO))["gpus"]["value"]["devices"][0]["identity"].clone();
    let serial = identity["serial"].as_str().unwrap();
    assert!(table(&mut probe(&simulator, SCENARIO), 120).contains(&format!("serial {serial}")));
    let report = json(&mut hiding());
    assert!(report["gpus"]["value"]["devices"][0]["identity"]["serial"].is_null(), "{report}");
    assert!(!report.to_string().contains(serial), "{report}");
    let text = table(&mut hiding(), 120);
    assert!(!text.contains("serial") && text.contains("GPU 0: H100"), "{text}");
}

#[test]
fn a_mount_that_hangs_is_stuck_and_the_rest_is_shown() {
    let hung = match HungMount::new() {
        Ok(hung) => hung,
        // The reader of mounts is tested where nothing can be mounted, too.
        Err(error) => return println!("this machine does not let the test mount FUSE: {error}"),
    };
    let simulator = Simulator::without_scenario();
    let point = hung.point().to_str().unwrap();
    let text = table(&mut probe(&simulator, SCENARIO), 120);
    let shown = row(&text, point);
    assert!(shown.contains(" fuse ") && shown.contains("stuck ("), "{text}");
    assert!(row(&text, "/").ends_with(" ok") && row(&text, "0").contains(" 40 % "), "{text}");
}

/// What `exec` has labelled keeps its labels, what a rule matches has the rule's, and the probe says which is which.
#[test]
fn which_rule_decided_is_said_of_each_owner() {
    let simulator = Simulator::without_scenario();
    let held = |name: &str, labels: &[(&str, &str)]| {
        let entry = format!("{name}-{}", std::process::id());
        let mut command = Command::new("sleep");
        command.arg("600").env("CONTADOR_SIM_GPU", &entry).envs(labels.iter().copied());
        (entry, Running(command.spawn().unwrap()))
    };
    let all = [
        held("pod", &[("CONTADOR_OWNER_NAMESPACE", "vision-train"), ("CONTADOR_OWNER_POD", "p1")]),
        held("labelled", &[("CONTADOR_OWNER_DEPARTMENT", "search"), ("CONTADOR_OWNER_PROJECT", "ranking")]),
        held("half", &[("CONTADOR_OWNER_NAMESPACE", "vision-x"), ("CONTADOR_OWNER_PROJECT", "own")]),
        held("other", &[("CONTADOR_OWNER_JOB", "j7")]),
    ];
    let processes = all.iter().map(|(entry, _)| format!("[[gpu.process]]\nenviron = \"CONTADOR_SIM_GPU={entry}\"\n"));
    let scenario = format!("[[gpu]]\nmodel = \"h100-80gb\"\n{}", processes.collect::<String>());
    let rules = "[[owners.rule]]\nname = \"vision pods\"\nmatch = { namespace = \"vision-*\" }\n\
                 set = { department = \"research\", project = \"{namespace}\" }\n";
    simulator.file("agent.toml", rules);
    let path = simulator.path().with_file_name("agent.toml");
    let report = json(probe(&simulator, &scenario).arg("--config").arg(&path));
    let of = |held: &Running| report["process_owners"][held.0.id().to_string()].clone();
    let expected = [
        ("research", "vision-train", serde_json::json!(["vision pods"])),
        ("search", "ranking", serde_json::json!(["itself"])),
        ("research", "own", serde_json::json!(["vision pods"])),
    ];
    for ((_, held), (department, project, rules)) in all.iter().zip(expected) {
        let owner = of(held);
        assert_eq!(
            (&owner["department"], &owner["project"], &owner["rules"]),
            (&department.into(), &project.into(), &rules)
        );
    }
    let other = of(&all[3].1);
    assert!(other["department"].is_null() && other["rules"] == serde_json::json!([]), "{other}");
    let text = table(probe(&simulator, &scenario).arg("--config").arg(&path), 120);
    for line in [
        "owners by rule \"vision pods\": research/own, research/vision-train",
        "owners as they say themselves: search/ranking",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    assert!(text.contains("owners by no rule: "), "{text}");

    let check = |text: &str| {
        simulator.file("agent.toml", text);
        let mut command = Command::new(contador_tests::binary("contador-agent").unwrap());
        command.args(["check", "--config"]).arg(&path).output().unwrap()
    };
    let shown = String::from_utf8(check(rules).stdout).unwrap();
    assert!(shown.contains("match = { namespace = \"vision-*\" }") && shown.contains("agent.toml:1\n"), "{shown}");
    let output = check(&rules.replace("namespace =", "namspace ="));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("agent.toml:3: unknown key namspace, expected one of environment, "), "{said}");
}

/// A pod that was given a GPU holds it in the probe, too, though it has no process there; and a kubelet that does not answer is said
/// to be so, and holds up nothing.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_given_a_gpu_is_shown_without_a_process() {
    let cluster = Cluster::replay("ledger", "shared").await;
    let simulator = Simulator::without_scenario();
    let uuids = ["5d5ba0d6", "77777777", "88888888"].map(|start| format!("GPU-{start}-d33d-2b2c-524d-9e3d8d2b8a77"));
    let entry = format!("given-{}", std::process::id());
    let process = format!("[[gpu.process]]\nenviron = \"CONTADOR_SIM_GPU={entry}\"\n");
    let gpu = |uuid: &String| format!("[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{uuid}\"\n");
    // The last one has a process, of somebody who was not given it.
    let scenario = uuids.iter().map(gpu).collect::<String>() + &process;
    let labels = [("CONTADOR_SIM_GPU", entry.as_str()), ("CONTADOR_OWNER_PROJECT", "other")];
    let _held = Running(Command::new("sleep").arg("600").envs(labels).spawn().unwrap());
    let config = format!(
        "[kubernetes]\nsocket = {:?}\napi = {:?}\n[[owners.rule]]\nname = \"teams\"\n\
         match = {{ \"k8s.label.team\" = \"*\" }}\nset = {{ project = \"{{k8s.label.team}}\", experiment = \"{{container}}\" }}\n",
        cluster.kubelet.socket(),
        cluster.api.url()
    );
    simulator.file("agent.toml", &config);
    let path = simulator.path().with_file_name("agent.toml");
    let probe = || {
        let mut command = probe(&simulator, &scenario);
        command.arg("--config").arg(&path);
        command
    };
    let report = json(&mut probe());
    let devices = report["gpus"]["value"]["devices"].as_array().unwrap();
    let given = |device: &Value| -> Vec<(String, Option<u64>, bool)> {
        let given = device["given"].as_array().unwrap().iter();
        let mut given: Vec<_> = given
            .map(|of| {
                (of["label"].as_str().unwrap().to_owned(), of["ppm"].as_u64(), of["has_process"].as_bool().unwrap())
            })
            .collect();
        given.sort();
        given
    };
    let is = |label: &str, ppm, has_process| (label.to_owned(), ppm, has_process);
    assert_eq!(given(&devices[0]), []);
    assert_eq!(given(&devices[1]), [is("web/draft", Some(500_000), false), is("web/server", Some(250_000), false)]);
    assert_eq!(given(&devices[2]), [is("lab/left", None, false), is("lab/right", None, false)]);
    let owners = devices[1]["owners"].as_array().unwrap();
    assert_eq!(owners.len(), 2, "{owners:?}");
    for owner in owners {
        assert_eq!((&owner["rules"], &owner["kind"]), (&serde_json::json!(["teams"]), &"workload".into()), "{owner}");
    }
    assert_eq!(report["schedulers_silent"], serde_json::json!([]));
    let text = table(&mut probe(), 120);
    for line in [
        "GPU 1: given to web/server, no process",
        "GPU 1: given to web/draft, no process",
        "owners by rule \"teams\": lab/left, lab/right, web/draft, web/server",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    assert!(row(&text, "0").ends_with("nobody") && !text.contains("owners: "), "{text}");

    cluster.kubelet.answer(Manner::Never);
    let report = json(&mut probe());
    let silent = report["schedulers_silent"][0].as_str().unwrap();
    assert!(silent.starts_with("kubelet at ") && silent.contains("no answer within 2 s"), "{silent}");
    assert_eq!(report["gpus"]["value"]["devices"][1]["owners"], serde_json::json!([]));
    assert!(table(&mut probe(), 120).contains("\nowners: kubelet at "));
}
