//! The threads that wait for what may block: the driver, the kernel, the disk.
//!
//! A call into the driver or the kernel may block for ever, so that no sensor may have to wait for another one's. But a thread
//! of its own for each of twenty sensors is woken once in a tick, works for some microseconds and sleeps again: most of what
//! sampling costs is then the waking. A [`Crew`] has both: what it is given ([`Crew::push`]) is done by one thread, one job
//! after the other, for as long as each is done soon. As soon as one has taken [`HANDOVER`], another thread goes on with those
//! that wait, and the first has only that job any more. What is known to be slow gets a thread of its own at once.
//!
//! Threads that have nothing to do wait for [`SPARE`] and end then; the one that has waited the shortest is called first, and
//! one stays. While a thread is at a job it bears the job's name, so that `ps -T` and a debugger say which sensor hangs.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

/// How long the jobs that wait, wait for the one before them.
pub const HANDOVER: Duration = Duration::from_millis(10);

/// How long a thread without a job stays, unless it is the only one.
const SPARE: Duration = Duration::from_secs(60);

/// Stack of a thread in bytes: room for opening NVML, whose table of symbols is moved about. Only what is used of it takes
/// memory.
pub const STACK_BYTES: usize = 1 << 20;

/// What a thread is called that is at no job.
const IDLE: &CStr = c"sensors";

/// Threads that do the jobs of several sensors. Clones share them; they end when the last clone is gone and their jobs are
/// done.
#[derive(Clone, Debug)]
pub struct Crew(Arc<Employer>);

/// Ends the threads when it is dropped.
#[derive(Debug)]
struct Employer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Told when a thread has done its job, and there is no other.
    rest: Notify,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Those without a job, the one that has waited the longest first.
    idle: Vec<Arc<Runner>>,
    /// Those at a job, and since when.
    busy: Vec<(u64, Instant)>,
    /// How many threads were ever begun.
    begun: u64,
    /// Threads up to this one end when there is no job.
    dismissed: u64,
    closed: bool,
}

struct Job {
    name: Arc<CStr>,
    /// Who waits for the crew's rest does not wait for this one.
    is_apart: bool,
    run: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Job").field(&self.name).finish()
    }
}

/// A thread.
#[derive(Debug)]
struct Runner {
    id: u64,
    thread: Thread,
    /// There is something to do.
    called: AtomicBool,
}

impl Crew {
    /// Starts the first thread.
    ///
    /// # Errors
    /// When the operating system refuses one.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.begin_another()?;
        Ok(Self(Arc::new(Employer(shared))))
    }

    /// The name of a job as its thread bears it: what fits.
    pub fn job_name(name: &str) -> Arc<CStr> {
        let fitting: Vec<u8> = name.bytes().filter(|byte| *byte != 0).take(15).collect();
        CString::new(fitting).unwrap_or_default().into()
    }

    /// Has `run` done. When it is known to be `slow`, by a thread that does nothing else. A panic of it must not get out.
    pub fn push(&self, name: &Arc<CStr>, slow: bool, run: impl FnOnce() + Send + 'static) {
        self.add(Job { name: Arc::clone(name), is_apart: false, run: Box::new(run) }, slow);
    }

    fn add(&self, job: Job, slow: bool) {
        let shared = &self.0.0;
        let mut state = shared.lock();
        state.jobs.push_back(job);
        if slow || !state.is_any_fresh() {
            shared.call(state);
        }
    }

    /// Has `work` done, and waits for what it gives; `None` when it has panicked. It is no part of what [`rest`](Self::rest) is
    /// told after.
    pub async fn run<T: Send + 'static>(
        &self,
        name: &Arc<CStr>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (say, mut hear) = oneshot::channel();
        let run = move || {
            if let Ok(done) = catch_unwind(AssertUnwindSafe(work)) {
                // Nobody may be left to hear it.
                let _ = say.send(done);
            }
        };
        self.add(Job { name: Arc::clone(name), is_apart: true, run: Box::new(run) }, false);
        while self.has_jobs() {
            match tokio::time::timeout(HANDOVER, &mut hear).await {
                Ok(done) => return done.ok(),
                Err(_) => self.tend(),
            }
        }
        hear.await.ok()
    }

    /// Whether jobs wait.
    fn has_jobs(&self) -> bool {
        !self.0.0.lock().jobs.is_empty()
    }

    /// Has another thread go on, when the one that would is held up.
    pub fn tend(&self) {
        let shared = &self.0.0;
        let state = shared.lock();
        if !state.jobs.is_empty() && !state.is_any_fresh() {
            shared.call(state);
        }
    }

    /// Is ready when a thread has done the last job that waited, after this was called.
    pub fn rest(&self) -> Notified<'_> {
        self.0.0.rest.notified()
    }

    /// Waits for `rest` until `deadline`, but for no longer than [`HANDOVER`] while jobs wait: then another thread takes one.
    pub async fn wait(&self, rest: impl Future<Output = ()>, deadline: tokio::time::Instant) {
        let shared = &self.0.0;
        let until = match self.has_jobs() {
            false => deadline,
            true => deadline.min(tokio::time::Instant::now() + HANDOVER),
        };
        if tokio::time::timeout_at(until, rest).await.is_err() {
            let state = shared.lock();
            if !state.jobs.is_empty() {
                shared.call(state);
            }
        }
    }

    /// Has every thread end when there is no job left, and others begin in their place when there is one again: what a library
    /// keeps for a thread, and is kept by, goes with the thread.
    pub fn renew(&self) {
        let mut state = self.0.0.lock();
        state.dismissed = state.begun;
        for runner in std::mem::take(&mut state.idle) {
            // Until it has seen that it is dismissed, it is there, and does what comes.
            state.begins(runner.id);
            runner.call();
        }
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        let state = self.0.0.lock();
        state.idle.len() + state.busy.len()
    }
}

