//! The lines of a bill to rows of FOCUS, checked before a byte of them is written.
//!
//! One settled line is one row; only a line without a day, in a period of several months, is one in each of them ([`spans`]). [`what`]
//! tells what a line is in the words of FOCUS, and [`prices`] what is priced, used, bought or left unused of it. Nothing is rated
//! or rounded again: costs are those of the line, so they sum to the bill; only quantities of a commitment are split anew, since FOCUS
//! wants what was used and left of it to sum to what was bought, to the last digit.

mod prices;
mod row;
mod spans;
mod what;

use std::collections::BTreeMap;
use std::io::{self, Write};

use num_bigint::BigInt;
use num_traits::Zero;
use thiserror::Error;

use super::check::{Checker, Fault, Invoice};
use super::row::{Row, qualified};
use super::{ParquetWriter, csv};
use crate::bill::apportion;
use crate::bill::decimal::Millionths;
use crate::bill::parquet::TableError;
use crate::bill::rate::{Category, Key};
use crate::bill::report::named;
use crate::bill::settle::{Amounts, Line};
use crate::bill::statement::Statement;
use spans::Span;
use what::What;

/// What becomes of use that has no price.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unpriced {
    /// There is no export.
    Refused,
    /// It has rows of a cost of 0 that say that it has no price.
    Marked,
}

/// Why there is no export.
#[derive(Debug, Error)]
pub enum ExportError {
    /// What has no price is not free.
    #[error("unpriced, and so in no row: {0}; price it, or say --allow-unpriced")]
    Unpriced(String),
    /// Some rows are not as they must be: a fault of this program.
    #[error("{}", told(.0))]
    Faults(Vec<Fault>),
    /// It could not be written as CSV.
    #[error("the rows cannot be written")]
    Csv(#[from] io::Error),
    /// It could not be written as Parquet.
    #[error("the rows cannot be written")]
    Parquet(#[from] TableError),
}

fn told(faults: &[Fault]) -> String {
    let first: Vec<String> = faults.iter().take(5).map(ToString::to_string).collect();
    let more = faults.len() - first.len();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("the bill does not make right rows of FOCUS, which is a fault of contador: {}{more}", first.join("; "))
}

/// The rows of a statement.
#[derive(Clone, Debug)]
pub struct Export<'a> {
    statement: &'a Statement,
    lines: Vec<&'a Line>,
    /// First instants of each month that the period lies in, and of the month after.
    months: Vec<[i64; 2]>,
    /// By the place of a commitment's line: what was bought, used or left of it, so that they sum up.
    quantities: BTreeMap<usize, BigInt>,
    invoice: Option<String>,
}

impl<'a> Export<'a> {
    /// The rows of those lines that are wanted.
    ///
    /// # Errors
    /// [`ExportError::Unpriced`] where something has no price, unless that is to be marked.
    pub fn new(
        statement: &'a Statement,
        wanted: impl Fn(&Key) -> bool,
        unpriced: Unpriced,
    ) -> Result<Self, ExportError> {
        if unpriced == Unpriced::Refused && !statement.unpriced.is_empty() {
            let names = statement.unpriced.iter().map(|(name, amount)| format!("{} ({amount})", named(name)));
            return Err(ExportError::Unpriced(names.collect::<Vec<_>>().join(", ")));
        }
        let lines: Vec<&Line> = statement.lines.iter().filter(|line| wanted(&line.key)).collect();
        let quantities = quantities(&lines);
        Ok(Self { statement, lines, months: spans::months(&statement.period), quantities, invoice: None })
    }

    /// The same, on an invoice: all its lines are wanted.
    pub fn on_invoice(mut self, id: &str) -> Self {
        self.invoice = Some(qualified("invoice", id));
        self
    }

    /// The rows, in the order of the lines.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.lines.iter().enumerate().flat_map(|(at, line)| self.of_line(at, line))
    }

