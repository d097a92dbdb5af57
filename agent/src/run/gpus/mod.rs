//! The GPUs of a node, watched: nothing that one of them or the driver does may stop the others.
//!
//! The way of a round: [`release`] says whether handles are to be held at all. While the driver is closed, a thread of its
//! own opens it ([`driver`]); when it is open, that thread looks every [`CHECK_MS`], and at once after a loss, whether the
//! driver is still the same with the same GPUs, without a call that is about one of them. Each GPU has a thread of its own,
//! which finds out who the GPU is and samples it ([`asked`]): one that hangs is late, the others are not. [`known`] compares
//! what was found with what was there, and says what has happened. [`xids`] come by one more thread.
//!
//! When the driver was lost or reloaded, or has other GPUs, and when a GPU is lost, all clones of it are dropped (every
//! thread is told to end), and it is opened again at the next round, then every [`REOPEN_MS`] until it can be. A
//! thread inside of a call keeps its clone until it returns: the library is never closed under it. It is *abandoned*; with
//! [`MAX_ABANDONED`] of them the driver is not opened again before some return, so that threads can't pile up.

mod asked;
mod driver;
mod known;
mod release;
pub(crate) mod xids;

use std::path::PathBuf;
use std::sync::{Arc, Weak};

pub use release::Release;

use self::asked::OpenDriver;
use self::driver::{Discovered, discover};
use self::known::KnownGpus;
use self::release::Hold;
use self::xids::{Said, XidWatch};
use contador_schemas::names;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use super::sensors::{Round, Watched};
use crate::crew::Crew;
use crate::outbox::encode::infos::Event;
use crate::sensors::nvml::Driver;
use crate::sensors::nvml::events::Xid;
use crate::sensors::nvml::xids::{XidBook, meaning};
use crate::sensors::{GpuIdentity, GpuSample, LayoutChange, NvmlLibrary, SensorTask};

/// How long to wait before a driver that can't be opened is tried once more, in milliseconds.
pub const REOPEN_MS: i64 = 2_000;

/// How often it is looked whether the driver is still the same, in milliseconds.
pub const CHECK_MS: i64 = 2_000;

/// How often the driver is opened again while a GPU is lost, in milliseconds: some drivers don't find it otherwise.
pub const REVIVE_MS: i64 = 30_000;

/// Most threads that may be inside of calls of a driver that was given up.
pub const MAX_ABANDONED: usize = 32;

/// What a round has of the GPUs.
#[derive(Debug, Default)]
pub struct GpuTick {
    /// The GPUs that are known and there, and their instances, when they are others than at the last round.
    pub changed: Option<Vec<Arc<GpuIdentity>>>,
    /// Their samples, and those of their instances. One that came late has its own instant.
    pub samples: Vec<GpuSample>,
    /// On which GPUs other MIG instances exist than before.
    pub changes: Vec<LayoutChange>,
    /// Every GPU that the driver counts is known, and none is lost.
    pub complete: bool,
    /// Whether they come from the simulator.
    pub simulated: bool,
    /// Whether GPUs are sampled.
    pub sampling: Sampling,
    /// What is wrong with single GPUs.
    pub faults: Vec<String>,
}

/// Whether GPUs are sampled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Sampling {
    /// At least one is.
    Works,
    /// None was in time in this round, which may be chance.
    #[default]
    Unsure,
    /// None is; with the reason.
    Fails(String),
}

