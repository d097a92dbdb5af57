//! Processes that hold the demo's GPUs: real ones, labelled by `contador-agent exec`. On a machine without a driver, the
//! scenario tells the simulator which of its GPUs each of them uses.

use std::path::Path;

use tokio::process::Command;

use super::processes::Process;

/// One workload: who it is for.
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
