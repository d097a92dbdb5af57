//! What days came to: the largest parts each, and the others together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use num_bigint::BigInt;

use crate::bill::decimal::Millionths;
use crate::bill::directory::Day;
use crate::bill::period::Period;
use crate::bill::rate::local_day;
use crate::bill::settle::Line;

/// Effective costs by day: effective ones, since days have no part of what a commitment is billed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Series {
    /// The days, without a gap.
    pub days: Vec<Day>,
    /// Name of each part, and its cost on each day. `None` is all others.
    pub parts: Vec<(Option<String>, Vec<Millionths>)>,
    /// Whether lines have no day, and so are missing.
    pub is_part: bool,
}

/// The series of lines by what `name` calls them: the `most` largest parts, and the others. Days end with `now`, where that is given.
pub fn series<'a>(
    lines: impl Iterator<Item = &'a Line>,
    period: &Period,
    now: Option<i64>,
    most: usize,
    name: impl Fn(&Line) -> String,
) -> Series {
    let end = now.map_or(period.to, |now| now.clamp(period.from + 1, period.to));
    let day = |at| local_day(at, &period.zone);
    let (Some(first), Some(last), true) = (day(period.from), day(end - 1), period.tells_days()) else {
        return Series::default();
    };
    let days: Vec<Day> = (first..=last).collect();
    let mut parts: BTreeMap<String, Vec<BigInt>> = BTreeMap::new();
    let mut is_part = false;
    for line in lines {
        let cost = &line.amounts.effective.0;
        match line.key.day {
            Some(day) if (first..=last).contains(&day) => {
                let costs = parts.entry(name(line)).or_insert_with(|| vec![BigInt::default(); days.len()]);
                costs[usize::from(day - first)] += cost;
            }
            _ => is_part |= !line.amounts.effective.is_zero(),
        }
    }
    let mut parts: Vec<(String, Vec<BigInt>)> = parts.into_iter().collect();
    parts.sort_by_key(|(_, costs)| Reverse(costs.iter().sum::<BigInt>()));
    let most = if parts.len() == most + 1 { most + 1 } else { most };
    let rest = parts.split_off(most.min(parts.len()));
    let millionths = |costs: Vec<BigInt>| costs.into_iter().map(Millionths).collect();
    let mut parts: Vec<_> = parts.into_iter().map(|(name, costs)| (Some(name), millionths(costs))).collect();
    if !rest.is_empty() {
        let of = |at: usize| Millionths(rest.iter().map(|(_, costs)| &costs[at]).sum());
        parts.push((None, (0..days.len()).map(of).collect()));
    }
    Series { days, parts, is_part }
}
