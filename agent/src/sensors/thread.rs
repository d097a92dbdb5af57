//! A sensor on a thread of its own, asked for samples and never waited for beyond a deadline.
//!
//! Calls into the driver or the kernel can block for ever (a driver in a D state, a dead mount). The run loop
//! therefore asks every sensor first ([`SensorThread::request`]) and then collects the answers with one common
//! deadline ([`SensorThread::collect`]). A sensor that has not answered is *stuck*: it is reported with the age of
//! its request, gets no further request until it answers, and its late answer is handed out when it comes.
//! At most one request and one answer exist at any time, so nothing can pile up.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

/// What a sensor had to say when it was asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// The sample of the outstanding request; it may be of an earlier tick when the sensor had been stuck.
    Ready(T),
    /// No answer yet; with the time since the request was made.
    Stuck(Duration),
    /// Nothing was asked.
    Idle,
    /// The thread has ended by a panic: it can be spawned again, and will not answer any more.
    Gone,
}

/// Stack of a sensor's thread in bytes: room for opening NVML, whose table of symbols is moved about. Only what is used of it
/// takes memory.
pub const STACK_BYTES: usize = 1 << 20;

/// The run loop's end of a sensor's thread.
#[derive(Debug)]
pub struct SensorThread<T> {
    name: Arc<str>,
    requests: SyncSender<i64>,
    answers: mpsc::Receiver<T>,
    asked: Option<(i64, Instant)>,
    /// The instant of the last answer, and how long it took.
    answered: Option<(i64, Duration)>,
    alive: Weak<()>,
}

impl<T: Send + 'static> SensorThread<T> {
    /// Starts the thread `name`. `start` runs on the new thread (opening a driver can block too) and gives the
    /// function that takes a sample for an instant in Unix milliseconds.
    ///
    /// The thread ends when the [`SensorThread`] is dropped and the call that it is in returns; it is never joined.
    ///
    /// # Errors
    /// When the operating system refuses another thread.
    pub fn spawn<S, F>(name: impl Into<Arc<str>>, start: S) -> std::io::Result<Self>
    where
        S: FnOnce() -> F + Send + 'static,
        F: FnMut(i64) -> T,
    {
        let name: Arc<str> = name.into();
        let (requests, asked) = sync_channel(1);
        let (reply, answers) = mpsc::channel(1);
        let token = Arc::new(());
        let alive = Arc::downgrade(&token);
        thread::Builder::new().name(name.to_string()).stack_size(STACK_BYTES).spawn(move || {
            let mut sample = start();
            while let Ok(ts_ms) = asked.recv() {
                if reply.blocking_send(sample(ts_ms)).is_err() {
                    break;
                }
            }
            drop(sample);
            drop(token);
        })?;
        Ok(Self { name, requests, answers, asked: None, answered: None, alive })
    }

    /// The sensor's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Calls the sensor otherwise from now on; the operating system knows its thread by the first name.
    pub fn rename(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Can be upgraded for as long as the thread goes on, also after this end of it was dropped.
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
        // A closed channel shows as `Gone` when collecting.
        let _ = self.requests.try_send(ts_ms);
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

    fn answered(&mut self) {
        self.answered = self.asked.take().map(|(ts_ms, at)| (ts_ms, at.elapsed()));
    }

    /// The answer to the outstanding request, without waiting for it.
    pub fn poll(&mut self) -> Answer<T> {
        let Some((_, asked)) = self.asked else { return Answer::Idle };
        match self.answers.try_recv() {
            Ok(sample) => {
                self.answered();
                Answer::Ready(sample)
            }
            Err(mpsc::error::TryRecvError::Disconnected) => Answer::Gone,
            Err(mpsc::error::TryRecvError::Empty) => Answer::Stuck(asked.elapsed()),
        }
    }

    /// The answer to the outstanding request, waiting for it until `deadline` at the latest.
    pub async fn collect(&mut self, deadline: tokio::time::Instant) -> Answer<T> {
        let Some((_, asked)) = self.asked else { return Answer::Idle };
        match tokio::time::timeout_at(deadline, self.answers.recv()).await {
            Ok(Some(sample)) => {
                self.answered();
                Answer::Ready(sample)
            }
            Ok(None) => Answer::Gone,
            Err(_) => Answer::Stuck(asked.elapsed()),
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
        let mut hung = SensorThread::spawn("hung", move || {
            move |ts_ms| {
                blocked.recv().expect("the test goes on");
                ts_ms
            }
        })
        .expect("a thread");
        let mut healthy = SensorThread::spawn("healthy", || |ts_ms: i64| ts_ms * 2).expect("a thread");
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
        let mut sensor = SensorThread::spawn("opening", move || {
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
        let mut sensor: SensorThread<i64> =
            SensorThread::spawn("broken", || |_| std::panic::resume_unwind(Box::new("on purpose"))).expect("a thread");
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
        let sensor = SensorThread::spawn("short", move || {
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
