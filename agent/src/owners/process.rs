//! Whose a process is.
//!
//! The first of it and its ancestors whose environment names an owner decides; but which pod or job it is, is what schedulers
//! know of its control group ([`super::cgroup`]), so that it is joined with what that was given
//! ([`is_work_of`](super::claim::is_work_of)). When no environment does, it is the work that its control group names: a pod or a
//! job as the schedulers know it, else a container by its id (and its pod by the UID), the user who runs it and the program's
//! name. When there is no such group either, it is that user and the program; and when the
//! environment can't be read and the user has no name, it is *unattributed*. A process that does not exist, or is dead and only
//! not collected yet, is nobody's; so is one of a suspended job, which holds nothing.
//!
//! Most of it is at each call as it was at the one before, so answers are kept:
//!
//! - that it is still the same process is asked at each call: of its pidfd ([`super::alive`]), of all processes at once; where
//!   there is none, `/proc/PID/stat` is read for its start time. So a reused PID is a new process.
//! - what its labels say is kept as long as it lives: an environment that named an owner once is not asked again.
//! - of all others, also where nothing could be found out, the whole answer is looked up again after a while, since an `exec`
//!   may have brought labels, and a scheduler may have moved it to another group: a look reads the environments of the process
//!   and of its ancestors, and a process has at most one in that while. What an ancestor says is read once for all that are
//!   looked up together.
//! - what schedulers say of a work is taken from their last word at each call, and costs no look. Who it makes of a process is
//!   worked out again when the word is another one: as long as an answer is the same, it is the same [`Arc`].

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};

use super::alive::Stat;
use super::cgroup::{self, Work};
use super::claim::{Named, Snapshot};
use super::users::Users;
use super::{alive, claim, labels, slurm};
use crate::sensors::kernel::{MAX_STAT_BYTES, read_at_once};

/// Most ancestors that are asked.
const MAX_ANCESTORS: usize = 64;

/// Most of an environment that is read, in bytes.
const MAX_ENVIRON_BYTES: u64 = 1 << 20;

/// Most of the list of control groups that is read, in bytes.
const MAX_CGROUP_BYTES: u64 = 64 << 10;

/// Most processes of which a pidfd is kept open: there is a limit of open files, often 1,024.
const MAX_PIDFDS: usize = 256;

/// Characters of a container's id that name it, as runtimes show it.
const SHORT_ID: usize = 12;

/// How long an answer without labels is kept, in milliseconds; twice as long each time that it is the same.
const UNLABELLED_MS: i64 = 30_000;

/// How long it is kept at most.
const MAX_UNLABELLED_MS: i64 = 16 * UNLABELLED_MS;

/// The owners of processes, by what `/proc` tells.
#[derive(Debug)]
pub struct ProcessOwners {
    proc: PathBuf,
    users: Users,
    known: HashMap<u32, Known>,
    /// What schedulers had said at the last call.
    told: Vec<Arc<Snapshot>>,
    calls: u64,
    looks: u64,
}

/// What the ancestors of the processes of one call say: by PID, the owner that one names and who its parent is.
type Ancestors = HashMap<u32, (Option<Owner>, u32)>;

#[derive(Debug)]
struct Known {
    /// Clock ticks since boot.
    started: u64,
    /// Becomes readable when it has ended.
    pidfd: Option<OwnedFd>,
    found: Found,
    /// When it was found out, Unix milliseconds.
    found_ms: i64,
    /// For how many milliseconds that holds; `None`: for ever, as labels don't change.
    holds_ms: Option<i64>,
    /// Who it is by what the schedulers had said; `None` when its job was suspended.
    named: Option<Arc<Named>>,
    /// The last call that asked for it; 0: it has no name yet.
    call: u64,
}

/// What a look finds out.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// Who the environment names.
    said: Option<Owner>,
    /// What its control group says that it is part of.
    work: Option<Work>,
    /// Who it is when neither of them tells.
    alone: Owner,
}

impl ProcessOwners {
    /// Looks under `proc` (`/proc`); names of users are in `passwd` (`/etc/passwd`).
    pub fn new(proc: PathBuf, passwd: PathBuf) -> Self {
        Self { proc, users: Users::new(passwd), known: HashMap::new(), told: Vec::new(), calls: 0, looks: 0 }
    }

