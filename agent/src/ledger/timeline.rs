//! One GPU's time, from tick to tick, cut at minutes: the GPU's own, and that of its MIG instances.
//!
//! - The interval `(previous tick, this tick]` belongs to who was seen at the previous tick, with the utilisation that was
//!   read there, and divided as the GPU was split there.
//! - It is nobody's (*unmetered*) when it is longer than [`gap_limit_ms`], when the agent was restarted in it, and before
//!   the first tick of a device's first minute.
//! - Its energy is what the counter rose by; a counter that fell was reset (a driver reload), and its new value is the
//!   rise. At a minute's end `B` inside of `(t1, t2]` the counter is taken to be
//!   `e1 + floor((e2 − e1) × (B − t1) / (t2 − t1))`, in whole numbers. Where it could not be read, the next reading says it
//!   all: of the interval that ends with that one.
//! - A tick that is not later than what is covered already is ignored, so a clock that is set back stops the timeline
//!   until it has caught up. Only a step of more than [`MAX_GAP_MS`], which says that the earlier time was wrong, begins a
//!   new timeline at the next full minute.
//! - After a gap of more than [`MAX_GAP_MS`] the open minute is closed and the minutes between are left out: they have no
//!   rows at all.
//! - No minute is closed twice: one that was closed while the clock was days ahead stays what it is, and when its time
//!   really comes, that time has no rows.

use std::collections::BTreeMap;
use std::time::Duration;

use contador_schemas::owner::OwnerKind;
use serde::{Deserialize, Serialize};

use super::minute::{ClosedMinute, MINUTE_MS, OpenMinute, Piece};
use super::slices::WHOLE;
use super::split::{FINE, Rounding, apportion, portion};
use super::tick::{Holder, Instance, Tick};

/// Minutes missed for longer than this, in milliseconds, are not closed one by one.
pub const MAX_GAP_MS: i64 = 24 * 3_600_000;

/// Most runs of closed minutes that are remembered, of a clock that jumps by days.
const MAX_RUNS: usize = 8;

/// How long a state holds without being seen again, in milliseconds: 5 s, or 5 intervals when that is longer.
pub fn gap_limit_ms(interval: Duration) -> i64 {
    i64::try_from(interval.as_millis() * 5).unwrap_or(i64::MAX).max(5_000)
}

/// One device's open minute, and the state that holds in it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Timeline {
    simulated: bool,
    started: bool,
    /// Everything up to this instant is booked.
    covered_ms: i64,
    last_seen_ms: i64,
    /// Nobody is looking since `covered_ms`.
    interrupted: bool,
    /// Since when all minutes are closed, up to the open one; `None` in an older checkpoint.
    #[serde(default)]
    began_ms: Option<i64>,
    /// What was closed before that, in runs: from when, and until when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    closed: Vec<(i64, i64)>,
    holders: Vec<Holder>,
    utilization_ppm: Option<u32>,
    #[serde(default)]
    split: Option<Vec<Instance>>,
    /// The counter's value at `covered_ms`, or earlier when it could not be read since.
    energy_mj: Option<u64>,
    minute: OpenMinute,
    /// Those of MIG instances that were there in this minute, by UUID.
    #[serde(default)]
    instances: BTreeMap<String, OpenMinute>,
}

impl Timeline {
    /// The instant up to which time is booked, Unix milliseconds.
    pub fn covered_ms(&self) -> i64 {
        self.covered_ms
    }

    /// The last tick's instant, Unix milliseconds.
    pub fn last_seen_ms(&self) -> i64 {
        self.last_seen_ms
    }

    /// Says that nobody looks until the next tick.
    pub fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// Books the time since the last tick and takes over the state of this one. `false`: the tick was ignored.
    pub fn tick(&mut self, tick: Tick, interval: Duration, closed: &mut impl FnMut(ClosedMinute)) -> bool {
        let now = tick.instant_ms;
        if !self.started {
            self.begin(now);
        } else if now < self.covered_ms - MAX_GAP_MS {
            // The clock was wrong by days before, and is right again.
            let closed = self.end_run();
            *self = Self { closed, ..Self::default() };
            self.begin(minute_start(now) + MINUTE_MS);
            self.last_seen_ms = now;
            return false;
        } else if now <= self.covered_ms {
            self.last_seen_ms = now.max(self.last_seen_ms);
            return false;
        }
        self.simulated = tick.simulated;
        let rise = match (self.energy_mj, tick.energy_mj) {
            (Some(before), Some(after)) => after.checked_sub(before).unwrap_or(after),
            _ => 0,
        };
        if now - self.covered_ms > gap_limit_ms(interval) {
            self.interrupted = true;
        }
        self.book_until(now, rise, closed);
        self.interrupted = false;
        self.last_seen_ms = now;
        self.holders = tick.holders;
        self.utilization_ppm = tick.utilization_ppm;
        self.split = tick.split;
        self.energy_mj = tick.energy_mj.or(self.energy_mj);
        true
    }

