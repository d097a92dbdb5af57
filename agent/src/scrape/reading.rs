//! One total of a series: checked, in whole numbers.

use super::presets::{Shape, Timed};
use super::series::{Role, Series};
use super::taken::Reason;

/// Most buckets of one histogram.
pub(super) const MOST_BUCKETS: usize = 1_024;

/// Greatest count: whole numbers above it are not exact in a page's floats.
const GREATEST: f64 = 9_007_199_254_740_992.0;

/// What a series has counted since its start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// Upper bounds of all buckets but the last, in the series's unit; rising, none below 0.
    pub bounds: Vec<f64>,
    /// Values in each bucket, one more than there are bounds.
    pub counts: Vec<u64>,
    /// Sum of the values in the series's unit; `None` when unknown.
    pub sum: Option<f64>,
    /// Since when, in Unix seconds, as the series itself says.
    pub created_s: Option<f64>,
}

impl Reading {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// Reads a series. A mean has its number of values in another one, `counted`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(series: &Series<'_, '_>, counted: Option<f64>) -> Result<Reading, Reason> {
    if let Some(fault) = series.fault {
        return Err(fault);
    }
    let sum = series.sum.filter(|sum| sum.is_finite());
    let created_s = series.created_s.filter(|created| created.is_finite() && *created > 0.0);
    let total = |count: Option<f64>, sum: Option<f64>| -> Result<Reading, Reason> {
        let count = whole(count.ok_or(Reason::Value)?)?;
        Ok(Reading { bounds: Vec::new(), counts: vec![count], sum, created_s })
    };
    match &series.role {
        Role::Counted(..) => total(series.count, None),
        Role::Timed(meaning) => match &meaning.what {
            Timed { shape: Shape::Histogram | Shape::Older(_), .. } => {
                let (bounds, counts) = buckets(series)?;
                Ok(Reading { bounds, counts, sum, created_s })
            }
            Timed { shape: Shape::Summary, .. } => total(series.count, sum),
            Timed { shape: Shape::Mean(_), .. } => total(counted, sum),
        },
    }
}

/// The bounds, and the values in each bucket.
fn buckets(series: &Series<'_, '_>) -> Result<(Vec<f64>, Vec<u64>), Reason> {
    let mut buckets = series.buckets.clone();
    if buckets.len() > MOST_BUCKETS {
        return Err(Reason::Buckets);
    }
    if buckets.iter().any(|(bound, _)| bound.is_nan() || *bound < 0.0) {
        return Err(Reason::Value);
    }
    buckets.sort_by(|left, right| left.0.total_cmp(&right.0));
    // "1" and "1.0" are one bound.
    if buckets.windows(2).any(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1) {
        return Err(Reason::Duplicate);
    }
    buckets.dedup_by(|left, right| left.0 == right.0);
    let Some(&(f64::INFINITY, last)) = buckets.last() else { return Err(Reason::NoInfinity) };
    if series.count.is_some_and(|count| count != last) {
        return Err(Reason::Torn);
    }
    let mut below = 0;
    let mut counts = Vec::with_capacity(buckets.len());
    for (_, value) in &buckets {
        let up_to = whole(*value)?;
        counts.push(up_to.checked_sub(below).ok_or(Reason::Torn)?);
        below = up_to;
    }
    buckets.pop();
    Ok((buckets.into_iter().map(|(bound, _)| bound + 0.0).collect(), counts))
}

/// A count, exactly.
fn whole(value: f64) -> Result<u64, Reason> {
    if (0.0..=GREATEST).contains(&value) && value.fract() == 0.0 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number from 0 to 2^53")]
        Ok(value as u64)
    } else {
        Err(Reason::Value)
    }
}