    /// The owner of each of these processes that exists, at `now_ms` (Unix milliseconds), where `schedulers` have told last
    /// whose the works of this node are. What is known of other processes is forgotten.
    pub fn resolve(&mut self, pids: &[u32], now_ms: i64, schedulers: &[Arc<Snapshot>]) -> HashMap<u32, Arc<Named>> {
        let pidfds = || self.known.iter().filter_map(|(pid, known)| Some((*pid, known.pidfd.as_ref()?)));
        let (ended, mut room) = (alive::ended(pidfds()), MAX_PIDFDS.saturating_sub(pidfds().count()));
        ended.iter().for_each(|pid| _ = self.known.remove(pid));
        let is_told = has_same_works(&self.told, schedulers);
        let (mut owners, mut ancestors) = (HashMap::with_capacity(pids.len()), Ancestors::new());
        self.calls += 1;
        for &pid in pids {
            let is_known = |known: &Known| known.call == self.calls || (known.pidfd.is_some() && !known.is_due(now_ms));
            if !self.known.get(&pid).is_some_and(is_known) {
                let before = self.known.remove(&pid);
                let Some(found) = self.find(pid, before, now_ms, &mut ancestors, &mut room) else { continue };
                self.known.insert(pid, found);
            }
            let Some(known) = self.known.get_mut(&pid) else { continue };
            if known.call == 0 || (!is_told && known.call != self.calls) {
                known.name(&mut self.users, schedulers);
            }
            known.call = self.calls;
            owners.extend(known.named.clone().map(|named| (pid, named)));
        }
        self.known.retain(|_, known| known.call == self.calls);
        self.told = schedulers.to_vec();
        owners
    }

    /// What is known of a process that may be another one than `before`; `None` when it does not exist.
    fn find(
        &mut self,
        pid: u32,
        mut before: Option<Known>,
        now_ms: i64,
        ancestors: &mut Ancestors,
        room: &mut usize,
    ) -> Option<Known> {
        let pidfd = match &mut before {
            Some(known) => known.pidfd.take(),
            // Before anything is read: so that is of its process, or of one that comes when it has ended.
            None if *room > 0 => alive::pidfd(&self.proc, pid).inspect(|_| *room -= 1),
            None => None,
        };
        let stat = self.stat(pid)?;
        let is_same = |known: &Known| known.started == stat.started && !known.is_due(now_ms);
        if before.as_ref().is_some_and(is_same) {
            return before;
        }
        let found = self.look_up(pid, &stat, ancestors);
        // What has brought no labels so far is ever less likely to bring some.
        let again = before.as_ref().filter(|known| known.started == stat.started && known.found == found);
        let longer =
            again.and_then(|known| known.holds_ms).map_or(UNLABELLED_MS, |held| (2 * held).min(MAX_UNLABELLED_MS));
        let holds_ms = found.said.is_none().then_some(longer);
        let named = before.and_then(|known| known.named);
        Some(Known { started: stat.started, pidfd, found, found_ms: now_ms, holds_ms, named, call: 0 })
    }

    /// How often a process was looked up so far, as opposed to known.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// What can be found out of a process.
    fn look_up(&mut self, pid: u32, stat: &Stat, ancestors: &mut Ancestors) -> Found {
        self.looks += 1;
        let uid = fs::metadata(self.proc.join(pid.to_string())).map(|metadata| metadata.uid());
        let user = uid.as_ref().ok().and_then(|&uid| self.users.name(uid)).unwrap_or_default().to_owned();
        let own = self.environ(pid);
        let readable = own.is_ok();
        let mut said = own.ok().as_deref().and_then(labels::owner_in);
        let mut parent = stat.parent;
        for _ in 0..MAX_ANCESTORS {
            if said.is_some() || parent == 0 {
                break;
            }
            (said, parent) = ancestors.entry(parent).or_insert_with(|| self.ancestor(parent)).clone();
        }
        if let Some(said) = said.as_mut().filter(|said| said.user.is_empty()) {
            said.user.clone_from(&user);
        }
        let groups = self.read(pid, "cgroup", MAX_CGROUP_BYTES).unwrap_or_default();
        let work = cgroup::work_in(&String::from_utf8_lossy(&groups));
        let alone = if !readable && user.is_empty() && work.is_none() {
            Owner::of_kind(OwnerKind::Unattributed)
        } else {
            let user = if user.is_empty() { uid.map(|uid| uid.to_string()).unwrap_or_default() } else { user };
            Owner { user, command: stat.command.clone(), ..Owner::default() }
        };
        Found { said, work, alone }
    }

