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
//! Rules may ask for variables of its environment ([`ProcessOwners::with_variables`]): each is its own, or that of the nearest
//! ancestor that has it, and a label `env.NAME`.
//!
//! Most of it is at each call as it was at the one before, so answers are kept:
//!
//! - that it is still the same process is asked at each call: of the pidfds of all at once ([`super::alive`]); where there is
//!   none, `/proc/PID/stat` is read for its start time. So a reused PID is a new process. When all is as it was, nothing else
//!   is done.
//! - what its labels say is kept as long as it lives: an environment that named an owner once is not asked again.
//! - of all others, also where nothing could be found out, the whole answer is looked up again after a while, since an `exec`
//!   may have brought labels, and a scheduler may have moved it to another group: a look reads the environments of the process
//!   and of its ancestors, and a process has at most one in that while. What an ancestor says is read once for all that are
//!   looked up together.
//! - what schedulers say of a work is taken from their last word at each call, and costs no look; so is the name of a user. Who
//!   that makes of a process is worked out again when they are others: as long as an answer is the same, it is the same [`Arc`].

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use contador_schemas::mapping::Labels;
use contador_schemas::owner::{Owner, OwnerKind};

use super::alive::Watched;
use super::cgroup::{self, Work};
use super::claim::{Named, Snapshot};
use super::users::Users;
use super::{claim, labels, slurm};
use crate::sensors::kernel::{Environ, Stat};

/// Most ancestors that are asked.
const MAX_ANCESTORS: usize = 64;

/// Most processes whose end is told by an open file: there is a limit of those, often 1,024.
const MAX_WATCHED: usize = 256;

/// Most of the list of control groups that is read, in bytes.
const MAX_CGROUP_BYTES: u64 = 64 << 10;

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
    /// Of which variables rules ask.
    variables: BTreeSet<String>,
    watched: Watched,
    known: HashMap<u32, Known>,
    /// What schedulers had said at the last call, and the version of users' names: another one also when a name is due.
    told: (Vec<Arc<Snapshot>>, u64),
    /// What it was asked, and what it answered.
    asked: Vec<u32>,
    owners: Owners,
    /// From when until when, Unix milliseconds, that is the answer if no process ends; `None`: if one has to look again anyway.
    settled: Option<Range<i64>>,
    calls: u64,
    looks: u64,
}

/// By PID, whose a process is.
pub type Owners = Arc<HashMap<u32, Arc<Named>>>;

/// What the ancestors of the processes of one call say: by PID, what the environment of one says and who its parent is.
type Ancestors = HashMap<u32, (Saying, u32)>;

/// What an environment says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Saying {
    /// Who it names.
    owner: Option<Owner>,
    /// The variables that rules ask for, as labels.
    variables: Labels,
}

#[derive(Debug)]
struct Known {
    /// Clock ticks since boot.
    started: Option<u64>,
    /// Whether its end is told.
    is_watched: bool,
    /// It could not be watched: that is tried again when it is looked up, as where `/proc` has other processes' PIDs, all are so.
    is_unwatchable: bool,
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
    /// What the environment says, and those of its ancestors as far as it does not.
    said: Saying,
    /// What its control group says that it is part of.
    work: Option<Work>,
    /// Who runs it.
    uid: Option<u32>,
    /// The program's name.
    command: String,
    /// Whether its own environment can be read.
    readable: bool,
}

impl ProcessOwners {
    /// Looks under `proc` (`/proc`); names of users are in `passwd` (`/etc/passwd`).
    pub fn new(proc: PathBuf, passwd: PathBuf) -> Self {
        Self {
            watched: Watched::new(proc.clone(), MAX_WATCHED),
            proc,
            users: Users::new(passwd),
            variables: BTreeSet::new(),
            known: HashMap::new(),
            told: Default::default(),
            asked: Vec::new(),
            owners: Owners::default(),
            settled: None,
            calls: 0,
            looks: 0,
        }
    }

    /// Has these variables of environments be labels.
    #[must_use]
    pub fn with_variables(mut self, variables: BTreeSet<&str>) -> Self {
        self.variables = variables.into_iter().map(str::to_owned).collect();
        self
    }