/// The GPUs of a node.
#[derive(Debug)]
pub struct GpuWatch {
    /// Who runs the tasks of the GPUs.
    crew: Crew,
    library: NvmlLibrary,
    proc_root: PathBuf,
    hold: Hold,
    discovery: Option<Watched<Discovered>>,
    open: Option<OpenDriver>,
    known: KnownGpus,
    book: XidBook,
    /// What the threads say that were told to end.
    leaving: Vec<mpsc::Receiver<Said>>,
    /// When it was last tried to open the driver, or looked whether it is the same, Unix milliseconds.
    tried_ms: Option<i64>,
    /// The version of the driver that was open last.
    version: Option<String>,
    /// That the driver is lost was said.
    lost: bool,
    /// Why it is not open.
    fault: Option<String>,
    /// Drivers that were given up, as long as somebody has them open.
    old: Vec<Weak<()>>,
    /// Threads that were given up inside of a call.
    abandoned: Vec<Weak<()>>,
    /// The names of the GPUs' threads that were told to end since the last report.
    closed: Vec<Arc<str>>,
    /// The names of those that were said to be stuck then.
    stuck: Vec<Arc<str>>,
}

impl GpuWatch {
    /// Nothing is opened before the first round.
    pub fn new(library: NvmlLibrary, proc_root: PathBuf, release: Release, crew: Crew) -> Self {
        Self {
            crew,
            library,
            proc_root,
            hold: Hold::new(release),
            discovery: None,
            open: None,
            known: KnownGpus::default(),
            book: XidBook::default(),
            leaving: Vec::new(),
            tried_ms: None,
            version: None,
            lost: false,
            fault: None,
            old: Vec::new(),
            abandoned: Vec::new(),
            closed: Vec::new(),
            stuck: Vec::new(),
        }
    }

    /// Counts a thread that has the driver open for itself: handles are not released before it has ended.
    pub fn count_in(&mut self, thread: Weak<()>) {
        self.old.push(thread);
    }

    /// Asks everything that can be asked, and waits for it until the round's deadline.
    pub async fn tick(&mut self, round: &mut Round) -> GpuTick {
        self.old.retain(|driver| driver.strong_count() > 0);
        self.abandoned.retain(|thread| thread.strong_count() > 0);
        let mut tick = GpuTick::default();
        if let Some(reason) = self.release(round) {
            tick.sampling = Sampling::Fails(reason);
        } else {
            if self.open.is_none() {
                self.reopen(round).await;
            }
            if self.open.is_some() {
                self.sample(&mut tick, round).await;
            } else {
                let unknown = || "the driver has not answered yet".to_owned();
                tick.sampling = Sampling::Fails(self.fault.clone().unwrap_or_else(unknown));
            }
        }
        if self.open.is_some() {
            tick.samples.extend(self.known.failed(&tick.samples, round.instant_ms));
        }
        self.take_xids(round);
        for sample in &mut tick.samples {
            self.book.read(&sample.uuid, &mut sample.measures);
        }
        tick.changed = self.known.take_changed();
        self.report(round);
        tick
    }

    /// Why no handle is held, while somebody wants the driver for himself.
    fn release(&mut self, round: &mut Round) -> Option<String> {
        let asked = self.hold.is_asked(round.instant_ms);
        if asked && self.hold.begin() {
            self.close();
        }
        if !asked {
            if self.hold.end() {
                self.tried_ms = None;
            }
            return None;
        }
        let calls = self.abandoned.len();
        if self.old.is_empty() && calls == 0 {
            if self.hold.released() {
                tracing::info!("no handle of the driver is held");
                round.say("handles_released", "all handles of the driver are released, it can be reloaded");
            }
            return Some("the driver's handles are released".to_owned());
        }
        let but = if calls > 0 { format!(", {calls} calls of it have not returned") } else { String::new() };
        Some(format!("the driver's handles are being released{but}"))
    }

