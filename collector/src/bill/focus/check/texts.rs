//! Texts that a reader of CSV would take for numbers, since it guesses a column's type by what is in it.

use std::collections::BTreeMap;

use super::{At, Fault, Found};
use crate::bill::focus::columns::{self, Level};
use crate::bill::parquet::{Cell, Kind};

/// By column: the first text that looks like a number, as long as no other came.
#[derive(Debug, Default)]
pub(super) struct Texts(BTreeMap<&'static str, Option<String>>);

/// Whether a text could be another type's.
pub(in crate::bill::focus) fn is_guessed(text: &str) -> bool {
    text.parse::<f64>().is_ok() || text.parse::<bool>().is_ok() || text.parse::<jiff::civil::Date>().is_ok()
}

impl Texts {
    /// Ids are told by themselves, or a column would change its type from file to file; of names, one must be told.
    pub(super) fn row(&mut self, at: &mut At<'_>) {
        for column in columns::all() {
            if column.kind != Kind::Text || column.level == Level::Own || !column.allowed.is_empty() {
                continue;
            }
            let Cell::Text(text) = (column.get)(at.row) else { continue };
            let guessed = is_guessed(&text);
            if column.name.ends_with("Id") {
                at.must(
                    !guessed,
                    column.name,
                    "an id that no reader takes for a number, such as contador:invoice/202610",
                );
            } else if !guessed {
                self.0.insert(column.name, None);
            } else {
                self.0.entry(column.name).or_insert(Some(text));
            }
        }
    }

    pub(super) fn finish(&self, found: &mut Found) {
        for (column, text) in &self.0 {
            if let Some(text) = text {
                found.push(Fault::of_file(
                    column,
                    text,
                    "a text that no reader takes for a number, in one row at least",
                ));
            }
        }
    }
}
