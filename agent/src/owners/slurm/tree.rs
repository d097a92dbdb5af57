//! The jobs whose control groups have processes.
//!
//! With cgroup v1 a job has a group in each hierarchy that Slurm uses, `slurm[_<node>]/uid_<uid>/job_<job>/step_<step>`; the
//! one for `freezer` is asked first, as Slurm tracks processes by it. With v2 it is
//! `<slice>/[<node>_]slurmstepd.scope/job_<job>/step_<step>`, with the tasks in `user` and the step's manager in `slurm`; v1
//! keeps managers in the job's own group. Managers are no work, and are left out. How much is read is bounded.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::owners::cgroup::name_after;

/// Hierarchies of v1 that Slurm may use, in the order in which they are asked.
const HIERARCHIES: [&str; 7] = ["freezer", "devices", "cpuset", "memory", "cpuacct", "cpu", "cpu,cpuacct"];

/// The step that holds a job's place on a node, and has no work of its own.
const EXTERN: &str = "extern";

const MAX_JOBS: usize = 1_024;
const MAX_PROCESSES: usize = 4_096;
const MAX_GROUPS: usize = 512;
const MAX_DEPTH: usize = 6;

/// A job with processes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct JobGroup {
    /// Its number, or the id that newer releases have in its place.
    pub job: String,
    /// Who runs it, where the path tells (v1).
    pub uid: Option<u32>,
    /// The name that the node has in Slurm, where the path tells.
    pub node: Option<String>,
    /// The processes of its steps, without their managers, in order; those of the step `extern`, which only keeps the job's
    /// place, when there are no others.
    pub pids: Vec<u32>,
    /// Whether the kernel has frozen all of its work.
    pub frozen: bool,
}

/// The jobs below `root` (`/sys/fs/cgroup`), by id; empty where there is no Slurm.
///
/// # Errors
/// When a group of Slurm's can't be listed, with its path. What disappears meanwhile is no error.
pub fn jobs(root: &Path) -> Result<Vec<JobGroup>, String> {
    let mut found = BTreeMap::new();
    for unified in [root.to_owned(), root.join("unified")] {
        for slice in folders(&unified)?.into_iter().filter(|path| name(path).ends_with(".slice")) {
            for scope in folders(&slice)? {
                let scope_name = name(&scope);
                let Some(node) = scope_name.strip_suffix("slurmstepd.scope") else { continue };
                add_jobs(&scope, None, node.strip_suffix('_'), true, &mut found)?;
            }
        }
    }
    for hierarchy in HIERARCHIES.map(|name| root.join(name)) {
        let trees = folders(&hierarchy)?.into_iter().filter_map(|path| {
            let node = match name(&path).strip_prefix("slurm")? {
                "" => None,
                rest => Some(rest.strip_prefix('_')?.to_owned()),
            };
            Some((path, node))
        });
        let trees: Vec<_> = trees.collect();
        for (tree, node) in &trees {
            for user in folders(tree)? {
                let Some(uid) = name(&user).strip_prefix("uid_").and_then(|uid| uid.parse().ok()) else { continue };
                add_jobs(&user, Some(uid), node.as_deref(), false, &mut found)?;
            }
        }
        if !trees.is_empty() {
            break;
        }
    }
    Ok(found.into_values().collect())
}

fn add_jobs(
    parent: &Path,
    uid: Option<u32>,
    node: Option<&str>,
    unified: bool,
    found: &mut BTreeMap<String, JobGroup>,
) -> Result<(), String> {
    for path in folders(parent)? {
        let Some(job) = name_after(&name(&path), "job_") else { continue };
        if found.len() >= MAX_JOBS && !found.contains_key(&job) {
            continue;
        }
        let (mut pids, mut external, mut frozen) = (Vec::new(), Vec::new(), None);
        for step in folders(&path)? {
            let Some(step_name) = name_after(&name(&step), "step_") else { continue };
            let is_external = step_name == EXTERN;
            let into = if is_external { &mut external } else { &mut pids };
            let (before, mut groups) = (into.len(), MAX_GROUPS);
            add_processes(&step, unified, MAX_DEPTH, &mut groups, into);
            if into.len() > before && !is_external {
                frozen = Some(frozen.unwrap_or(true) && is_frozen(&step));
            }
        }
        if pids.is_empty() {
            pids = external;
        }
        if pids.is_empty() {
            continue;
        }
        pids.sort_unstable();
        pids.dedup();
        let frozen = frozen.unwrap_or_else(|| is_frozen(&path));
        found.insert(job.clone(), JobGroup { job, uid, node: node.map(str::to_owned), pids, frozen });
    }
    Ok(())
}

