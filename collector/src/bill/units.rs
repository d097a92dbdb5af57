//! What a unit of work costs: requests, tokens and busy GPU-hours beside the money of the same owners.
//!
//! [`fetch`] sums what was served in a period by owner and by service. A group of a view has what the owners of its lines served;
//! what was served without an owner counts for its service, its environment and the fleet, and for no other group: [`Served::of`]
//! says how much of it is left out of a view. [`UnitCosts`] divides, exactly, and says nothing where there is nothing to divide by.

use std::collections::HashMap;
use std::sync::Arc;

use clickhouse::Row;
use contador_schemas::owner::{Owner, OwnerKind};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;
use serde::Deserialize;
use uuid::Uuid;

use super::StoreError;
use super::decimal::Millionths;
use super::directory::Directory;
use super::facts::{self, Fact, Facts};
use super::period::Period;
use super::rate::{Key, Payer};
use super::report::Dimension;
use super::settle::Amounts;
use super::view::Filter;
use crate::store::Store;

/// Counts of what was served. `None` where nobody counted it, which is not 0.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Requests answered to their end.
    pub requests: Option<u64>,
    /// Tokens that were read.
    pub input_tokens: Option<u64>,
    /// Tokens that were written.
    pub output_tokens: Option<u64>,
}

/// What one owner, or nobody known, served.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    /// Whose, as a line would have it.
    key: Key,
    /// Whether it is known whose.
    owned: bool,
    counts: Counts,
}

/// What was served in a period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    parts: Vec<Part>,
}

#[derive(Deserialize, Row)]
struct SumRow {
    #[serde(with = "clickhouse::serde::uuid")]
    owner: Uuid,
    service: String,
    environment: String,
    since: i64,
    requests: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

/// Sums what was served in the period: a row counts where its window starts. `directory` has the departments of projects.
///
/// # Errors
/// [`StoreError`].
pub async fn fetch(store: &Store, period: &Period, directory: Option<&Directory>) -> Result<Served, StoreError> {
    let cuts = directory.map(|directory| directory.changes(period)).unwrap_or_default();
    let starts: Vec<String> = std::iter::once(period.from).chain(cuts).map(|cut| cut.to_string()).collect();
    let (from, to) = (facts::spans::seconds(period.from), facts::spans::seconds(period.to));
    let sql = format!(
        "SELECT owner, toString(service) AS service, toString(environment) AS environment, \
            roundDown(toInt64(toUnixTimestamp(window)) * 1000, \
                arrayMap(start -> toInt64(start), splitByChar(',', '{}'))) AS since, \
            sum(s.requests) AS requests, sum(s.input_tokens) AS input_tokens, sum(s.output_tokens) AS output_tokens \
         FROM served AS s FINAL \
         WHERE window >= toDateTime({from}, 'UTC') AND window < toDateTime({to}, 'UTC') \
         GROUP BY owner, service, environment, since \
         SETTINGS do_not_merge_across_partitions_select_final = 1",
        starts.join(","),
    );
    let rows: Vec<SumRow> =
        store.client.query(&sql).fetch_all().await.map_err(StoreError::doing("sum what was served"))?;
    let ids = rows.iter().map(|row| row.owner).filter(|id| !id.is_nil()).collect();
    let names = facts::owners::owners(store, ids).await?;
    let mut placed = Facts::default();
    for row in &rows {
        let unknown =
            || Owner { service: row.service.clone(), environment: row.environment.clone(), ..Owner::default() };
        let mut owner = names.get(&row.owner).map_or_else(unknown, |owner| Owner::clone(owner));
        if owner.service.is_empty() {
            owner.service.clone_from(&row.service);
        }
        placed.facts.push(Fact {
            kind: OwnerKind::Workload,
            owner: Arc::new(owner),
            from: row.since,
            ..Fact::default()
        });
    }
    if let Some(directory) = directory {
        directory.apply(&mut placed, period);
    }
    let part = |(row, fact): (SumRow, Fact)| Part {
        owned: names.contains_key(&row.owner),
        key: Key {
            payer: Payer { kind: OwnerKind::Workload, department: fact.owner.department.as_str().into() },
            owner: fact.owner,
            cost_centre: fact.cost_centre,
            ..Key::default()
        },
        counts: Counts { requests: row.requests, input_tokens: row.input_tokens, output_tokens: row.output_tokens },
    };
    Ok(Served { parts: rows.into_iter().zip(placed.facts).map(part).collect() })
}

/// Which dimensions what was served has a value in.
const fn is_told(by: Dimension, owned: bool) -> bool {
    match by {
        Dimension::Service | Dimension::Environment => true,
        Dimension::Department
        | Dimension::CostCentre
        | Dimension::Project
        | Dimension::Experiment
        | Dimension::Job
        | Dimension::User
        | Dimension::Cluster
        | Dimension::Namespace => owned,
        Dimension::GpuModel | Dimension::ConsumptionModel | Dimension::Category | Dimension::Day => false,
    }
}

impl Served {
    /// What each group of a view served, by its values, and what is left out since it cannot be told whose it is.
    pub fn of(&self, by: &[Dimension], filter: &Filter) -> (HashMap<Vec<String>, Counts>, Counts) {
        let mut groups: HashMap<Vec<String>, Counts> = HashMap::new();
        let mut left_out = Counts::default();
        let filtered: Vec<Dimension> = filter.asked().map(|(dimension, _)| dimension).collect();
        for part in &self.parts {
            if by.iter().chain(&filtered).any(|dimension| !is_told(*dimension, part.owned)) {
                left_out.add(&part.counts);
            } else if filter.wants(&part.key) {
                let values = by.iter().map(|dimension| dimension.of(&part.key).into_owned()).collect();
                groups.entry(values).or_default().add(&part.counts);
            }
        }
        (groups, left_out)
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Counts {
    /// Adds what others served.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (one, other) => one.or(other),
        };
        self.requests = sum(self.requests, other.requests);
        self.input_tokens = sum(self.input_tokens, other.input_tokens);
        self.output_tokens = sum(self.output_tokens, other.output_tokens);
    }
}

/// What a unit of work costs, in millionths of a currency unit, and what a GPU-hour yields. Rounded half up; `None` where it cannot be told.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UnitCosts {
    /// Effective cost of 1,000 requests.
    pub per_1000_requests: Option<Millionths>,
    /// Effective cost of a million tokens that were written.
    pub per_million_output_tokens: Option<Millionths>,
    /// Effective cost of a GPU-hour that was held.
    pub per_gpu_hour: Option<Millionths>,
    /// Effective cost of a GPU-hour in which it was busy; where it is unknown for part of the time, nothing is told.
    pub per_busy_gpu_hour: Option<Millionths>,
    /// Requests of a GPU-hour.
    pub requests_per_gpu_hour: Option<Millionths>,
    /// Written tokens of a GPU-hour.
    pub output_tokens_per_gpu_hour: Option<Millionths>,
    /// Part of the GPU-hours in which it was busy, as a fraction of 1; `None` if some of it is unknown.
    pub utilisation: Option<Millionths>,
}

