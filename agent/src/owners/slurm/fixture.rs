//! What a test's node has of Slurm.

use std::fs;
use std::path::{Path, PathBuf};

/// Job 7, with one process that was given the first device, in the `proc` and `cgroup` of this folder;
/// the control group of its task.
pub fn job_on_first_device(dir: &Path) -> PathBuf {
    let process = dir.join("proc/70");
    fs::create_dir_all(&process).unwrap();
    fs::write(process.join("stat"), "70 (python3) S 1").unwrap();
    fs::write(process.join("environ"), "SLURM_JOB_ID=7\0SLURM_JOB_GPUS=0").unwrap();
    let task = dir.join("cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/task_0");
    fs::create_dir_all(&task).unwrap();
    fs::write(task.join("cgroup.procs"), "70\n").unwrap();
    task
}
