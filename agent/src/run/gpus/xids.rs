//! The thread that waits for XIDs.
//!
//! It ends within [`WAIT_MS`] when it is let go of, with its clone of the driver, and says before what the driver has for it
//! still. What it has said waits in a bounded channel: when that is full, further events wait in the driver.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::crew::STACK_BYTES;
use crate::run::clock::now_ms;
use crate::run::sensors::{Round, STUCK_AFTER_MS};
use crate::sensors::Reading;
use crate::sensors::nvml::Driver;
use crate::sensors::nvml::events::{Xid, XidSet};

/// What it is called.
const NAME: &str = "xids";

/// How long it waits for an event, in milliseconds, before it looks whether it is wanted still.
const WAIT_MS: u32 = 1_000;

/// How soon it asks again at the earliest, when nothing came.
const SHORTEST: Duration = Duration::from_millis(100);

/// Most that may wait to be taken.
const MOST: usize = 4_096;

/// What the thread says.
#[derive(Debug)]
pub(crate) enum Said {
    /// Whether the XIDs of a GPU are watched.
    Watched(String, Reading<()>),
    /// An XID, and when it came, in Unix milliseconds.
    Xid(i64, Xid),
}

/// The run loop's end of the thread.
#[derive(Debug)]
pub(crate) struct XidWatch {
    registrations: Sender<(u32, String)>,
    said: mpsc::Receiver<Said>,
    /// How often the thread has gone round.
    turns: Arc<AtomicU64>,
    seen: (u64, Instant),
    stuck: bool,
    alive: Weak<()>,
}

impl XidWatch {
    /// Starts the thread.
    pub fn start(driver: Arc<Driver>) -> std::io::Result<Self> {
        let (registrations, wanted) = channel();
        let (say, said) = mpsc::channel(MOST);
        let turns = Arc::new(AtomicU64::new(0));
        let token = Arc::new(());
        let alive = Arc::downgrade(&token);
        let counted = Arc::clone(&turns);
        std::thread::Builder::new().name(NAME.to_owned()).stack_size(STACK_BYTES).spawn(move || {
            watch(driver, &wanted, &say, &counted);
            drop(token);
        })?;
        Ok(Self { registrations, said, turns, seen: (0, Instant::now()), stuck: false, alive })
    }

    /// Has it watch the GPU at the driver's `index`.
    pub fn register(&self, index: u32, uuid: &str) {
        // When the thread has ended, the GPU is not watched, and nothing says that it is.
        let _ = self.registrations.send((index, uuid.to_owned()));
    }

    /// What it has said next.
    pub fn next(&mut self) -> Option<Said> {
        self.said.try_recv().ok()
    }

    /// Has it end, after it has said all that it knows.
    pub fn leave(self) -> mpsc::Receiver<Said> {
        self.said
    }

    /// The thread, when it is inside of a call that does not return.
    pub fn hung(&self) -> Option<Weak<()>> {
        self.stuck.then(|| self.alive.clone())
    }

    /// How it is.
    pub fn report(&mut self, round: &mut Round) {
        let turns = self.turns.load(Ordering::Relaxed);
        if turns != self.seen.0 {
            self.seen = (turns, Instant::now());
        }
        let age_ms = i64::try_from(self.seen.1.elapsed().as_millis()).unwrap_or(i64::MAX);
        let limit_ms = STUCK_AFTER_MS + i64::from(WAIT_MS);
        let stuck = age_ms >= limit_ms && self.alive.strong_count() > 0;
        if stuck != std::mem::replace(&mut self.stuck, stuck) {
            match stuck {
                true => round.say(
                    "sensor_stuck",
                    format!("the sensor {NAME} has not answered for {age_ms} ms, the others go on"),
                ),
                false => round.say("sensor_recovered", format!("the sensor {NAME} answers again")),
            }
        }
        round.note(NAME, if stuck { age_ms } else { 0 }, Some(age_ms));
    }
}

/// Waits for XIDs until the other end is dropped.
fn watch(driver: Arc<Driver>, wanted: &Receiver<(u32, String)>, say: &mpsc::Sender<Said>, turns: &AtomicU64) {
    let (mut set, mut refused): (Option<XidSet>, bool) = (None, false);
    loop {
        turns.fetch_add(1, Ordering::Relaxed);
        let asked = Instant::now();
        // Without a GPU, or with a driver that refuses, there is nothing to wait for but a GPU.
        let next = match &set {
            Some(_) if !refused => wanted.try_recv().map_err(|error| error == TryRecvError::Disconnected),
            _ => wanted
                .recv_timeout(Duration::from_millis(WAIT_MS.into()))
                .map_err(|error| error == RecvTimeoutError::Disconnected),
        };
        let said = match (next, &mut set) {
            (Err(true), set) => return leave(set.as_ref(), say),
            (Ok((index, uuid)), set) => {
                let watched = register(set, &driver, index, &uuid);
                Said::Watched(uuid, watched)
            }
            (Err(false), None) => continue,
            (Err(false), Some(set)) => match set.wait(WAIT_MS) {
                Ok(Some(xid)) => Said::Xid(now_ms(), xid),
                Ok(None) => {
                    refused = false;
                    // A driver that does not wait must not be asked without end.
                    std::thread::sleep(SHORTEST.saturating_sub(asked.elapsed()));
                    continue;
                }
                Err(error) => {
                    tracing::debug!(%error, "the driver does not wait for XIDs");
                    refused = true;
                    continue;
                }
            },
        };
        refused = false;
        if say.blocking_send(said).is_err() {
            return;
        }
    }
}

/// Takes what the driver has for it still.
fn leave(set: Option<&XidSet>, say: &mpsc::Sender<Said>) {
    while let Some(Ok(Some(xid))) = set.map(|set| set.wait(0)) {
        if say.blocking_send(Said::Xid(now_ms(), xid)).is_err() {
            return;
        }
    }
}

fn register(set: &mut Option<XidSet>, driver: &Arc<Driver>, index: u32, uuid: &str) -> Reading<()> {
    let set = match set {
        Some(set) => set,
        none => match XidSet::create(Arc::clone(driver)) {
            Ok(set) => none.insert(set),
            Err(refused) => return refused,
        },
    };
    set.register(index, uuid)
}
