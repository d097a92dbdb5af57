//! How far the quantile of some values may be from that of what they are a sample of: ranks of order statistics.
//!
//! Of `n` independent values, as many lie at or below the true quantile `q` as `n` throws of a coin that falls on its head
//! with probability `q` show heads: `B ~ Bin(n, q)`. The value of rank `r` is above the quantile only if `B < r`, and below
//! it only if `B >= r`. So the ranks whose tails are at most 2.5 % each enclose it in 95 % of all samples, whatever the
//! distribution; with ties in more. Nothing is assumed of its shape
//! (H. A. David and H. N. Nagaraja, *Order Statistics*, section 7.1).

use crate::quantile::Quantile;

/// What each of the two ends may miss of 95 %.
pub const TAIL: f64 = 0.025;

/// How much of a pmf is left out, relative to its greatest value, when it is added up.
const NEGLIGIBLE: f64 = 1e-20;

/// Up to this variance the pmf is added up exactly: a hundred thousand values on each side of a standard deviation.
const MOST_VARIANCE: f64 = 1.1e10;

/// Above 1.95996…, the 97.5 % quantile of the normal distribution.
const WIDE_NORMAL: f64 = 1.96;

/// 1-based ranks in ascending order of `n` values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ranks {
    /// The value of this rank is above the true quantile with a probability of at most `tail`; `None`: no value is so low.
    pub low: Option<u64>,
    /// The value of this rank is below it with a probability of at most `tail`; `None`: no value is so high.
    pub high: Option<u64>,
}

impl Quantile {
    /// The ranks that enclose the true quantile of what `n` values are a sample of; each end misses it with a probability
    /// of at most [`TAIL`]. Beyond a variance of `n q (1 - q)` of about 10^10 they are a little too wide, never too narrow.
    pub fn ranks(self, n: u64) -> Ranks {
        self.ranks_of_tail(n, TAIL)
    }

    /// As [`Quantile::ranks`], with this probability for each end, at least 0.025 and under a half; 0.05 makes each end a
    /// bound by itself at 95 %.
    pub fn ranks_of_tail(self, n: u64, tail: f64) -> Ranks {
        let (q, p) = (self.fraction(), f64::from(1_000_000 - self.ppm()) / 1e6);
        if n == 0 {
            return Ranks { low: None, high: None };
        }
        if self.ppm() == 0 || self.ppm() == 1_000_000 {
            // No value is below the least one, and none above the greatest.
            let (low, high) = if self.ppm() == 0 { (None, Some(1)) } else { (Some(n), None) };
            return Ranks { low, high };
        }
        #[expect(clippy::cast_precision_loss, reason = "a width, whose last digits do not matter")]
        let variance = n as f64 * q * p;
        if variance > MOST_VARIANCE { self.by_normal(n, variance) } else { self.by_sum(n, q / p, tail) }
    }

    /// The pmf added up from its mode, relative to its value there, so that no factorial is needed.
    fn by_sum(self, n: u64, odds: f64, tail: f64) -> Ranks {
        let mode = u64::try_from((u128::from(n) + 1) * u128::from(self.ppm()) / 1_000_000).unwrap_or(n).min(n);
        let below: f64 = Falling { n, k: mode, term: 1.0, odds }.map(|(_, term)| term).sum();
        let above: f64 = Rising { n, k: mode, term: 1.0, odds }.map(|(_, term)| term).sum();
        let most = tail * (below + 1.0 + above);
        // P(B <= k) for k from mode - 1 downward, until it is small enough.
        let mut left = below;
        let mut low = mode;
        for (k, term) in (Falling { n, k: mode, term: 1.0, odds }) {
            if left <= most {
                break;
            }
            left -= term;
            low = k;
        }
        // P(B >= k) for k from mode + 1 upward.
        let mut left = above;
        let mut high = mode + 1;
        for (k, term) in (Rising { n, k: mode, term: 1.0, odds }) {
            if left <= most {
                break;
            }
            left -= term;
            high = k + 1;
        }
        Ranks { low: (low > 0).then_some(low), high: (high <= n).then_some(high) }
    }

    /// The normal distribution, a little wider: beside 10^5 values of a standard deviation, the difference of its quantiles
    /// from the binomial's is under two.
    fn by_normal(self, n: u64, variance: f64) -> Ranks {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "under 2^33, and positive")]
        let width = (WIDE_NORMAL * variance.sqrt()).ceil() as u128 + 2;
        let mean = u128::from(n) * u128::from(self.ppm()) / 1_000_000;
        let low = u64::try_from(mean.saturating_sub(width)).ok().filter(|low| *low > 0);
        Ranks { low, high: u64::try_from(mean + 1 + width).ok().filter(|high| *high <= n) }
    }
}

/// Terms of the pmf below `k`, which has `term`, as long as they count.
struct Falling {
    n: u64,
    k: u64,
    term: f64,
    odds: f64,
}

impl Iterator for Falling {
    type Item = (u64, f64);

    #[expect(clippy::cast_precision_loss, reason = "ratios, whose last digits do not matter")]
    fn next(&mut self) -> Option<Self::Item> {
        let k = self.k.checked_sub(1)?;
        self.term *= self.k as f64 / ((self.n - k) as f64 * self.odds);
        self.k = k;
        (self.term > NEGLIGIBLE).then_some((k, self.term))
    }
}

/// Terms of the pmf above `k`, which has `term`, as long as they count.
struct Rising {
    n: u64,
    k: u64,
    term: f64,
    odds: f64,
}

impl Iterator for Rising {
    type Item = (u64, f64);

