//! The watchdog of one sensor's thread.
//!
//! A sensor that answers in time is waited for until the round's deadline. One that has missed a deadline is *late*: from
//! then on it is looked at without waiting, and asked nothing more, until it answers. After [`STUCK_AFTER_MS`] that is an
//! event, and so is its recovery. Its late answer carries its own instant: nothing is ever repeated in its place.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::Round;
use crate::run::RunError;
use crate::sensors::{Answer, SensorTask};

/// From when on a sensor that has not answered is said to be stuck, in milliseconds.
pub const STUCK_AFTER_MS: i64 = 2_000;

/// How soon a thread that has panicked may be started once more.
const RESPAWN: Duration = Duration::from_secs(10);

type Spawn<T> = Box<dyn Fn() -> std::io::Result<SensorTask<T>> + Send + Sync>;

/// One sensor's thread, and what is known of its answers.
pub struct Watched<T: 'static> {
    thread: SensorTask<T>,
    spawn: Spawn<T>,
    /// It has missed a deadline, and has not answered since.
    late: bool,
    /// That it is stuck was said.
    stuck: bool,
    gone: bool,
    /// When it may be started again, after a panic.
    respawn_at: Option<Instant>,
    /// The instant of its last answer, Unix milliseconds.
    answered_ms: Option<i64>,
}

