//! Lines to groups, by one dimension after another.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use contador_schemas::owner::OwnerKind;
use num_bigint::BigInt;

use super::Dimension;
use crate::bill::settle::{Amounts, Line};

/// One group of a view.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Group {
    /// A workload's, or nobody's.
    pub kind: OwnerKind,
    /// Value of the first dimension; empty if it is unknown or nobody's.
    pub value: String,
    /// Values of the other ones.
    pub then: Vec<String>,
    /// What it comes to.
    pub amounts: Amounts,
}

impl Group {
    /// The values of the dimensions.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.value.as_str()).chain(self.then.iter().map(String::as_str))
    }
}

/// Kind, and values level by level.
type Path = (OwnerKind, Vec<String>);

/// The groups of lines: by kind, and at each level by falling cost, but days in their order.
pub fn groups<'a>(lines: impl Iterator<Item = &'a Line>, by: &[Dimension]) -> Vec<Group> {
    let mut groups: BTreeMap<Path, Amounts> = BTreeMap::new();
    for line in lines {
        let values = by.iter().map(|dimension| dimension.of(&line.key).into_owned()).collect();
        *groups.entry((line.key.payer.kind, values)).or_default() += &line.amounts;
    }
    let mut costs: BTreeMap<Path, BigInt> = BTreeMap::new();
    for ((kind, values), amounts) in &groups {
        for level in 1..=values.len() {
            *costs.entry((*kind, values[..level].to_vec())).or_default() += &amounts.cost.0;
        }
    }
    let order = |(kind, values): &Path| -> Vec<(Reverse<BigInt>, String)> {
        let at = |(level, value): (usize, &String)| {
            let cost = match by[level] {
                Dimension::Day => BigInt::default(),
                _ => costs.get(&(*kind, values[..=level].to_vec())).cloned().unwrap_or_default(),
            };
            (Reverse(cost), value.clone())
        };
        values.iter().enumerate().map(at).collect()
    };
    let mut groups: Vec<(Path, Amounts)> = groups.into_iter().collect();
    groups.sort_by_cached_key(|(path, _)| (path.0, order(path)));
    let group = |((kind, mut values), amounts): (Path, Amounts)| {
        let then = values.split_off(1.min(values.len()));
        Group { kind, value: values.pop().unwrap_or_default(), then, amounts }
    };
    groups.into_iter().map(group).collect()
}