    fn of_line(&self, at: usize, line: &Line) -> Vec<Row> {
        let what = What::of(line);
        let mut amounts = line.amounts.clone();
        if let Some(quantity) = self.quantities.get(&at) {
            amounts.quantity = Millionths(quantity.clone());
        }
        let spans = spans::of(line, &what, self.statement, &self.months);
        let parts = spans::split(&amounts, &spans);
        spans.iter().zip(parts).map(|(span, amounts)| self.row(&line.key, &what, span, &amounts)).collect()
    }

    fn row(&self, key: &Key, what: &What<'_>, span: &Span, amounts: &Amounts) -> Row {
        let mut row = row::row(self.statement, key, what, span, amounts);
        row.invoice_id.clone_from(&self.invoice);
        prices::fill(&mut row, &prices::Of { statement: self.statement, key, what, amounts, span });
        row
    }

    /// Checks all rows, and that they sum to the lines.
    ///
    /// # Errors
    /// [`ExportError::Faults`].
    pub fn check(&self) -> Result<(), ExportError> {
        let whole: Amounts = self.lines.iter().map(|line| &line.amounts).sum();
        let invoice = self.invoice.clone().map(|id| Invoice { id, total: whole.cost.clone() });
        let mut checker = Checker::new(self.statement.period.zone.clone(), invoice);
        let mut sums = [("BilledCost", BigInt::zero(), whole.cost), ("EffectiveCost", BigInt::zero(), whole.effective)];
        for row in self.rows() {
            checker.row(&row);
            sums[0].1 += &row.billed_cost.0;
            sums[1].1 += &row.effective_cost.0;
        }
        let mut faults = checker.finish();
        for (column, sum, expected) in sums {
            if sum != expected.0 {
                let expected = format!("{expected}, the sum of the bill's lines");
                faults.push(Fault::of_file(column, &Millionths(sum).to_string(), expected));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(ExportError::Faults(faults)) }
    }

    /// Checks all rows and writes them as CSV.
    ///
    /// # Errors
    /// [`ExportError::Faults`], before anything is written; and when `out` fails.
    pub fn write_csv(&self, out: impl Write) -> Result<(), ExportError> {
        self.check()?;
        let mut writer = csv::Writer::new(out)?;
        self.rows().try_for_each(|row| writer.row(&row))?;
        writer.finish()?;
        Ok(())
    }

    /// Checks all rows and writes them as Parquet.
    ///
    /// # Errors
    /// [`ExportError::Faults`], before anything is written; and when `out` fails.
    pub fn write_parquet(&self, out: impl Write + Send) -> Result<(), ExportError> {
        self.check()?;
        let mut writer = ParquetWriter::new(out)?;
        self.rows().try_for_each(|row| writer.row(&row))?;
        writer.finish()?.flush()?;
        Ok(())
    }
}

/// What was bought of each commitment, and that split over what was used and left of it. Lines are rounded in millionths
/// together with all others of the fleet, so theirs sum to it only nearly. Corrections are differences, and stay as they are.
fn quantities(lines: &[&Line]) -> BTreeMap<usize, BigInt> {
    let mut of: BTreeMap<&str, (BigInt, Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.key.category != Category::Correction) {
        match What::of(line) {
            What::Purchase(id) => {
                let (bought, places, _) = of.entry(id).or_default();
                *bought += &line.amounts.quantity.0;
                places.push(at);
            }
            What::Used(id) | What::Unused(id) => of.entry(id).or_default().2.push(at),
            _ => {}
        }
    }
    let mut quantities = BTreeMap::new();
    for (bought, purchases, places) in of.into_values() {
        let weights: Vec<BigInt> = places.iter().map(|at| lines[*at].amounts.quantity.0.clone()).collect();
        if weights.iter().all(Zero::is_zero) {
            // Less than a millionth of an hour.
            quantities.extend(purchases.into_iter().map(|at| (at, BigInt::zero())));
        } else {
            quantities.extend(places.into_iter().zip(apportion::split(&bought, &weights)));
        }
    }
    quantities
}
