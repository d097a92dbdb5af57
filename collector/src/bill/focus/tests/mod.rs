//! A month of charges that is right, in [`sample`], goes through the checks, the writers and the reader; then again with one fault
//! for each rule, and with every checked cell changed.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod bills;
mod faults;
mod files;
mod lines;
mod mutations;
mod sample;

use jiff::tz::TimeZone;

use super::super::{decimal, focus};
use super::Row;
use super::check::check;

/// The faults of rows on the sample's invoices, as people read them.
fn faults(rows: &[Row]) -> Vec<String> {
    let zone = TimeZone::get(sample::ZONE).unwrap();
    check(rows, &zone, sample::invoices()).iter().map(ToString::to_string).collect()
}
