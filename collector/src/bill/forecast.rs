//! What the days to come will cost, from what the days before did: a mean by the day of the week, with an interval.
//!
//! The mean of a day is that of the same days of the week, or of all days where there are fewer than two of them. What days differ
//! from their means by has a variance; days that follow each other are alike, and so the variance of a sum grows by
//! `(1 + r) / (1 - r)`, with `r` what a day has in common with the day before. The interval is
//! `sum ± t × √(s² × (k + Σ k_w² / n_w) × (1 + r) / (1 - r))`: it holds the sum in about four of five months, where days go on as
//! they were. Whole numbers alone; a figure is a statement about days that have not been, and no part of any sum.

use num_bigint::{BigInt, Sign};
use num_traits::{Signed, ToPrimitive, Zero};

use super::decimal::Millionths;
use super::directory::Day;

/// Days before that count, at most: eight weeks.
const LONGEST: usize = 56;

/// Days before that there must be: each day of the week.
pub const SHORTEST: usize = 7;

/// Quantiles of Student's t distribution at 0.9, in thousandths, by degrees of freedom from 1: both ends together leave out a fifth.
const T: [u32; 30] = [
    3_078, 1_886, 1_638, 1_533, 1_476, 1_440, 1_415, 1_397, 1_383, 1_372, 1_363, 1_356, 1_350, 1_345, 1_341, 1_337,
    1_333, 1_330, 1_328, 1_325, 1_323, 1_321, 1_319, 1_318, 1_316, 1_315, 1_314, 1_313, 1_311, 1_310,
];

/// The same for any more degrees of freedom.
const T_OF_MANY: u32 = 1_303;

/// The most that days are taken to have in common with the day before, thousandths.
const ALIKE_MAX: i64 = 800;

/// What a sum will be.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Forecast {
    /// Lower end of the interval of 80 %.
    pub low: Millionths,
    /// What is most likely.
    pub point: Millionths,
    /// Upper end of it.
    pub high: Millionths,
    /// Days before that it is made from.
    pub days: usize,
}

/// Days that have one mean.
#[derive(Clone, Default)]
struct Group {
    sum: BigInt,
    days: usize,
    ahead: usize,
}

impl Group {
    fn mean(&self) -> BigInt {
        &self.sum / BigInt::from(self.days.max(1))
    }
}

/// What the days `ahead` will come to together, from what days came to before: one after another, the last one first of all to
/// count. `None` where there are fewer than [`SHORTEST`].
pub fn forecast(before: &[(Day, Millionths)], ahead: &[Day]) -> Option<Forecast> {
    let before = &before[before.len().saturating_sub(LONGEST)..];
    if before.len() < SHORTEST {
        return None;
    }
    let groups = groups(before, ahead);
    let group = |day: Day| &groups[group_of(before, day)];
    let point: BigInt = ahead.iter().map(|day| group(*day).mean()).sum();
    let off: Vec<BigInt> = before.iter().map(|(day, amount)| &amount.0 - group(*day).mean()).collect();
    let free = before.len() - groups.iter().filter(|group| group.days > 0).count();
    let margin = margin(&off, free.max(1), &groups);
    Some(Forecast {
        low: Millionths(&point - &margin),
        high: Millionths(&point + &margin),
        point: Millionths(point),
        days: before.len(),
    })
}

/// The place of a day's group: that of its day of the week, or the last one where there are too few of those.
fn group_of(before: &[(Day, Millionths)], day: Day) -> usize {
    let same = before.iter().filter(|(other, _)| other % 7 == day % 7).count();
    if same < 2 { 7 } else { usize::from(day % 7) }
}

fn groups(before: &[(Day, Millionths)], ahead: &[Day]) -> Vec<Group> {
    let mut groups = vec![Group::default(); 8];
    let all_have_weeks = before.iter().all(|(day, _)| group_of(before, *day) < 7);
    for (day, amount) in before {
        let group = &mut groups[group_of(before, *day)];
        group.sum += &amount.0;
        group.days += 1;
    }
    // Days of the week that there are too few of have the mean of all.
    if !all_have_weeks || ahead.iter().any(|day| group_of(before, *day) == 7) {
        groups[7].sum = before.iter().map(|(_, amount)| &amount.0).sum();
        groups[7].days = before.len();
    }
    for day in ahead {
        groups[group_of(before, *day)].ahead += 1;
    }
    groups
}

