//! `contador report`: a view of a statement, as a page, JSON, CSV or a table.
//!
//! Dimensions group the statement's lines, which are rounded already, after a filter has left out what is not asked for. So every
//! view sums to its part of the whole. [`view`] has what a reader wants to know beside that: last month, budget, forecast,
//! efficiency. [`html`], [`mod@json`], [`csv`] and [`table`] show the result, [`lang`] in a language; [`records`] has each line
//! of it as it is, and [`standing`] tells whether it is closed.

pub mod csv;
pub mod dimension;
mod groups;
pub mod html;
pub mod json;
pub mod lang;
pub mod records;
mod standing;
pub mod table;
pub mod view;

#[cfg(test)]
mod tests;

use contador_schemas::owner::OwnerKind;

use super::decimal::Millionths;
use super::rate::Key;
use super::settle::Amounts;
use super::statement::Statement;
pub use dimension::Dimension;
pub use groups::Group;
pub use lang::Lang;
pub use view::Beside;

/// A view of a statement.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of which.
    pub statement: Statement,
    /// What it is grouped by.
    pub by: Dimension,
    /// What these groups are grouped by, one after another.
    pub then: Vec<Dimension>,
    /// Only this department's lines.
    pub department: Option<String>,
    /// By kind, then by falling cost, level by level; those of one kind and the same values are one.
    pub groups: Vec<Group>,
    /// What is shown beside the statement.
    pub beside: Beside,
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
        Self::of(statement, by, Vec::new(), department)
    }

    /// The view of a statement by dimensions, of one department or of all.
    pub fn of(statement: Statement, by: Dimension, then: Vec<Dimension>, department: Option<String>) -> Self {
        let by_all: Vec<Dimension> = std::iter::once(by).chain(then.iter().copied()).collect();
        let shown = statement.lines.iter().filter(|line| is_shown(&line.key, department.as_deref()));
        let groups = groups::groups(shown, &by_all);
        let total = groups.iter().map(|group| &group.amounts).sum();
        let fleet = statement.total();
        Self { statement, by, then, department, groups, total, fleet, beside: Beside::default() }
    }

    /// The same report with what is shown beside it.
    pub fn beside(mut self, beside: Beside) -> Self {
        self.beside = beside;
        self
    }

    /// The dimensions that it is grouped by.
    pub fn dimensions(&self) -> impl Iterator<Item = Dimension> {
        std::iter::once(self.by).chain(self.then.iter().copied())
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

    /// Whether a commitment makes billed and effective cost differ.
    pub fn has_commitments(&self) -> bool {
        use super::rate::Category::{Commitment, Covered, Unused};
        self.statement.lines.iter().any(|line| matches!(line.key.category, Commitment | Covered | Unused))
    }

    /// Whether a line of the statement is in this view.
    pub fn shows(&self, key: &Key) -> bool {
        is_shown(key, self.department.as_deref())
    }

    /// What a group is called: its values, or who else it is for, in parentheses.
    pub fn key(&self, group: &Group) -> String {
        let levels = 0..=self.then.len();
        if group.kind == OwnerKind::Workload {
            return levels.map(|level| self.key_at(group, level)).collect::<Vec<_>>().join(" / ");
        }
        // What nobody holds has one name, and not one for each level that tells nothing of it.
        let of_devices = self.dimensions().zip(group.values()).filter(|(by, _)| by.is_of_devices());
        let values: Vec<String> = of_devices.map(|(_, value)| named(value)).collect();
        format!("({}) {}", group.kind.as_str(), values.join(" / ")).trim_end().to_owned()
    }

    /// What a group is called at a level of the dimensions.
    pub fn key_at(&self, group: &Group, level: usize) -> String {
        let value = named(group.values().nth(level).unwrap_or_default());
        let is_of_devices = self.dimensions().nth(level).is_some_and(Dimension::is_of_devices);
        match group.kind {
            OwnerKind::Workload => value,
            kind if is_of_devices => format!("({}) {value}", kind.as_str()),
            kind => format!("({})", kind.as_str()),
        }
    }
}

fn is_shown(key: &Key, department: Option<&str>) -> bool {
    department.is_none_or(|only| key.payer.kind == OwnerKind::Workload && *key.payer.department == *only)
}
