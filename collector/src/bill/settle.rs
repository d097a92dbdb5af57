//! Charges to lines: rounded once for the fleet, split over payers, then over each payer's lines, so that every view adds up.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::AddAssign;

use num_bigint::BigInt;

use super::apportion::{apportion, round, sum};
use super::decimal::Millionths;
use super::rate::exact::{Amount, Exact, MEASURES};
use super::rate::{Category, Key, Rated};

const MILLION: u32 = 1_000_000;

/// Place of the cost among the measures of an [`Exact`].
const COST: usize = 8;

/// What a line or a sum of lines comes to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Amounts {
    /// GPU-hours that were held.
    pub gpu_hours: Millionths,
    /// Quantity that is priced: GPU-hours after basis and increments, kWh, GiB-months, GiB.
    pub quantity: Millionths,
    /// GPU-hours among those held that have no price.
    pub unpriced: Millionths,
    /// GPU-hours in which it was busy.
    pub busy: Millionths,
    /// GPU-hours of which it is unknown whether it was busy.
    pub unknown: Millionths,
    /// kWh of the devices.
    pub energy: Millionths,
    /// kWh of the site.
    pub site_energy: Millionths,
    /// Grams of CO2 equivalent.
    pub carbon: Millionths,
    /// Currency units, billed.
    pub cost: Millionths,
    /// Currency units with commitments spread over their use.
    pub effective: Millionths,
}

/// A line of a bill.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Line {
    /// What it is for.
    pub key: Key,
    /// What it comes to.
    pub amounts: Amounts,
}

/// Rounds what was rated. Lines are in the order of their keys; what payers come to has `decimals` digits, and everything six.
pub fn settle(rated: &Rated, decimals: u8) -> Vec<Line> {
    let mut lines: Vec<Line> =
        rated.charges.keys().map(|key| Line { key: key.clone(), amounts: Amounts::default() }).collect();
    let exact: Vec<&Exact> = rated.charges.values().collect();
    // Lines of one payer are neighbours: a key begins with its payer.
    let payers: Vec<std::ops::Range<usize>> = runs(&lines);
    for measure in 0..MEASURES - 1 {
        let of: Vec<&Amount> = exact.iter().map(|exact| exact.all()[measure]).collect();
        let units = if measure == COST { 10_u32.pow(decimals.min(6).into()) } else { MILLION };
        let scale = MILLION / units;
        let sums: Vec<Amount> = payers.iter().map(|run| sum(of[run.clone()].iter().copied())).collect();
        let whole = round(&sum(&sums), units);
        let shares = apportion(&whole, &sums.iter().collect::<Vec<_>>());
        for (run, share) in payers.iter().zip(shares) {
            let parts = apportion(&(share * scale), &of[run.clone()]);
            for (line, part) in lines[run.clone()].iter_mut().zip(parts) {
                *line.amounts.all_mut()[measure] = Millionths(part);
            }
        }
    }
    effective(&mut lines, &exact);
    lines
}

fn runs(lines: &[Line]) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if lines[run.start].key.payer == line.key.payer => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

/// What lines cost effectively: what they are billed, but each commitment's purchase spread over its use and what was not used of it.
fn effective(lines: &mut [Line], exact: &[&Exact]) {
    let mut spread: BTreeMap<_, (BigInt, Vec<usize>)> = BTreeMap::new();
    for (at, line) in lines.iter_mut().enumerate() {
        let of = (line.key.payer.clone(), std::sync::Arc::clone(&line.key.item));
        match line.key.category {
            Category::Commitment => spread.entry(of).or_default().0 += &line.amounts.cost.0,
            Category::Covered | Category::Unused => spread.entry(of).or_default().1.push(at),
            _ => line.amounts.effective = line.amounts.cost.clone(),
        }
    }
    for (bought, places) in spread.into_values() {
        let parts: Vec<&Amount> = places.iter().map(|at| &exact[*at].effective).collect();
        for (at, part) in places.iter().zip(apportion(&bought, &parts)) {
            lines[*at].amounts.effective = Millionths(part);
        }
    }
}

impl Amounts {
    /// All amounts, in the order of the fields, which is that of [`Exact`].
    pub fn all(&self) -> [&Millionths; MEASURES] {
        [
            &self.gpu_hours,
            &self.quantity,
            &self.unpriced,
            &self.busy,
            &self.unknown,
            &self.energy,
            &self.site_energy,
            &self.carbon,
            &self.cost,
            &self.effective,
        ]
    }

    /// All amounts, in the order of the fields.
    pub fn all_mut(&mut self) -> [&mut Millionths; MEASURES] {
        [
            &mut self.gpu_hours,
            &mut self.quantity,
            &mut self.unpriced,
            &mut self.busy,
            &mut self.unknown,
            &mut self.energy,
            &mut self.site_energy,
            &mut self.carbon,
            &mut self.cost,
            &mut self.effective,
        ]
    }

    /// Whether every amount is nothing.
    pub fn is_zero(&self) -> bool {
        self.all().into_iter().all(Millionths::is_zero)
    }
}

impl AddAssign<&Self> for Amounts {
    fn add_assign(&mut self, other: &Self) {
        for (sum, amount) in self.all_mut().into_iter().zip(other.all()) {
            sum.0 += &amount.0;
        }
    }
}

impl<'a> Sum<&'a Self> for Amounts {
    fn sum<I: Iterator<Item = &'a Self>>(parts: I) -> Self {
        let mut sum = Self::default();
        for part in parts {
            sum += part;
        }
        sum
    }
}
