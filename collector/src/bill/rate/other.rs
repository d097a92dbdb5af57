//! What is billed beside GPUs: storage and network, each at the first rate of the book for its class.

use std::sync::Arc;

use contador_schemas::mapping::Glob;
use contador_schemas::owner::{Owner, OwnerKind};
use num_bigint::BigInt;

use super::exact::{Amount, Exact};
use super::{Category, Key, Payer, Rated, Terms, local_day};
use crate::bill::decimal::ONE;
use crate::bill::facts::{Item, OtherFact};

const GIB: i64 = 1 << 30;
const HOUR_MS: i64 = 3_600_000;

/// The rate for a class: a unit's price, how many bytes, or bytes times milliseconds, a unit is, and who pays by default.
struct Found<'a> {
    price: i128,
    unit: BigInt,
    department: &'a str,
    project: &'a str,
}

/// Adds charges for storage and network. A book without any rate for one of them does not charge for it; in a book with some, a class
/// without one is unpriced.
pub fn rate(facts: &[OtherFact], terms: &Terms<'_>, rated: &mut Rated) {
    for fact in facts.iter().filter(|fact| fact.quantity != 0) {
        let charged = match fact.item {
            Item::Storage => !terms.book.storage.is_empty(),
            Item::Network => !terms.book.network.is_empty(),
        };
        if !charged {
            continue;
        }
        let Some(found) = find(fact, terms) else {
            let unit = BigInt::from(GIB) * if fact.item == Item::Storage { 730 * HOUR_MS } else { 1 };
            let name = format!("{} {}", fact.item.as_str(), fact.class);
            *rated.unpriced.entry(name).or_default() += &Amount::new(fact.quantity.into(), &unit);
            continue;
        };
        let mut owner = Owner::clone(&fact.owner);
        if owner.department.is_empty() && owner.project.is_empty() {
            found.department.clone_into(&mut owner.department);
            found.project.clone_into(&mut owner.project);
        }
        let key = Key {
            payer: Payer { kind: OwnerKind::Workload, department: owner.department.as_str().into() },
            category: if fact.item == Item::Storage { Category::Storage } else { Category::Network },
            owner: Arc::new(owner),
            cost_centre: Arc::clone(&fact.cost_centre),
            item: Arc::clone(&fact.class),
            unit_price: Some(found.price),
            day: local_day(fact.from, &terms.period.zone).filter(|_| terms.period.tells_days()),
            simulated: fact.simulated,
            ..Key::default()
        };
        let cost = Amount::new(BigInt::from(fact.quantity) * found.price, &(&found.unit * ONE));
        let exact = Exact {
            quantity: Amount::new(fact.quantity.into(), &found.unit),
            effective: cost.clone(),
            cost,
            ..Exact::default()
        };
        *rated.charges.entry(key).or_default() += &exact;
    }
}

fn find<'a>(fact: &OtherFact, terms: &Terms<'a>) -> Option<Found<'a>> {
    let second = fact.from.div_euclid(1_000);
    let valid = |class: &Glob, from: u32| class.matches(&fact.class) && i64::from(from) <= second;
    // The first class that matches counts, at the latest of its rates that is valid.
    match fact.item {
        Item::Storage => {
            let rates = || terms.book.storage.iter().filter(|rate| valid(&rate.class, rate.valid_from));
            let first = rates().next()?;
            let rate = rates().filter(|rate| rate.class == first.class).max_by_key(|rate| rate.valid_from)?;
            let unit = BigInt::from(GIB) * rate.month_hours * HOUR_MS;
            Some(Found { price: rate.per_gib_month, unit, department: &rate.department, project: &rate.project })
        }
        Item::Network => {
            let rates = || terms.book.network.iter().filter(|rate| valid(&rate.class, rate.valid_from));
            let first = rates().next()?;
            let rate = rates().filter(|rate| rate.class == first.class).max_by_key(|rate| rate.valid_from)?;
            Some(Found { price: rate.per_gib, unit: GIB.into(), department: &rate.department, project: &rate.project })
        }
    }
}