    /// The owner of each of these processes that exists, at `now_ms` (Unix milliseconds), where `schedulers` have told last
    /// whose the works of this node are. What is known of other processes is forgotten. The same answer is the same [`Arc`].
    pub fn resolve(&mut self, pids: &[u32], now_ms: i64, schedulers: &[Arc<Snapshot>]) -> Owners {
        let ended = self.watched.take_ended();
        let version = self.users.version();
        let is_told = self.told.1 == version && has_same_works(&self.told.0, schedulers);
        // Names that come meanwhile are taken at the next call.
        self.told = (schedulers.to_vec(), version);
        let is_settled = self.settled.as_ref().is_some_and(|settled| settled.contains(&now_ms));
        if !(is_settled && is_told && ended.is_empty() && self.asked == pids) {
            ended.iter().for_each(|pid| _ = self.known.remove(pid));
            let owners = self.look(pids, now_ms, is_told);
            if owners.len() != self.owners.len()
                || !owners.iter().all(|(pid, named)| is_same(self.owners.get(pid), named))
            {
                self.owners = Arc::new(owners);
            }
            pids.clone_into(&mut self.asked);
            self.settled = self.settled();
        }
        Arc::clone(&self.owners)
    }

    /// The owner of each process, where something may be another than before.
    fn look(&mut self, pids: &[u32], now_ms: i64, is_told: bool) -> HashMap<u32, Arc<Named>> {
        let (mut owners, mut ancestors) = (HashMap::with_capacity(pids.len()), Ancestors::new());
        self.calls += 1;
        for &pid in pids {
            let is_known = |known: &Known| known.call == self.calls || (known.is_watched && !known.is_due(now_ms));
            if !self.known.get(&pid).is_some_and(is_known) {
                let before = self.known.remove(&pid);
                let Some(found) = self.find(pid, before, now_ms, &mut ancestors) else {
                    self.watched.forget(pid);
                    continue;
                };
                self.known.insert(pid, found);
            }
            let Some(known) = self.known.get_mut(&pid) else { continue };
            if known.call == 0 || (!is_told && known.call != self.calls) {
                known.name(&mut self.users, &self.told.0);
            }
            known.call = self.calls;
            owners.extend(known.named.clone().map(|named| (pid, named)));
        }
        for (pid, _) in self.known.extract_if(|_, known| known.call != self.calls) {
            self.watched.forget(pid);
        }
        owners
    }

    /// See the field.
    fn settled(&self) -> Option<Range<i64>> {
        let mut settled = i64::MIN..i64::MAX;
        for pid in &self.asked {
            let known = self.known.get(pid).filter(|known| known.is_watched)?;
            if let Some(holds_ms) = known.holds_ms {
                settled.start = settled.start.max(known.found_ms);
                settled.end = settled.end.min(known.found_ms.saturating_add(holds_ms));
            }
        }
        Some(settled)
    }

    /// What is known of a process that may be another one than `before`; `None` when it does not exist.
    fn find(&mut self, pid: u32, before: Option<Known>, now_ms: i64, ancestors: &mut Ancestors) -> Option<Known> {
        // Before anything is read: so that is of its process, or of one that comes when it has ended.
        let gave_up = before.as_ref().is_some_and(|known| known.is_unwatchable && !known.is_due(now_ms));
        let is_watched = !gave_up && self.watched.watch(pid);
        let is_refused = !is_watched && !gave_up && !self.watched.is_full();
        let stat = self.stat(pid)?;
        let is_same = |known: &Known| known.started == stat.started && !known.is_due(now_ms);
        if before.as_ref().is_some_and(is_same) {
            let is_unwatchable = gave_up || is_refused;
            return before.map(|known| Known { is_watched, is_unwatchable, ..known });
        }
        // Of another one that has that PID now, it is tried at the next call.
        let is_unwatchable = is_refused;
        let found = self.look_up(pid, &stat, ancestors);
        // What has brought no labels so far is ever less likely to bring some.
        let again = before.as_ref().filter(|known| known.started == stat.started && known.found == found);
        let longer =
            again.and_then(|known| known.holds_ms).map_or(UNLABELLED_MS, |held| (2 * held).min(MAX_UNLABELLED_MS));
        let holds_ms = found.said.owner.is_none().then_some(longer);
        let named = before.and_then(|known| known.named);
        let (started, found_ms) = (stat.started, now_ms);
        Some(Known { started, is_watched, is_unwatchable, found, found_ms, holds_ms, named, call: 0 })
    }

