//! The jobs of this node, as they are known.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use contador_schemas::owner::Owner;

pub use super::asked::{Answer, Question};
use super::asked::{Asked, FAILED_MS};
use super::ends::{Ends, Held};
use super::environ::{Allocated, Environ};
use super::gres::{self, Gres};
use super::places::Order;
use super::told::{NodeTold, Told};
use super::tree::{self, JobGroup};
use super::{RUNNING, STATE, SUSPENDED};
use crate::owners::claim::{Claim, Named, Part, Snapshot};
use crate::owners::users::Users;
use crate::owners::{NodeDevice, label};
use crate::sensors::kernel::{self, Stat};

/// When a question is asked again, in milliseconds: where nothing has changed, and where something has.
const AGAIN_MS: u64 = 300_000;
const CHANGED_MS: u64 = 2_000;

/// Without any answer for so long, while something is asked, nobody answers any more, in milliseconds.
const SILENT_MS: u64 = 60_000;

/// How long what the groups said counts when they can't be listed, in milliseconds.
const KEEP_MS: u64 = 300_000;

/// Longest time between two looks, in milliseconds.
const MAX_STEP_MS: u64 = 60_000;

/// How soon an allocation without a process is asked of again, in milliseconds; then after twice as long each time, up to the
/// time between two polls. So whoever ends with his last process is not held for long, and whoever only waits is cheap.
const ALONE_MS: u64 = 1_000;

/// How often the node is asked for unless something else is said, in milliseconds.
const POLL_MS: u64 = 30_000;

/// Most questions that wait for an answer at once.
const MAX_PENDING: usize = 16;

/// How often the environment of a task is tried: a task that was made just now does not have it yet.
const MAX_TRIES: u8 = 10;

/// Most tasks of a job that are asked.
const MAX_TASKS: usize = 64;

/// The jobs.
#[derive(Debug)]
pub struct Jobs {
    proc: PathBuf,
    cgroup: PathBuf,
    host: String,
    poll_ms: u64,
    users: Users,
    /// By the id that they have in their groups; those without a group by number.
    known: BTreeMap<String, Job>,
    node: Asked<NodeTold>,
    /// How many devices the known jobs have, without shares.
    explained: u64,
    running: Asked<()>,
    /// Questions about jobs that have no answer yet, also about those that are gone.
    open: usize,
    /// When something was answered last, or asked while nothing else was, in milliseconds of a clock that only goes forward; and why
    /// nobody answers.
    heard_ms: u64,
    hung: Option<String>,
    ends: Ends,
    /// For how long the groups could not be listed, in milliseconds, and when that was last tried (Unix milliseconds).
    unlisted_ms: u64,
    looked_ms: i64,
    last: Snapshot,
}

#[derive(Debug, Default)]
struct Job {
    group: JobGroup,
    environ: Environ,
    /// Each process, and whether it is a task: whether it was started by a manager, and not by another process of the job.
    processes: HashMap<u32, bool>,
    /// Tasks whose environment is not known, and how often it was tried.
    unread: BTreeMap<u32, u8>,
    stopped: bool,
    /// What `stopped` was when it was asked.
    stopped_when_asked: bool,
    asked_ms: u64,
    /// Without a process: when it is asked of again after that.
    wait_ms: u64,
    asked: Asked<Told>,
    owner: Option<Owner>,
    held: Held,
    /// Another one has what it holds.
    is_doubted: bool,
}

impl Jobs {
    /// Looks under `proc` (`/proc`) and `cgroup` (`/sys/fs/cgroup`); names of users are in `passwd` (`/etc/passwd`), and
    /// `host` is the node's name in Slurm where nothing else tells it.
    pub fn new(proc: PathBuf, cgroup: PathBuf, passwd: PathBuf, host: String) -> Self {
        let (node, mut running) = (Asked::default(), Asked::default());
        running.due_ms = u64::MAX;
        Self {
            proc,
            cgroup,
            host,
            poll_ms: POLL_MS,
            users: Users::new(passwd),
            known: BTreeMap::new(),
            node,
            explained: 0,
            running,
            open: 0,
            heard_ms: 0,
            hung: None,
            ends: Ends::default(),
            unlisted_ms: 0,
            looked_ms: 0,
            last: Snapshot::default(),
        }
    }

