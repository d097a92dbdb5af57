//! Gives unmetered time to whom a device belonged to before and after: each has a part as large as its share in the minute before, in whole
//! milliseconds and millijoules that sum to what was there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use contador_schemas::owner::OwnerKind;
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use uuid::Uuid;

use super::{Blind, MINUTE_MS, Run, find, is_short};
use crate::bill::apportion::split;
use crate::bill::decimal::ONE;
use crate::bill::facts::part::Part;
use crate::bill::facts::spans::Spans;
use crate::bill::facts::{Device, Fact};

/// Workloads of a device in some of its minutes, with the milliseconds of their shares, none of which is 0.
pub(super) type Holders = HashMap<i64, BTreeMap<Uuid, u64>>;

/// The minutes of which it must be known who held the device, to give its gaps in these spans.
pub(super) fn needed(rows: &[Blind], spans: &Spans) -> Vec<i64> {
    let in_spans = |run: &Run<'_>| {
        let ends = run.rows.first().zip(run.rows.last());
        ends.is_some_and(|(first, last)| first.minute < spans.to && last.minute >= spans.from)
    };
    let mut minutes = Vec::new();
    for run in find(rows).into_iter().filter(in_spans) {
        if run.anchors.len() == 1 {
            minutes.extend(&run.anchors);
        }
        for pair in run.anchors.windows(2) {
            if let [before, after] = *pair
                && is_short(before, after)
                && before < spans.to
                && after >= spans.from
            {
                minutes.extend(pair);
            }
        }
    }
    minutes.sort_unstable();
    minutes.dedup();
    minutes
}

/// What is given, as parts of those that it is given to, in whole minutes' order.
pub(super) fn give(rows: &[Blind], holders: &Holders, spans: &Spans, device: &Arc<Device>) -> Vec<Part> {
    // By the minute that tells whose it is, and span.
    let mut gaps: BTreeMap<(i64, i64), (Blind, i64, i64)> = BTreeMap::new();
    for run in find(rows) {
        for row in run.rows.iter().filter(|row| spans.from <= row.minute && row.minute < spans.to) {
            let Some(told_by) = told_by(&run.anchors, row, holders) else { continue };
            let key = (told_by, spans.start(row.minute));
            let (sum, _, end) = gaps.entry(key).or_insert((Blind::default(), row.minute, 0));
            sum.held += row.held;
            sum.share += row.share;
            sum.energy += row.energy;
            *end = row.minute + MINUTE_MS;
        }
    }
    let mut parts = Vec::new();
    for ((told_by, from), (sum, first, end)) in gaps {
        let Some(owners) = holders.get(&told_by) else { continue };
        let weights: Vec<BigInt> = owners.values().map(|share| BigInt::from(*share)).collect();
        let shares = whole(&split(&sum.share.into(), &weights));
        let energies = whole(&split(&sum.energy.into(), &weights));
        for ((id, share), energy) in owners.keys().zip(shares).zip(energies) {
            let units = share * ONE;
            let fact = Fact {
                kind: OwnerKind::Workload,
                device: Arc::clone(device),
                from,
                to: spans.end(from),
                held: sum.held,
                allocated: units,
                unknown: units,
                greater: units,
                energy_mj: energy,
                ..Fact::default()
            };
            parts.push(Part { id: *id, first, end, fact });
        }
    }
    parts
}

fn whole(numbers: &[BigInt]) -> Vec<i128> {
    numbers.iter().map(|number| number.to_i128().unwrap_or_default()).collect()
}