    /// How often a process was looked up so far, as opposed to known.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// What can be found out of a process.
    fn look_up(&mut self, pid: u32, stat: &Stat, ancestors: &mut Ancestors) -> Found {
        self.looks += 1;
        let uid = fs::metadata(self.proc.join(pid.to_string())).map(|metadata| metadata.uid()).ok();
        let own = self.environ(pid);
        let readable = own.is_ok();
        let mut said = own.map(|environ| self.said(&environ)).unwrap_or_default();
        let mut parent = stat.parent;
        for _ in 0..MAX_ANCESTORS {
            if parent == 0 || (said.owner.is_some() && said.variables.len() == self.variables.len()) {
                break;
            }
            let (ancestor, next) = &*ancestors.entry(parent).or_insert_with(|| self.ancestor(parent));
            said.complete(ancestor);
            parent = *next;
        }
        let work = cgroup::work_in(&self.groups(pid));
        Found { said, work, uid, command: stat.command.clone(), readable }
    }

    fn ancestor(&self, pid: u32) -> (Saying, u32) {
        let said = self.environ(pid).map(|environ| self.said(&environ)).unwrap_or_default();
        (said, self.stat(pid).map_or(0, |stat| stat.parent))
    }

    fn said(&self, environ: &Environ) -> Saying {
        Saying { owner: labels::owner_in(environ), variables: labels::variables_in(environ, &self.variables) }
    }

    /// Of a process that lives.
    fn stat(&self, pid: u32) -> Option<Stat> {
        Stat::read(&self.proc, pid).filter(|stat| !stat.is_dead() && stat.started.is_some())
    }

    fn environ(&self, pid: u32) -> io::Result<Environ> {
        Environ::read(&self.proc, pid)
    }

    /// The text of `/proc/PID/cgroup`; empty when it can't be read.
    fn groups(&self, pid: u32) -> String {
        let file = fs::File::open(self.proc.join(pid.to_string()).join("cgroup"));
        let mut bytes = Vec::new();
        let read = file.and_then(|file| file.take(MAX_CGROUP_BYTES).read_to_end(&mut bytes));
        read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

impl Saying {
    /// Adds what an ancestor says, where it says nothing itself.
    fn complete(&mut self, ancestor: &Self) {
        if self.owner.is_none() {
            self.owner.clone_from(&ancestor.owner);
        }
        for (name, value) in &ancestor.variables {
            self.variables.entry(name.clone()).or_insert_with(|| value.clone());
        }
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
        let user = self.uid.and_then(|uid| users.name(uid)).unwrap_or_default().to_owned();
        let alone = self.alone(&user);
        let is_told = self.work.as_ref().and_then(|work| told(work, schedulers));
        let of_work = self.work.as_ref().map(|work| is_told.cloned().unwrap_or_else(|| untold(work, &alone, users)));
        if of_work.as_ref().is_some_and(slurm::is_suspended) {
            return None;
        }
        let mut named = of_work.unwrap_or_else(|| Named { owner: alone, ..Named::default() });
        named.labels.extend(self.said.variables.clone());
        if let Some(said) = &self.said.owner {
            let work = std::mem::replace(&mut named.owner, said.clone());
            if named.owner.user.is_empty() {
                named.owner.user = user;
            }
            match self.work {
                Some(Work::Pod { .. } | Work::SlurmJob { .. }) => {
                    claim::identify(&mut named.owner, &work, is_told.is_some())
                }
                Some(Work::Container { .. }) | None => {}
            }
        }
        Some(named)
    }

    /// Who it is when neither its environment nor its control group tells.
    fn alone(&self, user: &str) -> Owner {
        if !self.readable && user.is_empty() && self.work.is_none() {
            return Owner::of_kind(OwnerKind::Unattributed);
        }
        let number = || self.uid.map(|uid| uid.to_string()).unwrap_or_default();
        let user = if user.is_empty() { number() } else { user.to_owned() };
        Owner { user, command: self.command.clone(), ..Owner::default() }
    }
}

/// Whether it was this before.
pub fn is_same(known: Option<&Arc<Named>>, named: &Arc<Named>) -> bool {
    known.is_some_and(|known| Arc::ptr_eq(known, named))
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
mod tests;