fn margin(off: &[BigInt], free: usize, groups: &[Group]) -> BigInt {
    let squares: BigInt = off.iter().map(|off| off * off).sum();
    let neighbours: BigInt = off.windows(2).map(|pair| &pair[0] * &pair[1]).sum();
    let alike = match squares.sign() {
        Sign::NoSign => 0,
        _ => BigInt::to_i64(&(neighbours * 1_000 / &squares)).unwrap_or_default().clamp(0, ALIKE_MAX),
    };
    // Variance of a sum of days in thousandths of that of one: of the days, and of the means that they are taken to have.
    let of_sum: usize =
        groups.iter().map(|group| 1_000 * group.ahead + 1_000 * group.ahead * group.ahead / group.days.max(1)).sum();
    let variance: BigInt =
        squares / BigInt::from(free) * BigInt::from(of_sum) * (1_000 + alike) / (1_000 - alike) / 1_000;
    if variance.is_negative() || variance.is_zero() {
        return BigInt::zero();
    }
    let t = T.get(free - 1).copied().unwrap_or(T_OF_MANY);
    variance.sqrt() * t / 1_000
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::Random;

    fn days(amounts: impl IntoIterator<Item = i64>) -> Vec<(Day, Millionths)> {
        (20_000..).zip(amounts).map(|(day, amount)| (day, Millionths(amount.into()))).collect()
    }

    #[test]
    fn a_week_of_ever_the_same_goes_on() {
        let before = days((0..28).map(|day| [5, 5, 5, 5, 5, 1, 0][day % 7] * 1_000_000));
        let week: Vec<Day> = (20_028..20_035).collect();
        let forecast = forecast(&before, &week).unwrap();
        assert_eq!(forecast.point.to_string(), "26.000000");
        assert_eq!((&forecast.low, &forecast.high), (&forecast.point, &forecast.point));
        assert_eq!(super::forecast(&before, &[20_033, 20_034]).unwrap().point.to_string(), "1.000000");
    }

    #[test]
    fn less_than_a_week_tells_nothing() {
        assert_eq!(forecast(&days([1, 2, 3, 4, 5, 6]), &[20_006]), None);
        // Of one week each day has a mean of its own alone, and that is none: all have that of all.
        let one = forecast(&days([0, 0, 0, 0, 0, 0, 7_000_000]), &[20_007, 20_013]).unwrap();
        assert_eq!(one.point.to_string(), "2.000000");
    }

    #[test]
    fn the_interval_of_a_day_is_that_of_the_formula() {
        // Two days of each day of the week, 10 and 12 apart by turns: means 11, residuals ±1, s² = 14/7 = 2, n_w = 2, k = 1.
        let before = days((0..14).map(|day| if (day % 7 + day / 7) % 2 == 0 { 10 } else { 12 } * 1_000_000));
        let forecast = forecast(&before, &[20_014]).unwrap();
        // Residuals change sign each day, so r is taken as 0; √(2 × 1.5) = 1.732050 and t of 7 degrees of freedom is 1.415.
        assert_eq!((forecast.point.to_string(), forecast.high.to_string()), ("11.000000".into(), "13.450850".into()));
    }

    /// In how many of 1,000 made-up months the sum of the days to come is in the interval. `alike` is what a day has in common with
    /// the day before, thousandths.
    fn covered(alike: i64, before: usize, ahead: usize) -> usize {
        let mut random = Random::new(11);
        let mut inside = 0;
        for _ in 0..1_000 {
            let mut noise = 0;
            let mut day = |at: usize| {
                // A sum of twelve even draws is nearly normal.
                let draw: i64 = (0..12).map(|_| i64::try_from(random.next() % 20_001).unwrap() - 10_000).sum();
                noise = noise * alike / 1_000 + draw;
                [900_000, 1_000_000, 1_100_000, 1_000_000, 950_000, 300_000, 200_000][at % 7] + noise
            };
            let all: Vec<i64> = (0..before + ahead).map(&mut day).collect();
            let to_come: i64 = all[before..].iter().sum();
            let first = 20_000 + u16::try_from(before).unwrap();
            let ahead: Vec<Day> = (first..first + u16::try_from(ahead).unwrap()).collect();
            let forecast = forecast(&days(all[..before].iter().copied()), &ahead).unwrap();
            let interval = forecast.low.0..=forecast.high.0;
            inside += usize::from(interval.contains(&to_come.into()));
        }
        inside
    }

    #[test]
    fn four_of_five_months_are_in_the_interval() {
        for (before, ahead) in [(14, 16), (35, 25), (45, 15), (56, 3)] {
            let inside = covered(0, before, ahead);
            assert!((760..=900).contains(&inside), "{inside} of 1000 with {before} days before and {ahead} ahead");
            // Days that are alike are harder to tell.
            let inside = covered(500, before, ahead);
            assert!((620..=900).contains(&inside), "{inside} of 1000 alike with {before} before and {ahead} ahead");
        }
    }

    proptest! {
        #[test]
        fn an_interval_has_its_point_inside(
            amounts in prop::collection::vec(-1_000_000_000i64..1_000_000_000_000, 7..70),
            ahead in 0u16..31,
        ) {
            let before = days(amounts);
            let first = before.last().unwrap().0 + 1;
            let ahead: Vec<Day> = (first..first + ahead).collect();
            let forecast = forecast(&before, &ahead).unwrap();
            prop_assert!(forecast.low <= forecast.point && forecast.point <= forecast.high);
            prop_assert!(!ahead.is_empty() || forecast.point.is_zero());
        }
    }
}
