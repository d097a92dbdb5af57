//! The bill in the format of FOCUS 1.2, *Cost and Usage*.
//!
//! A charge is a [`Row`], whose fields are [`value`]s. The table in [`columns`] names them as FOCUS does; by it a row becomes
//! a line of [`csv`](mod@csv) or a record of Parquet, and is [`check`]ed for what the official validator lets pass. [`lines`]
//! makes the rows of a bill.

pub mod check;
pub mod columns;
pub mod csv;
pub mod lines;
pub mod row;
pub mod value;

use std::io::Write;

use super::parquet::{self, TableError};
pub use row::Row;

/// Writes rows as Parquet, as they come.
pub struct ParquetWriter<W: Write + Send>(parquet::Writer<W>);

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(out: W) -> Result<Self, TableError> {
        parquet::Writer::new(out, columns::all().map(columns::Column::table)).map(Self)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When `out` fails, or an amount has more than 38 digits.
    pub fn row(&mut self, row: &Row) -> Result<(), TableError> {
        self.0.row(columns::all().map(|column| (column.get)(row)))
    }

    /// Writes what is left and the file's end, and gives back what was written to.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn finish(self) -> Result<W, TableError> {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests;