    /// Opens the driver, if it is time to try.
    async fn reopen(&mut self, round: &mut Round) {
        let discovery = match &mut self.discovery {
            Some(discovery) => discovery,
            none => {
                if self.abandoned.len() >= MAX_ABANDONED {
                    let hung = format!(
                        "{} calls of the driver have not returned: it is not opened again",
                        self.abandoned.len()
                    );
                    self.fault = Some(hung);
                    return;
                }
                let (crew, library, proc_root) = (self.crew.clone(), self.library.clone(), self.proc_root.clone());
                let started = Watched::new(move || {
                    let (library, proc_root) = (library.clone(), proc_root.clone());
                    Ok(SensorTask::on(&crew, "gpus", move || discover(library, proc_root)))
                });
                match started {
                    Ok(discovery) => none.insert(discovery),
                    Err(error) => {
                        self.fault = Some(crate::errors::chain(&error));
                        return;
                    }
                }
            }
        };
        if discovery.is_idle() {
            if is_soon(self.tried_ms, round.instant_ms, REOPEN_MS) {
                return;
            }
            self.tried_ms = Some(round.instant_ms);
            discovery.request(round);
        }
        match discovery.collect(round).await {
            Some(Discovered::Opened(driver)) => self.opened(&driver, round),
            Some(Discovered::Failed(reason)) => self.driver_lost(reason, round),
            // The thread has another driver than this end believes: it begins anew.
            Some(_) => self.close(),
            None if discovery.is_late() => {
                let waited_ms = discovery.stuck_ms(round.instant_ms);
                self.fault = Some(format!("the driver has not answered for {waited_ms} ms"));
            }
            None => {}
        }
    }

    fn opened(&mut self, weak: &Weak<Driver>, round: &mut Round) {
        let Some(driver) = weak.upgrade() else { return };
        let version = driver.version().to_owned();
        let before = self.version.replace(version.clone());
        if let Some(before) = before.filter(|before| self.lost || *before != version) {
            tracing::info!(before, version, "the driver was reloaded");
            let message = format!("the driver was reloaded: {before} -> {version}");
            let event = Event::new(round.instant_ms, "driver_reloaded", message);
            round.events.push(event.with(names::HW_DRIVER_VERSION, &version));
        }
        if self.hold.taken() {
            round.say("handles_taken", format!("the driver {version} is open again"));
        }
        (self.lost, self.fault) = (false, None);
        match OpenDriver::start(&self.crew, &driver, &self.known, &self.stuck, round.instant_ms) {
            Ok(open) => self.open = Some(open),
            Err(error) => {
                self.close();
                self.fault = Some(format!("cannot start the threads of the GPUs: {error}"));
            }
        }
    }

    fn driver_lost(&mut self, reason: String, round: &mut Round) {
        if self.version.is_some() && !std::mem::replace(&mut self.lost, true) {
            tracing::warn!(reason, "the driver is lost");
            round.say("driver_lost", format!("the driver is lost: {reason}"));
        }
        self.fault = Some(reason);
    }

    /// Samples the GPUs, and looks after the driver.
    async fn sample(&mut self, tick: &mut GpuTick, round: &mut Round) {
        let Some(open) = &mut self.open else { return };
        tick.simulated = open.simulated;
        let discovery = self.discovery.as_mut();
        // An answer of an earlier round, and the next question.
        let mut verdict = None;
        if let Some(discovery) = discovery {
            verdict = discovery.poll(round);
            if discovery.is_idle() && !is_soon(self.tried_ms, round.instant_ms, CHECK_MS) {
                self.tried_ms = Some(round.instant_ms);
                discovery.request(round);
            }
        }
        open.ask(tick, &mut self.known, round).await;
        let lost = self.known.newly_lost(&tick.samples);
        if let Some(discovery) = &mut self.discovery {
            verdict = match verdict {
                Some(verdict) => Some(verdict),
                None if lost.is_empty() => discovery.poll(round),
                None => {
                    discovery.request(round);
                    discovery.collect(round).await
                }
            };
        }
        self.known.judge_missing(open.gpus(), round);
        open.describe(tick, &self.known, round.instant_ms);
        match verdict {
            Some(Discovered::Lost(reason)) => {
                self.close();
                self.driver_lost(reason, round);
                return;
            }
            Some(Discovered::Changed(count)) => {
                tracing::info!(count, "the driver has other GPUs");
                self.close();
                return;
            }
            // It was asked in this round, and is not stuck: its answer says whose loss it is.
            None if !lost.is_empty() && self.discovery.as_ref().is_some_and(|asked| !asked.is_stuck()) => return,
            _ => {}
        }
        let is_new = !lost.is_empty();
        for (uuid, reason) in lost {
            self.known.lose(&uuid, reason, round);
        }
        let revive = self.known.any_lost() && !is_soon(Some(open.since_ms), round.instant_ms, REVIVE_MS);
        if (is_new || revive) && self.abandoned.is_empty() && !open.is_any_late() {
            self.close();
        }
    }