impl<T: 'static> std::fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("late", &self.late).field("stuck", &self.stuck).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Watched<T> {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`RunError::Thread`].
    pub fn new(spawn: impl Fn() -> std::io::Result<SensorTask<T>> + Send + Sync + 'static) -> Result<Self, RunError> {
        let thread = spawn().map_err(RunError::Thread)?;
        let spawn = Box::new(spawn);
        Ok(Self { thread, spawn, late: false, stuck: false, gone: false, respawn_at: None, answered_ms: None })
    }

    /// Takes an answer that came late, and asks for a sample of this round.
    pub fn begin(&mut self, round: &mut Round) -> Option<T> {
        let late = self.poll(round);
        self.thread.request(round.instant_ms);
        late
    }

    /// What it answered, if it has by the round's deadline; a late one isn't waited for.
    pub async fn collect(&mut self, round: &mut Round) -> Option<T> {
        self.collect_until(round.deadline, round).await
    }

    /// As [`Watched::collect`], with another deadline.
    pub async fn collect_until(&mut self, deadline: Instant, round: &mut Round) -> Option<T> {
        let answer = if self.late { self.thread.poll() } else { self.answer_until(deadline).await };
        self.take(answer, true, round)
    }

    async fn answer_until(&mut self, deadline: Instant) -> Answer<T> {
        self.thread.collect(deadline).await
    }

    /// What it answered, if it has by now. That it has not is nothing to be said of one that was asked in this round.
    pub fn poll(&mut self, round: &mut Round) -> Option<T> {
        let was_due = self.thread.asked_ms().is_some_and(|asked_ms| asked_ms != round.instant_ms);
        let answer = self.thread.poll();
        self.take(answer, was_due, round)
    }

    fn take(&mut self, answer: Answer<T>, was_due: bool, round: &mut Round) -> Option<T> {
        match answer {
            Answer::Ready(value) => {
                let asked_ms = self.thread.answered_ms();
                self.answered_ms = asked_ms;
                if std::mem::take(&mut self.stuck) {
                    let waited = self.thread.waited().as_secs_f64();
                    tracing::info!(sensor = %self.thread.name(), waited, "the sensor answers again");
                    let message = format!("the sensor {} answers again", self.thread.name());
                    round.say("sensor_recovered", message);
                }
                self.late = false;
                #[expect(clippy::cast_precision_loss, reason = "milliseconds of this age are exact")]
                let seconds = asked_ms.unwrap_or(round.instant_ms) as f64 / 1e3;
                round.telemetry.sensor_answered.with_label_values(&[self.thread.name().as_ref()]).set(seconds);
                Some(value)
            }
            Answer::Stuck(_) => {
                self.late |= was_due;
                let waited_ms = self.stuck_ms(round.instant_ms);
                if waited_ms >= STUCK_AFTER_MS && !std::mem::replace(&mut self.stuck, true) {
                    tracing::warn!(sensor = %self.thread.name(), waited_ms, "the sensor is stuck");
                    let message = format!(
                        "the sensor {} has not answered for {} ms, the others go on",
                        self.thread.name(),
                        waited_ms
                    );
                    round.say("sensor_stuck", message);
                }
                None
            }
            Answer::Gone => {
                self.respawn(round);
                None
            }
            Answer::Idle => None,
        }
    }

    /// Starts a thread in place of one that has panicked: at once, and then no more often than every [`RESPAWN`].
    fn respawn(&mut self, round: &mut Round) {
        let now = Instant::now();
        if !std::mem::replace(&mut self.gone, true) {
            tracing::error!(sensor = %self.thread.name(), "the thread of the sensor has panicked");
        }
        if self.respawn_at.is_some_and(|at| now < at) {
            return;
        }
        self.respawn_at = Some(now + RESPAWN);
        if let Ok(thread) = (self.spawn)() {
            self.thread = thread;
            (self.late, self.stuck, self.gone) = (false, false, false);
            let name = Arc::clone(self.thread.name());
            round.telemetry.sensor_restarts.with_label_values(&[name.as_ref()]).inc();
            round.say("sensor_restarted", format!("the sensor {name} panicked and was started again"));
        }
    }

    /// Takes over the name of a sensor in whose place it was started, and the instant of that one's last answer.
    pub fn succeed(&mut self, name: &str, answered_ms: Option<i64>) {
        self.rename(name);
        self.answered_ms = self.answered_ms.max(answered_ms);
    }

    /// Takes over that the sensor in whose place it was started is said to be stuck: its answer will be the recovery.
    pub fn succeed_stuck(&mut self) {
        self.stuck = true;
    }

    /// Calls it otherwise from now on.
    pub fn rename(&mut self, name: &str) {
        self.thread.rename(name);
    }

    /// The instant of its last answer, Unix milliseconds.
    pub fn answered_ms(&self) -> Option<i64> {
        self.answered_ms
    }

    /// Adds to the round how the sensor is.
    pub fn report(&self, round: &mut Round) {
        let age_ms = self.answered_ms.map(|answered_ms| round.instant_ms.saturating_sub(answered_ms));
        let stuck_ms = if self.late { self.stuck_ms(round.instant_ms) } else { 0 };
        round.note(self.thread.name(), stuck_ms, age_ms);
    }

    /// For how long it has owed an answer, in milliseconds of the rounds' instants; 0 when it owes none.
    pub fn stuck_ms(&self, instant_ms: i64) -> i64 {
        self.thread.asked_ms().map_or(0, |asked_ms| instant_ms.saturating_sub(asked_ms).max(0))
    }

    /// True while it owes an answer to an earlier round.
    pub fn is_late(&self) -> bool {
        self.late
    }

    /// True while it is said to be stuck.
    pub fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// True when nothing is asked of it.
    pub fn is_idle(&self) -> bool {
        self.thread.asked_ms().is_none()
    }

    /// Asks for a sample of this round, if it owes no other.
    pub fn request(&mut self, round: &Round) {
        self.thread.request(round.instant_ms);
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        self.thread.name()
    }

    /// See [`SensorTask::alive`].
    pub fn alive(&self) -> Weak<()> {
        self.thread.alive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Telemetry;

    fn round(instant_ms: i64, telemetry: &Telemetry) -> Round {
        Round::new(instant_ms, Duration::from_secs(3_600), telemetry.clone())
    }

    #[tokio::test]
    async fn a_sensor_that_panics_is_started_again() {
        let telemetry = Telemetry::new().unwrap();
        let mut watched = Watched::new(|| {
            SensorTask::spawn("broken", || {
                |ts_ms: i64| if ts_ms == 1 { std::panic::resume_unwind(Box::new("on purpose")) } else { ts_ms }
            })
        })
        .unwrap();
        let mut first = round(1, &telemetry);
        assert_eq!(watched.begin(&mut first), None);
        assert_eq!(watched.collect(&mut first).await, None);
        assert_eq!(first.events.iter().map(|event| event.kind).collect::<Vec<_>>(), ["sensor_restarted"]);
        assert_eq!(telemetry.sensor_restarts.with_label_values(&["broken"]).get(), 1);
        let mut second = round(2, &telemetry);
        watched.begin(&mut second);
        assert_eq!(watched.collect(&mut second).await, Some(2));
        // And not in a loop.
        let mut third = round(1, &telemetry);
        watched.begin(&mut third);
        assert_eq!(watched.collect(&mut third).await, None);
        assert!(third.events.is_empty());
    }

    #[tokio::test]
    async fn a_late_sensor_is_not_waited_for_and_its_answer_is_of_its_own_instant() {
        let telemetry = Telemetry::new().unwrap();
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let blocked = Arc::new(std::sync::Mutex::new(blocked));
        let mut watched = Watched::new(move || {
            let blocked = Arc::clone(&blocked);
            SensorTask::spawn("hung", move || {
                move |ts_ms: i64| {
                    blocked.lock().unwrap().recv().unwrap();
                    ts_ms
                }
            })
        })
        .unwrap();
        let mut first = Round::new(1_000, Duration::ZERO, telemetry.clone());
        assert_eq!(watched.begin(&mut first), None);
        assert_eq!(watched.collect(&mut first).await, None);
        assert!(watched.is_late() && first.events.is_empty());
        // A round that would wait for an hour does not wait for it.
        let mut kinds = Vec::new();
        for instant_ms in [2_000, 3_000, 4_000] {
            let mut round = round(instant_ms, &telemetry);
            assert_eq!(watched.begin(&mut round), None);
            assert_eq!(watched.collect(&mut round).await, None);
            watched.report(&mut round);
            assert_eq!(round.seen.iter().count(), 2);
            let stuck = round.seen.reading_as(contador_schemas::names::SENSOR_STUCK, &[("contador.sensor", "hung")]);
            assert_eq!(stuck.unwrap().get().unwrap().f64() * 1e3, (instant_ms - 1_000) as f64);
            kinds.extend(round.events.iter().map(|event| event.kind));
        }
        assert_eq!(kinds, ["sensor_stuck"], "said once");
        release.send(()).unwrap();
        let mut instant_ms = 4_000;
        let (mut last, answer) = loop {
            instant_ms += 1_000;
            let mut round = round(instant_ms, &telemetry);
            if let Some(answer) = watched.begin(&mut round) {
                break (round, answer);
            }
            std::thread::yield_now();
        };
        assert_eq!((answer, last.events[0].kind), (1_000, "sensor_recovered"));
        release.send(()).unwrap();
        assert_eq!(watched.collect(&mut last).await, Some(instant_ms), "and it is waited for again");
    }
}
