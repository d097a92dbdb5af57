//! What came between two points of one running total.

use contador_schemas::rows::Latency;

use crate::ingest::decode::histogram::{Buckets, Reading};
use crate::ingest::decode::latency::Identity;
use crate::ingest::decode::reject::Reason;

/// How much earlier than the last point of the run before, by another clock, a run may seem to start.
const CLOCK_SLACK_NS: i64 = 5_000_000_000;

/// The row of what came after `earlier` up to `later`; `None` when nothing came.
///
/// A source that started again, or whose counts fell, counts from 0: its new total is the increase, and the row says
/// `reset`. When only the layout of the buckets changed, the totals can't be compared: the later one is a new base line,
/// unless its start is known to be after `earlier`.
///
/// # Errors
/// As [`Identity::row`].
pub fn between(identity: &Identity, earlier: &Reading, later: &Reading) -> Result<Option<Latency>, Reason> {
    let since = match (earlier.start, later.start) {
        // Two runs that overlap are two sources that nothing tells apart: only what comes from now on can be told.
        (Some(before), Some(now)) if now != before && now + CLOCK_SLACK_NS < earlier.time => Since::Relaid,
        (Some(before), Some(now)) if now != before => Since::Fell,
        (None, Some(now)) if now >= earlier.time => Since::Fell,
        _ => since(&later.buckets, &earlier.buckets),
    };
    let (reading, reset) = match since {
        Since::Increase(buckets) => {
            let sum = later.sum.zip(earlier.sum).map(|(now, before)| now - before);
            // Least and greatest values of the whole run hold for a part of it too.
            (Reading { buckets, sum, ..later.clone() }, false)
        }
        Since::Fell => (later.clone(), true),
        Since::Relaid => return Ok(None),
    };
    let cells = reading.cells()?;
    if cells.count() == 0 && !reset {
        return Ok(None);
    }
    let start = if reset { later.start.unwrap_or(earlier.time).max(earlier.time) } else { earlier.time };
    let row = identity.row(start.min(later.time), later.time, &cells, reading.sum_us())?;
    Ok(Some(Latency { reset, ..row }))
}

/// Whether `later` tells all that `earlier` does: the same run, no count lower. Otherwise what `earlier` counted would be
/// lost if it were left out.
pub fn contains(later: &Reading, earlier: &Reading) -> bool {
    let same_run = match (earlier.start, later.start) {
        (Some(before), Some(now)) => before == now,
        (None, Some(now)) => now < earlier.time,
        _ => true,
    };
    same_run && matches!(since(&later.buckets, &earlier.buckets), Since::Increase(_))
}

/// The total of a source that had counted nothing before `reading.start`.
pub fn zero(reading: &Reading, start: i64) -> Reading {
    let buckets = match &reading.buckets {
        Buckets::Explicit { bounds, counts, whole } => {
            Buckets::Explicit { bounds: bounds.clone(), counts: vec![0; counts.len()], whole: *whole }
        }
        Buckets::Exponential { scale, zero_threshold, offset, .. } => Buckets::Exponential {
            scale: *scale,
            zero_count: 0,
            zero_threshold: *zero_threshold,
            offset: *offset,
            counts: Vec::new(),
        },
    };
    Reading { time: start, buckets, sum: reading.sum.map(|_| 0.0), ..reading.clone() }
}

enum Since {
    Increase(Buckets),
    Fell,
    Relaid,
}

fn since(later: &Buckets, earlier: &Buckets) -> Since {
    match (later, earlier) {
        (Buckets::Explicit { bounds, counts, whole }, Buckets::Explicit { bounds: old_bounds, counts: old, .. }) => {
            if bounds != old_bounds {
                return Since::Relaid;
            }
            let increase: Option<Vec<u64>> =
                counts.iter().zip(old).map(|(now, before)| now.checked_sub(*before)).collect();
            increase.map_or(Since::Fell, |counts| {
                Since::Increase(Buckets::Explicit { bounds: bounds.clone(), counts, whole: *whole })
            })
        }
        (
            Buckets::Exponential { scale, zero_count, zero_threshold, offset, counts },
            Buckets::Exponential {
                scale: old_scale,
                zero_count: old_zero,
                zero_threshold: old_threshold,
                offset: old_offset,
                counts: old,
            },
        ) => {
            if zero_threshold != old_threshold {
                return Since::Relaid;
            }
            // Sources lower their scale as their values spread; both are brought to the coarser of the two.
            let scale = (*scale, *old_scale);
            let common = scale.0.min(scale.1);
            let (offset, counts) = coarser(*offset, counts, scale.0 - common);
            let (old_offset, old) = coarser(*old_offset, old, scale.1 - common);
            match (zero_count.checked_sub(*old_zero), subtract(offset, counts, old_offset, &old)) {
                (Some(zero_count), Some(counts)) => Since::Increase(Buckets::Exponential {
                    scale: common,
                    zero_count,
                    zero_threshold: *zero_threshold,
                    offset,
                    counts,
                }),
                _ => Since::Fell,
            }
        }
        _ => Since::Relaid,
    }
}

