//! What a machine without GPUs has in their place: simulated GPUs, and schedulers that say who was given some of them.
//!
//! The GPUs are the simulator's, by a scenario. Pods are told of by a [`kubelet`](super::kubelet) of the demo's own. The Slurm job is a real
//! process in a folder that is laid out like Slurm's control groups, with a script in place of `scontrol`; the agent asks all of
//! them as it asks real ones. Neither runs anything on a GPU.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tokio::process::Command;

use super::kubelet::{Kubelet, Pod};
use super::processes::Process;

/// Seven GPUs of which each shows another way of being held.
const SCENARIO: &str = r#"# Written by `contador demo`: simulated GPUs.

# 0: one labelled process.
[[gpu]]
model = "h100-80gb"
utilization = { wave = { min = 85, max = 99, period = "40s" } }
idle_without_processes = true
[[gpu.process]]
environ = "CONTADOR_DEMO_WORKLOAD=training"
memory_mib = 61440
sm_util = 92

# 1: two labelled processes share it.
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

# 2: split by MIG: an instance with a labelled process, one of a pod's, and a part that neither covers.
[[gpu]]
model = "h100-80gb"
mig = ["3g.40gb", "2g.20gb"]
[[gpu.instance]]
profile = "3g.40gb"
utilization = { wave = { min = 20, max = 80, period = "20s" } }
[[gpu.instance.process]]
environ = "CONTADOR_DEMO_WORKLOAD=serving"
memory_mib = 14336
sm_util = 60
[[gpu.instance]]
profile = "2g.20gb"
utilization = 35
memory_mib = 9216

# 3: a pod's, which works there.
[[gpu]]
model = "l4"
utilization = { wave = { min = 5, max = 60, period = "20s" } }
memory_mib = 12288

# 4: half of it is a pod's that does nothing there, the other half nobody's.
[[gpu]]
model = "l4"
utilization = 0

# 5: a Slurm job's.
[[gpu]]
model = "l4"
utilization = { wave = { min = 60, max = 95, period = "30s" } }
memory_mib = 16384

# 6: it works, and nobody says for whom.
[[gpu]]
model = "l4"
utilization = 25
memory_mib = 4096
"#;

const PODS: [Pod; 3] = [
    Pod { namespace: "lab", name: "evaluation-0", resource: "nvidia.com/mig-2g.20gb", device: "nvidia2/gi5" },
    Pod { namespace: "search", name: "ranker-0", resource: "nvidia.com/gpu", device: "nvidia3" },
    Pod { namespace: "lab", name: "jupyter-0", resource: "nvidia.com/gpu.shared", device: "nvidia4/vgpu0" },
];

/// What could be given: the last GPU of a pod is cut into two replicas.
const ALLOCATABLE: [(&str, &str); 4] = [
    ("nvidia.com/mig-2g.20gb", "nvidia2/gi5"),
    ("nvidia.com/gpu", "nvidia3"),
    ("nvidia.com/gpu.shared", "nvidia4/vgpu0"),
    ("nvidia.com/gpu.shared", "nvidia4/vgpu1"),
];

/// The job's number, and the GPU that it was given.
const JOB: &str = "4711";
const JOB_GPU: &str = "5";

const SCONTROL: &str = r#"#!/bin/sh
# Written by `contador demo`: tells of a node and of one simulated job as Slurm's scontrol does.
case "$*" in
"-o -d show node "*) echo "NodeName=$5 Gres=gpu:7 GresUsed=gpu:1(IDX:5) State=MIXED" ;;
"show config") exit 1 ;;
*) echo '{"jobs":[{"job_id":4711,"job_state":["RUNNING"],"user_name":"demo","account":"physics","partition":"gpu"}]}' ;;
esac
"#;

/// Who pays for whom.
const RULES: &str = r#"
[[owners.rule]]
name = "search on Kubernetes"
match.namespace = "search"
set = { department = "product", project = "search", experiment = "ranker-v3" }

[[owners.rule]]
name = "the lab on Kubernetes"
match.namespace = "lab"
set = { department = "research", project = "lab" }

[[owners.rule]]
name = "Slurm accounts"
match."slurm.account" = "*"
set = { department = "{slurm.account}", project = "batch" }
"#;

/// It runs until it is dropped.
pub(super) struct Simulated {
    /// For `contador-agent run --simulate`.
    pub(super) scenario: PathBuf,
    /// For `contador-agent run --config`.
    pub(super) config: PathBuf,
    /// The process of the Slurm job.
    pub(super) job: Process,
    _kubelet: Kubelet,
}

impl Simulated {
    /// Keeps its files under `directory`.
    pub(super) fn start(directory: &Path, logs: &Path) -> anyhow::Result<Self> {
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).with_context(|| format!("write {}", path.display())).map(|()| path)
        };
        let kubelet = Kubelet::start(&PODS, &ALLOCATABLE)?;
        let scontrol = write("scontrol", SCONTROL)?;
        fs::set_permissions(&scontrol, fs::Permissions::from_mode(0o755))?;

        let mut command = Command::new("tail");
        // It ends with the demo, however that ends.
        command.args(["--pid", &std::process::id().to_string(), "-f", "/dev/null"]);
        command.env("SLURM_JOB_ID", JOB).env("SLURM_JOB_GPUS", JOB_GPU);
        // What Slurm tells a job: so it is the same job before and after the controller has answered.
        command.env("SLURM_JOB_USER", "demo").env("SLURM_JOB_ACCOUNT", "physics").env("SLURM_JOB_PARTITION", "gpu");
        let job = Process::start("slurm-job", command, logs)?;
        let cgroup = directory.join("cgroup");
        let task = cgroup.join(format!("system.slice/slurmstepd.scope/job_{JOB}/step_0/user/task_0"));
        fs::create_dir_all(&task)?;
        fs::write(task.join("cgroup.procs"), format!("{}\n", job.pid()?))?;

        let path = |path: &Path| toml::Value::String(path.to_string_lossy().into_owned());
        let config = format!(
            "[kubernetes]\nsocket = {}\n\n[slurm]\nscontrol = {}\n\n[sensors]\ncgroup = {}\n{RULES}",
            path(&kubelet.socket()),
            path(&scontrol),
            path(&cgroup)
        );
        Ok(Self {
            scenario: write("scenario.toml", SCENARIO)?,
            config: write("agent.toml", &config)?,
            job,
            _kubelet: kubelet,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scontrol_tells_of_a_node_and_of_a_job() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("scontrol");
        fs::write(&script, SCONTROL).unwrap();
        let say = |arguments: &[&str]| {
            let output = std::process::Command::new("sh").arg(&script).args(arguments).output().unwrap();
            (output.status.success(), String::from_utf8(output.stdout).unwrap())
        };
        // As the agent asks.
        let (_, node) = say(&["-o", "-d", "show", "node", "n1"]);
        assert!(node.starts_with(&format!("NodeName=n1 Gres=gpu:7 GresUsed=gpu:1(IDX:{JOB_GPU}) ")), "{node}");
        assert_eq!(SCENARIO.matches("[[gpu]]").count(), 7);
        let (_, job) = say(&["--json", "show", "job", JOB]);
        let job: serde_json::Value = serde_json::from_str(&job).unwrap();
        assert_eq!(job["jobs"][0]["job_id"].to_string(), JOB);
        assert!(!say(&["show", "config"]).0);
    }
}