    fn ancestor(&self, pid: u32) -> (Option<Owner>, u32) {
        let said = self.environ(pid).ok().as_deref().and_then(labels::owner_in);
        (said, self.stat(pid).map_or(0, |stat| stat.parent))
    }

    fn stat(&self, pid: u32) -> Option<Stat> {
        let mut room = [0; MAX_STAT_BYTES];
        let line = read_at_once(&self.proc.join(pid.to_string()).join("stat"), &mut room).ok()?;
        Stat::parse(&String::from_utf8_lossy(line))
    }

    fn environ(&self, pid: u32) -> io::Result<Vec<u8>> {
        self.read(pid, "environ", MAX_ENVIRON_BYTES)
    }

    fn read(&self, pid: u32, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let file = fs::File::open(self.proc.join(pid.to_string()).join(name))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Known {
    /// Whether it is to be looked up again: also when the clock was set back since.
    fn is_due(&self, now_ms: i64) -> bool {
        self.holds_ms.is_some_and(|holds_ms| !(0..holds_ms).contains(&(now_ms - self.found_ms)))
    }

    /// Says who it is by what the schedulers say now.
    fn name(&mut self, users: &mut Users, schedulers: &[Arc<Snapshot>]) {
        let named = self.found.named(users, schedulers);
        if self.named.as_deref() != named.as_ref() {
            self.named = named.map(Arc::new);
        }
    }
}

impl Found {
    /// Who it is by what the schedulers say now; `None` when its job is suspended.
    fn named(&self, users: &mut Users, schedulers: &[Arc<Snapshot>]) -> Option<Named> {
        let is_told = self.work.as_ref().and_then(|work| told(work, schedulers));
        let of_work =
            self.work.as_ref().map(|work| is_told.cloned().unwrap_or_else(|| untold(work, &self.alone, users)));
        if of_work.as_ref().is_some_and(slurm::is_suspended) {
            return None;
        }
        let mut named = of_work.unwrap_or_else(|| Named { owner: self.alone.clone(), ..Named::default() });
        if let Some(said) = &self.said {
            let work = std::mem::replace(&mut named.owner, said.clone());
            match self.work {
                Some(Work::Pod { .. } | Work::SlurmJob { .. }) => {
                    claim::identify(&mut named.owner, &work, is_told.is_some())
                }
                Some(Work::Container { .. }) | None => {}
            }
        }
        Some(named)
    }
}

/// Whether both say the same of works.
fn has_same_works(one: &[Arc<Snapshot>], other: &[Arc<Snapshot>]) -> bool {
    let is_same = |(one, other): (&Arc<Snapshot>, &Arc<Snapshot>)| {
        Arc::ptr_eq(&one.works, &other.works) || one.works == other.works
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}

/// Whose a work is, as a scheduler knows it.
fn told<'s>(work: &Work, schedulers: &'s [Arc<Snapshot>]) -> Option<&'s Named> {
    let ids = match work {
        Work::Pod { uid, container } => [container.as_deref(), Some(uid.as_str())],
        Work::SlurmJob { job, .. } => [Some(job.as_str()), None],
        Work::Container { id, .. } => [Some(id.as_str()), None],
    };
    ids.into_iter().flatten().find_map(|id| schedulers.iter().find_map(|snapshot| snapshot.works.get(id)))
}

/// Whose a work is that no scheduler tells of, by its group and its process.
fn untold(work: &Work, alone: &Owner, users: &mut Users) -> Named {
    let mut named = Named { owner: alone.clone(), ..Named::default() };
    let mut label = |name: &str, value: &str| _ = named.labels.insert(name.to_owned(), value.to_owned());
    let container = match work {
        Work::Pod { uid, container } => {
            label("k8s.pod.uid", uid);
            named.owner.pod.clone_from(uid);
            container.as_deref()
        }
        Work::SlurmJob { job, uid, .. } => {
            let user = uid.and_then(|uid| users.name(uid)).map_or_else(|| alone.user.clone(), str::to_owned);
            named.owner = Owner { job: job.clone(), user, ..Owner::default() };
            return named;
        }
        Work::Container { runtime, id } => {
            label("container.runtime.name", runtime);
            Some(id.as_str())
        }
    };
    if let Some(id) = container {
        label("container.id", id);
        id.get(..SHORT_ID).unwrap_or(id).clone_into(&mut named.owner.container);
    }
    named
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn process(proc: &Path, pid: u32, parent: u32, command: &str, environ: Option<&str>) {
        let dir = proc.join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let middle = "0 ".repeat(17);
        fs::write(dir.join("stat"), format!("{pid} ({command}) S {parent} {middle}{}", pid * 100)).unwrap();
        if let Some(environ) = environ {
            fs::write(dir.join("environ"), environ.replace(' ', "\0")).unwrap();
        }
    }

    fn cgroup(proc: &Path, pid: u32, path: &str) {
        fs::write(proc.join(pid.to_string()).join("cgroup"), format!("0::{path}\n")).unwrap();
    }

    fn owners(proc: &Path, passwd: &str) -> ProcessOwners {
        let file = proc.join("passwd");
        fs::write(&file, passwd).unwrap();
        ProcessOwners::new(proc.to_owned(), file)
    }

    #[test]
    fn a_labelled_ancestor_decides() {
        let dir = tempfile::tempdir().unwrap();
        let uid = fs::metadata(dir.path()).unwrap().uid();
        process(dir.path(), 1, 0, "init", Some(""));
        process(dir.path(), 10, 1, "bash", Some("CONTADOR_OWNER_DEPARTMENT=research CONTADOR_OWNER_PROJECT=vision"));
        process(dir.path(), 11, 10, "odd) name (", None);
        process(dir.path(), 12, 11, "python3", Some("HOME=/root"));
        process(dir.path(), 13, 1, "python3", Some("HOME=/root"));
        let mut owners = owners(dir.path(), &format!("ana:x:{uid}:0::/:/bin/sh\n"));
        let found = owners.resolve(&[11, 12, 13, 4000], 0, &[]);
        assert_eq!(found.len(), 3, "a PID that is not there is nobody's");
        let labelled =
            Owner { department: "research".into(), project: "vision".into(), user: "ana".into(), ..Owner::default() };
        assert_eq!((&found[&11].owner, &found[&12].owner), (&labelled, &labelled));
        assert_eq!(found[&13].owner, Owner { user: "ana".into(), command: "python3".into(), ..Owner::default() });
    }

    #[test]
    fn without_an_environment_and_a_name_it_is_unattributed() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 7, 1, "thing", None);
        let mut nobody = owners(dir.path(), "");
        assert_eq!(nobody.resolve(&[7], 0, &[])[&7].owner, Owner::of_kind(OwnerKind::Unattributed));
        let uid = fs::metadata(dir.path()).unwrap().uid();
        process(dir.path(), 8, 1, "thing", Some(""));
        let owner = nobody.resolve(&[8], 0, &[])[&8].owner.clone();
        assert_eq!((owner.user, owner.command), (uid.to_string(), "thing".to_owned()));
    }

    #[test]
    fn a_reused_pid_is_a_new_process_and_labels_may_come_later() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 7, 1, "sh", Some(""));
        let mut owners = owners(dir.path(), "");
        assert_eq!(owners.resolve(&[7], 0, &[])[&7].owner.command, "sh");
        process(dir.path(), 7, 1, "sh", Some("CONTADOR_OWNER_JOB=j1"));
        assert_eq!(owners.resolve(&[7], UNLABELLED_MS - 1, &[])[&7].owner.command, "sh");
        assert_eq!(owners.resolve(&[7], UNLABELLED_MS, &[])[&7].owner.job, "j1");
        fs::write(dir.path().join("7/stat"), format!("7 (new) S 1 {}9999", "0 ".repeat(17))).unwrap();
        fs::write(dir.path().join("7/environ"), "").unwrap();
        assert_eq!(owners.resolve(&[7], UNLABELLED_MS, &[])[&7].owner.command, "new");
        // Its first thread has ended: only without others is it dead.
        for (threads, found) in [(2, 1), (1, 0)] {
            let stat = format!("7 (new) Z 1 {}{threads} 0 9999", "0 ".repeat(15));
            fs::write(dir.path().join("7/stat"), stat).unwrap();
            assert_eq!(owners.resolve(&[7], UNLABELLED_MS, &[]).len(), found, "{threads} threads");
        }
    }

    #[test]
    fn who_has_no_labels_is_looked_up_less_and_less() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 7, 1, "sh", Some(""));
        let mut owners = owners(dir.path(), "");
        let mut looks = Vec::new();
        for second in 0..1_500 {
            let before = owners.looks();
            assert_eq!(owners.resolve(&[7], second * 1_000, &[])[&7].owner.command, "sh");
            looks.extend((owners.looks() > before).then_some(second));
        }
        assert_eq!(looks, [0, 30, 90, 210, 450, 930, 1_410]);
        // Another one has that PID.
        process(dir.path(), 7, 2, "sh", Some(""));
        fs::write(dir.path().join("7/stat"), format!("7 (sh) S 1 {}9999", "0 ".repeat(17))).unwrap();
        for second in [1_500, 1_530, 1_590] {
            owners.resolve(&[7], second * 1_000, &[]);
        }
        assert_eq!(owners.looks(), 10);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_put_off_a_look() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 7, 1, "sh", Some(""));
        let mut owners = owners(dir.path(), "");
        let day_ms = 86_400_000;
        assert_eq!(owners.resolve(&[7], day_ms, &[])[&7].owner.command, "sh");
        process(dir.path(), 7, 1, "sh", Some("CONTADOR_OWNER_JOB=j1"));
        assert_eq!(owners.resolve(&[7], day_ms + 1, &[])[&7].owner.command, "sh");
        assert_eq!(owners.resolve(&[7], 0, &[])[&7].owner.job, "j1");
    }

    #[test]
    fn this_very_process_is_found() {
        let mut owners = ProcessOwners::new("/proc".into(), "/etc/passwd".into());
        let pid = std::process::id();
        assert!(owners.resolve(&[pid], 0, &[]).contains_key(&pid));
    }

    #[test]
    fn a_process_that_has_ended_is_nobodys_before_its_parent_collects_it() {
        let mut child = Command::new("sleep").arg("600").env("CONTADOR_OWNER_JOB", "j1").spawn().unwrap();
        let mut owners = ProcessOwners::new("/proc".into(), "/etc/passwd".into());
        let pid = child.id();
        let start = std::time::Instant::now();
        // The kernel lets go of who has started it before the new program has its environment.
        while owners.environ(pid).unwrap().is_empty() {
            assert!(start.elapsed().as_secs() < 60);
            std::thread::yield_now();
        }
        let found = owners.resolve(&[pid, pid], 0, &[]);
        assert!(owners.known[&pid].pidfd.is_some());
        let again = owners.resolve(&[pid], UNLABELLED_MS, &[]);
        assert_eq!((owners.looks(), again[&pid].owner.job.as_str()), (1, "j1"));
        assert!(Arc::ptr_eq(&found[&pid], &again[&pid]));
        child.kill().unwrap();
        let start = std::time::Instant::now();
        while !owners.resolve(&[pid], 0, &[]).is_empty() {
            assert!(start.elapsed().as_secs() < 60);
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn more_processes_than_files_may_be_open_are_told_apart_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc/self", dir.path().join("self")).unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        process(dir.path(), pid, 1, "sh", Some(""));
        let mut owners = owners(dir.path(), "");
        let mut room = 0;
        let known = owners.find(pid, None, 0, &mut Ancestors::new(), &mut room).unwrap();
        assert!(known.pidfd.is_none());
        owners.known.insert(pid, known);
        fs::write(dir.path().join(format!("{pid}/stat")), format!("{pid} (new) S 1 {}9999", "0 ".repeat(17))).unwrap();
        assert_eq!(owners.resolve(&[pid], 1, &[])[&pid].owner.command, "new");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    const ID: &str = "7be92808767a667f35c8505cbf40d14e931ef6db5b0210329cf193b15ba9d605";

    fn telling(work: &str, owner: Owner, labels: &[(&str, &str)]) -> Arc<Snapshot> {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let works = HashMap::from([(work.to_owned(), Named { owner, labels })]).into();
        Arc::new(Snapshot { told_ms: 1, works, ..Snapshot::default() })
    }

    #[test]
    fn a_work_is_whose_its_scheduler_says_as_soon_as_it_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let uid = fs::metadata(dir.path()).unwrap().uid();
        let pod_uid = "3a6f0f0e-1c61-4d5c-9f6b-1f1c3e0d7a55";
        for (pid, environ) in [(5, ""), (6, ""), (7, ""), (8, ""), (9, "CONTADOR_OWNER_PROJECT=vision")] {
            process(dir.path(), pid, 1, "python3", Some(environ));
        }
        cgroup(dir.path(), 5, &format!("/kubepods/burstable/pod{pod_uid}/{ID}"));
        cgroup(dir.path(), 6, "/system.slice/slurmstepd.scope/job_42/step_0/user/task_0");
        cgroup(dir.path(), 7, &format!("/system.slice/docker-{ID}.scope"));
        cgroup(dir.path(), 9, "/slurm/uid_5/job_42/step_0");
        let mut owners = owners(dir.path(), &format!("ana:x:{uid}:0::/:/bin/sh\n"));
        let pids = [5, 6, 7, 8, 9];
        let alone = Owner { user: "ana".into(), command: "python3".into(), ..Owner::default() };
        let container = Owner { container: ID[..12].into(), ..alone.clone() };
        let found = owners.resolve(&pids, 0, &[]);
        let in_pod = Owner { pod: pod_uid.into(), ..container.clone() };
        assert_eq!((&found[&5].owner, &found[&7].owner, &found[&8].owner), (&in_pod, &container, &alone));
        assert_eq!(
            (found[&5].labels["k8s.pod.uid"].as_str(), found[&7].labels["container.runtime.name"].as_str()),
            (pod_uid, "docker")
        );
        assert_eq!(found[&6].owner, Owner { job: "42".into(), user: "ana".into(), ..Owner::default() });

        let pod = Owner { namespace: "ml".into(), pod: "train-0".into(), ..Owner::default() };
        let job = Owner { job: "42".into(), user: "eva".into(), cluster: "c".into(), ..Owner::default() };
        let slurm = telling("42", job.clone(), &[("slurm.account", "physics")]);
        let told = [telling(pod_uid, pod.clone(), &[]), slurm];
        let found = owners.resolve(&pids, 1, &told);
        assert_eq!(owners.looks(), 5, "what schedulers say costs no look");
        assert_eq!((&found[&5].owner, &found[&6].owner, &found[&7].owner), (&pod, &job, &container));
        // The environment names the owner; what the scheduler knows of the work stays known.
        assert_eq!(found[&9].owner, Owner { project: "vision".into(), ..job.clone() });
        assert_eq!(found[&9].labels["slurm.account"], "physics");
        // A container that is told by itself is more than its pod.
        let init = Owner { container: "init".into(), ..pod.clone() };
        let found = owners.resolve(&pids, 2, &[Arc::clone(&told[0]), telling(ID, init.clone(), &[])]);
        assert_eq!(found[&5].owner, init);
    }

    #[test]
    fn a_process_of_a_suspended_job_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 6, 1, "python3", Some("CONTADOR_OWNER_PROJECT=vision"));
        cgroup(dir.path(), 6, "/slurm/uid_5/job_42/step_0");
        let mut owners = owners(dir.path(), "");
        let suspended = telling("42", Owner::default(), &[("slurm.state", "SUSPENDED")]);
        assert!(owners.resolve(&[6], 0, &[suspended]).is_empty());
        let resumed = telling("42", Owner::default(), &[("slurm.state", "RUNNING")]);
        assert_eq!(owners.resolve(&[6], 1, &[resumed])[&6].owner.project, "vision");
    }
}
