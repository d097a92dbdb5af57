//! A value over time, made of straight lines, with an exact integral.
//!
//! Everything is in integers, so that the integral of a curve that is never negative never falls: an energy
//! counter made of it is monotonic without any correction.

/// A value at an instant: straight lines between points, constant before the first and after the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Curve {
    /// (milliseconds, value), by strictly rising time; at least one.
    points: Vec<(u64, u64)>,
    /// The area from 0 up to each of `points`, so that a long trace costs no more than a short one.
    areas: Vec<u128>,
    /// Period in milliseconds after which the points repeat; then the first point is at 0 and the last at the period.
    period: Option<u64>,
}

/// Why points do not make a curve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CurveError {
    /// There is no point.
    #[error("the time line is empty: expected at least one {{ at, value }}")]
    Empty,
    /// A point is not later than the one before.
    #[error("the point at {at} ms is not after the one at {before} ms: expected rising times")]
    Order {
        /// Time of the point.
        at: u64,
        /// Time of the point before.
        before: u64,
    },
    /// A wave's period is too short to have a middle.
    #[error("the period is {0} ms: expected at least 2 ms")]
    Period(u64),
}

impl Curve {
    /// The same value at all times.
    pub fn constant(value: u64) -> Self {
        Self::through(vec![(0, value)], None)
    }

    /// Straight lines through `points`, given as (milliseconds, value).
    ///
    /// # Errors
    /// When there is no point, or times do not rise.
    pub fn line(points: Vec<(u64, u64)>) -> Result<Self, CurveError> {
        if points.is_empty() {
            return Err(CurveError::Empty);
        }
        for pair in points.windows(2) {
            if pair[1].0 <= pair[0].0 {
                return Err(CurveError::Order { at: pair[1].0, before: pair[0].0 });
            }
        }
        Ok(Self::through(points, None))
    }

    /// A triangle: from `min` up to `max` at half the period (rounded down to a millisecond) and back, for ever.
    ///
    /// # Errors
    /// When the period is under 2 ms.
    pub fn wave(min: u64, max: u64, period_ms: u64) -> Result<Self, CurveError> {
        if period_ms < 2 {
            return Err(CurveError::Period(period_ms));
        }
        Ok(Self::through(vec![(0, min), (period_ms / 2, max), (period_ms, min)], Some(period_ms)))
    }

    /// At least one point, and rising times.
    fn through(points: Vec<(u64, u64)>, period: Option<u64>) -> Self {
        let (first, value) = points[0];
        let mut area = u128::from(value) * u128::from(first);
        let mut areas = vec![area];
        for pair in points.windows(2) {
            let ((start, from), (end, to)) = (pair[0], pair[1]);
            area += piece(from, to, end - start, end - start);
            areas.push(area);
        }
        Self { points, areas, period }
    }

    /// The value at `t` milliseconds, rounded down.
    pub fn at(&self, t: u64) -> u64 {
        let t = self.period.map_or(t, |period| t % period);
        let after = self.points.partition_point(|&(at, _)| at <= t);
        let Some(&(start, from)) = after.checked_sub(1).and_then(|i| self.points.get(i)) else {
            return self.points[0].1;
        };
        let Some(&(end, to)) = self.points.get(after) else { return from };
        let (passed, span) = (i128::from(t - start), i128::from(end - start));
        let value = i128::from(from) + (i128::from(to) - i128::from(from)) * passed / span;
        u64::try_from(value).unwrap_or(0)
    }

    /// The greatest value that the curve takes.
    pub fn max(&self) -> u64 {
        self.points.iter().map(|&(_, value)| value).max().unwrap_or(0)
    }

    /// The area under the curve from 0 to `t` milliseconds, in value · ms, each straight piece rounded down.
    ///
    /// Never falls as `t` rises.
    pub fn area(&self, t: u64) -> u128 {
        match self.period {
            Some(period) => u128::from(t / period) * self.area_once(period) + self.area_once(t % period),
            None => self.area_once(t),
        }
    }

    fn area_once(&self, t: u64) -> u128 {
        let after = self.points.partition_point(|&(at, _)| at <= t);
        let Some(before) = after.checked_sub(1) else { return u128::from(self.points[0].1) * u128::from(t) };
        let (start, from) = self.points[before];
        let rest = match self.points.get(after) {
            Some(&(end, to)) => piece(from, to, end - start, t - start),
            None => u128::from(from) * u128::from(t - start),
        };
        self.areas[before] + rest
    }
}

/// The area under the line from `from` to `to` over `span` ms, for its first `passed` ms: floor of
/// `from · x + (to − from) · x² / (2 · span)`.
fn piece(from: u64, to: u64, span: u64, passed: u64) -> u128 {
    let (from, to, span, x) = (i128::from(from), i128::from(to), i128::from(span), i128::from(passed));
    let area = (2 * from * span * x + (to - from) * x * x).div_euclid(2 * span);
    u128::try_from(area).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curves() -> impl Strategy<Value = Curve> {
        let line = proptest::collection::btree_map(0u64..100_000, 0u64..100_001, 1..6)
            .prop_map(|points| Curve::line(points.into_iter().collect()).expect("rising times"));
        let wave = (0u64..100_001, 0u64..100_001, 2u64..60_000)
            .prop_map(|(a, b, period)| Curve::wave(a.min(b), a.max(b), period).expect("a period"));
        prop_oneof![(0u64..100_001).prop_map(Curve::constant), line, wave]
    }

    #[test]
    fn a_time_line_is_straight_between_points_and_flat_outside() {
        let curve = Curve::line(vec![(1_000, 20), (31_000, 80)]).expect("two points");
        assert_eq!([0, 1_000, 16_000, 31_000, 99_000].map(|t| curve.at(t)), [20, 20, 50, 80, 80]);
        // 1 s at 20, 30 s from 20 to 80, 10 s at 80.
        assert_eq!(curve.area(41_000), 20 * 1_000 + 50 * 30_000 + 80 * 10_000);
    }

    #[test]
    fn a_wave_repeats() {
        let curve = Curve::wave(10, 90, 60_000).expect("a period");
        assert_eq!([0, 15_000, 30_000, 45_000, 60_000, 90_000].map(|t| curve.at(t)), [10, 50, 90, 50, 10, 90]);
        assert_eq!(curve.area(600_000), 50 * 600_000);
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(Curve::line(vec![]), Err(CurveError::Empty));
        assert_eq!(Curve::line(vec![(5, 1), (5, 2)]), Err(CurveError::Order { at: 5, before: 5 }));
        assert_eq!(Curve::wave(0, 1, 1), Err(CurveError::Period(1)));
    }

    proptest! {
        #[test]
        fn the_area_never_falls(curve in curves(), t in 0u64..1_000_000, step in 0u64..5_000) {
            prop_assert!(curve.area(t + step) >= curve.area(t));
        }

        #[test]
        fn the_area_is_the_sum_of_the_values(curve in curves(), t in 0u64..20_000) {
            // The midpoint of each millisecond is exact for straight lines; both sides round down.
            let sum: f64 = (0..t).map(|ms| (curve.at(ms) as f64 + curve.at(ms + 1) as f64) / 2.0).sum();
            let area = curve.area(t) as f64;
            prop_assert!((area - sum).abs() <= t as f64 + curve.max() as f64 + 16.0, "{area} against {sum}");
        }

        #[test]
        fn values_stay_below_the_maximum(curve in curves(), t in any::<u64>()) {
            prop_assert!(curve.at(t) <= curve.max());
        }
    }
}
