//! Exact sums to amounts: rounded once for the fleet, apportioned to payers, then to each payer's lines.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::Sum;

use contador_schemas::owner::OwnerKind;
use num_bigint::BigInt;

use super::Line;
use crate::bill::apportion::{apportion, round};
use crate::bill::decimal::Millionths;
use crate::bill::rate::{Exact, Rated, cost_denominator, hour};

/// What a line or a total comes to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Amounts {
    /// GPU-hours.
    pub gpu_hours: Millionths,
    /// GPU-hours among them that have no price.
    pub unpriced: Millionths,
    /// Currency units.
    pub cost: Millionths,
}

impl<'a> Sum<&'a Self> for Amounts {
    fn sum<I: Iterator<Item = &'a Self>>(parts: I) -> Self {
        let mut sum = Self::default();
        for part in parts {
            sum.gpu_hours.0 += &part.gpu_hours.0;
            sum.unpriced.0 += &part.unpriced.0;
            sum.cost.0 += &part.cost.0;
        }
        sum
    }
}

/// What the fleet comes to, and its lines, which sum to it. They are in the order of `rated`.
pub fn lines(rated: &Rated) -> (Amounts, Vec<Line>) {
    let payers: Vec<Exact> = rated.payers.values().map(|keys| sum(keys.values())).collect();
    let fleet = rounded(&sum(&payers));
    let shares = split(&fleet, &payers.iter().collect::<Vec<_>>());
    let mut lines = Vec::new();
    for (((kind, department), keys), share) in rated.payers.iter().zip(&shares) {
        let amounts = split(share, &keys.values().collect::<Vec<_>>());
        lines.extend(keys.keys().zip(amounts).map(|(value, amounts)| Line {
            kind: *kind,
            department: department.clone(),
            value: value.clone(),
            amounts,
        }));
    }
    (fleet, lines)
}

/// The exact sums of a view, before anything is rounded.
pub fn exact(rated: &Rated, department: Option<&str>) -> Exact {
    let payers = rated.payers.iter().filter(|((kind, payer), _)| shown(*kind, payer, department));
    sum(payers.flat_map(|(_, keys)| keys.values()))
}

fn shown(kind: OwnerKind, payer: &str, department: Option<&str>) -> bool {
    department.is_none_or(|only| kind == OwnerKind::Workload && payer == only)
}

/// GPU-hours without a price by model; they sum to the fleet's.
pub fn unpriced(rated: &Rated, fleet: &Amounts) -> Vec<(String, Millionths)> {
    let parts: Vec<BigInt> = rated.unpriced.values().cloned().collect();
    rated.unpriced.keys().cloned().zip(apportion(&fleet.unpriced, &parts, &hour())).collect()
}

/// The lines of a department, or all; lines of the same kind and value become one. Kinds in order, then by falling cost.
pub fn view(lines: Vec<Line>, department: Option<&str>) -> Vec<Line> {
    let mut merged: BTreeMap<(OwnerKind, String), Line> = BTreeMap::new();
    for line in lines {
        if !shown(line.kind, &line.department, department) {
            continue;
        }
        let key = (line.kind, line.value.clone());
        match merged.get_mut(&key) {
            None => _ = merged.insert(key, line),
            Some(same) => same.amounts = [&same.amounts, &line.amounts].into_iter().sum(),
        }
    }
    let mut lines: Vec<Line> = merged.into_values().collect();
    lines.sort_by_key(|line| (line.kind, Reverse(line.amounts.cost.clone())));
    lines
}

fn sum<'a>(parts: impl IntoIterator<Item = &'a Exact>) -> Exact {
    let mut sum = Exact::default();
    for part in parts {
        sum.hours += &part.hours;
        sum.unpriced += &part.unpriced;
        sum.cost += &part.cost;
    }
    sum
}

fn rounded(exact: &Exact) -> Amounts {
    Amounts {
        gpu_hours: round(&exact.hours, &hour()),
        unpriced: round(&exact.unpriced, &hour()),
        cost: round(&exact.cost, &cost_denominator()),
    }
}

fn split(whole: &Amounts, parts: &[&Exact]) -> Vec<Amounts> {
    let of = |get: fn(&Exact) -> &BigInt| parts.iter().map(|part| get(part).clone()).collect::<Vec<_>>();
    let hours = apportion(&whole.gpu_hours, &of(|part| &part.hours), &hour());
    let unpriced = apportion(&whole.unpriced, &of(|part| &part.unpriced), &hour());
    let cost = apportion(&whole.cost, &of(|part| &part.cost), &cost_denominator());
    let amounts = hours.into_iter().zip(unpriced).zip(cost);
    amounts.map(|((gpu_hours, unpriced), cost)| Amounts { gpu_hours, unpriced, cost }).collect()
}