/// The same counts at a scale that is lower by `steps`: bucket `i` goes into bucket `i >> steps`.
fn coarser(offset: i32, counts: &[u64], steps: i32) -> (i32, Vec<u64>) {
    if steps == 0 || counts.is_empty() {
        return (offset, counts.to_vec());
    }
    let steps = steps.clamp(0, 31);
    let first = offset >> steps;
    let mut coarse: Vec<u64> = Vec::new();
    for (index, count) in (i64::from(offset)..).zip(counts) {
        let place = usize::try_from((index >> steps) - i64::from(first)).unwrap_or_default();
        if coarse.len() <= place {
            coarse.resize(place + 1, 0);
        }
        coarse[place] = coarse[place].saturating_add(*count);
    }
    (first, coarse)
}

/// `counts - old`, both from their offsets; `None` when any count is lower than it was.
fn subtract(offset: i32, mut counts: Vec<u64>, old_offset: i32, old: &[u64]) -> Option<Vec<u64>> {
    for (index, &before) in (i64::from(old_offset)..).zip(old) {
        if before == 0 {
            continue;
        }
        let now = counts.get_mut(usize::try_from(index - i64::from(offset)).ok()?)?;
        *now = now.checked_sub(before)?;
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explicit(counts: &[u64], start: Option<i64>, time: i64) -> Reading {
        let buckets = Buckets::Explicit { bounds: vec![1.0, 2.0], counts: counts.to_vec(), whole: false };
        Reading { start, time, buckets, sum: None, min: None, max: None, factor: 1e6 }
    }

    fn exponential(scale: i32, offset: i32, counts: &[u64]) -> Buckets {
        Buckets::Exponential { scale, zero_count: 0, zero_threshold: 0.0, offset, counts: counts.to_vec() }
    }

    const T: i64 = 1_700_000_000_000_000_000;

    #[test]
    fn a_fall_is_a_reset_and_the_new_value_is_the_increase() {
        let identity = Identity::default();
        let row =
            between(&identity, &explicit(&[10, 10, 0], None, T), &explicit(&[5, 0, 0], None, T + 1)).unwrap().unwrap();
        assert_eq!((row.count, row.reset, row.start_ts, row.ts), (5, true, T, T + 1));
        let row =
            between(&identity, &explicit(&[5, 0, 0], None, T), &explicit(&[7, 0, 8], None, T + 1)).unwrap().unwrap();
        assert_eq!((row.count, row.reset), (10, false));
        assert_eq!((row.lo, row.n), (vec![0.0, 2e6], vec![2, 8]));
    }

    #[test]
    fn another_start_is_a_reset_even_when_the_counts_rise() {
        let earlier = explicit(&[1, 0, 0], Some(T - 9), T);
        let row = between(&Identity::default(), &earlier, &explicit(&[3, 0, 0], Some(T + 2), T + 5)).unwrap().unwrap();
        assert_eq!((row.count, row.reset, row.start_ts), (3, true, T + 2));
    }

    #[test]
    fn nothing_new_is_no_row() {
        let row =
            between(&Identity::default(), &explicit(&[3, 0, 0], None, T), &explicit(&[3, 0, 0], None, T + 5)).unwrap();
        assert_eq!(row, None);
    }

    #[test]
    fn exponential_totals_of_different_scales_subtract_at_the_coarser_one() {
        // Scale 1, offset 2: buckets 2, 3, 4 hold 1, 2, 3; at scale 0 buckets 1, 2 hold 3, 3.
        let earlier = exponential(1, 2, &[1, 2, 3]);
        let later = exponential(0, 0, &[7, 4, 5]);
        let Since::Increase(increase) = since(&later, &earlier) else { panic!("an increase") };
        assert_eq!(increase, exponential(0, 0, &[7, 1, 2]));
        // Negative indices go down: -3 >> 1 is -2, -1 >> 1 is -1.
        assert_eq!(coarser(-3, &[1, 1, 1], 1), (-2, vec![1, 2]));
        assert!(matches!(since(&exponential(0, 0, &[1]), &earlier), Since::Fell));
    }
}
