//! A quantile of [`Cells`] is an interval, and says when it can't be trusted.
//!
//! With `N` values, the quantile `q` is the value of rank `ceil(q * N)` (at least 1) in ascending order: the least value
//! with at least `q * N` values at or below it. Sorting all lower edges and taking that rank gives a value that is not
//! above the true one, since each value is at least its own lower edge and order statistics are monotonic; the upper
//! edges likewise. So the true quantile lies in `[low, high]`, whatever layouts were merged.
//!
//! That is what the values say of themselves. What they say of the service that they are a sample of is wider: the ranks of
//! [`crate::confidence`] among the lower and the upper edges enclose its quantile in 95 % of all samples.

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

    /// The quantile in parts per million.
    pub fn ppm(self) -> u32 {
        self.0
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
    /// So many values are known only by a lower bound (aborted requests) that the quantile may be one of them: the answer is
    /// a lower bound too. Fewer of them only take ranks above it.
    Censored,
}

impl State {
    /// Its name, as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NoTraffic => "no_traffic",
            Self::TooFew => "too_few",
            Self::Unresolved => "unresolved",
            Self::Censored => "censored",
        }
    }
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
    /// With 95 % confidence, the quantile of what these values are a sample of is not below this; `None` when there are too
    /// few to say.
    pub ci_low: Option<f64>,
    /// With 95 % confidence, it is not above this; `None` when there are too few to say (under 368 for the 99th percentile),
    /// and when there is no upper bound.
    pub ci_high: Option<f64>,
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
        let upper = self.upper();
        let rank = q.rank(n);
        let Some((low, high)) = self.lower_ranked(rank).zip(ranked(&upper, rank)) else {
            return Answer {
                low: None,
                high: None,
                point: None,
                ci_low: None,
                ci_high: None,
                state: State::NoTraffic,
                n,
            };
        };
        let state = if censored > n - rank {
            State::Censored
        } else if n < q.enough() {
            State::TooFew
        } else if !(high <= low * max_ratio || high == low) {
            State::Unresolved
        } else {
            State::Ok
        };
        let bounded = high.is_finite();
        let ranks = q.ranks(n);
        Answer {
            low: Some(low),
            high: bounded.then_some(high),
            point: bounded.then(|| self.interpolated(rank, low, high)),
            ci_low: ranks.low.and_then(|rank| self.lower_ranked(rank)),
            ci_high: ranks.high.and_then(|rank| ranked(&upper, rank)).filter(|high| high.is_finite()),
            state,
            n,
        }
    }

    /// `[low, high]` that contains the quantile `q`, `high` possibly `+inf`; `None` when there are no values.
    pub fn interval(&self, q: Quantile) -> Option<(f64, f64)> {
        let rank = q.rank(self.count());
        self.lower_ranked(rank).zip(ranked(&self.upper(), rank))
    }

    /// Upper edges in ascending order, each with the number of its values.
    fn upper(&self) -> Vec<(f64, u64)> {
        let mut upper: Vec<(f64, u64)> = self.as_slice().iter().map(|cell| (cell.hi, cell.n)).collect();
        upper.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
        upper
    }

    /// The lower edge of this rank.
    fn lower_ranked(&self, rank: u64) -> Option<f64> {
        let mut seen = 0_u64;
        self.as_slice().iter().find_map(|cell| {
            seen += cell.n;
            (seen >= rank).then_some(cell.lo)
        })
    }

    /// Where the rank falls when each cell's values are spread evenly over it, kept inside of `[low, high]`.
    fn interpolated(&self, rank: u64, low: f64, high: f64) -> f64 {
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
fn ranked(values: &[(f64, u64)], rank: u64) -> Option<f64> {
    let mut seen = 0_u64;
    values.iter().find_map(|&(value, n)| {
        seen += n;
        (seen >= rank).then_some(value)
    })
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
        let states = [State::Ok, State::NoTraffic, State::TooFew, State::Unresolved, State::Censored];
        assert!(states.iter().all(|state| serde_json::to_value(state).unwrap() == state.as_str()));
        let state = |q: Quantile, n| Cells::new([Cell { lo: 1.0, hi: 1.0, n }]).unwrap().quantile(q, 1.1, 0).state;
        assert_eq!((state(Quantile::P999, 2_994), state(Quantile::P999, 2_995)), (State::TooFew, State::Ok));
        assert_eq!((state(Quantile::P50, 4), state(Quantile::P50, 5)), (State::TooFew, State::Ok));
    }

    /// Bounds in the unit of the report, counts as they were, and the answer at a ratio of 1.1.
    fn p99(bounds: &[f64], counts: &[u64]) -> Answer {
        Cells::from_explicit(bounds, counts, None, None, 1.0).unwrap().quantile(Quantile::P99, 1.1, 0)
    }

    #[test]
    fn l1_all_requests_in_the_first_bucket_are_no_invented_value() {
        let answer = p99(&[0.3, 0.5, 0.8], &[14_312, 0, 0, 0]);
        assert_eq!((answer.low, answer.high, answer.state), (Some(0.0), Some(0.3), State::Unresolved));
        assert_eq!((answer.ci_low, answer.ci_high), (Some(0.0), Some(0.3)));
    }

    #[test]
    fn l2_a_bucket_of_five_milliseconds_is_all_that_is_known_of_a_fifth_of_one() {
        // 191340, 191360 and 191367 cumulative.
        let answer = p99(&[5.0, 10.0, 25.0], &[191_340, 20, 7, 0]);
        assert_eq!((answer.low, answer.high, answer.state), (Some(0.0), Some(5.0), State::Unresolved));
    }

    #[test]
    fn l3_over_the_last_bound_there_is_no_upper_end() {
        let answer = p99(&[30.0], &[2_513, 8_495]);
        assert_eq!((answer.low, answer.high, answer.point), (Some(30.0), None, None));
        assert_eq!((answer.ci_low, answer.ci_high, answer.state), (Some(30.0), None, State::Unresolved));
    }

    #[test]
    fn l4_one_sample_is_too_few_and_has_its_bucket() {
        let answer = p99(&[1.0, 2.0], &[0, 1, 0]);
        assert_eq!((answer.low, answer.high, answer.state, answer.n), (Some(1.0), Some(2.0), State::TooFew, 1));
        assert_eq!(answer.ci_high, None, "one value is no upper bound of anything");
    }

    #[test]
    fn l6_l15_without_traffic_there_is_no_value_at_all() {
        for cells in [Cells::default(), Cells::from_explicit(&[1.0], &[0, 0], None, None, 1.0).unwrap()] {
            let told = serde_json::to_value(cells.quantile(Quantile::P99, 1.1, 0)).unwrap();
            let expected = serde_json::json!({
                "low": null, "high": null, "point": null, "ci_low": null, "ci_high": null, "state": "no_traffic", "n": 0,
            });
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn l16_a_mass_in_the_first_bucket_is_within_it_not_at_its_lower_end() {
        for n in [1, 500, 1_000_000] {
            let answer = p99(&[0.25], &[n, 0]);
            assert_eq!((answer.low, answer.high), (Some(0.0), Some(0.25)));
            assert!(answer.point.unwrap() > 0.0);
        }
    }

    #[test]
    fn l11_aborted_requests_make_a_lower_bound_once_the_quantile_may_be_one_of_them() {
        let with_aborted = |aborted| {
            let narrow = Cell { lo: 100.0, hi: 101.0, n: 1_000 };
            let cells = Cells::new([narrow, Cell { lo: 7.0, hi: f64::INFINITY, n: aborted }]).unwrap();
            cells.quantile(Quantile::P99, 1.1, aborted)
        };
        // Of 1,010 values the 1,000th is asked for: ten are above it.
        let answer = with_aborted(10);
        assert_eq!((answer.high, answer.state), (Some(101.0), State::Ok));
        let answer = with_aborted(11);
        assert_eq!((answer.low, answer.high, answer.state), (Some(100.0), None, State::Censored));
        assert_eq!(answer.ci_high, None);
    }

    #[test]
    fn confidence_is_wider_than_what_the_values_say_of_themselves() {
        let exact = |n: u32| (1..=n).map(|value| Cell { lo: value.into(), hi: value.into(), n: 1 });
        // Ranks 983 and 997 of 1,000, and 360 and 368 of 368: see the confidence's own test.
        let answer = Cells::new(exact(1_000)).unwrap().quantile(Quantile::P99, 1.1, 0);
        assert_eq!((answer.low, answer.ci_low, answer.ci_high), (Some(990.0), Some(983.0), Some(997.0)));
        let answer = Cells::new(exact(368)).unwrap().quantile(Quantile::P99, 1.1, 0);
        assert_eq!((answer.ci_low, answer.ci_high), (Some(360.0), Some(368.0)));
        assert_eq!(Cells::new(exact(367)).unwrap().quantile(Quantile::P99, 1.1, 0).ci_high, None);
    }
}
