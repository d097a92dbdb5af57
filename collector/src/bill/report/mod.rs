//! `contador report`: rated facts to a bill whose lines add up, as JSON, CSV or a table.
//!
//! [`total`] rounds the exact sums once and apportions them, always over the whole fleet and always the same way: the total
//! to payers (departments, and what no workload held), each payer's amount to its lines. Only then is the view cut down to a
//! department, so that its lines are the same in every view. [`json`], [`csv`] and [`table`] show the result.

pub mod csv;
pub mod json;
pub mod table;
pub mod total;

#[cfg(test)]
mod tests;

use thiserror::Error;

use super::StoreError;
use super::decimal::Millionths;
use super::directory;
use super::facts::{self, Facts};
use super::period::Period;
use super::prices::{self, Prices};
use super::rate::{self, Dimension, Exact};
use crate::store::Store;
use contador_schemas::owner::OwnerKind;
use total::Amounts;

/// What a bill is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The period.
    pub period: Period,
    /// What to price with; without, the book in the store.
    pub prices: Option<Prices>,
    /// What to group by.
    pub by: Dimension,
    /// Only this department's lines.
    pub department: Option<String>,
}

/// Why there is no bill.
#[derive(Debug, Error)]
pub enum ReportError {
    /// There is nothing to price with.
    #[error("no prices: load a price book with contador prices load FILE, or give --prices FILE or --flat-rate 1.00")]
    NoPrices,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One line of a bill.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
    /// A workload's, or nobody's.
    pub kind: OwnerKind,
    /// The department that pays; empty if it is unknown or nobody's.
    pub department: String,
    /// Value of the dimension; empty if it is unknown or nobody's.
    pub value: String,
    /// What it comes to.
    pub amounts: Amounts,
}

/// A bill.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it was asked for.
    pub options: Options,
    /// What it was priced with.
    pub prices: Prices,
    /// The lines of this view, by kind, then by falling cost; those of one value and kind are one.
    pub groups: Vec<Line>,
    /// What the groups sum to.
    pub total: Amounts,
    /// The same before anything was rounded.
    pub exact: Exact,
    /// What the whole fleet comes to: the same as `total` if nothing is filtered.
    pub fleet: Amounts,
    /// GPU-hours of the whole fleet that have no price, by model.
    pub unpriced: Vec<(String, Millionths)>,
    /// What it was made of.
    pub facts: Facts,
}

/// Makes the bill of a period from what the store holds.
///
/// # Errors
/// [`ReportError`].
pub async fn build(store: &Store, options: Options) -> Result<Report, ReportError> {
    let prices = match options.prices.clone() {
        Some(prices) => prices,
        None => Prices::Book(prices::table::current(store).await?.ok_or(ReportError::NoPrices)?),
    };
    let directory = directory::table::current(store).await?;
    let period = &options.period;
    let mut cuts = prices.changes(period.from, period.to);
    cuts.extend(directory.iter().flat_map(|directory| directory.changes(period)));
    cuts.sort_unstable();
    cuts.dedup();
    let mut facts = facts::fetch(store, period, &cuts).await?;
    if let Some(directory) = &directory {
        directory.apply(&mut facts, period);
    }
    Ok(of_facts(facts, prices, options))
}

/// Makes the bill of given facts, which must be cut where `prices` change. Their owners have the departments that pay.
pub fn of_facts(facts: Facts, prices: Prices, options: Options) -> Report {
    let rated = rate::rate(&facts.facts, &prices, options.by);
    let (fleet, lines) = total::lines(&rated);
    let unpriced = total::unpriced(&rated, &fleet);
    let exact = total::exact(&rated, options.department.as_deref());
    let groups = total::view(lines, options.department.as_deref());
    let total = groups.iter().map(|line| &line.amounts).sum();
    Report { options, prices, groups, total, exact, fleet, unpriced, facts }
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
    /// Sum of the groups of workloads.
    pub fn allocated(&self) -> Amounts {
        self.of_kinds(|kind| kind == OwnerKind::Workload)
    }

    /// Sum of the groups of what no workload held: idle, stranded, unattributed, unmetered.
    pub fn unallocated(&self) -> Amounts {
        self.of_kinds(|kind| kind != OwnerKind::Workload)
    }

    fn of_kinds(&self, wanted: impl Fn(OwnerKind) -> bool) -> Amounts {
        self.groups.iter().filter(|line| wanted(line.kind)).map(|line| &line.amounts).sum()
    }

    /// The total less all groups: always nothing, and computed to be shown.
    pub fn difference(&self) -> Millionths {
        let groups: Millionths = self.groups.iter().map(|line| &line.amounts.cost).sum();
        Millionths(&self.total.cost.0 - groups.0)
    }

    /// What a line is called: its value, or who else it is for, in parentheses.
    pub fn key(&self, line: &Line) -> String {
        let value = named(&line.value);
        match line.kind {
            OwnerKind::Workload => value,
            kind if self.options.by == Dimension::GpuModel => format!("({}) {value}", kind.as_str()),
            kind => format!("({})", kind.as_str()),
        }
    }

    /// What a reader must know before trusting the numbers.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.facts.simulated {
            notes.push("contains simulated data: part of it was generated, not measured".to_owned());
        }
        if self.facts.facts.is_empty() {
            notes.push("nothing was metered or imported in this period".to_owned());
        }
        for (model, hours) in &self.unpriced {
            let model = named(model);
            notes.push(format!("unpriced: {hours} GPU-hours of {model} have no price and are not in the total"));
        }
        if self.facts.unknown_owners > 0 {
            notes.push(format!("{} owners have no entry in the table owners", self.facts.unknown_owners));
        }
        if self.facts.metered_too > 0 {
            let count = self.facts.metered_too;
            notes.push(format!("{count} imported allocations are of devices that were metered too: both are counted"));
        }
        if let Some(department) = &self.options.department
            && self.groups.is_empty()
        {
            notes.push(format!("department {department:?} has nothing in this period"));
        }
        notes
    }
}
