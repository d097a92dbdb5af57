//! One GPU's time, from tick to tick, cut at minutes: the GPU's own, and that of its MIG instances.
//!
//! - The interval `(previous tick, this tick]` belongs to who was seen at the previous tick, with the utilisation that was
//!   read there, and divided as the GPU was split there.
//! - A holder whose end is told only at this tick has it until then, and nothing of it when that was before the interval;
//!   what is booked already stays.
//! - It is nobody's (*unmetered*) when it is longer than [`gap_limit_ms`], when the agent was restarted in it, and before
//!   the first tick of a device's first minute.
//! - Its energy is what the counter rose by ([`super::energy`]). At a minute's end `B` inside of `(t1, t2]` the counter is
//!   taken to be `e1 + floor((e2 − e1) × (B − t1) / (t2 − t1))`, in whole numbers. Where it could not be read, the next
//!   reading says it all: of the interval that ends with that one.
//! - A tick that is not later than what is covered already is ignored, so a clock that is set back stops the timeline
//!   until it has caught up. Only a step of more than [`MAX_GAP_MS`], which says that the earlier time was wrong, begins a
//!   new timeline at the next full minute.
//! - After a gap of more than [`MAX_GAP_MS`] the open minute is closed and the minutes between are left out: they have no
//!   rows at all.
//! - No minute is closed twice: one that was closed while the clock was days ahead stays what it is, and when its time
//!   really comes, that time has no rows.

use std::collections::BTreeMap;
use std::time::Duration;

use contador_schemas::owner::{Owner, OwnerKind};
use serde::{Deserialize, Serialize};

