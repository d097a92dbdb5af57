//! Mark-ups and taxes: percentages of what a department is charged.

use std::collections::BTreeMap;
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};
use num_bigint::BigInt;

use super::exact::{Amount, Exact};
use super::{Category, Key, Payer, Terms};
use crate::bill::apportion::sum;
use crate::bill::decimal::ONE;
use crate::bill::prices::Percentage;

/// Adds the mark-ups that apply to the period, each on the charges before any, and then the taxes on both.
pub fn add(charges: &mut BTreeMap<Key, Exact>, terms: &Terms<'_>) {
    for (category, percentages) in [(Category::Markup, &terms.book.markups), (Category::Tax, &terms.book.taxes)] {
        let valid = |percentage: &&Percentage| {
            let ends = percentage.valid_to.map_or(i64::MAX, |to| i64::from(to) * 1_000);
            (i64::from(percentage.valid_from) * 1_000..ends).contains(&terms.period.from)
        };
        let percentages: Vec<&Percentage> = percentages.iter().filter(valid).collect();
        if percentages.is_empty() {
            continue;
        }
        for (department, cost) in bases(charges) {
            for percentage in &percentages {
                let all = percentage.departments.is_empty();
                if cost.is_zero() || !(all || percentage.departments.contains(department.as_ref())) {
                    continue;
                }
                let key = Key {
                    payer: Payer { kind: OwnerKind::Workload, department: Arc::clone(&department) },
                    category,
                    owner: Arc::new(Owner { department: department.to_string(), ..Owner::default() }),
                    item: percentage.name.as_str().into(),
                    unit_price: Some(percentage.percent),
                    ..Key::default()
                };
                let cost = cost.part(&percentage.percent.into(), &(BigInt::from(100) * ONE));
                *charges.entry(key).or_default() += &Exact { effective: cost.clone(), cost, ..Exact::default() };
            }
        }
    }
}

/// What each department is charged so far.
fn bases(charges: &BTreeMap<Key, Exact>) -> BTreeMap<Arc<str>, Amount> {
    let mut costs: BTreeMap<&Arc<str>, Vec<&Amount>> = BTreeMap::new();
    for (key, exact) in charges.iter().filter(|(key, _)| key.payer.kind == OwnerKind::Workload) {
        costs.entry(&key.payer.department).or_default().push(&exact.cost);
    }
    costs.into_iter().map(|(department, costs)| (Arc::clone(department), sum(costs))).collect()
}
