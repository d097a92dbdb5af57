//! Nobody's time to whom the policy names, model by model. What nobody can bear stays where it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};
use num_bigint::BigInt;
use num_traits::Zero;

use super::exact::{Amount, Exact};
use super::{Category, Key, Payer};
use crate::bill::prices::{Policy, Spread};

/// Moves charges of nobody's time as the policy says. No sum over all charges changes.
pub fn spread(charges: &mut BTreeMap<Key, Exact>, policy: &Policy) {
    let spread_of = |kind| match kind {
        OwnerKind::Workload => Spread::Show,
        OwnerKind::Idle => policy.idle,
        OwnerKind::Stranded => policy.stranded,
        OwnerKind::Unattributed => policy.unattributed,
        OwnerKind::Unmetered => policy.unmetered,
    };
    if OwnerKind::ALL.into_iter().all(|kind| spread_of(kind) == Spread::Show) {
        return;
    }
    let weights = weights(charges);
    let nobodys: Vec<Key> = charges.keys().filter(|key| spread_of(key.payer.kind) != Spread::Show).cloned().collect();
    for key in nobodys {
        let bearers: Vec<(Arc<str>, BigInt)> = match spread_of(key.payer.kind) {
            Spread::Platform => vec![(policy.platform.as_str().into(), BigInt::from(1))],
            how => {
                let of_model = weights.get(&key.gpu_model).into_iter().flatten();
                let weight = |(department, weight): (&Arc<str>, &BigInt)| {
                    let weight = if how == Spread::Even { BigInt::from(1) } else { weight.clone() };
                    (Arc::clone(department), weight)
                };
                of_model.filter(|(_, weight)| !weight.is_zero()).map(weight).collect()
            }
        };
        let whole: BigInt = bearers.iter().map(|(_, weight)| weight).sum();
        if whole.is_zero() {
            continue;
        }
        let Some(exact) = charges.remove(&key) else { continue };
        for (department, weight) in bearers {
            let owner = Owner { department: department.to_string(), ..Owner::default() };
            let key = Key {
                payer: Payer { kind: OwnerKind::Workload, department },
                category: Category::Share(key.payer.kind),
                owner: Arc::new(owner),
                // A kWh may cost what an hour costs: their lines stay apart.
                item: if key.category == Category::Energy { "energy".into() } else { Arc::clone(&key.item) },
                ..key.clone()
            };
            *charges.entry(key).or_default() += &exact.part(&weight, &whole);
        }
    }
}

/// GPU time of each department by model, as whole numbers over one denominator a model.
fn weights(charges: &BTreeMap<Key, Exact>) -> BTreeMap<Arc<str>, BTreeMap<Arc<str>, BigInt>> {
    let mut weights: BTreeMap<Arc<str>, BTreeMap<Arc<str>, BigInt>> = BTreeMap::new();
    let users = charges.iter().filter(|(key, _)| {
        key.payer.kind == OwnerKind::Workload && matches!(key.category, Category::Usage | Category::Covered)
    });
    for (key, exact) in users {
        // Hours of facts have one denominator, that of an hour.
        let Amount { numerator, .. } = &exact.gpu_hours;
        let of_model = weights.entry(Arc::clone(&key.gpu_model)).or_default();
        *of_model.entry(Arc::clone(&key.payer.department)).or_default() += numerator;
    }
    weights
}
