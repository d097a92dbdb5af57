//! Processes that hold the demo's GPUs: real ones, labelled by `contador-agent exec`. On a machine without a driver, the
//! scenario tells the simulator which of its GPUs each of them uses.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::processes::Process;

/// One workload: who it is for, which simulated GPUs it uses and how hard.
struct Workload {
    name: &'static str,
    department: &'static str,
    project: &'static str,
    experiment: &'static str,
}

const WORKLOADS: [Workload; 4] = [
    Workload { name: "training", department: "research", project: "vision", experiment: "resnet-sweep-7" },
    Workload { name: "finetune", department: "research", project: "language", experiment: "lora-14" },
    Workload { name: "serving", department: "product", project: "search", experiment: "ranker-v3" },
    Workload { name: "notebook", department: "finance", project: "forecasting", experiment: "q4-model" },
];

/// The variable by which the scenario finds a workload's processes.
const MARK: &str = "CONTADOR_DEMO_WORKLOAD";

/// Four GPUs: one trained on alone, one shared by two owners, one that serves in waves, one idle.
const SCENARIO: &str = r#"# Written by `contador demo`. Four simulated GPUs, held by the demo's own processes.
[[gpu]]
model = "h100-80gb"
utilization = { wave = { min = 85, max = 99, period = "40s" } }
idle_without_processes = true
[[gpu.process]]
environ = "CONTADOR_DEMO_WORKLOAD=training"
memory_mib = 61440
sm_util = 92

[[gpu]]
model = "h100-80gb"
utilization = { wave = { min = 30, max = 70, period = "25s" } }
idle_without_processes = true
[[gpu.process]]
environ = "CONTADOR_DEMO_WORKLOAD=finetune"
memory_mib = 38912
sm_util = 40
[[gpu.process]]
environ = "CONTADOR_DEMO_WORKLOAD=notebook"
memory_mib = 8192
sm_util = 10

[[gpu]]
model = "l4"
utilization = { wave = { min = 5, max = 60, period = "20s" } }
idle_without_processes = true
[[gpu.process]]
environ = "CONTADOR_DEMO_WORKLOAD=serving"
memory_mib = 14336
sm_util = 35

[[gpu]]
model = "l4"
utilization = 0
"#;

/// Writes the scenario under `directory`.
pub(super) fn scenario(directory: &Path) -> std::io::Result<PathBuf> {
    let path = directory.join("scenario.toml");
    std::fs::write(&path, SCENARIO)?;
    Ok(path)
}

/// Starts every workload through `contador-agent exec`.
pub(super) fn start(agent: &Path, logs: &Path) -> anyhow::Result<Vec<Process>> {
    WORKLOADS
        .iter()
        .map(|workload| {
            let mut command = Command::new(agent);
            command
                .args(["exec", "--department", workload.department, "--project", workload.project])
                .args(["--experiment", workload.experiment, "--user", "demo"])
                .args(["--", "sleep", "1000000"])
                .env(MARK, workload.name);
            Process::start(workload.name, command, logs)
        })
        .collect()
}
