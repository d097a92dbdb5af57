//! What schedulers say: who holds which device, and who a process belongs to.
//!
//! A [`Claim`] is a scheduler's word that somebody holds a device, or a part of it, whether or not a process works there. Who
//! that is, is [`Named`] as the scheduler knows it; the departments and projects behind it are found by other rules. What a
//! scheduler told last is a [`Snapshot`]: it is taken off the sampling path, and read at each tick without waiting.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use contador_schemas::mapping::TARGETS;
use contador_schemas::owner::Owner;
use serde::{Deserialize, Serialize};

use super::kubernetes::serving::Serving;
use super::{DeviceId, Identified};

/// Somebody, as the source that told of him knows him.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Named {
    /// What identifies him: namespace, pod, container, job, user and so on.
    pub owner: Owner,
    /// What else is known, by a name that says where it is from: `k8s.label.team`, `k8s.annotation.…`, `slurm.account`,
    /// `slurm.partition`, `slurm.comment`, `container.id`, `env.…`.
    pub labels: BTreeMap<String, String>,
}

/// How much of a device is held.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Part {
    /// As much as everybody else who holds it.
    #[default]
    Even,
    /// So many parts per million of the device, as it was requested; above 0.
    Ppm(u32),
}

/// Somebody holds a device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claim {
    /// The device: a GPU or a MIG instance.
    pub device: DeviceId,
    /// How much of it.
    pub part: Part,
    /// Who.
    pub holder: Named,
}

/// Somebody held a device until an end that was told afterwards.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ended {
    /// The device.
    pub device: DeviceId,
    /// Who, without who pays for him: see [`is_same_work`].
    pub owner: Owner,
    /// When that was, Unix milliseconds.
    pub at_ms: i64,
}

/// Who tells of claims, in the order in which their words count.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Scheduler {
    /// The kubelet and the API server.
    #[default]
    Kubernetes,
    /// Control groups, and the controller.
    Slurm,
}

/// What a scheduler told last. Whoever has a claim holds now: what has ended, or is suspended, has none. A suspended job is
/// still among the works, with a label that says so ([`slurm::is_suspended`](super::slurm::is_suspended)): its processes hold
/// nothing. What is told again is the same [`Arc`] ([`Snapshot::share`]), so that nobody has to compare hundreds of names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// By whom.
    pub scheduler: Scheduler,
    /// When it was told, Unix milliseconds; 0: never.
    pub told_ms: i64,
    /// Who holds what.
    pub claims: Arc<Vec<Claim>>,
    /// Who has held what, of those whose end is known, for as long as a round may not have heard of it.
    pub ended: Vec<Ended>,
    /// Whose processes are, by the scheduler's own id of the work: a pod's UID, or a container's id; a Slurm job's number.
    pub works: Arc<HashMap<String, Named>>,
    /// Pods that say that they are to be scraped.
    pub servers: Arc<Vec<Serving>>,
    /// Why it could not be told again.
    pub fault: Option<String>,
    /// What of its word can't be used, and why, each once.
    pub unclear: Vec<String>,
    /// Some of those that are asked for it have neither answered nor failed yet.
    pub waiting: bool,
    /// What it told last is too old to count: so there are no claims.
    pub expired: bool,
}

impl Snapshot {
    /// Whether it says nothing yet of who holds what, nor why not.
    pub fn is_silent(&self) -> bool {
        self.waiting || (self.told_ms == 0 && self.fault.is_none())
    }

    /// Has what is told as it was `before` be the same, and not only equal.
    pub fn share(&mut self, before: &Self) {
        if self.claims == before.claims {
            self.claims = Arc::clone(&before.claims);
        }
        if self.works == before.works {
            self.works = Arc::clone(&before.works);
        }
        if self.servers == before.servers {
            self.servers = Arc::clone(&before.servers);
        }
    }
}

/// What a scheduler knows a work by.
const WORK: [&str; 5] = ["cluster", "namespace", "pod", "container", "job"];

