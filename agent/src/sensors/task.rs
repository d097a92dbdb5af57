//! A sensor, asked for samples and never waited for beyond a deadline.
//!
//! Calls into the driver or the kernel can block for ever (a driver in a D state, a dead mount). The run loop
//! therefore asks every sensor first ([`SensorTask::request`]) and then collects the answers with one common
//! deadline ([`SensorTask::collect`]). A sensor that has not answered is *stuck*: it is reported with the age of
//! its request, gets no further request until it answers, and its late answer is handed out when it comes.
//! At most one request and one answer exist at any time, so nothing can pile up. It is asked on a thread of its [`Crew`]; a
//! call that does not return soon has its thread for itself.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::crew::{Crew, HANDOVER};

/// What a sensor had to say when it was asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// The sample of the outstanding request; it may be of an earlier tick when the sensor had been stuck.
    Ready(T),
    /// No answer yet; with the time since the request was made.
    Stuck(Duration),
    /// Nothing was asked.
    Idle,
    /// It has panicked: another one can be made, and this one will not answer any more.
    Gone,
}

/// What takes a sample for an instant in Unix milliseconds.
type Sample<T> = Box<dyn FnMut(i64) -> T + Send>;

/// The run loop's end of a sensor.
#[derive(Debug)]
pub struct SensorTask<T: 'static> {
    name: Arc<str>,
    job: Arc<CStr>,
    crew: Crew,
    shared: Arc<Shared<T>>,
    asked: Option<(i64, Instant)>,
    /// The instant of the last answer, and how long it took.
    answered: Option<(i64, Duration)>,
    alive: Weak<()>,
}

#[derive(Debug)]
struct Shared<T>(Mutex<State<T>>);

struct State<T> {
    /// The sensor, unless a thread has it.
    sensor: Option<Sensor<T>>,
    answer: Option<T>,
    /// How long its last sample has taken.
    took: Duration,
    /// It has panicked.
    gone: bool,
    /// Nobody will ask any more.
    closed: bool,
}

impl<T> std::fmt::Debug for State<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at_work = self.sensor.is_none();
        f.debug_struct("State").field("at_work", &at_work).field("gone", &self.gone).finish_non_exhaustive()
    }
}

struct Sensor<T> {
    stage: Stage<T>,
    /// Dropped after the sensor.
    _token: Arc<()>,
}

enum Stage<T> {
    New(Box<dyn FnOnce() -> Sample<T> + Send>),
    Started(Sample<T>),
}

impl<T> Sensor<T> {
    fn sample(mut self, ts_ms: i64) -> (Self, T) {
        let mut sample = match self.stage {
            Stage::New(start) => start(),
            Stage::Started(sample) => sample,
        };
        let answer = sample(ts_ms);
        self.stage = Stage::Started(sample);
        (self, answer)
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a sample, on whatever thread this is.
    fn work(&self, ts_ms: i64) {
        // Who asked has gone.
        let Some(sensor) = self.lock().sensor.take() else { return };
        let begun = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| sensor.sample(ts_ms)));
        let mut state = self.lock();
        state.took = begun.elapsed();
        match result {
            Ok((sensor, answer)) => {
                state.answer = Some(answer);
                if state.closed {
                    drop(state);
                    end(sensor);
                } else {
                    state.sensor = Some(sensor);
                }
            }
            Err(_) => state.gone = true,
        }
    }
}

/// Lets go of what the sensor holds. That may panic, which is nobody else's business.
fn end<T>(sensor: Sensor<T>) {
    let _ = catch_unwind(AssertUnwindSafe(move || drop(sensor)));
}

