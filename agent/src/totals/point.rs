//! One running total of a histogram, and what came between two of them.

use contador_schemas::cells::{Cells, CellsError, Exponential};
use contador_schemas::running::Buckets;
use contador_schemas::runs::{Came, Span, Untold};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets as Positive;
use opentelemetry_proto::tonic::metrics::v1::{DataPointFlags, ExponentialHistogramDataPoint, HistogramDataPoint};

/// Why a point is not taken.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// Its time is 0 or beyond 63 bits, before its start, or more than 10 minutes ahead.
    Time,
    /// Its count is not the sum of its buckets.
    Torn,
    /// It has values below 0.
    NegativeRange,
    /// It contradicts a later one that was taken.
    OutOfOrder,
    /// It contradicts one of the same time.
    Conflicting,
}

impl Reason {
    /// Its name in counters, as the collector has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Torn => "torn",
            Self::NegativeRange => "negative_range",
            Self::OutOfOrder => "out_of_order",
            Self::Conflicting => "conflicting",
        }
    }

    /// What was expected, for people.
    pub fn expectation(self) -> &'static str {
        match self {
            Self::Time => {
                "expected a time that is given, at most 10 minutes ahead of the agent's clock, and no start after it"
            }
            Self::Torn => "expected a count that is the sum of the buckets",
            Self::NegativeRange => "expected latencies that are not negative",
            Self::OutOfOrder => {
                "expected a running total in the order of time: a later point counts less, or is of a later run"
            }
            Self::Conflicting => "expected one total of a series at an instant",
        }
    }
}

/// A point without attributes.
#[derive(Clone, Debug, PartialEq)]
pub enum Total {
    /// Explicit bounds.
    Explicit(HistogramDataPoint),
    /// Exponential ones.
    Exponential(ExponentialHistogramDataPoint),
}

impl Total {
    /// What a point counts; `None` when it says that nothing was recorded.
    ///
    /// # Errors
    /// [`Reason`].
    pub fn explicit(point: &HistogramDataPoint) -> Result<Option<Self>, Reason> {
        let mut total = HistogramDataPoint { attributes: Vec::new(), exemplars: Vec::new(), ..point.clone() };
        if total.bucket_counts.is_empty() {
            // Without buckets it is a count: one bucket without bounds.
            total.bucket_counts.push(total.count);
            total.explicit_bounds.clear();
        }
        let counts = total.bucket_counts.iter().copied();
        check(total.flags, (total.start_time_unix_nano, total.time_unix_nano), counts, 0, total.count)
            .map(|recorded| recorded.then_some(Self::Explicit(total)))
    }

    /// The same of an exponential point.
    ///
    /// # Errors
    /// [`Reason`].
    pub fn exponential(point: &ExponentialHistogramDataPoint) -> Result<Option<Self>, Reason> {
        if point.negative.as_ref().is_some_and(|negative| negative.bucket_counts.iter().any(|count| *count > 0)) {
            return Err(Reason::NegativeRange);
        }
        let total = ExponentialHistogramDataPoint {
            attributes: Vec::new(),
            exemplars: Vec::new(),
            negative: None,
            ..point.clone()
        };
        let counts = total.positive.iter().flat_map(|positive| positive.bucket_counts.iter().copied());
        let times = (total.start_time_unix_nano, total.time_unix_nano);
        check(total.flags, times, counts, total.zero_count, total.count)
            .map(|recorded| recorded.then_some(Self::Exponential(total)))
    }

    /// Bytes that its numbers take.
    pub fn bytes(&self) -> usize {
        let numbers = match self {
            Self::Explicit(point) => point.explicit_bounds.len() + point.bucket_counts.len(),
            Self::Exponential(point) => point.positive.as_ref().map_or(0, |positive| positive.bucket_counts.len()),
        };
        size_of::<u64>() * numbers
    }

    /// Its time, Unix nanoseconds.
    pub fn time(&self) -> u64 {
        match self {
            Self::Explicit(point) => point.time_unix_nano,
            Self::Exponential(point) => point.time_unix_nano,
        }
    }

    /// Its start, where it says one.
    pub fn start(&self) -> Option<u64> {
        let start = match self {
            Self::Explicit(point) => point.start_time_unix_nano,
            Self::Exponential(point) => point.start_time_unix_nano,
        };
        (start > 0).then_some(start)
    }

    /// Since when, and until when, it counts: [`check`] has both fit.
    pub fn span(&self) -> Span {
        let signed = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        Span { start: self.start().map(signed), time: signed(self.time()) }
    }

    /// How many values it counts.
    pub fn count(&self) -> u64 {
        match self {
            Self::Explicit(point) => point.count,
            Self::Exponential(point) => point.count,
        }
    }