/// Has `owner`, as an environment names him, be the `work` that a scheduler knows: by all that it says of it when it has told of
/// it, else where he does not say it himself.
pub fn identify(owner: &mut Owner, work: &Owner, is_told: bool) {
    for (name, value) in work.attributes() {
        let is_open = owner.attributes().iter().any(|(field, said)| *field == name && said.is_empty());
        let wins = if name == "user" { is_told } else { WORK.contains(&name) && (is_told || is_open) };
        if wins && !value.is_empty() {
            owner.set(name, value);
        }
    }
}

/// Whether both are the same pod's container or the same job, whoever pays for it.
pub fn is_same_work(one: &Owner, other: &Owner) -> bool {
    work_of(one) == work_of(other)
}

/// What identifies the work of an owner, whoever pays for it: first what mostly tells one from another.
pub fn work_of(owner: &Owner) -> [&str; 5] {
    [&owner.pod, &owner.job, &owner.container, &owner.namespace, &owner.cluster]
}

/// Whether a process of this owner is one of the pod or job that was given something: whether it says the same as `given` does.
/// One whose pod is known by its UID alone may be of any pod, and one whose container is not known yet of any of its pod's.
pub fn is_work_of(process: &Owner, given: &Owner) -> bool {
    if process.kind != given.kind || (given.pod.is_empty() && given.job.is_empty()) {
        return false;
    }
    if is_untold_pod(process) && !given.pod.is_empty() {
        return true;
    }
    let same = |given: &str, said: &str| given.is_empty() || given == said;
    same(&given.pod, &process.pod)
        && same(&given.job, &process.job)
        && same(&given.namespace, &process.namespace)
        && (process.container.is_empty() || same(&given.container, &process.container))
}

/// A pod that is known by its UID alone.
fn is_untold_pod(process: &Owner) -> bool {
    !process.pod.is_empty() && process.namespace.is_empty()
}

