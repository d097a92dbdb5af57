//! `contador report`: a view of a statement, as JSON, CSV or a table.
//!
//! A [`dimension`] groups the statement's lines, which are rounded already, after a filter has left out what is not asked for. So every
//! view sums to its part of the whole. [`json`], [`csv`] and [`table`] show the result; [`records`] has each line of it as it is.

pub mod csv;
pub mod dimension;
pub mod json;
pub mod records;
pub mod table;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use contador_schemas::owner::OwnerKind;

use super::decimal::Millionths;
use super::rate::Key;
use super::settle::Amounts;
use super::statement::Statement;
pub use dimension::Dimension;

/// One group of a view.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Group {
    /// A workload's, or nobody's.
    pub kind: OwnerKind,
    /// Value of the dimension; empty if it is unknown or nobody's.
    pub value: String,
    /// What it comes to.
    pub amounts: Amounts,
}

/// A view of a statement.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of which.
    pub statement: Statement,
    /// What it is grouped by.
    pub by: Dimension,
    /// Only this department's lines.
    pub department: Option<String>,
    /// By kind, then by falling cost; those of one value and kind are one.
    pub groups: Vec<Group>,
    /// What the groups sum to.
    pub total: Amounts,
    /// What the whole fleet comes to: the same as `total` if nothing is filtered.
    pub fleet: Amounts,
}

/// A value as it is shown: `(none)` if it is unknown, in quotes if it could be taken for what is in parentheses.
pub fn named(value: &str) -> String {
    if value.is_empty() {
        "(none)".to_owned()
    } else if value.starts_with('(') {
        format!("{value:?}")
    } else {
        value.to_owned()
    }
}

impl Report {
    /// The view of a statement by a dimension, of one department or of all.
    pub fn new(statement: Statement, by: Dimension, department: Option<String>) -> Self {
        let mut groups: BTreeMap<(OwnerKind, String), Amounts> = BTreeMap::new();
        let is_shown = |key: &Key| is_shown(key, department.as_deref());
        for line in statement.lines.iter().filter(|line| is_shown(&line.key)) {
            *groups.entry((line.key.payer.kind, by.of(&line.key).into_owned())).or_default() += &line.amounts;
        }
        let group = |((kind, value), amounts)| Group { kind, value, amounts };
        let mut groups: Vec<Group> = groups.into_iter().map(group).collect();
        match by {
            Dimension::Day => {}
            _ => groups.sort_by_key(|group| (group.kind, Reverse(group.amounts.cost.clone()))),
        }
        let total = groups.iter().map(|group| &group.amounts).sum();
        let fleet = statement.total();
        Self { statement, by, department, groups, total, fleet }
    }

    /// Sum of the groups of workloads.
    pub fn allocated(&self) -> Amounts {
        self.of_kinds(|kind| kind == OwnerKind::Workload)
    }

    /// Sum of the groups of what no workload held: idle, stranded, unattributed, unmetered.
    pub fn unallocated(&self) -> Amounts {
        self.of_kinds(|kind| kind != OwnerKind::Workload)
    }

    fn of_kinds(&self, wanted: impl Fn(OwnerKind) -> bool) -> Amounts {
        self.groups.iter().filter(|group| wanted(group.kind)).map(|group| &group.amounts).sum()
    }

    /// The total less all groups: always nothing, and computed to be shown.
    pub fn difference(&self) -> Millionths {
        let groups: Millionths = self.groups.iter().map(|group| &group.amounts.cost).sum();
        Millionths(&self.total.cost.0 - groups.0)
    }

    /// Whether a line of the statement is in this view.
    pub fn shows(&self, key: &Key) -> bool {
        is_shown(key, self.department.as_deref())
    }

    /// What a group is called: its value, or who else it is for, in parentheses.
    pub fn key(&self, group: &Group) -> String {
        let value = named(&group.value);
        match group.kind {
            OwnerKind::Workload => value,
            kind if self.by.is_of_devices() => format!("({}) {value}", kind.as_str()),
            kind => format!("({})", kind.as_str()),
        }
    }

    /// What a reader must know before trusting the numbers.
    pub fn notes(&self) -> Vec<String> {
        let made = &self.statement.made;
        let mut notes = Vec::new();
        if made.simulated {
            notes.push("contains simulated data: part of it was generated, not measured".to_owned());
        }
        if self.statement.lines.is_empty() {
            notes.push("nothing was metered or imported in this period".to_owned());
        }
        for (what, hours) in &self.statement.unpriced {
            let what = named(what);
            notes.push(format!("unpriced: {hours} GPU-hours of {what} have no price and are not in the total"));
        }
        if made.unknown_owners > 0 {
            notes.push(format!("{} owners have no entry in the table owners", made.unknown_owners));
        }
        if made.metered_too > 0 {
            let count = made.metered_too;
            notes.push(format!("{count} imported allocations are of devices that were metered too: both are counted"));
        }
        if !made.over_allocated.is_zero() {
            let hours = &made.over_allocated;
            notes.push(format!("over-allocated: imports claim {hours} GPU-hours over the whole of their devices"));
        }
        if let Some(department) = &self.department
            && self.groups.is_empty()
        {
            notes.push(format!("department {department:?} has nothing in this period"));
        }
        notes
    }
}

fn is_shown(key: &Key, department: Option<&str>) -> bool {
    department.is_none_or(|only| key.payer.kind == OwnerKind::Workload && *key.payer.department == *only)
}