impl UnitCosts {
    /// Of a group that comes to this, and served that.
    pub fn of(amounts: &Amounts, counts: &Counts) -> Self {
        let known = |amount: &Millionths| Some(BigRational::from(amount.0.clone())).filter(|amount| !amount.is_zero());
        let count =
            |count: Option<u64>| count.filter(|count| *count > 0).map(|count| BigRational::from(BigInt::from(count)));
        let (cost, hours) = (known(&amounts.effective), known(&amounts.gpu_hours));
        let busy = known(&amounts.busy).filter(|_| amounts.unknown.is_zero());
        let (requests, tokens) = (count(counts.requests), count(counts.output_tokens));
        // Amounts are millionths: a ratio of two of them is scaled to be one, too.
        let million = BigRational::from(BigInt::from(1_000_000));
        let ratio = |a: &Option<BigRational>, b: &Option<BigRational>, scale: &BigRational| {
            Some(rounded(&(a.as_ref()? / b.as_ref()? * scale)))
        };
        let per_amount = &million * &million;
        Self {
            per_1000_requests: ratio(&cost, &requests, &BigRational::from(BigInt::from(1_000))),
            per_million_output_tokens: ratio(&cost, &tokens, &million),
            per_gpu_hour: ratio(&cost, &hours, &million),
            per_busy_gpu_hour: ratio(&cost, &busy, &million),
            requests_per_gpu_hour: ratio(&requests, &hours, &per_amount),
            output_tokens_per_gpu_hour: ratio(&tokens, &hours, &per_amount),
            utilisation: if amounts.unknown.is_zero() && hours.is_some() {
                ratio(&Some(BigRational::from(amounts.busy.0.clone())), &hours, &million)
            } else {
                None
            },
        }
    }
}

fn rounded(value: &BigRational) -> Millionths {
    Millionths((value + BigRational::new(BigInt::from(1), BigInt::from(2))).floor().to_integer())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(cost: i64, hours: i64, busy: i64, unknown: i64) -> Amounts {
        let of = |value: i64| Millionths((value * 1_000_000).into());
        Amounts {
            effective: of(cost),
            gpu_hours: of(hours),
            busy: of(busy),
            unknown: of(unknown),
            ..Amounts::default()
        }
    }

    #[test]
    fn a_unit_costs_what_its_owners_cost_divided_by_what_they_served() {
        let counts = Counts { requests: Some(1_500_000), input_tokens: None, output_tokens: Some(30_000_000) };
        let units = UnitCosts::of(&amounts(45, 20, 15, 0), &counts);
        let text = |value: &Option<Millionths>| value.as_ref().map(Millionths::to_string).unwrap_or_default();
        // 45 / 1,500 thousands, 45 / 30 millions, 45 / 20 and 45 / 15 hours, 1.5 M and 30 M over 20 hours.
        assert_eq!(text(&units.per_1000_requests), "0.030000");
        assert_eq!(text(&units.per_million_output_tokens), "1.500000");
        assert_eq!((text(&units.per_gpu_hour), text(&units.per_busy_gpu_hour)), ("2.250000".into(), "3.000000".into()));
        assert_eq!(text(&units.requests_per_gpu_hour), "75000.000000");
        assert_eq!(text(&units.output_tokens_per_gpu_hour), "1500000.000000");
        assert_eq!(text(&units.utilisation), "0.750000");
    }

    #[test]
    fn unknown_and_nothing_are_told_apart() {
        // Nobody counted; and use is unknown for an hour.
        let units = UnitCosts::of(&amounts(45, 20, 15, 1), &Counts::default());
        assert_eq!((&units.per_1000_requests, &units.per_busy_gpu_hour, &units.utilisation), (&None, &None, &None));
        // Counted, and none.
        let none = Counts { requests: Some(0), ..Counts::default() };
        assert_eq!(UnitCosts::of(&amounts(45, 20, 0, 0), &none).per_1000_requests, None);
        assert_eq!(UnitCosts::of(&amounts(45, 20, 0, 0), &none).utilisation, Some(Millionths::default()));
        assert_eq!(UnitCosts::of(&amounts(0, 0, 0, 0), &none), UnitCosts::default());
    }
}