use super::energy::EnergyCounter;
use super::minute::{ClosedMinute, MINUTE_MS, OpenMinute, Piece};
use super::slices::WHOLE;
use super::split::{FINE, Rounding, apportion, portion};
use super::tick::{Holder, Instance, Tick};
use crate::owners::claim::is_same_work;

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
    /// Of holders that are to be gone at the next tick, each one's end: instance (none: the GPU), owner, Unix milliseconds.
    #[serde(skip)]
    ends: Vec<(Option<String>, Owner, i64)>,
    /// As it was at `covered_ms`, or earlier when it could not be read since.
    #[serde(flatten)]
    energy: EnergyCounter,
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

    /// Says when a holder has ended, if the next tick, which is to come at once, no longer has it: of an instance, or of the
    /// GPU and all of its instances.
    pub fn end(&mut self, instance: Option<&str>, owner: &Owner, at_ms: i64) {
        self.ends.push((instance.map(str::to_owned), owner.clone(), at_ms));
    }

    /// Books the time since the last tick and takes over the state of this one. `false`: the tick was ignored.
    pub fn tick(&mut self, tick: Tick, interval: Duration, closed: &mut impl FnMut(ClosedMinute)) -> bool {
        let (now, mut ends) = (tick.instant_ms, std::mem::take(&mut self.ends));
        self.energy.pass(now);
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
        let rise = self.energy.read(now, tick.energy_mj);
        if now - self.covered_ms > gap_limit_ms(interval) {
            self.interrupted = true;
        }
        let rise = Rise { from_ms: self.covered_ms, to_ms: now, energy_mj: rise };
        let parts = || tick.split.iter().flatten().flat_map(|instance| &instance.holders);
        let is_gone = |owner: &Owner| !tick.holders.iter().chain(parts()).any(|held| is_same_work(&held.owner, owner));
        ends.retain(|(_, owner, _)| !self.interrupted && is_gone(owner));
        ends.sort_by_key(|(.., at_ms)| *at_ms);
        for (instance, owner, at_ms) in ends {
            self.book_until(at_ms.min(now), rise, closed);
            self.release(instance.as_deref(), &owner);
        }
        self.book_until(now, rise, closed);
        self.interrupted = false;
        self.last_seen_ms = now;
        self.holders = tick.holders;
        self.utilization_ppm = tick.utilization_ppm;
        self.split = tick.split;
        true
    }

    /// Closes, as unmetered and without energy, every minute that ended before `now_ms`.
    pub fn close_unseen(&mut self, now_ms: i64, closed: &mut impl FnMut(ClosedMinute)) {
        let end = minute_start(now_ms);
        if self.started && end > self.covered_ms {
            self.interrupted = true;
            self.book_until(end, Rise { from_ms: self.covered_ms, to_ms: end, energy_mj: 0 }, closed);
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

    /// Somebody holds a device no more. What was read of it while it was held says nothing of it when nobody is left.
    fn release(&mut self, instance: Option<&str>, owner: &Owner) {
        let leave = |holders: &mut Vec<Holder>, utilization_ppm: &mut Option<u32>| {
            let before = holders.len();
            holders.retain(|holder| !is_same_work(&holder.owner, owner));
            if before > 0 && holders.is_empty() {
                *utilization_ppm = None;
            }
        };
        if instance.is_none() {
            leave(&mut self.holders, &mut self.utilization_ppm);
        }
        for part in self.split.iter_mut().flatten() {
            if instance.is_none_or(|device| *device == part.device) {
                leave(&mut part.holders, &mut part.utilization_ppm);
            }
        }
    }

    /// Books everything from `covered_ms` to `end_ms`, which is in the interval of this rise.
    fn book_until(&mut self, end_ms: i64, rise: Rise, closed: &mut impl FnMut(ClosedMinute)) {
        let begin = rise.from_ms;
        let risen = |at: i64| portion(rise.energy_mj, at - begin, rise.to_ms - begin);
        while self.covered_ms < end_ms {
            let from = self.covered_ms;
            if from > begin && rise.to_ms - begin > MAX_GAP_MS && from < minute_start(end_ms) {
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

/// By how many millijoules the counter rose in an interval, in Unix milliseconds.
#[derive(Clone, Copy, Debug)]
struct Rise {
    from_ms: i64,
    to_ms: i64,
    energy_mj: u64,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ledger::tick::holders;
    use crate::owners::Identified;
    use crate::owners::claim::Part;

    /// The start of a minute.
    const START: i64 = 1_790_000_040_000;

    fn pod(name: &str) -> Owner {
        Owner { pod: name.into(), ..Owner::default() }
    }

    fn held_by(names: &[&str]) -> Vec<Holder> {
        let owners: Vec<Identified> = names.iter().map(|name| pod(name).into()).collect();
        holders(owners.iter().map(|owner| (Part::Even, owner)), [])
    }

    fn tick(at_ms: i64, names: &[&str]) -> Tick {
        let energy_mj = Some(u64::try_from(at_ms).unwrap());
        Tick {
            instant_ms: START + at_ms,
            holders: held_by(names),
            utilization_ppm: Some(500_000),
            energy_mj,
            ..Tick::default()
        }
    }

    /// What each one has of the minute, by its name: share, busy time and energy.
    fn told(minute: &ClosedMinute) -> BTreeMap<String, [u64; 3]> {
        let row = |account: &super::super::Account| {
            (account.owner.label(), [account.share_ms, account.busy_ms, account.energy_mj])
        };
        minute.accounts.iter().map(row).collect()
    }

    /// Instance, owner, and when.
    type End<'e> = (Option<&'e str>, &'e str, i64);

    /// Plays ticks, each with the ends that were told before it; the minutes.
    fn play(ticks: Vec<(Tick, Vec<End<'_>>)>) -> Vec<ClosedMinute> {
        let (mut timeline, mut minutes) = (Timeline::default(), Vec::new());
        for (tick, ends) in ticks {
            for (instance, name, at_ms) in ends {
                timeline.end(instance, &pod(name), START + at_ms);
            }
            timeline.tick(tick, Duration::from_secs(60), &mut |minute| minutes.push(minute));
        }
        minutes
    }

    #[test]
    fn a_holder_has_a_device_until_its_end() {
        let minutes = play(vec![
            (tick(0, &["a", "b"]), vec![]),
            // Both end within the interval; c comes at its end.
            (tick(20_000, &["c"]), vec![(None, "b", 15_000), (None, "a", 10_000)]),
            // It ended before the interval, which was told late: what is booked stays.
            (tick(30_000, &[]), vec![(None, "c", 12_000)]),
            (tick(40_000, &["a"]), vec![]),
            // The next one of its name holds.
            (tick(60_000, &["a"]), vec![(None, "a", 45_000)]),
        ]);
        // a: half of 10 s, and 20 s from 40 s on. b: half of 10 s, then 5 s alone. c: nothing of (20 s, 30 s]. Energy is 1 mJ a
        // millisecond, and half of each second is busy while somebody holds the device.
        let expected = [
            ("a", [5_000 + 20_000, 12_500, 25_000]),
            ("b", [5_000 + 5_000, 5_000, 10_000]),
            // (15 s, 40 s], with the work that is read at 30 s.
            ("idle", [25_000, 5_000, 25_000]),
        ];
        assert_eq!(
            minutes.iter().map(told).collect::<Vec<_>>(),
            [expected.map(|(name, row)| (name.to_owned(), row)).into()]
        );
    }

    #[test]
    fn an_end_is_that_of_the_pod_whoever_pays_for_it() {
        let labelled = Owner { project: "p".into(), ..pod("a") }.into();
        let held = holders([(Part::Even, &pod("a").into())], [(&labelled, 0, None)]);
        assert_eq!(held.len(), 1);
        let minutes = play(vec![
            (Tick { holders: held, ..tick(0, &[]) }, vec![]),
            (tick(20_000, &[]), vec![(None, "a", 10_000)]),
            (tick(60_000, &[]), vec![]),
        ]);
        assert_eq!(told(&minutes[0])["p"][0], 10_000);
    }

    #[test]
    fn an_end_on_an_instance_is_of_that_instance_and_one_on_the_gpu_of_all() {
        let split = |names: [&[&str]; 2]| {
            let part = |device: &str, names: &[&str]| Instance {
                device: device.into(),
                weight: WHOLE / 4,
                holders: held_by(names),
                utilization_ppm: None,
            };
            Some(vec![part("MIG-1", names[0]), part("MIG-2", names[1])])
        };
        let ticks = [(0, [&["a"][..], &["a"]]), (20_000, [&[], &["b"]]), (40_000, [&[], &[]]), (60_000, [&[], &[]])];
        let ends = [vec![], vec![(Some("MIG-1"), "a", 8_000)], vec![(None, "b", 28_000)], vec![]];
        let all = ticks.into_iter().zip(ends);
        let minutes =
            play(all.map(|((at_ms, names), ends)| (Tick { split: split(names), ..tick(at_ms, &[]) }, ends)).collect());
        let shares: BTreeMap<String, BTreeMap<String, u64>> = minutes
            .iter()
            .map(|minute| (minute.device.clone(), told(minute).into_iter().map(|(name, row)| (name, row[0])).collect()))
            .collect();
        let of = |device: &str, name: &str| shares[device].get(name).copied().unwrap_or(0);
        // A quarter each: of 8 s and the rest; of 20 s, 8 s and the rest.
        assert_eq!([of("MIG-1", "a"), of("MIG-1", "idle")], [2_000, 13_000]);
        assert_eq!([of("MIG-2", "a"), of("MIG-2", "b"), of("MIG-2", "idle")], [5_000, 2_000, 8_000]);
        assert_eq!(of("", "stranded"), 30_000);
    }

    proptest! {
        #[test]
        fn ends_leave_each_minute_whole_and_nobody_holds_beyond_his(
            steps in prop::collection::vec(
                (1_i64..70_000, 0_usize..4, prop::collection::vec((-5_000_i64..80_000, 0_usize..4), 0..4)),
                1..30,
            ),
        ) {
            let names = ["a", "b", "c", "d"];
            let (mut from_ms, mut before) = (0, 2);
            let mut ticks = vec![(tick(0, &names[..before]), vec![])];
            // By minute and owner, how long he holds.
            let mut held = BTreeMap::<(i64, &str), i64>::new();
            for (after_ms, count, ends) in steps {
                let to_ms = from_ms + after_ms;
                for (who, name) in names.iter().enumerate().take(before) {
                    let told = ends.iter().filter(|(_, of)| *of == who && who >= count);
                    let until_ms = told.map(|(end_ms, _)| end_ms.clamp(&0, &after_ms) + from_ms).min().unwrap_or(to_ms);
                    for minute in from_ms / MINUTE_MS..=until_ms / MINUTE_MS {
                        let of_minute = until_ms.min((minute + 1) * MINUTE_MS) - from_ms.max(minute * MINUTE_MS);
                        *held.entry((minute, *name)).or_default() += of_minute;
                    }
                }
                let ends = ends.into_iter().map(|(end_ms, who)| (None, names[who], from_ms + end_ms)).collect();
                ticks.push((tick(to_ms, &names[..count]), ends));
                (from_ms, before) = (to_ms, count);
            }
            for (place, minute) in play(ticks).iter().enumerate() {
                for name in names {
                    let account = minute.accounts.iter().find(|account| account.owner.pod == name);
                    let expected = held.get(&(i64::try_from(place).unwrap(), name)).copied().unwrap_or(0);
                    prop_assert_eq!(account.map_or(0, |account| account.held_ms), expected.unsigned_abs(), "{}", name);
                }
                let rows = told(minute);
                prop_assert_eq!(rows.values().map(|row| row[0]).sum::<u64>(), 60_000);
                // The counter rises by 1 mJ a millisecond.
                prop_assert_eq!(rows.values().map(|row| row[2]).sum::<u64>(), 60_000, "minute {}", place);
            }
        }
    }
}
