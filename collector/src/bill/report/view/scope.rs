//! The fleet, or one payer: what it comes to, against its last month, its budget and what is to be expected.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use contador_schemas::owner::OwnerKind;
use num_bigint::BigInt;
use num_traits::Zero;

use super::Efficiency;
use crate::bill::apportion::round;
use crate::bill::decimal::{Millionths, ONE};
use crate::bill::directory::Day;
use crate::bill::forecast::{Forecast, forecast};
use crate::bill::rate::exact::Amount;
use crate::bill::rate::{Category, Payer, local_day};
use crate::bill::report::Report;
use crate::bill::settle::{Amounts, Line};
use crate::bill::statement::Statement;

/// What is to be expected at the end of the period.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Outlook {
    /// Nothing: it is over, or it is no month.
    #[default]
    Over,
    /// There are too few days to tell.
    TooFew,
    /// The total of the period.
    Expected {
        /// What it will be.
        forecast: Forecast,
        /// What it was at the end of each day so far, today's too.
        path: Vec<Millionths>,
    },
}

/// The fleet, or one payer.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Who; `None` is the fleet.
    pub payer: Option<Payer>,
    /// What it comes to by category.
    pub categories: BTreeMap<Category, Amounts>,
    /// What it comes to.
    pub total: Amounts,
    /// What was done with it.
    pub efficiency: Efficiency,
    /// The cost of last month, where there is one.
    pub last: Option<Millionths>,
    /// The budget of the month.
    pub budget: Option<Millionths>,
    /// What is to be expected.
    pub outlook: Outlook,
}

/// The fleet and its payers.
#[derive(Clone, Debug, Default)]
pub struct Scopes {
    /// All of it, whatever the report is limited to.
    pub fleet: Scope,
    /// Departments by falling cost, then what nobody pays for; those alone to which the report is limited.
    pub payers: Vec<Scope>,
}

impl Scopes {
    /// Of a report.
    pub fn of(report: &Report) -> Self {
        let statement = &report.statement;
        let mut payers: BTreeMap<Payer, Vec<&Line>> = BTreeMap::new();
        for line in statement.lines.iter().filter(|line| report.shows(&line.key)) {
            payers.entry(line.key.payer.clone()).or_default().push(line);
        }
        // A department that has nothing yet may have had something, and has a budget.
        for payer in others(report) {
            payers.entry(payer).or_default();
        }
        let mut payers: Vec<Scope> =
            payers.into_iter().map(|(payer, lines)| Scope::new(report, Some(payer), &lines)).collect();
        payers.sort_by_key(|scope| (scope.kind(), Reverse(scope.total.cost.0.clone())));
        let all: Vec<&Line> = statement.lines.iter().collect();
        Self { fleet: Scope::new(report, None, &all), payers }
    }

    /// The departments.
    pub fn departments(&self) -> impl Iterator<Item = &Scope> {
        self.payers.iter().filter(|scope| scope.kind() == OwnerKind::Workload)
    }
}

/// The lines of a payer, which are neighbours: lines are in the order of their keys, which begin with it.
pub fn of_payer<'a>(lines: &'a [Line], payer: &Payer) -> &'a [Line] {
    let start = lines.partition_point(|line| line.key.payer < *payer);
    let lines = &lines[start..];
    &lines[..lines.partition_point(|line| line.key.payer == *payer)]
}

/// Departments with a budget or a last month.
fn others(report: &Report) -> Vec<Payer> {
    let payer = |name: &str| Payer { kind: OwnerKind::Workload, department: name.into() };
    let budgets = report.statement.agreements.budgets.iter().map(|budget| payer(&budget.department));
    let named = budgets.filter(|payer| !payer.department.is_empty());
    let last = report.beside.last.iter().flat_map(|last| &last.lines).map(|line| line.key.payer.clone());
    let shown = |payer: &Payer| {
        payer.kind == OwnerKind::Workload && report.department.as_ref().is_none_or(|only| **only == *payer.department)
    };
    named.chain(last).filter(shown).collect()
}

impl Scope {
    fn new(report: &Report, payer: Option<Payer>, lines: &[&Line]) -> Self {
        let mut scope = Self { payer, ..Self::default() };
        for line in lines {
            *scope.categories.entry(line.key.category).or_default() += &line.amounts;
            scope.total += &line.amounts;
            scope.efficiency.add(line);
        }
        scope.last = scope.last(report);
        scope.budget = scope.budget(&report.statement);
        scope.outlook = scope.outlook(report, lines);
        scope
    }

    /// A workload's, or nobody's. The fleet is workloads'.
    pub fn kind(&self) -> OwnerKind {
        self.payer.as_ref().map_or(OwnerKind::Workload, |payer| payer.kind)
    }