impl<T: Send + 'static> SensorTask<T> {
    /// A sensor with a thread of its own from the start; see [`SensorTask::on`].
    ///
    /// # Errors
    /// When the operating system refuses another thread.
    pub fn spawn<S, F>(name: impl Into<Arc<str>>, start: S) -> std::io::Result<Self>
    where
        S: FnOnce() -> F + Send + 'static,
        F: FnMut(i64) -> T + Send + 'static,
    {
        Ok(Self::on(&Crew::start()?, name, start))
    }

    /// A sensor that the crew's threads run. `start` runs there at the first request (opening a driver can block too) and
    /// gives the function that takes a sample for an instant in Unix milliseconds.
    ///
    /// What it holds is dropped when the [`SensorTask`] is dropped and the call that it is in returns: never on the thread that
    /// drops it.
    pub fn on<S, F>(crew: &Crew, name: impl Into<Arc<str>>, start: S) -> Self
    where
        S: FnOnce() -> F + Send + 'static,
        F: FnMut(i64) -> T + Send + 'static,
    {
        let name: Arc<str> = name.into();
        let token = Arc::new(());
        let alive = Arc::downgrade(&token);
        let sensor = Sensor { stage: Stage::New(Box::new(move || Box::new(start()))), _token: token };
        let state = State { sensor: Some(sensor), answer: None, took: Duration::ZERO, gone: false, closed: false };
        let shared = Arc::new(Shared(Mutex::new(state)));
        Self { job: Crew::job_name(&name), name, crew: crew.clone(), shared, asked: None, answered: None, alive }
    }

    /// The sensor's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Calls the sensor otherwise from now on; the thread that it runs on bears the first name.
    pub fn rename(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Can be upgraded for as long as the sensor is there, also after this end of it was dropped.
    pub fn alive(&self) -> Weak<()> {
        self.alive.clone()
    }

    /// Asks for a sample at `ts_ms`. False when the last request is still unanswered or uncollected: nothing is
    /// asked then, and [`collect`](Self::collect) tells which.
    pub fn request(&mut self, ts_ms: i64) -> bool {
        if self.asked.is_some() {
            return false;
        }
        self.asked = Some((ts_ms, Instant::now()));
        let shared = Arc::clone(&self.shared);
        let slow = shared.lock().took > HANDOVER / 2;
        self.crew.push(&self.job, slow, move || shared.work(ts_ms));
        true
    }

    /// Time since the outstanding request was made, if there is one.
    pub fn pending(&self) -> Option<Duration> {
        self.asked.map(|(_, at)| at.elapsed())
    }

    /// The instant of the outstanding request, if there is one.
    pub fn asked_ms(&self) -> Option<i64> {
        self.asked.map(|(ts_ms, _)| ts_ms)
    }

    /// The instant of the request that was answered last.
    pub fn answered_ms(&self) -> Option<i64> {
        self.answered.map(|(ts_ms, _)| ts_ms)
    }

    /// How long the last answer was waited for.
    pub fn waited(&self) -> Duration {
        self.answered.map_or(Duration::ZERO, |(_, waited)| waited)
    }

    /// The answer to the outstanding request, without waiting for it.
    pub fn poll(&mut self) -> Answer<T> {
        let Some((ts_ms, asked)) = self.asked else { return Answer::Idle };
        let mut state = self.shared.lock();
        if let Some(answer) = state.answer.take() {
            self.asked = None;
            self.answered = Some((ts_ms, asked.elapsed()));
            return Answer::Ready(answer);
        }
        if state.gone {
            return Answer::Gone;
        }
        drop(state);
        self.crew.tend();
        Answer::Stuck(asked.elapsed())
    }

    /// The answer to the outstanding request, waiting for it until `deadline` at the latest.
    pub async fn collect(&mut self, deadline: tokio::time::Instant) -> Answer<T> {
        let crew = self.crew.clone();
        loop {
            let rest = crew.rest();
            tokio::pin!(rest);
            rest.as_mut().enable();
            match self.poll() {
                Answer::Stuck(_) if tokio::time::Instant::now() < deadline => crew.wait(rest, deadline).await,
                answer => return answer,
            }
        }
    }
}