    #[expect(clippy::cast_precision_loss, reason = "ratios, whose last digits do not matter")]
    fn next(&mut self) -> Option<Self::Item> {
        if self.k >= self.n {
            return None;
        }
        self.term *= (self.n - self.k) as f64 * self.odds / (self.k + 1) as f64;
        self.k += 1;
        (self.term > NEGLIGIBLE).then_some((self.k, self.term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks of 2.5 % tails by mpmath with 40 digits: the pmf by `loggamma`, its tail by summing, the rank by bisection.
    const BY_MPMATH: &[(u32, u64, Option<u64>, Option<u64>)] = &[
        (990_000, 1, Some(1), None),
        (990_000, 2, Some(2), None),
        (990_000, 5, Some(4), None),
        (990_000, 6, Some(5), None),
        (990_000, 100, Some(97), None),
        (990_000, 298, Some(291), None),
        (990_000, 299, Some(292), None),
        (990_000, 367, Some(359), None),
        (990_000, 368, Some(360), Some(368)),
        (990_000, 1_000, Some(983), Some(997)),
        (990_000, 12_345, Some(12_199), Some(12_244)),
        (990_000, 1_000_000, Some(989_805), Some(990_196)),
        (990_000, 100_000_000, Some(98_998_049), Some(99_001_951)),
        (990_000, 10_000_000_000, Some(9_899_980_498), Some(9_900_019_502)),
        (990_000, 1_000_000_000_000, Some(989_999_804_986), Some(990_000_195_014)),
        (500_000, 1, None, None),
        (500_000, 2, None, None),
        (500_000, 5, None, None),
        (500_000, 6, Some(1), Some(6)),
        (500_000, 100, Some(40), Some(61)),
        (500_000, 298, Some(132), Some(167)),
        (500_000, 299, Some(133), Some(167)),
        (500_000, 367, Some(165), Some(203)),
        (500_000, 368, Some(165), Some(204)),
        (500_000, 1_000, Some(469), Some(532)),
        (500_000, 12_345, Some(6_064), Some(6_282)),
        (500_000, 1_000_000, Some(499_020), Some(500_981)),
        (500_000, 100_000_000, Some(49_990_200), Some(50_009_801)),
        (500_000, 10_000_000_000, Some(4_999_902_002), Some(5_000_097_999)),
        (999_000, 1, Some(1), None),
        (999_000, 2, Some(2), None),
        (999_000, 5, Some(5), None),
        (999_000, 6, Some(6), None),
        (999_000, 100, Some(99), None),
        (999_000, 298, Some(296), None),
        (999_000, 299, Some(297), None),
        (999_000, 367, Some(365), None),
        (999_000, 368, Some(366), None),
        (999_000, 1_000, Some(997), None),
        (999_000, 12_345, Some(12_325), Some(12_340)),
        (999_000, 1_000_000, Some(998_938), Some(999_062)),
        (999_000, 100_000_000, Some(99_899_380), Some(99_900_620)),
        (999_000, 10_000_000_000, Some(9_989_993_805), Some(9_990_006_195)),
        (999_000, 1_000_000_000_000, Some(998_999_938_051), Some(999_000_061_949)),
        (10_000, 1, None, Some(1)),
        (10_000, 2, None, Some(1)),
        (10_000, 5, None, Some(2)),
        (10_000, 6, None, Some(2)),
        (10_000, 100, None, Some(4)),
        (10_000, 298, None, Some(8)),
        (10_000, 299, None, Some(8)),
        (10_000, 367, None, Some(9)),
        (10_000, 368, Some(1), Some(9)),
        (10_000, 1_000, Some(4), Some(18)),
        (10_000, 12_345, Some(102), Some(147)),
        (10_000, 1_000_000, Some(9_805), Some(10_196)),
        (10_000, 100_000_000, Some(998_050), Some(1_001_952)),
        (10_000, 10_000_000_000, Some(99_980_499), Some(100_019_503)),
        (10_000, 1_000_000_000_000, Some(9_999_804_987), Some(10_000_195_015)),
    ];

    #[test]
    fn ranks_are_those_of_the_binomial_distribution() {
        for &(ppm, n, low, high) in BY_MPMATH {
            assert_eq!(Quantile::from_ppm(ppm).unwrap().ranks(n), Ranks { low, high }, "{ppm} of {n}");
        }
        // By 0.99^298 > 0.05 > 0.99^299.
        assert_eq!(Quantile::P99.ranks_of_tail(298, 0.05).high, None);
        assert_eq!(Quantile::P99.ranks_of_tail(299, 0.05).high, Some(299));
        assert_eq!(Quantile::P99.ranks(0), Ranks { low: None, high: None });
        assert_eq!(Quantile::from_ppm(1_000_000).unwrap().ranks(7), Ranks { low: Some(7), high: None });
        assert_eq!(Quantile::from_ppm(0).unwrap().ranks(7), Ranks { low: None, high: Some(1) });
    }

    #[test]
    fn more_values_than_can_be_added_up_have_wider_ranks_not_narrower() {
        // Where both ways work, the normal one encloses the other.
        for n in [1_000_000, 100_000_000, 10_000_000_000] {
            for ppm in [10_000, 500_000, 990_000] {
                let q = Quantile::from_ppm(ppm).unwrap();
                let (exact, wide) = (q.ranks(n), q.by_normal(n, n as f64 * q.fraction() * (1.0 - q.fraction())));
                assert!(wide.low < exact.low && wide.high > exact.high, "{ppm} of {n}: {exact:?} {wide:?}");
                let width = |ranks: Ranks| ranks.high.unwrap() - ranks.low.unwrap();
                assert!(width(wide) < width(exact) + 8 + width(exact) / 10_000, "{ppm} of {n}");
            }
        }
        let ranks = Quantile::P99.ranks(u64::MAX);
        let rank = Quantile::P99.rank(u64::MAX);
        assert!(ranks.low.unwrap() < rank && rank < ranks.high.unwrap());
    }
}