    /// Closes, as unmetered and without energy, every minute that ended before `now_ms`.
    pub fn close_unseen(&mut self, now_ms: i64, closed: &mut impl FnMut(ClosedMinute)) {
        let end = minute_start(now_ms);
        if self.started && end > self.covered_ms {
            self.interrupted = true;
            self.book_until(end, 0, closed);
        }
    }

    fn begin(&mut self, now_ms: i64) {
        self.started = true;
        self.covered_ms = minute_start(now_ms);
        self.began_ms = Some(self.covered_ms);
        self.interrupted = true;
    }

    /// What was closed until now, when other minutes come next than those after it.
    fn end_run(&mut self) -> Vec<(i64, i64)> {
        let mut closed = std::mem::take(&mut self.closed);
        closed.extend(self.began_ms.map(|began| (began, minute_start(self.covered_ms))));
        closed.drain(..closed.len().saturating_sub(MAX_RUNS));
        closed
    }

    /// Books everything from `covered_ms` to `end_ms`, in which the counter rose by `rise` millijoules.
    fn book_until(&mut self, end_ms: i64, rise: u64, closed: &mut impl FnMut(ClosedMinute)) {
        let begin = self.covered_ms;
        let risen = |at: i64| portion(rise, at - begin, end_ms - begin);
        while self.covered_ms < end_ms {
            let from = self.covered_ms;
            if from > begin && end_ms - begin > MAX_GAP_MS && from < minute_start(end_ms) {
                // The minute that was open is closed; the days between are left out.
                self.closed = self.end_run();
                self.covered_ms = minute_start(end_ms);
                self.began_ms = Some(self.covered_ms);
                continue;
            }
            let boundary = minute_start(from) + MINUTE_MS;
            let to = boundary.min(end_ms);
            let length_ms = u64::try_from(to - from).unwrap_or(0);
            let energy_mj = risen(to) - risen(from);
            let [share, energy] = [length_ms, energy_mj].map(|whole| u128::from(whole) * FINE);
            self.book(Piece { length_ms, share, energy });
            self.covered_ms = to;
            if to == boundary {
                self.close(boundary - MINUTE_MS, closed);
            }
        }
    }

    /// Books a piece of the open minute.
    fn book(&mut self, piece: Piece) {
        if self.interrupted {
            return self.minute.unmetered(piece);
        }
        let Some(split) = &self.split else {
            return self.minute.held(piece, &self.holders, self.utilization_ppm, OwnerKind::Idle);
        };
        let weights: Vec<u64> = split.iter().map(|instance| instance.weight).collect();
        let sum = weights.iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight));
        let rest = WHOLE.saturating_sub(sum);
        let rest_draws = if split.is_empty() || !self.holders.is_empty() { rest } else { 0 };
        let draws = active(split).filter(|_| rest_draws == 0).unwrap_or_else(|| weights.clone());
        let with = |mut weights: Vec<u64>, rest| {
            weights.push(rest);
            weights
        };
        let shares = apportion(piece.share, &with(weights, rest));
        let energies = apportion(piece.energy, &with(draws, rest_draws));
        let mut pieces = shares.into_iter().zip(energies).map(|(share, energy)| Piece { share, energy, ..piece });
        for (instance, piece) in split.iter().zip(&mut pieces) {
            let minute = match self.instances.get_mut(&instance.device) {
                Some(minute) => minute,
                None => self.instances.entry(instance.device.clone()).or_default(),
            };
            minute.held(piece, &instance.holders, instance.utilization_ppm, OwnerKind::Idle);
        }
        let rest = pieces.next().unwrap_or(Piece { share: 0, energy: 0, ..piece });
        self.minute.held(rest, &self.holders, self.utilization_ppm, OwnerKind::Stranded);
    }

    /// Ends the open minute, which began at `start_ms`, of the GPU and of those of its instances that have anything of it.
    fn close(&mut self, start_ms: i64, closed: &mut impl FnMut(ClosedMinute)) {
        if self.closed.iter().any(|(from, to)| (*from..*to).contains(&start_ms)) {
            (self.minute, self.instances) = Default::default();
            return;
        }
        let mut roundings = [Rounding::of_minute(start_ms); 2];
        closed(self.minute.close(start_ms, self.simulated, &mut roundings));
        for (device, mut minute) in std::mem::take(&mut self.instances) {
            closed(ClosedMinute { device, ..minute.close(start_ms, self.simulated, &mut roundings) });
        }
    }
}

/// Weights of instances by what they do: weight times activity; `None` when it is not told of all, or nothing is done.
fn active(split: &[Instance]) -> Option<Vec<u64>> {
    let active = |instance: &Instance| Some(instance.weight.saturating_mul(instance.utilization_ppm?.into()));
    let active: Vec<u64> = split.iter().map(active).collect::<Option<_>>()?;
    active.iter().any(|&weight| weight > 0).then_some(active)
}

/// The start of the UTC minute that `instant_ms` is in (Unix milliseconds).
pub(super) fn minute_start(instant_ms: i64) -> i64 {
    instant_ms - instant_ms.rem_euclid(MINUTE_MS)
}
