//! What it costs to know whose 200 real processes are, once a second: CPU time of the thread that looks, for a tick.
//!
//! `cargo run -p contador-tests --example owners_cost` prints JSON. The processes are children of this program, which live in
//! control groups of eight Slurm jobs that are a folder; 100 pods are known beside them.

use std::collections::HashMap;
use std::fs;
use std::process::{Child, Command};
use std::sync::Arc;

use anyhow::Context as _;
use contador_agent::owners::ProcessOwners;
use contador_agent::owners::claim::{Named, Snapshot};
use contador_agent::owners::slurm::jobs::Jobs;
use contador_schemas::owner::Owner;

const PROCESSES: usize = 200;
const PODS: usize = 100;
const JOBS: usize = 8;
const TICKS: u32 = 50;

/// Ends the processes, also when something fails.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Time that this thread had a CPU, in nanoseconds.
fn cpu_ns() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_ascii_whitespace().next().context("an empty schedstat")?.parse()?)
}

/// Microseconds of CPU for a tick.
fn cost(mut tick: impl FnMut()) -> anyhow::Result<u64> {
    tick();
    let start = cpu_ns()?;
    (0..TICKS).for_each(|_| tick());
    Ok((cpu_ns()? - start) / u64::from(TICKS) / 1_000)
}

fn main() -> anyhow::Result<()> {
    let mut children = Children(Vec::new());
    for _ in 0..PROCESSES {
        children.0.push(Command::new("sleep").arg("600").spawn()?);
    }
    let pids: Vec<u32> = children.0.iter().map(Child::id).collect();
    let cgroup = tempfile::tempdir()?;
    for (job, pids) in pids.chunks(PROCESSES / JOBS).enumerate() {
        let step = cgroup.path().join(format!("freezer/slurm/uid_0/job_{job}/step_0"));
        fs::create_dir_all(&step)?;
        let listed: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        fs::write(step.join("cgroup.procs"), listed)?;
    }
    let pod = |number: usize| {
        let owner = Owner { namespace: "ml".into(), pod: format!("pod-{number}"), ..Owner::default() };
        (format!("uid-{number}"), Named { owner, ..Named::default() })
    };
    let works: HashMap<String, Named> = (0..PODS).map(pod).collect();
    let snapshots = [Arc::new(Snapshot { told_ms: 1, works, ..Snapshot::default() })];
    let mut owners = ProcessOwners::new("/proc".into(), "/etc/passwd".into());
    let processes = cost(|| _ = owners.resolve(&pids, 0, &snapshots))?;
    let mut jobs = Jobs::new("/proc".into(), cgroup.path().into(), "/etc/passwd".into(), "n1".into());
    let slurm = cost(|| _ = jobs.look(0, &[]))?;
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!(
        "{}",
        serde_json::json!({"build": build, "processes": PROCESSES, "resolve_us": processes, "slurm_jobs_us": slurm})
    );
    Ok(())
}
