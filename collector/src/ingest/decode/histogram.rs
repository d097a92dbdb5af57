//! Histogram points of a time, read: checked, in one shape for explicit and exponential buckets, with their unit.

use contador_schemas::cells::{Cell, Cells, CellsError, Exponential};
use contador_schemas::names;
use contador_schemas::running::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{ExponentialHistogramDataPoint, HistogramDataPoint, Metric};

use super::clock::Clock;
use super::reject::Reason;
use super::{semantics, value};

/// Most buckets of one point: HDR histograms of 3 digits over an hour have some 50,000 edges.
const MOST_BUCKETS: usize = 131_072;

/// One histogram point.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Unix nanoseconds; `None` when unknown.
    pub start: Option<i64>,
    /// Unix nanoseconds.
    pub time: i64,
    /// The counts, in the sender's unit.
    pub buckets: Buckets,
    /// Sum of the values in the sender's unit.
    pub sum: Option<f64>,
    /// Least value in the sender's unit.
    pub min: Option<f64>,
    /// Greatest value in the sender's unit.
    pub max: Option<f64>,
    /// Microseconds in the sender's unit.
    pub factor: f64,
}

/// What became of reading a point, with the cells of its counts; `Ok(None)` when the sender says that there was no value.
pub struct Read(pub Result<Option<(Reading, Cells)>, Reason>);

impl Read {
    /// Reads an explicit-bucket point of `metric`.
    pub fn explicit(metric: &Metric, point: &HistogramDataPoint) -> Self {
        Self(explicit(metric, point))
    }

    /// Reads an exponential point of `metric`.
    pub fn exponential(metric: &Metric, point: &ExponentialHistogramDataPoint) -> Self {
        Self(exponential(metric, point))
    }

    /// Refuses a point of the metric `name` whose time is not allowed.
    pub(super) fn at(self, clock: Clock, name: &str) -> Self {
        Self(self.0.and_then(|reading| match &reading {
            Some((told, _)) => clock.check(told.time, names::metric(name)).map(|()| reading),
            None => Ok(None),
        }))
    }
}

fn explicit(metric: &Metric, point: &HistogramDataPoint) -> Result<Option<(Reading, Cells)>, Reason> {
    let factor = factor(metric)?;
    let time = value::time(point.time_unix_nano)?;
    let start = value::start(point.start_time_unix_nano, point.time_unix_nano)?;
    if value::no_recorded_value(point.flags) {
        return Ok(None);
    }
    // A histogram without buckets is a count: one bucket without bounds.
    let mut counts = if point.bucket_counts.is_empty() { vec![point.count] } else { point.bucket_counts.clone() };
    let mut bounds = point.explicit_bounds.clone();
    check_count(counts.iter(), 0, point.count)?;
    // Some senders say the bound that every histogram has: nothing is above infinity.
    if bounds.last() == Some(&f64::INFINITY) && counts.len() == bounds.len() + 1 && counts.last() == Some(&0) {
        bounds.pop();
        counts.pop();
    }
    let whole = metric.name == names::LATENCY;
    let buckets = Buckets::Explicit { bounds, counts, whole };
    finished(Reading { start, time, buckets, sum: point.sum, min: point.min, max: point.max, factor }, whole)
}

fn exponential(metric: &Metric, point: &ExponentialHistogramDataPoint) -> Result<Option<(Reading, Cells)>, Reason> {
    let factor = factor(metric)?;
    let time = value::time(point.time_unix_nano)?;
    let start = value::start(point.start_time_unix_nano, point.time_unix_nano)?;
    if value::no_recorded_value(point.flags) {
        return Ok(None);
    }
    if point.negative.as_ref().is_some_and(|negative| negative.bucket_counts.iter().any(|&count| count > 0)) {
        return Err(Reason::NegativeRange);
    }
    let (offset, counts) = match &point.positive {
        Some(positive) => (positive.offset, positive.bucket_counts.clone()),
        None => (0, Vec::new()),
    };
    check_count(counts.iter(), point.zero_count, point.count)?;
    let buckets = Buckets::Exponential {
        scale: point.scale,
        zero_count: point.zero_count,
        zero_threshold: point.zero_threshold,
        offset,
        counts,
    };
    finished(Reading { start, time, buckets, sum: point.sum, min: point.min, max: point.max, factor }, false)
}