impl<T: 'static> Drop for SensorTask<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let sensor = state.sensor.take();
        drop(state);
        // To let go of a driver may block as well.
        if let Some(sensor) = sensor {
            self.crew.push(&self.job, true, move || end(sensor));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A deadline that has passed: what has not answered by now is stuck. No test waits for time to pass.
    fn now() -> tokio::time::Instant {
        tokio::time::Instant::now()
    }

    /// A deadline so far off that only a broken sensor would reach it.
    fn far() -> tokio::time::Instant {
        now() + Duration::from_secs(3_600)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
    }

    #[test]
    fn a_sensor_that_blocks_is_stuck_and_delays_no_other() {
        let (release, blocked) = mpsc::channel::<()>();
        let mut hung = SensorTask::spawn("hung", move || {
            move |ts_ms| {
                blocked.recv().expect("the test goes on");
                ts_ms
            }
        })
        .expect("a thread");
        let mut healthy = SensorTask::spawn("healthy", || |ts_ms: i64| ts_ms * 2).expect("a thread");
        runtime().block_on(async {
            assert!(hung.request(1) && healthy.request(1));
            assert_eq!(healthy.collect(far()).await, Answer::Ready(2));
            assert!(matches!(hung.collect(now()).await, Answer::Stuck(_)));
            for tick in 2..100 {
                assert!(!hung.request(tick), "a stuck sensor is asked nothing more");
                assert!(healthy.request(tick));
                assert_eq!(healthy.collect(far()).await, Answer::Ready(tick * 2));
                assert!(matches!(hung.collect(now()).await, Answer::Stuck(_)));
            }
            let pending = hung.pending().expect("a request");
            assert!(hung.pending().expect("a request") >= pending, "its age only grows");
            assert!(matches!(hung.poll(), Answer::Stuck(_)) && hung.asked_ms() == Some(1));
            release.send(()).expect("the sensor waits");
            assert_eq!(hung.collect(far()).await, Answer::Ready(1), "the late answer is handed out once");
            assert_eq!(hung.collect(far()).await, Answer::Idle);
            assert!(hung.request(100));
            release.send(()).expect("the sensor waits");
            assert_eq!(hung.collect(far()).await, Answer::Ready(100));
        });
    }

    #[test]
    fn a_start_that_blocks_is_stuck_too() {
        let (release, blocked) = mpsc::channel::<()>();
        let mut sensor = SensorTask::spawn("opening", move || {
            blocked.recv().expect("the test goes on");
            |ts_ms| ts_ms
        })
        .expect("a thread");
        runtime().block_on(async {
            assert!(sensor.request(7));
            assert!(matches!(sensor.collect(now()).await, Answer::Stuck(_)));
            release.send(()).expect("the sensor waits");
            assert_eq!(sensor.collect(far()).await, Answer::Ready(7));
        });
    }

    #[test]
    fn a_sensor_that_panics_is_gone() {
        let mut sensor: SensorTask<i64> =
            SensorTask::spawn("broken", || |_| std::panic::resume_unwind(Box::new("on purpose"))).expect("a thread");
        runtime().block_on(async {
            assert_eq!(sensor.collect(far()).await, Answer::Idle);
            assert!(sensor.request(1));
            assert_eq!(sensor.collect(far()).await, Answer::Gone);
            assert!(!sensor.request(2));
            assert_eq!(sensor.collect(far()).await, Answer::Gone);
        });
        assert_eq!(sensor.name().as_ref(), "broken");
    }

    #[test]
    fn a_dropped_sensor_ends_its_thread() {
        let (ended, end) = mpsc::channel::<()>();
        let sensor = SensorTask::spawn("short", move || {
            move |ts_ms: i64| {
                let _keep = &ended;
                ts_ms
            }
        })
        .expect("a thread");
        let alive = sensor.alive();
        assert!(alive.upgrade().is_some());
        drop(sensor);
        assert!(end.recv().is_err(), "the thread has let go of what it held");
    }
}
