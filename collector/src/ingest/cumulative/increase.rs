//! What came between two points of one running total.

use contador_schemas::cells::Cells;
use contador_schemas::rows::Latency;
use contador_schemas::running::Since;

use crate::ingest::decode::histogram::Reading;
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
        // A sender that now counts in another unit.
        _ if earlier.factor != later.factor && earlier.start == later.start => Since::Relaid,
        // Two runs that overlap are two sources that nothing tells apart: only what comes from now on can be told.
        (Some(before), Some(now)) if now != before && now + CLOCK_SLACK_NS < earlier.time => Since::Relaid,
        (Some(before), Some(now)) if now != before => Since::Fell,
        (None, Some(now)) if now >= earlier.time => Since::Fell,
        _ => later.buckets.since(&earlier.buckets),
    };
    let (reading, reset) = match since {
        Since::Increase(buckets) => {
            let sum = later.sum.zip(earlier.sum).map(|(now, before)| now - before);
            // By rounding, a small difference of large sums may be what the values can't add up to.
            let sum = sum.filter(|sum| *sum >= 0.0);
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

/// The row that says that nothing came up to `end`: in the place of one that may have said otherwise.
///
/// # Errors
/// As [`Identity::row`].
pub fn nothing(identity: &Identity, start: i64, end: i64) -> Result<Latency, Reason> {
    identity.row(start.min(end), end, &Cells::default(), None)
}

/// Whether `later` tells all that `earlier` does: the same run, no count lower. Otherwise what `earlier` counted would be
/// lost if it were left out.
pub fn contains(later: &Reading, earlier: &Reading) -> bool {
    let same_run = match (earlier.start, later.start) {
        (Some(before), Some(now)) => before == now,
        (None, Some(now)) => now < earlier.time,
        _ => true,
    };
    same_run && matches!(later.buckets.since(&earlier.buckets), Since::Increase(_))
}

/// The total of a source that had counted nothing before `reading.start`.
pub fn zero(reading: &Reading, start: i64) -> Reading {
    let buckets = reading.buckets.zero();
    Reading { time: start, buckets, sum: reading.sum.map(|_| 0.0), ..reading.clone() }
}

#[cfg(test)]
mod tests {
    use contador_schemas::running::Buckets;

    use super::*;

    fn explicit(counts: &[u64], start: Option<i64>, time: i64) -> Reading {
        let buckets = Buckets::Explicit { bounds: vec![1.0, 2.0], counts: counts.to_vec(), whole: false };
        Reading { start, time, buckets, sum: None, min: None, max: None, factor: 1e6 }
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
}