    /// Lets go of the driver: each thread that has it is told to end, and ends when its call returns.
    fn close(&mut self) {
        if let Some(mut open) = self.open.take() {
            self.old.push(open.closed());
            self.closed.extend(open.names());
            self.stuck = open.stuck();
            self.abandoned.extend(open.hung());
            self.leaving.extend(open.xids.take().map(XidWatch::leave));
        }
        if let Some(discovery) = self.discovery.take()
            && discovery.is_late()
        {
            self.abandoned.push(discovery.alive());
        }
        // Some libraries stay loaded as long as a thread lives that has called them, and would be found again in place of a
        // new driver's.
        self.crew.renew();
        self.tried_ms = None;
    }

    /// Counts the XIDs that have come, each of which is an event.
    fn take_xids(&mut self, round: &mut Round) {
        let mut said: Vec<Said> = Vec::new();
        self.leaving.retain_mut(|leaving| {
            loop {
                match leaving.try_recv() {
                    Ok(last) => said.push(last),
                    Err(error) => return error == TryRecvError::Empty,
                }
            }
        });
        if let Some(xids) = self.open.as_mut().and_then(|open| open.xids.as_mut()) {
            said.extend(std::iter::from_fn(|| xids.next()));
        }
        for said in said {
            match said {
                Said::Watched(uuid, watched) => self.book.watch(&uuid, watched),
                Said::Xid(ts_ms, xid) => {
                    self.book.note(&xid);
                    round.events.push(self.event(ts_ms, &xid));
                }
            }
        }
    }

    fn event(&self, ts_ms: i64, xid: &Xid) -> Event {
        let what = meaning(xid.code).unwrap_or("see the driver's documentation");
        let message = format!("{} raised XID {}: {what}", self.known.name(&xid.uuid), xid.code);
        tracing::warn!(uuid = xid.uuid, code = xid.code, "{message}");
        let mut event = Event::new(ts_ms, "xid", message).of(&xid.uuid).with(names::XID, xid.code);
        event.attributes.extend(xid.gpu_instance.map(|id| (names::MIG_GPU_INSTANCE, id.to_string())));
        event.attributes.extend(xid.compute_instance.map(|id| (names::MIG_COMPUTE_INSTANCE, id.to_string())));
        event
    }

    /// How each thread is.
    fn report(&mut self, round: &mut Round) {
        if let Some(discovery) = &self.discovery {
            discovery.report(round);
        }
        match &mut self.open {
            Some(open) => open.report(round),
            // Nobody asks them, and what they said last grows old.
            None => {
                for (uuid, answered_ms) in self.known.answers() {
                    round.note(uuid, 0, answered_ms.map(|answered_ms| round.instant_ms.saturating_sub(answered_ms)));
                }
            }
        }
        // Of whom it was never found out who they are.
        for name in std::mem::take(&mut self.closed) {
            if !self.known.answers().any(|(uuid, _)| uuid == name.as_ref()) {
                round.telemetry.forget_sensor(&name);
            }
        }
        for uuid in self.known.take_removed() {
            round.telemetry.forget_sensor(&uuid);
        }
        let abandoned = i64::try_from(self.abandoned.len()).unwrap_or(i64::MAX);
        round.telemetry.abandoned_threads.set(abandoned);
    }
}

/// Whether `at_ms` is less than `span_ms` away, in either direction: a clock that is set back must not make it wait.
fn is_soon(at_ms: Option<i64>, now_ms: i64, span_ms: i64) -> bool {
    at_ms.is_some_and(|at_ms| now_ms.abs_diff(at_ms) < span_ms.unsigned_abs())
}
