//! Rows as CSV, and back.
//!
//! Texts are always in quotes and numbers never are, with all their digits: readers that guess types take `5.000000` for a
//! decimal. Many take a text of digits for a number even in quotes, which [`check`](super::check) tells. Between two commas
//! is no value.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use super::check::Fault;
use super::columns::{self, Column};
use super::row::Row;
use crate::bill::parquet::{Cell, Kind};

/// The least amount that no file has room for.
const MOST: u128 = 10_u128.pow(38);

/// Writes rows as they come.
pub struct Writer<W: Write> {
    out: W,
    line: String,
}

impl<W: Write> Writer<W> {
    /// Begins a file with its header.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(mut out: W) -> io::Result<Self> {
        let names: Vec<&str> = columns::all().map(|column| column.name).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(Self { out, line: String::new() })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When `out` fails, or an amount has more than 38 digits.
    pub fn row(&mut self, row: &Row) -> io::Result<()> {
        self.line.clear();
        for (at, column) in columns::all().enumerate() {
            if at > 0 {
                self.line.push(',');
            }
            if matches!((column.get)(row), Cell::Decimal(value) if value.unsigned_abs() >= MOST) {
                let why = format!("{}: an amount of more than 38 digits", column.name);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            let text = column.text(row);
            if column.kind == Kind::Text && !text.is_empty() {
                self.line.push('"');
                self.line.push_str(&text.replace('"', "\"\""));
                self.line.push('"');
            } else {
                self.line.push_str(&text);
            }
        }
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }

    /// Flushes, and gives back what was written to.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Reads a file of exactly the columns that [`Writer`] writes, in any order.
///
/// # Errors
/// Each cell that is not what its column may hold, and each column that is missing or unknown.
pub fn read(from: impl Read) -> Result<Vec<Row>, Vec<Fault>> {
    let mut reader = csv::Reader::from_reader(from);
    let columns = match reader.headers() {
        Ok(header) => placed(header)?,
        Err(error) => return Err(vec![unreadable(0, &error)]),
    };
    let (mut rows, mut faults) = (vec![], vec![]);
    for (number, record) in (1..).zip(reader.records()) {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                faults.push(unreadable(number, &error));
                break;
            }
        };
        let mut row = Row::default();
        for (column, at) in &columns {
            let text = record.get(*at).unwrap_or_default();
            if let Err(expected) = (column.set)(&mut row, text) {
                faults.push(Fault { row: Some(number), column: column.name, value: text.to_owned(), expected });
            }
        }
        rows.push(row);
    }
    if faults.is_empty() { Ok(rows) } else { Err(faults) }
}

/// Each column with its place in the file.
fn placed(header: &csv::StringRecord) -> Result<Vec<(&'static Column, usize)>, Vec<Fault>> {
    let mut places: BTreeMap<&str, usize> = header.iter().enumerate().map(|(at, name)| (name, at)).collect();
    let (mut columns, mut faults) = (vec![], vec![]);
    for column in columns::all() {
        match places.remove(column.name) {
            Some(at) => columns.push((column, at)),
            None => faults.push(Fault::of_file(column.name, "", "the column")),
        }
    }
    faults.extend(places.keys().map(|name| Fault::of_file("header", name, "only columns of FOCUS 1.2 and our own")));
    if faults.is_empty() { Ok(columns) } else { Err(faults) }
}

fn unreadable(row: u64, error: &csv::Error) -> Fault {
    Fault { row: Some(row), column: "line", value: error.to_string(), expected: "a record of CSV".to_owned() }
}
