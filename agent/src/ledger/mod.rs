//! Who held what: instants become minutes.
//!
//! A [`tick::Tick`] says who holds a GPU, and its MIG instances, at one instant. A [`timeline::Timeline`] (one a GPU) lets
//! that state hold until the next tick, cuts the interval at UTC minutes, and has [`split`] divide time, busy time and
//! energy ([`energy`] tells how much that is) among instances (weighed by [`slices`]) and holders by whole numbers, so that
//! nothing is lost or made up: [`share`] has the rules. What nobody was looking at is *unmetered*, never guessed. A
//! [`minute::ClosedMinute`] comes out exactly once for each device, and for each instance that was there; [`checkpoint`]
//! keeps the open minutes, and closed ones that the outbox has not taken yet, so that a kill at any moment loses no more
//! than the time until the next start.

pub mod checkpoint;
pub mod energy;
pub mod minute;
pub mod share;
pub mod slices;
pub mod split;
pub mod tick;
pub mod timeline;

use std::collections::BTreeMap;
use std::time::Duration;

use contador_schemas::owner::Owner;
use serde::{Deserialize, Serialize};

pub use checkpoint::{CheckpointError, CheckpointFile};
pub use minute::{Account, ClosedMinute, MINUTE_MS};
pub use tick::{Holder, Instance, Tick};
use timeline::minute_start;
pub use timeline::{MAX_GAP_MS, Timeline, gap_limit_ms};

/// Most devices, and other streams of samples, that are remembered; those that were not seen for the longest time are
/// forgotten first. A clock that is wrong for a moment says nothing of how long that is, so time alone forgets nothing.
const MAX_REMEMBERED: usize = 256;

/// A device without a tick has its minutes closed as unmetered after this long, in milliseconds; until then they stay
/// open, since the counter of its next tick says how much energy they took.
pub const CLOSE_AFTER_MS: i64 = 3_600_000;

/// All devices' timelines, and the closed minutes that nobody has taken over yet. This is what a checkpoint holds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Ledger {
    timelines: BTreeMap<String, Timeline>,
    /// Closed, and not yet in the outbox: these are handed on again after a restart, with the same content.
    pending: Vec<ClosedMinute>,
    /// Ticks that were not later than the last one of their device.
    #[serde(default)]
    ignored_ticks: u64,
    /// The last instant of which samples went out, by device (or another sensor's name), Unix milliseconds.
    #[serde(default)]
    sampled: BTreeMap<String, i64>,
}

impl Ledger {
    /// Marks every timeline as interrupted: the time until its next tick is nobody's. To be called on a ledger that comes
    /// from a checkpoint, however short the interruption was.
    pub fn resume(&mut self) {
        self.timelines.values_mut().for_each(Timeline::interrupt);
    }

    /// Extends a device's timeline to `tick`. `interval` is the time between ticks as configured; see
    /// [`timeline::gap_limit_ms`].
    pub fn tick(&mut self, tick: Tick, interval: Duration) {
        let device = tick.device.clone();
        let timeline = self.timelines.entry(device.clone()).or_default();
        if !timeline.tick(tick, interval, &mut |minute| self.pending.push(minute.of(&device))) {
            self.ignored_ticks += 1;
        }
    }

    /// Says that nobody looks at a GPU from its last tick on until its next one: that time is nobody's.
    pub fn interrupt(&mut self, gpu: &str) {
        if let Some(timeline) = self.timelines.get_mut(gpu) {
            timeline.interrupt();
        }
    }

    /// Says when `owner` has stopped holding `device` (a GPU, or an instance of it), in Unix milliseconds: to be called before
    /// a [`tick`](Self::tick) of the GPU, which no longer has him there if it is so.
    pub fn end(&mut self, gpu: &str, device: &str, owner: &Owner, at_ms: i64) {
        if let Some(timeline) = self.timelines.get_mut(gpu) {
            timeline.end((device != gpu).then_some(device), owner, at_ms);
        }
    }

    /// Whether samples of `stream` (a device's UUID, or another sensor's name) at this instant may go out: never twice at one
    /// instant, nor before what went out already, so that what is stored is what the ledger has booked. As in a
    /// timeline, a step back by more than [`MAX_GAP_MS`] begins anew at the next full minute.
    pub fn admit(&mut self, stream: &str, instant_ms: i64) -> bool {
        let covered = self.covered_ms(stream);
        let Some(last) = self.sampled.get(stream).copied().max(covered) else {
            self.sampled.insert(stream.to_owned(), instant_ms);
            return true;
        };
        let admitted = instant_ms > last;
        if admitted {
            self.sampled.insert(stream.to_owned(), instant_ms);
        } else if instant_ms < last - MAX_GAP_MS {
            self.sampled.insert(stream.to_owned(), minute_start(instant_ms) + MINUTE_MS);
        }
        admitted
    }

    /// Closes, as unmetered, the minutes of devices without a tick for [`CLOSE_AFTER_MS`], until [`MAX_GAP_MS`] after it.
    pub fn advance(&mut self, now_ms: i64) {
        for (device, timeline) in &mut self.timelines {
            let is_gone = timeline.covered_ms() - timeline.last_seen_ms() > MAX_GAP_MS;
            if !is_gone && now_ms - timeline.covered_ms() > CLOSE_AFTER_MS {
                timeline.close_unseen(now_ms, &mut |minute| self.pending.push(minute.of(device)));
            }
        }
        forget(&mut self.timelines, Timeline::last_seen_ms);
        forget(&mut self.sampled, |last| *last);
    }

    /// The last instant that a device's timeline covers, in Unix milliseconds.
    pub fn covered_ms(&self, device: &str) -> Option<i64> {
        self.timelines.get(device).map(Timeline::covered_ms)
    }

    /// Minutes that are closed and have not been handed on.
    pub fn pending(&self) -> &[ClosedMinute] {
        &self.pending
    }

    /// Forgets the first `count` pending minutes: somebody keeps them durably now.
    pub fn handed_on(&mut self, count: usize) {
        self.pending.drain(..count.min(self.pending.len()));
    }

    /// How many ticks were ignored because they were not later than the one before them (a clock that was set back).
    pub fn ignored_ticks(&self) -> u64 {
        self.ignored_ticks
    }
}

/// Forgets what was not seen for the longest time, when there is too much.
fn forget<S>(streams: &mut BTreeMap<String, S>, last_ms: impl Fn(&S) -> i64) {
    while streams.len() > MAX_REMEMBERED {
        let oldest = streams.iter().min_by_key(|(_, stream)| last_ms(stream)).map(|(name, _)| name.clone());
        oldest.and_then(|name| streams.remove(&name));
    }
}

#[cfg(test)]
mod cases;
#[cfg(test)]
mod model;
#[cfg(test)]
mod properties;
