//! Lines to groups by any dimensions, after filters: every view of a statement adds up lines that are rounded already.

use std::collections::BTreeMap;

use contador_schemas::owner::OwnerKind;

use super::rate::{Category, Key};
use super::report::Dimension;
use super::settle::Amounts;
use super::statement::Statement;

/// Lines that a view has: for each dimension named, those of one value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Filter {
    only: Vec<(Dimension, String)>,
}

/// One group of a view.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Group {
    /// A workload's, or nobody's.
    pub kind: OwnerKind,
    /// A value for each dimension; empty if it is unknown or nobody's.
    pub values: Vec<String>,
    /// What it comes to.
    pub amounts: Amounts,
}

impl Filter {
    /// Leaves lines of this value alone, too.
    pub fn only(mut self, dimension: Dimension, value: impl Into<String>) -> Self {
        self.only.push((dimension, value.into()));
        self
    }

    /// What is asked for, in the order in which it was.
    pub fn asked(&self) -> impl Iterator<Item = (Dimension, &str)> {
        self.only.iter().map(|(dimension, value)| (*dimension, value.as_str()))
    }

    /// Whether a line is wanted. What nobody pays for has no department, no project and no other value of an owner, not even an empty one.
    pub fn wants(&self, key: &Key) -> bool {
        let has = |(dimension, value): &(Dimension, String)| {
            (dimension.is_of_devices() || key.payer.kind == OwnerKind::Workload) && dimension.of(key) == value.as_str()
        };
        self.only.iter().all(has)
    }
}

/// Groups a statement's lines; they are in the order of their kinds and values, and sum to the wanted lines.
pub fn groups(statement: &Statement, by: &[Dimension], filter: &Filter) -> Vec<Group> {
    let mut groups: BTreeMap<(OwnerKind, Vec<String>), Amounts> = BTreeMap::new();
    for line in statement.lines.iter().filter(|line| filter.wants(&line.key)) {
        let values = by.iter().map(|dimension| dimension.of(&line.key).into_owned()).collect();
        *groups.entry((line.key.payer.kind, values)).or_default() += &line.amounts;
    }
    groups.into_iter().map(|((kind, values), amounts)| Group { kind, values, amounts }).collect()
}

/// Whether a line is for GPUs that an owner used, at the book's rates or covered by a commitment.
pub const fn is_use(key: &Key) -> bool {
    matches!(key.category, Category::Usage | Category::Covered)
}
