//! Puts demand, rates and use together: for each GPU model, and each department if asked, the curve of what reserving costs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contador_schemas::owner::Owner;
use num_bigint::BigInt;
use uuid::Uuid;

use super::commitments::{Curve, Stretch, curve};
use super::demand::{self, By, Demand, Group, Scope, Whose};
use super::fractions::{self, Shared};
use super::rates::{self, Dated, NoRate, Reserved};
use super::sql::{self, Span};
use crate::bill::StoreError;
use crate::bill::apportion::round;
use crate::bill::commitments::Slot;
use crate::bill::decimal::Millionths;
use crate::bill::directory;
use crate::bill::facts;
use crate::bill::period::Period;
use crate::bill::prices::PriceBook;
use crate::bill::rate::exact::{Amount, hour};
use crate::store::Store;

/// What is planned.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The period whose demand it is, of whole minutes.
    pub period: Period,
    /// How demand is told apart.
    pub by: By,
    /// Of this department alone; demand must be told apart by department.
    pub department: Option<String>,
    /// Of this model alone.
    pub gpu_model: Option<String>,
    /// The time within which demand is averaged.
    pub slot: Slot,
    /// What a reserved hour costs, where the book is not to tell.
    pub reserved: Option<Reserved>,
    /// Of how many parts a GPU is that is shared.
    pub parts: u32,
    /// How long a reservation would be made for, milliseconds, if that is not the period.
    pub term_ms: Option<i64>,
}

/// A plan for one group.
#[derive(Clone, Debug)]
pub struct Advice {
    /// Whose demand, of which model.
    pub group: Group,
    /// The demand.
    pub demand: Demand,
    /// What hours cost.
    pub rates: Dated,
    /// What reserving costs.
    pub curve: Curve,
    /// What parts of GPUs would cost.
    pub shared: Shared,
    /// Saved over the term, if demand stays as it was: currency units.
    pub over_term: Option<Amount>,
}

/// The plans for a period.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What was asked.
    pub asked: Asked,
    /// The spans of the period within which nothing changes.
    pub spans: Vec<Span>,
    /// What it was priced with.
    pub book: PriceBook,
    /// By model, then by department.
    pub advice: Vec<Advice>,
    /// What has no plan, for want of a rate.
    pub without: Vec<(Group, NoRate)>,
    /// What to know about it, for people.
    pub notes: Vec<String>,
}

/// Makes the plans.
///
/// # Errors
/// [`StoreError`].
pub async fn build(store: &Store, asked: Asked, book: PriceBook) -> Result<Plan, StoreError> {
    let period = &asked.period;
    let directory = match asked.by {
        By::Fleet => None,
        By::Department => directory::table::current(store).await?,
    };
    let changes = directory.iter().flat_map(|directory| directory.changes(period));
    let spans = sql::spans((period.from, period.to), changes.chain(book.changes(period.from, period.to)));
    let scope = Scope { period, spans: &spans, slot: asked.slot, by: asked.by, directory: directory.as_ref() };
    let (demands, unmetered) = demand::fetch(store, &scope).await?;
    let mut needs = fractions::fetch(store, &scope, asked.parts).await?;
    needs.retain(|group, _| asked.wants(group));
    let biggest = needs.values().flat_map(|of| fractions::biggest(of).into_iter().take(fractions::MOST_OWNERS));
    let names = names(store, biggest.map(|(id, _)| id).collect()).await?;
    let mut plan = Plan {
        spans: spans.clone(),
        book,
        advice: Vec::new(),
        without: Vec::new(),
        notes: Vec::new(),
        asked: asked.clone(),
    };
    let mut notes = BTreeSet::new();
    for (group, demand) in demands.into_iter().filter(|(group, _)| asked.wants(group)) {
        match rates::find(&plan.book, &group.gpu_model, &spans, asked.reserved) {
            Err(missing) => plan.without.push((group, missing)),
            Ok(rates) => {
                let needs = needs.remove(&group).unwrap_or_default();
                notes.extend(rates.notes.iter().cloned());
                let shared = fractions::shared(&needs, &rates.rates, asked.parts, &names);
                plan.advice.push(advise(&asked, &spans, group, demand, rates, shared));
            }
        }
    }
    plan.notes = notes.into_iter().collect();
    plan.note_unmetered(&unmetered);
    Ok(plan)
}

/// The plan for the demand of one group.
fn advise(asked: &Asked, spans: &[Span], group: Group, demand: Demand, rates: Dated, shared: Shared) -> Advice {
    let stretches: Vec<Stretch> = spans
        .iter()
        .zip(&rates.rates)
        .enumerate()
        .map(|(at, (span, rates))| Stretch {
            ms: span.1 - span.0,
            rates: rates.clone(),
            levels: demand.spans.get(at).cloned().unwrap_or_default(),
        })
        .collect();
    let curve = curve(&stretches);
    let whole = BigInt::from(asked.period.to - asked.period.from);
    let over_term = asked.term_ms.map(|term| curve.saving().part(&term.into(), &whole));
    Advice { group, demand, rates, curve, shared, over_term }
}

/// The owners of these ids.
async fn names(store: &Store, ids: BTreeSet<Uuid>) -> Result<BTreeMap<Uuid, Arc<Owner>>, StoreError> {
    Ok(facts::owners::owners(store, ids).await?.into_iter().collect())
}

impl Asked {
    fn wants(&self, group: &Group) -> bool {
        self.gpu_model.as_ref().is_none_or(|model| *model == group.gpu_model)
            && self.department.as_ref().is_none_or(|department| group.whose == Whose::Department(department.clone()))
    }
}

impl Plan {
    /// Whether some of it was generated, not measured.
    pub fn simulated(&self) -> bool {
        self.advice.iter().any(|advice| advice.demand.simulated)
    }

    fn note_unmetered(&mut self, unmetered: &BTreeMap<String, i128>) {
        for (model, time) in unmetered.iter().filter(|(_, time)| **time > 0) {
            if self.advice.iter().any(|advice| advice.group.gpu_model == *model) {
                let hours = Millionths(round(&Amount::new((*time).into(), &hour()), 1_000_000));
                self.notes
                    .push(format!("{model}: {} GPU-hours were not metered, and are no demand here", hours.grouped()));
            }
        }
    }
}
