//! Our own checks of FOCUS rows, for what the official validator lets pass.
//!
//! A [`Checker`] sees the rows one by one. [`rules`] and [`prices`] judge each row by itself; [`sums`] keeps what must agree
//! between rows: what an invoice and a commitment add up to, and that one id has one name; [`texts`] sees to it that no reader
//! of CSV takes a text for a number. Each [`Fault`] names the row, the
//! column, the value and what was expected.

mod prices;
mod rules;
mod sums;
mod texts;

use std::fmt;

use jiff::tz::TimeZone;

use super::columns;
use super::row::Row;
use crate::bill::currency;
use crate::bill::decimal::Millionths;
use crate::bill::parquet::Cell;
use crate::bill::period::{EARLIEST_MS, LATEST_MS};
pub(super) use rules::month;
pub(super) use texts::is_guessed;

/// Faults that are kept; a file with more is no better known by all of them.
const KEPT: usize = 1_000;

/// A cell that is not as it must be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// From 1; none where a sum over rows is at fault.
    pub row: Option<u64>,
    /// The column's name.
    pub column: &'static str,
    /// What the cell says; empty where it has no value.
    pub value: String,
    /// What was expected.
    pub expected: String,
}

impl Fault {
    /// A fault that is not of one row.
    pub(super) fn of_file(column: &'static str, value: &str, expected: impl Into<String>) -> Self {
        Self { row: None, column, value: value.to_owned(), expected: expected.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(row) = self.row {
            write!(f, "row {row}: ")?;
        }
        write!(f, "{}: {:?}, expected {}", self.column, self.value, self.expected)
    }
}

/// What an invoice says is to be paid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invoice {
    /// Its id, as in `InvoiceId`.
    pub id: String,
    /// What its rows' `BilledCost` must sum to.
    pub total: Millionths,
}

/// Checks rows as they come. Memory goes with the number of ids, not of rows.
#[derive(Debug)]
pub struct Checker {
    zone: TimeZone,
    rows: u64,
    found: Found,
    sums: sums::Sums,
    texts: texts::Texts,
}

impl Checker {
    /// For rows whose months are those of a time zone, and which are on these invoices.
    pub fn new(zone: TimeZone, invoices: impl IntoIterator<Item = Invoice>) -> Self {
        Self { zone, rows: 0, found: Found::default(), sums: sums::Sums::new(invoices), texts: texts::Texts::default() }
    }

    /// Checks a row.
    pub fn row(&mut self, row: &Row) {
        self.rows += 1;
        let mut at = At { row, number: self.rows, found: &mut self.found };
        cells(&mut at);
        rules::check(&mut at, &self.zone);
        prices::check(&mut at);
        self.sums.row(&mut at);
        self.texts.row(&mut at);
    }

    /// All faults, those of sums last.
    pub fn finish(mut self) -> Vec<Fault> {
        self.sums.finish(&mut self.found);
        self.texts.finish(&mut self.found);
        if self.found.more > 0 {
            let value = self.found.more.to_string();
            self.found.faults.push(Fault::of_file("file", &value, "no fault beyond those named here"));
        }
        self.found.faults
    }
}

/// Checks rows that are in memory.
pub fn check<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    zone: &TimeZone,
    invoices: impl IntoIterator<Item = Invoice>,
) -> Vec<Fault> {
    let mut checker = Checker::new(zone.clone(), invoices);
    rows.into_iter().for_each(|row| checker.row(row));
    checker.finish()
}

/// The faults so far.
#[derive(Debug, Default)]
struct Found {
    faults: Vec<Fault>,
    more: u64,
}

impl Found {
    fn push(&mut self, fault: Fault) {
        if self.faults.len() < KEPT {
            self.faults.push(fault);
        } else {
            self.more += 1;
        }
    }
}

/// A row that is being checked.
struct At<'a> {
    row: &'a Row,
    number: u64,
    found: &'a mut Found,
}

impl At<'_> {
    /// A fault in this column, unless it is as it must be.
    fn must(&mut self, holds: bool, name: &'static str, expected: impl Into<String>) {
        if holds {
            return;
        }
        let value = columns::all().find(|column| column.name == name).map(|column| column.text(self.row));
        let (row, value, expected) = (Some(self.number), value.unwrap_or_default(), expected.into());
        self.found.push(Fault { row, column: name, value, expected });
    }

    /// A fault unless the column has a value exactly when it must.
    fn present<T>(&mut self, value: &Option<T>, must: bool, name: &'static str, when: &str) {
        let expected = if must { "a value" } else { "no value" };
        self.must(value.is_some() == must, name, format!("{expected} {when}"));
    }
}

/// What holds of every cell by its kind alone.
fn cells(at: &mut At<'_>) {
    for column in columns::all() {
        match (column.get)(at.row) {
            Cell::Text(text) => at.must(!text.trim().is_empty(), column.name, "a text that is not blank"),
            Cell::Timestamp(ms) => {
                let fits = (EARLIEST_MS..=LATEST_MS).contains(&ms) && ms % 1_000 == 0;
                at.must(fits, column.name, "a whole second from 1970 to 2099");
            }
            Cell::Decimal(value) => {
                let fits = value.unsigned_abs() < 10_u128.pow(38);
                at.must(fits, column.name, "at most 38 digits");
            }
            Cell::Null | Cell::Integer(_) | Cell::Boolean(_) => {}
        }
    }
}
