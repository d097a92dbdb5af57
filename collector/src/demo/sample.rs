//! Last month's allocations of a generated fleet: imported, priced and billed by the same code as a real fleet's. What the demo
//! itself has metered is billed with the same prices.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::view::{BillLine, Fixed};
use crate::bill::import;
use crate::bill::period::Period;
use crate::bill::prices::{file, table};
use crate::bill::report::{Dimension, Report};
use crate::bill::sample::{sample_fleet, sample_prices};
use crate::bill::settle::Amounts;
use crate::bill::statement;
use crate::store::Store;

/// The fleet is the same in every run.
const SEED: u64 = 2026;

/// The bill of last month, by department and by experiment.
pub(super) struct Bill {
    by_department: Report,
    by_experiment: Report,
}

/// Imports the sample, loads its prices, and bills it.
pub(super) async fn bill(store: &Store) -> anyhow::Result<Bill> {
    let last_month = TimeZone::UTC.to_datetime(Timestamp::now()).date().first_of_month().checked_sub(1.day())?;
    let csv = sample_fleet(last_month, SEED);
    import::allocations(store, "sample-fleet.csv", csv.as_bytes(), true).await?;
    let book = file::parse("prices.example.toml", sample_prices())?;
    table::load(store, &book).await?;
    let period = Period::month(&last_month.strftime("%Y-%m").to_string(), &TimeZone::UTC)?;
    let statement = statement::build(store, &period, None).await?;
    Ok(Bill {
        by_department: Report::new(statement.clone(), Dimension::Department, None),
        by_experiment: Report::new(statement, Dimension::Experiment, None),
    })
}

/// The bill of what was metered since `from_ms` (Unix milliseconds).
pub(super) async fn bill_of_run(store: &Store, from_ms: i64) -> anyhow::Result<Report> {
    let (from, to) = (from_ms - from_ms.rem_euclid(60_000), Timestamp::now().as_millisecond());
    let period = Period { from, to, month: None, zone: TimeZone::UTC };
    Ok(Report::new(statement::build(store, &period, None).await?, Dimension::Department, None))
}

impl Bill {
    /// The part of the view that is the bill's.
    pub(super) fn shown(&self) -> Fixed {
        let report = &self.by_department;
        let total = bill_line("total".to_owned(), &report.total);
        Fixed {
            month: report.statement.period.month.clone().unwrap_or_default(),
            currency: report.statement.book.currency.clone(),
            bill: report.groups.iter().map(|line| bill_line(report.key(line), &line.amounts)).chain([total]).collect(),
            bill_total: report.total.cost.to_string(),
            ..Fixed::default()
        }
    }

    /// What of the bill does not add up: lines against the total, what is allocated and what is not against the total, and
    /// two views of the same month against each other.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (view, report) in [("department", &self.by_department), ("experiment", &self.by_experiment)] {
            let total = &report.total.cost.0;
            let groups = report.groups.iter().map(|line| &line.amounts.cost.0).sum::<num_bigint::BigInt>();
            let parts = &report.allocated().cost.0 + &report.unallocated().cost.0;
            for (what, sum) in [("its lines", groups), ("allocated and unallocated", parts)] {
                if sum != *total {
                    faults.push(format!("the bill by {view}: {what} sum to {sum} millionths, its total is {total}"));
                }
            }
        }
        let (one, other) = (&self.by_department.total.cost, &self.by_experiment.total.cost);
        if one != other {
            faults.push(format!("the bill by department is {one}, by experiment {other}"));
        }
        faults
    }
}

fn bill_line(department: String, amounts: &Amounts) -> BillLine {
    BillLine { department, gpu_hours: amounts.gpu_hours.grouped(), cost: amounts.cost.grouped() }
}