    /// How often the node is asked for.
    #[must_use]
    pub fn polled_every(mut self, poll: Duration) -> Self {
        self.poll_ms = u64::try_from(poll.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Who holds what at `told_ms` (Unix milliseconds), where the node has `devices`. When the groups can't be listed it is
    /// what was told last, with why; after 5 minutes nobody holds anything by that.
    pub fn look(&mut self, told_ms: i64, devices: &[NodeDevice]) -> Snapshot {
        let passed_ms = u64::try_from(told_ms.saturating_sub(self.looked_ms)).unwrap_or(0);
        self.looked_ms = told_ms;
        let groups = match tree::jobs(&self.cgroup) {
            Ok(groups) => groups,
            Err(fault) => return self.unlisted(fault, passed_ms),
        };
        self.unlisted_ms = 0;
        let mut before = std::mem::take(&mut self.known);
        for group in groups {
            let id = group.job.clone();
            let mut job = before.remove(&id).unwrap_or_default();
            job.take(group, &self.proc);
            self.known.insert(id, job);
        }
        for (id, mut job) in before {
            let is_another = |other: &Job| other.environ.number == id;
            if job.goes_on_alone(&self.host) && !self.known.values().any(is_another) {
                self.known.insert(id, job);
            } else {
                job.held.end(job.asked.told.as_ref(), told_ms, &mut self.ends);
            }
        }
        let (mut claims, mut works) = (Vec::new(), HashMap::new());
        let about = self.node.told.as_ref();
        let has = about.map_or(0, |node| gres::count(&node.has, "gpu"));
        let order = Order::known(about.and_then(|node| node.order.as_ref()), has, devices);
        self.explained = 0;
        for (id, job) in &mut self.known {
            let node = job.node(&self.host);
            node.clone_into(&mut self.host);
            if !job.is_ready() {
                continue;
            }
            let named = job.named(&self.proc, &mut self.users);
            let mut of_job = job.claims(&named, &node, about, order.as_ref().ok().copied(), devices);
            self.explained += if job.has_shares() { 0 } else { of_job.len() as u64 };
            if super::is_suspended(&named) {
                of_job.clear();
            }
            job.held.take(&of_job, &named.owner, job.asked.told.as_ref(), told_ms, &mut self.ends);
            claims.extend(of_job);
            if job.environ.number != *id && !job.environ.number.is_empty() {
                works.insert(job.environ.number.clone(), named.clone());
            }
            works.insert(id.clone(), named);
        }
        self.known.values_mut().for_each(|job| job.doubt(&claims));
        let (claims, works) = (Arc::new(claims), Arc::new(works));
        // Where there is `scontrol`, and neither a controller nor jobs, nobody is missed.
        let is_missed = self.node.told.is_some() || !self.known.is_empty();
        let fault = self.hung.clone().or_else(|| self.node.fault.clone()).filter(|_| is_missed);
        let ended = self.ends.told(told_ms);
        // Before an answer it is not known whether there is an order; and one device has one place.
        let may_be_told = self.node.is_open() && self.hung.is_none();
        let is_guessed = !claims.is_empty() && devices.len() > 1 && !may_be_told;
        let unclear = order.err().filter(|_| is_guessed).map(|reason| {
            format!("node {}: which GPU is at a place of Slurm's is taken by device files, since {reason}", self.host)
        });
        let unclear = unclear.into_iter().collect();
        let mut snapshot = Snapshot { told_ms, claims, works, fault, unclear, ended, ..Snapshot::default() };
        snapshot.share(&self.last);
        self.last = snapshot.clone();
        snapshot
    }

    /// What holds when the groups can't be listed, `passed_ms` after the last look.
    fn unlisted(&mut self, fault: String, passed_ms: u64) -> Snapshot {
        // A step that is longer than any interval is one of the clock's.
        self.unlisted_ms = self.unlisted_ms.saturating_add(passed_ms.min(MAX_STEP_MS));
        let mut told = Snapshot { fault: Some(fault), ended: Vec::new(), ..self.last.clone() };
        if self.unlisted_ms >= KEEP_MS {
            (told.claims, told.expired) = (Arc::default(), true);
        }
        told
    }

    /// Whether something is asked that was neither told nor refused yet.
    pub fn is_waiting(&self) -> bool {
        let is_open = |job: &Job| job.asked.pending && job.asked.is_open();
        self.hung.is_none() && (self.node.is_open() || self.running.pending || self.known.values().any(is_open))
    }

    /// What is to be asked at `now_ms`, in milliseconds of a clock that only goes forward; it counts as asked then.
    pub fn questions(&mut self, now_ms: u64) -> Vec<Question> {
        let mut room = MAX_PENDING.saturating_sub(self.open);
        let mut questions = Vec::new();
        if !(self.node.pending || self.running.pending || self.open > 0) {
            self.heard_ms = now_ms;
        }
        if !self.node.pending && now_ms >= self.node.due_ms {
            self.node.pending = true;
            questions.push(Question::Node(self.host.clone()));
        }
        if !self.running.pending && now_ms >= self.running.due_ms {
            self.running.pending = true;
            questions.push(Question::Running(self.host.clone()));
        }
        for (id, job) in &mut self.known {
            if room == 0 || !job.is_due(now_ms) {
                continue;
            }
            let Some(number) = job.number(id).map(str::to_owned) else { continue };
            (job.asked.pending, job.asked_ms, job.stopped_when_asked) = (true, now_ms, job.stopped);
            job.wait_ms = (job.wait_ms * 2).clamp(ALONE_MS, self.poll_ms.max(ALONE_MS));
            questions.push(Question::Job(id.clone(), number));
            (room, self.open) = (room - 1, self.open + 1);
        }
        if now_ms.saturating_sub(self.heard_ms) >= SILENT_MS && self.hung.is_none() {
            let fault = format!("scontrol has neither answered nor ended for {} s", SILENT_MS / 1_000);
            tracing::warn!(fault, "Slurm does not tell");
            self.hung = Some(fault);
        }
        // A question that was asked just now may have its answer yet.
        for job in self.known.values_mut().filter(|job| now_ms.saturating_sub(job.asked_ms) >= FAILED_MS) {
            job.forget_old(now_ms);
        }
        questions
    }

    /// Takes what was answered at `now_ms`.
    pub fn answer(&mut self, answer: Answer, now_ms: u64) {
        (self.heard_ms, self.hung) = (now_ms, None);
        match answer {
            Answer::Job(id, answer) => {
                self.open = self.open.saturating_sub(1);
                let Some(job) = self.known.get_mut(&id) else { return };
                job.asked.answer(&format!("job {id}"), answer.map(|told| *told), AGAIN_MS, now_ms);
                job.forget_old(now_ms);
            }
            Answer::Node(answer) => {
                self.node.answer("the node", answer, self.poll_ms, now_ms);
                let used = self.node.told.as_ref().filter(|_| self.node.fault.is_none()).map(|node| &node.used);
                let is_more = |used: &Vec<Gres>| {
                    let shares = gres::count(used, "shard").saturating_add(gres::count(used, "mps"));
                    shares > 0 || gres::count(used, "gpu") > self.explained
                };
                // One that the controller alone knows of may have ended.
                if used.is_some_and(|used| gres::count(used, "gpu") < self.explained) {
                    self.known.values_mut().for_each(|job| job.wait_ms = 0);
                }
                self.running.due_ms = if used.is_some_and(is_more) { now_ms } else { u64::MAX };
            }
            Answer::Running(answer) => {
                let numbers = answer.clone().unwrap_or_default();
                self.running.answer("the jobs of the node", answer.map(|_| ()), u64::MAX, now_ms);
                for number in numbers {
                    let is_it = |(id, job): (&String, &Job)| *id == number || job.environ.number == number;
                    if !self.known.iter().any(is_it) {
                        let group = JobGroup { job: number.clone(), ..JobGroup::default() };
                        self.known.insert(number, Job { group, ..Job::default() });
                    }
                }
            }
        }
    }
}

impl Job {
    /// Takes what its groups have now, and asks its new tasks.
    fn take(&mut self, group: JobGroup, proc: &Path) {
        if group.pids != self.group.pids {
            self.processes.retain(|pid, _| group.pids.binary_search(pid).is_ok());
            for pid in &group.pids {
                if !self.processes.contains_key(pid)
                    && let Some(Stat { parent, .. }) = Stat::read(proc, *pid)
                {
                    let is_task = group.pids.binary_search(&parent).is_err();
                    self.processes.insert(*pid, is_task);
                    if is_task && self.unread.len() < MAX_TASKS {
                        self.unread.insert(*pid, 0);
                    }
                }
            }
        }
        self.group = group;
        let mut unread = std::mem::take(&mut self.unread);
        unread.retain(|pid, tries| {
            let is_there = self.processes.contains_key(pid);
            let environ = is_there.then(|| kernel::Environ::read(proc, *pid).ok()).flatten();
            *tries += 1;
            match environ.and_then(|environ| Environ::read(&environ, &self.group.job)) {
                Some(environ) => self.environ.add(environ),
                None => return is_there && *tries < MAX_TRIES,
            }
            false
        });
        self.unread = unread;
        let mut tasks = self.processes.iter().filter(|(_, is_task)| **is_task).map(|(pid, _)| *pid).peekable();
        let is_stopped = |pid| Stat::read(proc, pid).is_none_or(|stat| matches!(stat.state, 'T' | 't'));
        self.stopped = tasks.peek().is_some() && tasks.all(is_stopped);
    }

    /// Whether it has no process here.
    fn is_alone(&self) -> bool {
        self.group.pids.is_empty()
    }

    /// Forgets a word that is too old, of a job without a process: nothing else tells that it has ended.
    fn forget_old(&mut self, now_ms: u64) {
        if self.is_alone() && self.asked.told.is_some() && now_ms.saturating_sub(self.asked.told_ms) >= AGAIN_MS {
            self.asked.told = None;
            self.asked.fault.get_or_insert_with(|| "no answer".into());
        }
    }

    /// Has it be asked of at once, without a process, when what it holds is another one's from now on: it may have ended.
    fn doubt(&mut self, claims: &[Claim]) {
        let is_doubted = self.is_alone() && !self.has_shares() && self.held.is_of_another(claims);
        if is_doubted && !self.is_doubted {
            self.wait_ms = 0;
        }
        self.is_doubted = is_doubted;
    }

    /// Takes that its groups have no process; whether it may go on to hold what it was allocated. A batch job has ended here
    /// with its script. Any other has not before the controller says so.
    fn goes_on_alone(&mut self, host: &str) -> bool {
        let node = self.node(host);
        if !self.is_alone() {
            // It is asked of at once.
            (self.asked.due_ms, self.wait_ms) = (0, 0);
            self.group.pids.clear();
            self.group.frozen = false;
            self.processes.clear();
            self.unread.clear();
            self.stopped = false;
            if self.asked.told.is_none() {
                return false;
            }
        }
        let Some(told) = &self.asked.told else { return self.asked.fault.is_none() };
        let is_allocated = matches!(told.state.as_str(), RUNNING | SUSPENDED) && told.batch_host != node;
        is_allocated && told.on(&node).is_some_and(|got| !gres::places(got).is_empty())
    }

    /// Whether enough is known to say who it is, and will stay.
    fn is_ready(&self) -> bool {
        if self.is_alone() {
            return self.asked.told.is_some();
        }
        self.unread.is_empty() || !self.environ.number.is_empty() || self.asked.told.is_some()
    }

    /// Its number, for the controller.
    fn number<'j>(&'j self, id: &'j str) -> Option<&'j str> {
        let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { Some(id) } else { Some(self.environ.number.as_str()).filter(|number| !number.is_empty()) }
    }

    fn node(&self, host: &str) -> String {
        let node = Some(self.environ.node.as_str()).filter(|node| !node.is_empty());
        node.or(self.group.node.as_deref()).unwrap_or(host).to_owned()
    }

    fn is_due(&self, now_ms: u64) -> bool {
        let since = now_ms.saturating_sub(self.asked_ms);
        let has_changed = self.stopped && !self.stopped_when_asked && since >= CHANGED_MS;
        // Stopped by itself, as far as is known.
        let is_doubtful = self.stopped && self.state() != SUSPENDED && since >= FAILED_MS;
        let may_end = self.is_alone() && since >= self.wait_ms;
        !self.asked.pending && (now_ms >= self.asked.due_ms || has_changed || is_doubtful || may_end)
    }

    /// Its state: the kernel's word wins over what the controller told some time ago.
    fn state(&self) -> &str {
        let told = self.asked.told.as_ref().map_or("", |told| told.state.as_str());
        match told {
            _ if self.group.frozen => SUSPENDED,
            SUSPENDED if !self.stopped && !self.is_alone() => RUNNING,
            told => told,
        }
    }

    /// Whether it has shares of devices, as far as is known.
    fn has_shares(&self) -> bool {
        let told = self.asked.told.iter().flat_map(|told| &told.nodes).flat_map(|(_, got)| got);
        self.environ.shards.is_some() || told.into_iter().any(|gres| matches!(gres.name.as_str(), "shard" | "mps"))
    }

    fn named(&mut self, proc: &Path, users: &mut Users) -> Named {
        let told = self.asked.told.clone().unwrap_or_default();
        let of_process = || {
            let pid = self.group.pids.first()?;
            Some(fs::metadata(proc.join(pid.to_string())).ok()?.uid())
        };
        let mut is_known = true;
        // Who it is stays as it was first told, so that one job is one owner.
        let owner = self.owner.take().unwrap_or_else(|| {
            let uid = self.group.uid.or_else(of_process);
            let by_uid = uid.and_then(|uid| users.name(uid)).unwrap_or_default().to_owned();
            let number = uid.map(|uid| uid.to_string()).unwrap_or_default();
            let user = [by_uid, told.user.clone(), self.environ.user.clone(), number];
            // His number is for as long as his name may come yet.
            is_known = user[..3].iter().any(|name| !name.is_empty()) || !uid.is_some_and(|uid| users.is_asking(uid));
            let job = self.number(&self.group.job).unwrap_or(&self.group.job).to_owned();
            let first = |texts: &[String]| texts.iter().find(|text| !text.is_empty()).cloned().unwrap_or_default();
            let cluster = first(&[self.environ.cluster.clone(), told.cluster.clone()]);
            Owner { job, user: first(&user), cluster, ..Owner::default() }
        });
        self.owner = is_known.then(|| owner.clone());
        let either = |told: &str, environ: &str| if told.is_empty() { environ.to_owned() } else { told.to_owned() };
        let labels = [
            ("slurm.account", either(&told.account, &self.environ.account)),
            ("slurm.partition", either(&told.partition, &self.environ.partition)),
            ("slurm.qos", either(&told.qos, &self.environ.qos)),
            ("slurm.comment", told.comment),
            ("slurm.job.name", told.name),
            (STATE, self.state().to_owned()),
        ];
        let labels = labels.into_iter().filter(|(_, value)| !value.is_empty() && label::is_valid(value));
        Named { owner, labels: labels.map(|(name, value)| (name.to_owned(), value)).collect() }
    }

    fn claims(
        &self,
        holder: &Named,
        node: &str,
        about: Option<&NodeTold>,
        order: Option<&Order>,
        devices: &[NodeDevice],
    ) -> Vec<Claim> {
        let told = self.asked.told.as_ref();
        let on_node = told.and_then(|told| told.on(node));
        let got = on_node.unwrap_or_default();
        let places = gres::places(got);
        let is_told = on_node.is_some() && places.is_empty() == gres::devices(got).next().is_none();
        let allocated = if is_told { Allocated::Places(&places) } else { Allocated::Unknown };
        let has_script = told.is_none_or(|told| told.batch_host == node);
        let held = self.environ.devices(allocated, has_script, order, devices);
        let part = self.part(got, about.map(|node| node.has.as_slice()).unwrap_or_default(), held.len());
        held.into_iter().map(|device| Claim { device, part, holder: holder.clone() }).collect()
    }

    /// How much of each of so many devices it has: all of it, unless it has shares of which the node says how many a device
    /// has. Shares of several devices are taken as the same on each.
    fn part(&self, got: &[Gres], has: &[Gres], devices: usize) -> Part {
        let shards = self.environ.shards.map(|shards| vec![("shard", u64::from(shards))]).unwrap_or_default();
        let shares = if got.is_empty() {
            shards
        } else {
            ["gpu", "shard", "mps"]
                .map(|name| (name, gres::count(got, name)))
                .into_iter()
                .filter(|(_, n)| *n > 0)
                .collect()
        };
        let [(name, count)] = shares[..] else { return Part::Even };
        let (total, gpus) = (gres::count(has, name), gres::count(has, "gpu"));
        if name == "gpu" || total == 0 || gpus == 0 || devices == 0 {
            return Part::Even;
        }
        // count of total / gpus on each of the devices, in millionths.
        let whole = u128::from(total) * devices as u128;
        let ppm = u128::from(count) * u128::from(gpus) * 1_000_000 / whole;
        Part::Ppm(u32::try_from(ppm.clamp(1, 1_000_000)).unwrap_or(1_000_000))
    }
}

#[cfg(test)]
mod tests;
