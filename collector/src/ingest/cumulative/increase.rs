//! What came between two points of one running total.

use contador_schemas::cells::Cells;
use contador_schemas::rows::Latency;
use contador_schemas::running::Since;
use contador_schemas::runs::{Came, Span, Untold};

use crate::ingest::decode::histogram::Reading;
use crate::ingest::decode::latency::Identity;
use crate::ingest::decode::reject::Reason;

/// What came between two points.
#[derive(Clone, Debug, PartialEq)]
pub enum Between {
    /// This.
    Row(Box<Latency>),
    /// No value.
    Nothing,
    /// It can't be told: the later point is a new base line.
    Untold(Untold),
}

impl Between {
    /// The row, when there is one.
    pub fn row(self) -> Option<Latency> {
        match self {
            Self::Row(row) => Some(*row),
            Self::Nothing | Self::Untold(_) => None,
        }
    }
}

/// Since when, and until when, a reading counts.
pub fn span(reading: &Reading) -> Span {
    Span { start: reading.start, time: reading.time }
}

/// What came after `earlier` up to `later`.
fn came(earlier: &Reading, later: &Reading) -> Came {
    // A sender that now counts in another unit can't be compared.
    let since = || if earlier.factor == later.factor { later.buckets.since(&earlier.buckets) } else { Since::Relaid };
    span(later).after(span(earlier)).and(since)
}

/// What came after `earlier` up to `later`.
///
/// A source that started again, or whose counts fell, counts from 0: its new total is the increase, and the row says
/// `reset`. When only the layout of the buckets changed, the totals can't be compared: the later one is a new base line,
/// unless its start is known to be after `earlier`.
///
/// # Errors
/// As [`Identity::row`].
pub fn between(identity: &Identity, earlier: &Reading, later: &Reading) -> Result<Between, Reason> {
    let (reading, reset) = match came(earlier, later) {
        Came::Increase(buckets) => {
            let sum = later.sum.zip(earlier.sum).map(|(now, before)| now - before);
            // By rounding, a small difference of large sums may be what the values can't add up to.
            let sum = sum.filter(|sum| *sum >= 0.0);
            // Least and greatest values of the whole run hold for a part of it too.
            (Reading { buckets, sum, ..later.clone() }, false)
        }
        Came::Reset => (later.clone(), true),
        Came::Untold(why) => return Ok(Between::Untold(why)),
    };
    let cells = reading.cells()?;
    if cells.count() == 0 && !reset {
        return Ok(Between::Nothing);
    }
    let start = span(later).came_since(span(earlier), reset);
    let row = identity.row(start, later.time, &cells, reading.sum_us())?;
    Ok(Between::Row(Box::new(Latency { reset, ..row })))
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
    came(earlier, later).contains_the_earlier()
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
        let row = |earlier, later| between(&identity, &earlier, &later).unwrap().row().unwrap();
        let reset = row(explicit(&[10, 10, 0], None, T), explicit(&[5, 0, 0], None, T + 1));
        assert_eq!((reset.count, reset.reset, reset.start_ts, reset.ts), (5, true, T, T + 1));
        let row = row(explicit(&[5, 0, 0], None, T), explicit(&[7, 0, 8], None, T + 1));
        assert_eq!((row.count, row.reset), (10, false));
        assert_eq!((row.lo, row.n), (vec![0.0, 2e6], vec![2, 8]));
    }

    #[test]
    fn another_start_is_a_reset_even_when_the_counts_rise() {
        let earlier = explicit(&[1, 0, 0], Some(T - 9), T);
        let later = explicit(&[3, 0, 0], Some(T + 2), T + 5);
        let row = between(&Identity::default(), &earlier, &later).unwrap().row().unwrap();
        assert_eq!((row.count, row.reset, row.start_ts), (3, true, T + 2));
    }

    #[test]
    fn nothing_new_is_no_row() {
        let row =
            between(&Identity::default(), &explicit(&[3, 0, 0], None, T), &explicit(&[3, 0, 0], None, T + 5)).unwrap();
        assert_eq!(row, Between::Nothing);
    }

    #[test]
    fn l9_what_can_not_be_compared_is_said() {
        let earlier = explicit(&[3, 0, 0], None, T);
        let milliseconds = Reading { factor: 1e3, ..explicit(&[3, 0, 4], None, T + 5) };
        let why = |later| between(&Identity::default(), &earlier, &later);
        assert_eq!(why(milliseconds), Ok(Between::Untold(Untold::Buckets)));
        let other = Buckets::Explicit { bounds: vec![1.0, 3.0], counts: vec![3, 0, 4], whole: false };
        assert_eq!(why(Reading { buckets: other, ..earlier.clone() }), Ok(Between::Untold(Untold::Buckets)));
    }
}
