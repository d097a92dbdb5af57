//! A quantile of [`Cells`] is an interval, and says when it can't be trusted.
//!
//! With `N` values, the quantile `q` is the value of rank `ceil(q * N)` (at least 1) in ascending order: the least value
//! with at least `q * N` values at or below it. Sorting all lower edges and taking that rank gives a value that is not
//! above the true one, since each value is at least its own lower edge and order statistics are monotonic; the upper
//! edges likewise. So the true quantile lies in `[low, high]`, whatever layouts were merged.

use serde::{Deserialize, Serialize};

use crate::cells::Cells;

/// A quantile in parts per million, so that ranks are exact whole numbers.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Quantile(u32);

impl Quantile {
    /// The median.
    pub const P50: Self = Self(500_000);
    /// The 95th percentile.
    pub const P95: Self = Self(950_000);
    /// The 99th percentile.
    pub const P99: Self = Self(990_000);
    /// The 99.9th percentile.
    pub const P999: Self = Self(999_000);

    /// A quantile of `ppm` parts per million; `None` above one million.
    pub fn from_ppm(ppm: u32) -> Option<Self> {
        (ppm <= 1_000_000).then_some(Self(ppm))
    }

    /// The quantile as a number from 0 to 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// Fewest values for which this quantile is told as one. With fewer, all of them lie below the true quantile (or above
    /// it, for one under the median) with a probability of over 5 %: `0.99^299 < 0.05`. The least and the greatest value
    /// of a source are never known.
    pub fn enough(self) -> u64 {
        let side = self.fraction().max(1.0 - self.fraction());
        if side >= 1.0 {
            return u64::MAX;
        }
        let values = (0.05_f64.ln() / side.ln()).ceil();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number of some millions")]
        let values = values as u64;
        values
    }

    /// The 1-based rank of this quantile among `n` values, `n` at least 1.
    pub fn rank(self, n: u64) -> u64 {
        let product = u128::from(self.0) * u128::from(n);
        u64::try_from(product.div_ceil(1_000_000)).unwrap_or(n).clamp(1, n.max(1))
    }
}

/// Whether an answer can be trusted, and if not, why.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The interval holds and is as narrow as asked.
    Ok,
    /// There was nothing to measure.
    NoTraffic,
    /// Fewer than [`Quantile::enough`] values.
    TooFew,
    /// The interval is wider than asked, or has no upper end: the source's buckets are too wide.
    Unresolved,
    /// Some values are known only by a lower bound (aborted requests), so the answer is a lower bound too.
    Censored,
}

/// What is known of a quantile. In the cells' unit.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Answer {
    /// The true quantile is not below this; `None` without traffic.
    pub low: Option<f64>,
    /// The true quantile is not above this; `None` without traffic and when there is no upper bound.
    pub high: Option<f64>,
    /// A guess inside of the interval, to draw a line by; `None` when the interval is unbounded.
    pub point: Option<f64>,
    /// Whether to trust it.
    pub state: State,
    /// How many values it is made of.
    pub n: u64,
}

impl Cells {
    /// The quantile `q`. The state is [`State::Unresolved`] when `high` is over `max_ratio * low`; `censored` is the number
    /// of values among the cells that are lower bounds only.
    pub fn quantile(&self, q: Quantile, max_ratio: f64, censored: u64) -> Answer {
        let n = self.count();
        let Some((low, high)) = self.interval(q) else {
            return Answer { low: None, high: None, point: None, state: State::NoTraffic, n };
        };
        let state = if censored > 0 {
            State::Censored
        } else if n < q.enough() {
            State::TooFew
        } else if !(high <= low * max_ratio || high == low) {
            State::Unresolved
        } else {
            State::Ok
        };
        let bounded = high.is_finite();
        Answer {
            low: Some(low),
            high: bounded.then_some(high),
            point: bounded.then(|| self.interpolated(q, low, high)),
            state,
            n,
        }
    }

    /// `[low, high]` that contains the quantile `q`, `high` possibly `+inf`; `None` when there are no values.
    pub fn interval(&self, q: Quantile) -> Option<(f64, f64)> {
        if self.count() == 0 {
            return None;
        }
        let rank = q.rank(self.count());
        let low = ranked(self.as_slice().iter().map(|cell| (cell.lo, cell.n)), rank)?;
        let mut upper: Vec<(f64, u64)> = self.as_slice().iter().map(|cell| (cell.hi, cell.n)).collect();
        upper.sort_by(|left, right| left.0.total_cmp(&right.0));
        Some((low, ranked(upper.into_iter(), rank)?))
    }

    /// Where the rank falls when each cell's values are spread evenly over it, kept inside of `[low, high]`.
    fn interpolated(&self, q: Quantile, low: f64, high: f64) -> f64 {
        let rank = q.rank(self.count());
        let mut below = 0_u64;
        for cell in self.as_slice() {
            if below + cell.n >= rank {
                #[expect(clippy::cast_precision_loss, reason = "a guess inside of a known interval")]
                let part = (rank - below) as f64 / cell.n as f64;
                let hi = cell.hi.min(high);
                return (cell.lo + (hi - cell.lo) * part).clamp(low, high);
            }
            below += cell.n;
        }
        high
    }
}

/// The value at which the running count of ascending `values` first reaches `rank`.
fn ranked(values: impl Iterator<Item = (f64, u64)>, rank: u64) -> Option<f64> {
    let mut seen = 0_u64;
    for (value, n) in values {
        seen += n;
        if seen >= rank {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Cell;

    #[test]
    fn how_many_values_are_enough_depends_on_the_quantile() {
        // By bc: the least n with q^n < 0.05.
        for (ppm, enough) in [
            (500_000, 5),
            (900_000, 29),
            (950_000, 59),
            (990_000, 299),
            (999_000, 2_995),
            (999_900, 29_956),
            (10_000, 299),
        ] {
            assert_eq!(Quantile(ppm).enough(), enough, "{ppm}");
        }
        assert_eq!((Quantile(0).enough(), Quantile(1_000_000).enough()), (u64::MAX, u64::MAX));
        let state = |q: Quantile, n| Cells::new([Cell { lo: 1.0, hi: 1.0, n }]).unwrap().quantile(q, 1.1, 0).state;
        assert_eq!((state(Quantile::P999, 2_994), state(Quantile::P999, 2_995)), (State::TooFew, State::Ok));
        assert_eq!((state(Quantile::P50, 4), state(Quantile::P50, 5)), (State::TooFew, State::Ok));
    }
}