/// The minute whose workloads have a row's unmetered time, if anybody has it: all gaps that the minute is part of have the same workloads
/// at both ends.
fn told_by(anchors: &[i64], row: &Blind, holders: &Holders) -> Option<i64> {
    let same = |before: i64, after: i64| {
        let (before_it, after_it) = (holders.get(&before)?, holders.get(&after)?);
        let is_same = !before_it.is_empty() && before_it.keys().eq(after_it.keys()) && is_short(before, after);
        is_same.then_some(before)
    };
    let at = anchors.partition_point(|anchor| *anchor < row.minute);
    let (before, here, after) = (at.checked_sub(1).map(|at| anchors[at]), anchors[at], anchors.get(at + 1).copied());
    if here != row.minute {
        return same(before?, here);
    }
    match (before, after) {
        (None, None) => same(here, here),
        (None, Some(after)) => same(here, after),
        (Some(before), None) => same(before, here),
        (Some(before), Some(after)) => same(here, after).and(same(before, here)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 24 * 60;

    fn blind(minute: i64, held: i64) -> Blind {
        Blind { minute: minute * MINUTE_MS, held, share: held, energy: 7 }
    }

    fn holders(minutes: &[(i64, &[(u128, u64)])]) -> Holders {
        let of = |owners: &[(u128, u64)]| owners.iter().map(|(id, share)| (Uuid::from_u128(*id), *share)).collect();
        minutes.iter().map(|(minute, owners)| (minute * MINUTE_MS, of(owners))).collect()
    }

    /// Owner, milliseconds, and the minutes from and to.
    fn told(rows: &[Blind], known: &Holders, minutes: (i64, i64)) -> Vec<(u128, i128, i64, i64)> {
        let spans = Spans::new(minutes.0 * MINUTE_MS, minutes.1 * MINUTE_MS, &[], 0);
        let parts = give(rows, known, &spans, &Arc::default());
        let of =
            |part: &Part| (part.id.as_u128(), part.fact.allocated / ONE, part.first / MINUTE_MS, part.end / MINUTE_MS);
        parts.iter().map(of).collect()
    }

    #[test]
    fn b13_a_gap_is_given_only_where_the_same_held_the_device_before_and_after() {
        let rows: Vec<Blind> = (5..8).map(|minute| blind(minute, 60_000)).collect();
        let all = (0, 100);
        let a: &[(u128, u64)] = &[(1, 60_000)];
        assert_eq!(told(&rows, &holders(&[(4, a), (8, a)]), all), [(1, 180_000, 5, 8)]);
        // Two of them, by their shares before the gap: 180,000 × 20/60 and 180,000 × 40/60.
        let both: &[(u128, u64)] = &[(1, 20_000), (2, 40_000)];
        let after: &[(u128, u64)] = &[(1, 59_000), (2, 1_000)];
        let expected = [(1, 60_000, 5, 8), (2, 120_000, 5, 8)];
        assert_eq!(told(&rows, &holders(&[(4, both), (8, after)]), all), expected);
        // Another after, another beside, nobody, or nothing known.
        for known in [&[(4, a), (8, &[(2, 60_000)])][..], &[(4, a), (8, both)], &[(4, &[]), (8, &[])], &[(4, a)]] {
            assert_eq!(told(&rows, &holders(known), all), []);
        }
        // Only the part that lies in the period.
        assert_eq!(told(&rows, &holders(&[(4, a), (8, a)]), (6, 7)), [(1, 60_000, 6, 7)]);
    }

    #[test]
    fn minutes_that_are_partly_metered_tell_whose_the_gap_beside_them_is() {
        let a: &[(u128, u64)] = &[(1, 30_000)];
        let b: &[(u128, u64)] = &[(2, 30_000)];
        let rows = [blind(5, 30_000), blind(6, 60_000), blind(7, 20_000)];
        let all = (0, 100);
        // The job may have begun in the first of them and ended in the last.
        assert_eq!(told(&rows, &holders(&[(5, a), (7, a)]), all), [(1, 110_000, 5, 8)]);
        assert_eq!(told(&rows, &holders(&[(5, a), (7, b)]), all), []);
        // One minute, by itself.
        assert_eq!(told(&rows[..1], &holders(&[(5, a)]), all), [(1, 30_000, 5, 6)]);
        // A minute between two gaps, of which one is nobody's, keeps its unmetered time.
        let rows = [blind(5, 60_000), blind(6, 10_000), blind(7, 60_000)];
        assert_eq!(told(&rows, &holders(&[(4, a), (6, a), (8, b)]), all), [(1, 60_000, 5, 6)]);
        let expected = [(1, 70_000, 5, 7), (1, 60_000, 7, 8)];
        assert_eq!(told(&rows, &holders(&[(4, a), (6, a), (8, a)]), all), expected);
    }

    #[test]
    fn a_gap_of_more_than_a_day_is_nobodys() {
        let a: &[(u128, u64)] = &[(1, 60_000)];
        for (length, given) in [(DAY, true), (DAY + 1, false)] {
            let rows: Vec<Blind> = (1..=length).map(|minute| blind(minute, 60_000)).collect();
            let known = holders(&[(0, a), (length + 1, a)]);
            assert_eq!(told(&rows, &known, (0, 2 * DAY)).len(), usize::from(given), "{length}");
            let spans = Spans::new(0, 2 * DAY * MINUTE_MS, &[], 0);
            let expected = if given { vec![0, (length + 1) * MINUTE_MS] } else { vec![] };
            assert_eq!(needed(&rows, &spans), expected);
        }
    }

    proptest! {
        /// Whoever holds the device: all or nothing of a gap is given, every millisecond once, and only minutes that were asked
        /// for tell to whom.
        #[test]
        fn what_is_given_is_what_was_unmetered(
            minutes in prop::collection::vec((0i64..=60_000, prop::collection::btree_map(0u128..3, 1u64..60_000, 0..3)), 1..40),
            all_held in any::<bool>(),
        ) {
            let rows: Vec<Blind> = (0..)
                .zip(&minutes)
                .filter(|(_, (held, _))| *held > 0)
                .map(|(at, (held, _))| Blind { held: if at % 3 == 0 { 60_000 } else { *held }, ..blind(at, *held) })
                .collect();
            let one = [(1u128, 1u64)].into();
            let of = |owners| Holders::from_iter([(0, BTreeMap::from_iter(owners))]).remove(&0).unwrap_or_default();
            let mut known = Holders::new();
            let spans = Spans::new(0, 50 * MINUTE_MS, &[20 * MINUTE_MS], 0);
            for minute in needed(&rows, &spans) {
                let at = usize::try_from(minute / MINUTE_MS).unwrap_or(0);
                let held = minutes.get(at).map_or(&one, |(_, owners)| if all_held { &one } else { owners });
                known.insert(minute, of(held.iter().map(|(id, share)| (Uuid::from_u128(*id), *share))));
            }
            let parts = give(&rows, &known, &spans, &Arc::default());
            let shares: i128 = parts.iter().map(|part| part.fact.allocated / ONE).sum();
            let energy: i128 = parts.iter().map(|part| part.fact.energy_mj).sum();
            let whole: i128 = rows.iter().map(|row| i128::from(row.share)).sum();
            let energies: i128 = rows.iter().map(|row| i128::from(row.energy)).sum();
            prop_assert!(shares <= whole && energy <= energies && energy % 7 == 0);
            if all_held {
                prop_assert_eq!((shares, energy), (whole, energies));
            }
            prop_assert!(parts.iter().all(|part| part.first >= part.fact.from && part.end <= part.fact.to));
        }
    }
}