    fn sum(&self) -> Option<f64> {
        match self {
            Self::Explicit(point) => point.sum,
            Self::Exponential(point) => point.sum,
        }
    }

    /// Its counts.
    pub fn buckets(&self) -> Buckets {
        match self {
            Self::Explicit(point) => Buckets::Explicit {
                bounds: point.explicit_bounds.clone(),
                counts: point.bucket_counts.clone(),
                whole: false,
            },
            Self::Exponential(point) => {
                let (offset, counts) = point
                    .positive
                    .as_ref()
                    .map_or((0, Vec::new()), |positive| (positive.offset, positive.bucket_counts.clone()));
                Buckets::Exponential {
                    scale: point.scale,
                    zero_count: point.zero_count,
                    zero_threshold: point.zero_threshold,
                    offset,
                    counts,
                }
            }
        }
    }

    /// The same point with other counts, start and sum.
    fn with(&self, buckets: Buckets, start: u64, sum: Option<f64>) -> Self {
        match (self, buckets) {
            (Self::Explicit(point), Buckets::Explicit { bounds, counts, .. }) => Self::Explicit(HistogramDataPoint {
                start_time_unix_nano: start,
                count: counts.iter().sum(),
                sum,
                explicit_bounds: bounds,
                bucket_counts: counts,
                ..point.clone()
            }),
            (
                Self::Exponential(point),
                Buckets::Exponential { scale, zero_count, zero_threshold, offset, counts: bucket_counts },
            ) => Self::Exponential(ExponentialHistogramDataPoint {
                start_time_unix_nano: start,
                count: bucket_counts.iter().sum::<u64>() + zero_count,
                sum,
                scale,
                zero_count,
                zero_threshold,
                positive: Some(Positive { offset, bucket_counts }),
                ..point.clone()
            }),
            // The counts are of this very point.
            (other, _) => other.clone(),
        }
    }

    /// The total of a source that had counted nothing before its start.
    pub fn zero(&self, start: u64) -> Self {
        let mut zero = self.with(self.buckets().zero(), start, self.sum().map(|_| 0.0));
        match &mut zero {
            Self::Explicit(point) => point.time_unix_nano = start,
            Self::Exponential(point) => point.time_unix_nano = start,
        }
        zero
    }

    /// What came after `earlier`, and whether the source began again; `None` when nothing came. A source that began again
    /// counts from 0: its new total is the increase.
    ///
    /// # Errors
    /// [`Untold`]
    pub fn since(&self, earlier: &Self) -> Result<Option<(Self, bool)>, Untold> {
        let (increase, reset) = match self.came_after(earlier) {
            Came::Increase(buckets) => {
                let sum = self.sum().zip(earlier.sum()).map(|(now, before)| now - before);
                // A sum may have been read before its counts, and may have few digits. What came is sent without it then: the
                // collector would refuse what can't add up.
                let sum = sum.filter(|sum| cells(&buckets).is_ok_and(|cells| cells.can_add_up_to(*sum)));
                (self.with(buckets, earlier.time(), sum), false)
            }
            Came::Reset => {
                let start = self.span().came_since(earlier.span(), true);
                (self.with(self.buckets(), start.cast_unsigned(), self.sum()), true)
            }
            Came::Untold(why) => return Err(why),
        };
        Ok((increase.count() > 0).then_some((increase, reset)))
    }

    /// Whether this tells all that `earlier` does.
    pub fn contains(&self, earlier: &Self) -> bool {
        self.came_after(earlier).contains_the_earlier()
    }

    fn came_after(&self, earlier: &Self) -> Came {
        self.span().after(earlier.span()).and(|| self.buckets().since(&earlier.buckets()))
    }
}

/// The counts as cells, in the sender's unit.
fn cells(buckets: &Buckets) -> Result<Cells, CellsError> {
    match buckets {
        Buckets::Explicit { bounds, counts, .. } => Cells::from_explicit(bounds, counts, None, None, 1.0),
        &Buckets::Exponential { scale, zero_count, zero_threshold, offset, ref counts } => {
            let (min, max) = (None, None);
            Cells::from_exponential(&Exponential { scale, zero_count, zero_threshold, offset, counts, min, max }, 1.0)
        }
    }
}

/// Whether a point tells anything.
fn check(
    flags: u32,
    (start, time): (u64, u64),
    counts: impl Iterator<Item = u64>,
    zero: u64,
    count: u64,
) -> Result<bool, Reason> {
    if time == 0 || i64::try_from(time).is_err() || start > time {
        return Err(Reason::Time);
    }
    if flags & DataPointFlags::NoRecordedValueMask as u32 != 0 {
        return Ok(false);
    }
    let sum = counts.into_iter().try_fold(zero, u64::checked_add);
    if sum == Some(count) { Ok(true) } else { Err(Reason::Torn) }
}
