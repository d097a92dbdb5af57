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
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    fn job(crew: &Crew, slow: bool, run: impl FnOnce() + Send + 'static) {
        crew.push(&Crew::job_name("job"), slow, run);
    }

    /// A job that nobody is called for: it waits for whoever is there.
    fn waiting(crew: &Crew, run: impl FnOnce() + Send + 'static) {
        crew.0.0.lock().jobs.push_back(Job { name: Crew::job_name("job"), is_apart: false, run: Box::new(run) });
    }

    /// A job that waits until something is sent to it, and says before that it has begun.
    fn blocked(begun: Sender<()>) -> (Sender<()>, impl FnOnce() + Send + 'static) {
        let (release, wait): (Sender<()>, Receiver<()>) = channel();
        let run = move || {
            begun.send(()).unwrap();
            wait.recv().ok();
        };
        (release, run)
    }

    #[test]
    fn jobs_that_are_done_soon_are_done_in_order_by_one_thread() {
        let crew = Crew::start().unwrap();
        let (say, said) = channel();
        // Until all are there, the first is not done.
        let (gate, open) = channel::<()>();
        job(&crew, false, move || open.recv().unwrap());
        for number in 0..100 {
            let say = say.clone();
            waiting(&crew, move || say.send((number, thread::current().id())).unwrap());
        }
        gate.send(()).unwrap();
        let all: Vec<_> = said.iter().take(100).collect();
        assert!(all.iter().map(|(number, _)| *number).eq(0..100));
        assert!(all.iter().all(|(_, thread)| *thread == all[0].1));
    }

    #[test]
    fn a_job_that_does_not_end_holds_up_no_other() {
        let crew = Crew::start().unwrap();
        let (begun, begins) = channel();
        let mut held = Vec::new();
        for _ in 0..3 {
            let (release, run) = blocked(begun.clone());
            held.push(release);
            job(&crew, false, run);
            // Nobody but who asks whether it goes on sees to that.
            while begins.try_recv().is_err() {
                crew.tend();
                thread::yield_now();
            }
        }
        let (say, said) = channel();
        job(&crew, false, move || say.send(7).unwrap());
        let answer = loop {
            if let Ok(answer) = said.try_recv() {
                break answer;
            }
            crew.tend();
            thread::yield_now();
        };
        assert_eq!((answer, crew.threads()), (7, 4));
        drop(held);
    }

    #[test]
    fn what_is_slow_is_not_waited_for_at_all() {
        let crew = Crew::start().unwrap();
        let (begun, begins) = channel();
        let held: Vec<_> = (0..4)
            .map(|_| {
                let (release, run) = blocked(begun.clone());
                job(&crew, true, run);
                release
            })
            .collect();
        // All of them are begun, without anybody's asking.
        assert_eq!(begins.iter().take(4).count(), 4);
        drop(held);
    }

    #[tokio::test]
    async fn who_waits_sees_to_it_that_jobs_are_taken() {
        let crew = Crew::start().unwrap();
        let (begun, begins) = channel();
        let (release, run) = blocked(begun);
        job(&crew, false, run);
        begins.recv().unwrap();
        let (say, said) = channel();
        waiting(&crew, move || say.send(7).unwrap());
        let far = tokio::time::Instant::now() + Duration::from_secs(3_600);
        loop {
            let rest = crew.rest();
            tokio::pin!(rest);
            rest.as_mut().enable();
            if said.try_recv() == Ok(7) {
                break;
            }
            crew.wait(rest, far).await;
        }
        drop(release);
    }

    #[tokio::test]
    async fn what_is_run_is_waited_for_and_gone_when_it_panics() {
        let crew = Crew::start().unwrap();
        let name = Crew::job_name("disk");
        assert_eq!(crew.run(&name, || 7).await, Some(7));
        assert_eq!(crew.run(&name, || std::panic::resume_unwind(Box::new("on purpose"))).await, None::<i32>);
        // Behind a job that does not end, and whoever else waits.
        let (begun, begins) = channel();
        let (release, blocked) = blocked(begun);
        job(&crew, false, blocked);
        begins.recv().unwrap();
        waiting(&crew, || {});
        assert_eq!(crew.run(&name, || 8).await, Some(8));
        drop(release);
    }

    #[tokio::test]
    async fn who_waits_for_the_sensors_does_not_wait_for_what_is_run_after_them() {
        let crew = Crew::start().unwrap();
        let (begun, begins) = channel();
        let (release, sensor) = blocked(begun.clone());
        job(&crew, false, sensor);
        begins.recv().unwrap();
        let rest = crew.rest();
        tokio::pin!(rest);
        rest.as_mut().enable();
        // The same thread goes on with it, and does not come to rest.
        let (held, apart) = blocked(begun);
        let job = Job { name: Crew::job_name("disk"), is_apart: true, run: Box::new(apart) };
        crew.0.0.lock().jobs.push_back(job);
        release.send(()).unwrap();
        rest.await;
        drop(held);
    }

    #[test]
    fn a_thread_bears_the_name_of_its_job() {
        let crew = Crew::start().unwrap();
        let (say, said) = channel();
        let name = Crew::job_name("GPU-5d5ba0d6-d33d");
        crew.push(&name, false, move || say.send(rustix::thread::name().unwrap()).unwrap());
        assert_eq!(said.recv().unwrap().as_c_str(), c"GPU-5d5ba0d6-d3");
    }

    #[test]
    fn a_renewed_crew_goes_on_with_other_threads() {
        let crew = Crew::start().unwrap();
        let (say, said) = channel();
        let work = || {
            let say = say.clone();
            job(&crew, false, move || say.send(thread::current().id()).unwrap());
            said.recv().unwrap()
        };
        let before = work();
        assert_eq!(work(), before);
        crew.renew();
        while crew.threads() > 0 {
            thread::yield_now();
        }
        let after = work();
        assert_ne!(after, before);
        assert_eq!((work(), crew.threads()), (after, 1));
    }

    #[test]
    fn threads_end_with_their_crew_and_do_before_what_they_were_given() {
        let crew = Crew::start().unwrap();
        let (begun, begins) = channel();
        let (release, run) = blocked(begun);
        job(&crew, false, run);
        begins.recv().unwrap();
        let (say, said) = channel();
        waiting(&crew, move || say.send(7).unwrap());
        let shared = Arc::downgrade(&crew.0.0);
        drop(crew);
        release.send(()).unwrap();
        assert_eq!(said.recv(), Ok(7));
        while shared.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