impl Drop for Employer {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        state.idle.drain(..).for_each(|runner| runner.call());
    }
}

impl Runner {
    fn call(&self) {
        self.called.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl State {
    /// Whether a thread will soon look for the next job.
    fn is_any_fresh(&self) -> bool {
        let now = Instant::now();
        self.busy.iter().any(|(_, since)| now.saturating_duration_since(*since) < HANDOVER)
    }

    /// Notes that the thread begins a job.
    fn begins(&mut self, id: u64) {
        let now = Instant::now();
        match self.busy.iter_mut().find(|(busy, _)| *busy == id) {
            Some((_, since)) => *since = now,
            None => self.busy.push((id, now)),
        }
    }

    fn rests(&mut self, id: u64) {
        self.busy.retain(|(busy, _)| *busy != id);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a thread that has nothing to do, or begins one.
    fn call(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if let Some(runner) = state.idle.pop() {
            state.begins(runner.id);
            drop(state);
            runner.call();
            return;
        }
        drop(state);
        // Without another thread, jobs wait for those that there are.
        if let Err(error) = self.begin_another() {
            tracing::debug!(%error, "no other thread for sensors");
        }
    }

    fn begin_another(self: &Arc<Self>) -> io::Result<()> {
        let id = {
            let mut state = self.lock();
            state.begun += 1;
            let id = state.begun;
            state.begins(id);
            id
        };
        let shared = Arc::clone(self);
        let name = IDLE.to_string_lossy().into_owned();
        let begun = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || shared.work(id));
        if begun.is_err() {
            self.lock().rests(id);
        }
        begun.map(drop)
    }

    /// What a thread does.
    fn work(&self, id: u64) {
        let me = Arc::new(Runner { id, thread: thread::current(), called: AtomicBool::new(false) });
        loop {
            let mut is_named = false;
            let mut state = self.lock();
            while let Some(Job { name, is_apart, run }) = state.jobs.pop_front() {
                state.begins(id);
                drop(state);
                if is_apart {
                    self.rest.notify_waiters();
                }
                // A name is a help, and no more.
                is_named |= rustix::thread::set_name(&name).is_ok();
                run();
                state = self.lock();
            }
            state.rests(id);
            if state.closed || id <= state.dismissed {
                drop(state);
                self.rest.notify_waiters();
                return;
            }
            me.called.store(false, Ordering::Release);
            state.idle.push(Arc::clone(&me));
            drop(state);
            self.rest.notify_waiters();
            if is_named {
                let _ = rustix::thread::set_name(IDLE);
            }
            if !self.is_called(&me) {
                return;
            }
        }
    }

    /// Waits until there is something to do; false when the thread is to end.
    fn is_called(&self, me: &Arc<Runner>) -> bool {
        loop {
            let since = Instant::now();
            thread::park_timeout(SPARE);
            if me.called.load(Ordering::Acquire) {
                return true;
            }
            let mut state = self.lock();
            let is_only_one = state.idle.len() == 1;
            if since.elapsed() >= SPARE && !is_only_one {
                let before = state.idle.len();
                state.idle.retain(|idle| idle.id != me.id);
                // Who is not among them any more is being called.
                if state.idle.len() < before {
                    return false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