/// Who holds what was given to `given` and is used by processes of these owners: who pays is what an environment says of them, and
/// the rules of him do not, as long as they don't contradict each other.
pub fn complete(given: &Identified, processes: &[&Identified]) -> Identified {
    if processes.is_empty() {
        return given.clone();
    }
    let mut owner = Owner::clone(given);
    let paying = given.attributes().into_iter().enumerate().filter(|(_, (name, _))| TARGETS.contains(name));
    for (place, (name, known)) in paying {
        // The rules know less of a pod that is known by its UID alone.
        let telling = processes.iter().filter(|process| known.is_empty() || !is_untold_pod(process));
        let values = telling.map(|process| process.attributes()[place].1);
        let mut said = values.filter(|value| !value.is_empty() && *value != known);
        let Some(first) = said.next() else { continue };
        if said.all(|other| other == first) {
            owner.set(name, first);
        }
    }
    if owner == **given { given.clone() } else { owner.into() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::ledger::tick::holders;
    use crate::owners::NodeDevice;
    use crate::owners::kubernetes::allocation::Allocation;
    use crate::owners::kubernetes::join::Join;
    use crate::owners::kubernetes::pod::{Container, Pod};
    use crate::owners::kubernetes::pods::Pods;
    use crate::owners::slurm::jobs::Jobs;
    use crate::owners::{ProcessOwners, mapping};

    const ID: &str = "7be92808767a667f35c8505cbf40d14e931ef6db5b0210329cf193b15ba9d605";
    const UID: &str = "3a6f0f0e-1c61-4d5c-9f6b-1f1c3e0d7a55";
    const GPU: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";

    fn process(proc: &Path, pid: u32, group: &str, environ: &str) {
        let dir = proc.join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("stat"), format!("{pid} (python3) S 1 {}{pid}", "0 ".repeat(17))).unwrap();
        fs::write(dir.join("environ"), environ.replace(' ', "\0")).unwrap();
        fs::write(dir.join("cgroup"), format!("0::{group}\n")).unwrap();
    }

    /// Who holds the device by these claims, with these processes on it: each one's owner, with the rule's department, and
    /// memory in MiB.
    fn held(proc: &Path, pids: &[u32], snapshot: Snapshot) -> Vec<(Owner, Option<Part>, u64)> {
        let rules = "[[owners.rule]]\nname = \"a\"\nmatch.namespace = \"lab\"\nset.department = \"labs\"\n\
                     [owners.default]\ndepartment = \"unassigned\"\n";
        let config = crate::config::Config::parse(rules, Path::new("agent.toml"), &Default::default()).unwrap();
        let snapshot = Arc::new(snapshot);
        let mut owners = ProcessOwners::new(proc.to_owned(), proc.join("passwd"));
        let found = owners.resolve(pids, 0, &[Arc::clone(&snapshot)]);
        let payer = |named: &Named| Identified::from(mapping::apply(&config.rules, named.clone()).owner);
        let given: Vec<(Part, Identified)> =
            snapshot.claims.iter().map(|claim| (claim.part, payer(&claim.holder))).collect();
        let processes: Vec<Identified> = pids.iter().map(|pid| payer(&found[pid])).collect();
        let processes = processes.iter().map(|owner| (owner, 1 << 20, None));
        let held = holders(given.iter().map(|(part, owner)| (*part, owner)), processes);
        held.into_iter().map(|holder| (holder.owner.into(), holder.part, holder.memory_mib)).collect()
    }

    #[test]
    fn a_pod_and_its_processes_are_one_holder() {
        let proc = tempfile::tempdir().unwrap();
        let group = format!("/kubepods/burstable/pod{UID}/{ID}");
        process(proc.path(), 5, &group, "HOME=/root");
        process(
            proc.path(),
            6,
            &group,
            "OTEL_RESOURCE_ATTRIBUTES=contador.service=chat,k8s.pod.name=else,contador.department=sales",
        );
        process(proc.path(), 7, &group, "CONTADOR_OWNER_PROJECT=vision CONTADOR_OWNER_USER=ana");
        process(proc.path(), 8, &group, "CONTADOR_OWNER_PROJECT=language CONTADOR_OWNER_JOB=j1");
        let allocation = Allocation {
            entry: 0,
            namespace: "lab".into(),
            pod: "a".into(),
            container: "main".into(),
            device: DeviceId::parse(GPU).unwrap(),
            part: Part::Even,
            ids: vec![GPU.into()],
        };
        let snapshot = |containers: &[&str]| {
            let container = |id: &&str| Container { name: "main".into(), id: (*id).to_owned(), ended_ms: None };
            let containers = containers.iter().map(container).collect();
            let pod = Pod {
                uid: UID.into(),
                namespace: "lab".into(),
                name: "a".into(),
                containers,
                started: true,
                ..Pod::default()
            };
            let mut pods = Pods::default();
            pods.replace(vec![pod]);
            let now = Instant::now();
            let claims = Join::default().claims(std::slice::from_ref(&allocation), Some(now), &pods, now);
            Snapshot { claims: claims.into(), works: pods.works().into(), ..Snapshot::default() }
        };
        let pod = Owner {
            namespace: "lab".into(),
            pod: "a".into(),
            container: "main".into(),
            department: "labs".into(),
            ..Owner::default()
        };
        let chat = Owner { department: "sales".into(), service: "chat".into(), ..pod.clone() };
        let vision = Owner { project: "vision".into(), ..pod.clone() };
        // Its container is known, is not known yet, or no API server tells of it.
        let untold = || Snapshot { works: Arc::default(), ..snapshot(&[ID]) };
        for told in [snapshot(&[ID]), snapshot(&[]), untold()] {
            let held = |pids: &[u32]| held(proc.path(), pids, told.clone());
            let one = |owner: &Owner, mib| vec![(owner.clone(), Some(Part::Even), mib)];
            assert_eq!(held(&[]), one(&pod, 0), "{told:?}");
            assert_eq!(held(&[5]), one(&pod, 1), "{told:?}");
            assert_eq!(held(&[7]), one(&vision, 1), "{told:?}");
            assert_eq!(held(&[5, 7]), one(&vision, 2), "{told:?}");
            // What they contradict each other in is not his.
            assert_eq!(held(&[5, 7, 8]), one(&pod, 3), "{told:?}");
            if !told.works.is_empty() {
                assert_eq!(held(&[6]), one(&chat, 1), "{told:?}");
            }
        }
    }

    #[test]
    fn a_job_and_its_processes_are_one_holder() {
        let dir = tempfile::tempdir().unwrap();
        let (proc, cgroup) = (dir.path().join("proc"), dir.path().join("cgroup"));
        for (pid, label) in [(70, ""), (71, " CONTADOR_OWNER_EXPERIMENT=sweep-7 CONTADOR_OWNER_DEPARTMENT=physics")] {
            let environ = format!("SLURM_JOB_ID=7 SLURM_JOB_GPUS=0 SLURM_CLUSTER_NAME=c{label}");
            process(&proc, pid, "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", &environ);
        }
        let task = cgroup.join("system.slice/slurmstepd.scope/job_7/step_0/user/task_0");
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("cgroup.procs"), "70\n71\n").unwrap();
        let mut jobs = Jobs::new(proc.clone(), cgroup, proc.join("passwd"), "n1".into());
        let snapshot = jobs.look(1, &[NodeDevice { uuid: GPU.into(), minor: Some(0), ..NodeDevice::default() }]);
        let job = snapshot.claims[0].holder.owner.clone();
        assert_eq!((job.job.as_str(), job.cluster.as_str()), ("7", "c"));
        let job = Owner { department: "unassigned".into(), ..job };
        let sweep = Owner { department: "physics".into(), experiment: "sweep-7".into(), ..job.clone() };
        for (pids, owner) in [(&[][..], &job), (&[70], &job), (&[71], &sweep), (&[70, 71], &sweep)] {
            let expected = [(owner.clone(), Some(Part::Even), pids.len() as u64)];
            assert_eq!(held(&proc, pids, snapshot.clone()), expected, "{pids:?}");
        }
    }

    #[test]
    fn whose_process_it_is_must_be_clear() {
        let pod = |pod: &str, container: &str| Owner {
            namespace: "lab".into(),
            pod: pod.into(),
            container: container.into(),
            ..Owner::default()
        };
        let count = |given: &[&Owner], process: &Owner| {
            let given: Vec<Identified> = given.iter().map(|owner| Identified::from(Owner::clone(owner))).collect();
            let process = process.clone().into();
            holders(given.iter().map(|owner| (Part::Even, owner)), [(&process, 0, None)]).len() - given.len()
        };
        let (main, side, other) = (pod("a", "main"), pod("a", "side"), pod("b", "main"));
        let untold = Owner { pod: UID.into(), container: ID[..12].into(), ..Owner::default() };
        let labelled = Owner { project: "vision".into(), ..side.clone() };
        for (given, process, more) in [
            (&[&main, &side, &other][..], &labelled, 0),
            (&[&main, &other], &labelled, 1),
            (&[&main, &other], &pod("a", ""), 0),
            (&[&main, &side], &pod("a", ""), 1),
            (&[&main], &untold, 0),
            (&[&main, &other], &untold, 1),
            (&[&Owner { job: "7".into(), ..Owner::default() }], &untold, 1),
            // Neither a container beside the pods, nor somebody's program, nor nobody is a pod's.
            (&[&main], &Owner { container: ID[..12].into(), ..Owner::default() }, 1),
            (&[&main], &Owner { user: "ana".into(), ..Owner::default() }, 1),
            (&[&main], &Owner::of_kind(contador_schemas::owner::OwnerKind::Unattributed), 1),
        ] {
            assert_eq!(count(given, process), more, "{given:?} {process:?}");
        }
    }
}