    /// The department; empty for the fleet.
    pub fn department(&self) -> &str {
        self.payer.as_ref().map_or("", |payer| &payer.department)
    }

    /// What it cost last month; nothing is known of a month without any line.
    fn last(&self, report: &Report) -> Option<Millionths> {
        let last = report.beside.last.as_ref().filter(|last| !last.lines.is_empty())?;
        Some(self.lines_of(last).iter().map(|line| &line.amounts.cost).sum())
    }

    fn lines_of<'a>(&self, statement: &'a Statement) -> &'a [Line] {
        match &self.payer {
            Some(payer) => of_payer(&statement.lines, payer),
            None => &statement.lines,
        }
    }

    fn budget(&self, statement: &Statement) -> Option<Millionths> {
        // What has no department has no budget: that of no department is the fleet's.
        if self.payer.as_ref().is_some_and(|payer| payer.department.is_empty()) {
            return None;
        }
        let budget = statement.agreements.budget(self.department(), statement.period.month.as_ref()?)?;
        Some(Millionths(round(&Amount::new(budget.monthly.into(), &ONE.into()), 1_000_000)))
    }

    /// What is to be expected of a month that is not over: complete days as they are, the others as [`forecast`] expects them, but not
    /// less than was spent in them; commitments, credits and the like as they are; mark-ups and taxes in proportion.
    fn outlook(&self, report: &Report, lines: &[&Line]) -> Outlook {
        let period = &report.statement.period;
        let now = report.beside.now.filter(|now| period.month.is_some() && (period.from..period.to).contains(now));
        let day = |at| local_day(at, &period.zone);
        let (Some(today), Some(first), Some(last)) = (now.and_then(day), day(period.from), day(period.to - 1)) else {
            return Outlook::Over;
        };
        let mut days: BTreeMap<Day, BigInt> = BTreeMap::new();
        let before = report.beside.last.iter().flat_map(|last| self.lines_of(last));
        for line in before.chain(lines.iter().copied()) {
            if let Some(day) = line.key.day.filter(|_| is_of_its_day(line)) {
                *days.entry(day).or_default() += &line.amounts.cost.0;
            }
        }
        let Some(begin) = days.keys().next().copied() else { return Outlook::TooFew };
        let of = |day: Day| Millionths(days.get(&day).cloned().unwrap_or_default());
        let complete: Vec<(Day, Millionths)> = (begin..today).map(|day| (day, of(day))).collect();
        let ahead: Vec<Day> = (today..=last).collect();
        let Some(ahead) = forecast(&complete, &ahead) else { return Outlook::TooFew };
        let done: BigInt = days.range(first..today).map(|(_, cost)| cost).sum();
        let spent: BigInt = days.range(first..=last).map(|(_, cost)| cost).sum();
        let sums = Sums::of(lines);
        let whole = |ahead: &Millionths| Millionths(sums.with(&spent, (&done + &ahead.0).max(spent.clone())));
        let mut sum = BigInt::zero();
        let path = (first..=today).map(|day| {
            sum += of(day).0;
            Millionths(sums.with(&spent, sum.clone()))
        });
        let path = path.collect();
        let [low, point, high] = [&ahead.low, &ahead.point, &ahead.high].map(whole);
        Outlook::Expected { forecast: Forecast { low, point, high, days: ahead.days }, path }
    }
}

/// Whether a line is of the day that it tells: that of a correction is one of another month.
fn is_of_its_day(line: &Line) -> bool {
    line.key.category != Category::Correction && line.key.origin_month.is_none()
}

/// What is charged for the period as a whole.
#[derive(Default)]
struct Sums {
    /// What percentages are of: commitments, and what else has no day.
    fixed: BigInt,
    /// Mark-ups and taxes.
    percentages: BigInt,
    /// Credits, adjustments and corrections.
    given: BigInt,
}

impl Sums {
    fn of(lines: &[&Line]) -> Self {
        let mut sums = Self::default();
        for line in lines.iter().filter(|line| line.key.day.is_none() || !is_of_its_day(line)) {
            let sum = match line.key.category {
                _ if line.key.origin_month.is_some() => &mut sums.given,
                Category::Markup | Category::Tax => &mut sums.percentages,
                Category::Credit | Category::Adjustment | Category::Correction => &mut sums.given,
                _ => &mut sums.fixed,
            };
            *sum += &line.amounts.cost.0;
        }
        sums
    }

    /// The total of a period of whose days `spent` is charged so far, when that will be `days`.
    fn with(&self, spent: &BigInt, days: BigInt) -> BigInt {
        let (base, so_far) = (&self.fixed + days, &self.fixed + spent);
        let more = if so_far.is_zero() { BigInt::zero() } else { &self.percentages * &base / so_far };
        base + more + &self.given
    }
}