/// The processes of a group and of those in it; the managers of v2, in `slurm` of a step, are left out.
fn add_processes(group: &Path, is_step: bool, depth: usize, groups: &mut usize, pids: &mut Vec<u32>) {
    let text = fs::read(group.join("cgroup.procs")).unwrap_or_default();
    let listed = text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()?.parse().ok());
    // 0 is a process that can't be seen from here.
    let room = MAX_PROCESSES.saturating_sub(pids.len());
    pids.extend(listed.filter(|pid: &u32| *pid != 0).take(room));
    if depth == 0 {
        return;
    }
    for inner in folders(group).unwrap_or_default() {
        if is_step && name(&inner) == "slurm" {
            continue;
        }
        *groups = match groups.checked_sub(1) {
            Some(left) => left,
            None => return,
        };
        add_processes(&inner, false, depth - 1, groups, pids);
    }
}

/// `freezer.state` of v1 is `THAWED`, `FREEZING` or `FROZEN`; `cgroup.events` of v2 has a line `frozen 0` or `frozen 1`.
fn is_frozen(group: &Path) -> bool {
    let starts = |text: Vec<u8>| text.starts_with(b"FROZEN");
    let events = |text: Vec<u8>| text.split(|byte| *byte == b'\n').any(|line| line == b"frozen 1");
    fs::read(group.join("freezer.state")).is_ok_and(starts) || fs::read(group.join("cgroup.events")).is_ok_and(events)
}

/// The folders in a folder, in order; none where there is no such folder.
fn folders(path: &Path) -> Result<Vec<PathBuf>, String> {
    let is_gone = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
    };
    // A folder of the kernel's has two links, and one more for each folder in it: mostly there is none, and nothing to list.
    let listed = fs::metadata(path).and_then(|about| (about.nlink() != 2).then(|| fs::read_dir(path)).transpose());
    let entries = match listed {
        Ok(Some(entries)) => entries,
        Ok(None) => return Ok(Vec::new()),
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot list {}: {error}", path.display())),
    };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut found: Vec<PathBuf> = entries.flatten().filter(is_folder).map(|entry| entry.path()).collect();
    found.sort();
    Ok(found)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(root: &Path, path: &str, pids: &str) {
        fs::create_dir_all(root.join(path)).unwrap();
        fs::write(root.join(path).join("cgroup.procs"), pids).unwrap();
    }

    fn job(job: &str, uid: Option<u32>, node: Option<&str>, pids: &[u32]) -> JobGroup {
        JobGroup { job: job.into(), uid, node: node.map(str::to_owned), pids: pids.to_vec(), frozen: false }
    }

    #[test]
    fn jobs_of_version_1_are_found_in_the_freezer() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert_eq!(jobs(root), Ok(vec![]));
        group(root, "freezer/slurm_vm/uid_1000/job_1", "4403\n4433\n");
        group(root, "freezer/slurm_vm/uid_1000/job_1/step_batch", "4411\n4415\n");
        group(root, "freezer/slurm_vm/uid_1000/job_1/step_0/task_0", "4438\n");
        // Only its manager is left.
        group(root, "freezer/slurm_vm/uid_1000/job_2", "4500\n");
        group(root, "freezer/slurm_vm/uid_1000/job_2/step_0", "");
        group(root, "freezer/slurm_vm/uid_0/job_3/step_extern", "4600\n");
        group(root, "devices/slurm_vm/uid_0/job_4/step_0", "4700\n");
        group(root, "freezer/slurmx/uid_0/job_5/step_0", "1\n");
        let both = vec![job("1", Some(1000), Some("vm"), &[4411, 4415, 4438]), job("3", Some(0), Some("vm"), &[4600])];
        assert_eq!(jobs(root), Ok(both));
        let freeze = |step: &str, state: &str| {
            fs::write(root.join("freezer/slurm_vm/uid_1000/job_1").join(step).join("freezer.state"), state).unwrap();
        };
        freeze("step_batch", "FROZEN\n");
        assert!(!jobs(root).unwrap()[0].frozen, "another step runs");
        freeze("step_0", "FROZEN\n");
        assert!(jobs(root).unwrap()[0].frozen);
        freeze("step_0", "THAWED\n");
        assert!(!jobs(root).unwrap()[0].frozen);
    }

    #[test]
    fn jobs_of_version_2_are_found_without_their_managers() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        group(root, "system.slice/slurmstepd.scope/system", "70\n");
        group(root, "system.slice/slurmstepd.scope/job_7/step_0/slurm", "71\n");
        group(root, "system.slice/slurmstepd.scope/job_7/step_0/user/task_0", "72\n73\n");
        group(root, "system.slice/slurmstepd.scope/job_8/step_batch/slurm", "81\n");
        group(root, "system.slice/slurmstepd.scope/job_8/step_batch/user/task_0", "");
        group(root, "unified/system.slice/n1_slurmstepd.scope/job_9/step_extern/user/task_special", "91\n0\nx\n");
        group(root, "system.slice/docker.service", "1\n");
        let expected = vec![job("7", None, None, &[72, 73]), job("9", None, Some("n1"), &[91])];
        assert_eq!(jobs(root), Ok(expected));
        let events = root.join("system.slice/slurmstepd.scope/job_7/step_0/cgroup.events");
        fs::write(events, "populated 1\nfrozen 1\n").unwrap();
        assert!(jobs(root).unwrap()[0].frozen);
    }
}