/// Checks what only shows when cells are made, so that a point is either taken whole or rejected. `own`: an agent's, which
/// has checked what it read.
fn finished(reading: Reading, own: bool) -> Result<Option<(Reading, Cells)>, Reason> {
    if reading.sum.is_some_and(|sum| !sum.is_finite())
        || [reading.min, reading.max].into_iter().flatten().any(f64::is_nan)
    {
        return Err(Reason::NotANumber);
    }
    let cells = reading.cells()?;
    if !own && reading.sum_us().is_some_and(|sum| !cells.can_add_up_to(sum)) {
        return Err(Reason::Sum);
    }
    Ok(Some((reading, cells)))
}

fn factor(metric: &Metric) -> Result<f64, Reason> {
    if metric.name == names::LATENCY && metric.unit != "us" {
        return Err(Reason::Shape);
    }
    semantics::factor(&metric.name, &metric.unit).ok_or(Reason::HistogramUnit)
}

fn check_count<'a>(counts: impl ExactSizeIterator<Item = &'a u64>, zero: u64, count: u64) -> Result<(), Reason> {
    if counts.len() > MOST_BUCKETS {
        return Err(Reason::Buckets);
    }
    let sum = counts.copied().try_fold(zero, u64::checked_add);
    if sum == Some(count) { Ok(()) } else { Err(Reason::Torn) }
}

impl Reading {
    /// The counts as cells in microseconds.
    ///
    /// # Errors
    /// [`Reason::Buckets`] for bounds that don't rise or don't fit the counts, [`Reason::NegativeRange`] for values that
    /// are below 0.
    pub fn cells(&self) -> Result<Cells, Reason> {
        let cells = match &self.buckets {
            Buckets::Explicit { bounds, counts, whole: true } => whole_cells(bounds, counts, self.max),
            Buckets::Explicit { bounds, counts, whole: false } if bounds.is_empty() => {
                // Not one bound: [`Cells::from_explicit`] takes the lower edge from `min` only when it is negative.
                let n = counts.first().copied().unwrap_or_default();
                let lo = self.min.filter(|min| min.is_finite()).unwrap_or_default() * self.factor;
                let hi = self.max.unwrap_or(f64::INFINITY) * self.factor;
                if counts.len() > 1 { return Err(Reason::Buckets) } else { Cells::new([Cell { lo, hi, n }]) }
            }
            Buckets::Explicit { bounds, counts, whole: false } => {
                Cells::from_explicit(bounds, counts, self.min, self.max, self.factor)
            }
            Buckets::Exponential { scale, zero_count, zero_threshold, offset, counts } => Cells::from_exponential(
                &Exponential {
                    scale: *scale,
                    zero_count: *zero_count,
                    zero_threshold: *zero_threshold,
                    offset: *offset,
                    counts,
                    min: self.min,
                    max: self.max,
                },
                self.factor,
            ),
        };
        let cells = cells.map_err(|error: CellsError| {
            tracing::debug!(%error, "a histogram was refused");
            Reason::Buckets
        })?;
        if cells.as_slice().first().is_some_and(|cell| cell.lo < 0.0) { Err(Reason::NegativeRange) } else { Ok(cells) }
    }

    /// Sum of the values in microseconds; `None` too when it is more than a float can tell.
    pub fn sum_us(&self) -> Option<f64> {
        self.sum.map(|sum| sum * self.factor).filter(|sum| sum.is_finite())
    }
}

/// Cells of whole microseconds: see the wire's rules in [`names`].
fn whole_cells(bounds: &[f64], counts: &[u64], max: Option<f64>) -> Result<Cells, CellsError> {
    if counts.len() != bounds.len() + 1 {
        return Err(CellsError::Buckets { bounds: bounds.len(), counts: counts.len() });
    }
    let rising = bounds.windows(2).position(|pair| !matches!(pair, [left, right] if left < right));
    if let Some(index) = rising {
        return Err(CellsError::Bounds { index: index + 1, bound: bounds[index + 1] });
    }
    Cells::new(counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(index, &n)| {
        let lo =
            if index == 0 { bounds.first().map_or(0.0, |bound| bound.min(0.0)) } else { bounds[index - 1].next_up() };
        let hi = bounds.get(index).copied().unwrap_or_else(|| max.unwrap_or(f64::INFINITY).max(lo));
        Cell { lo, hi, n }
    }))
}
