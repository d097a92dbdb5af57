//! A flat table of named, typed columns as a Parquet file.
//!
//! Rows come one by one and are kept by column until a row group is full; then the group is written and forgotten, so memory
//! is that of one group however many rows there are. Decimals stay exact: `DECIMAL(38, scale)`; instants are UTC.

mod held;

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use thiserror::Error;

use held::Held;

/// Digits that a decimal may have: as many as fit 16 bytes.
const DECIMAL_DIGITS: u32 = 38;

/// Rows of a full group.
const GROUP_ROWS: usize = 1 << 16;

/// Bytes of texts and decimals of a full group.
const GROUP_BYTES: usize = 64 << 20;

/// What a column holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// 64 bits, signed.
    Integer,
    /// Whole numbers of `10^-scale`, of at most 38 digits.
    Decimal {
        /// Digits after the point.
        scale: u8,
    },
    /// True or false.
    Boolean,
    /// Unix milliseconds.
    Timestamp,
}

impl Kind {
    /// Its name in errors.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Integer => "an integer",
            Self::Decimal { .. } => "a decimal of at most 38 digits",
            Self::Boolean => "true or false",
            Self::Timestamp => "an instant",
        }
    }

    const fn physical(self) -> Physical {
        match self {
            Self::Text => Physical::BYTE_ARRAY,
            Self::Integer | Self::Timestamp => Physical::INT64,
            Self::Decimal { .. } => Physical::FIXED_LEN_BYTE_ARRAY,
            Self::Boolean => Physical::BOOLEAN,
        }
    }

    fn logical(self) -> Option<LogicalType> {
        match self {
            Self::Text => Some(LogicalType::String),
            Self::Integer => Some(LogicalType::integer(64, true)),
            Self::Decimal { scale } => Some(LogicalType::decimal(i32::from(scale), DECIMAL_DIGITS.cast_signed())),
            Self::Boolean => None,
            Self::Timestamp => Some(LogicalType::timestamp(true, TimeUnit::MILLIS)),
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a cell may have no value.
    pub nullable: bool,
}

/// A value of one row in one column.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Cell {
    /// No value.
    Null,
    /// Of [`Kind::Text`].
    Text(String),
    /// Of [`Kind::Integer`].
    Integer(i64),
    /// Of [`Kind::Decimal`]: a whole number at the column's scale.
    Decimal(i128),
    /// Of [`Kind::Boolean`].
    Boolean(bool),
    /// Of [`Kind::Timestamp`]: Unix milliseconds.
    Timestamp(i64),
}

/// Why a table could not be written.
#[derive(Debug, Error)]
pub enum TableError {
    /// A row has another number of cells than the table has columns.
    #[error("row {row}: {got} cells, expected {expected}")]
    Cells {
        /// From 1.
        row: u64,
        /// How many it has.
        got: usize,
        /// How many columns there are.
        expected: usize,
    },
    /// A cell is not what its column holds.
    #[error("row {row}: {column}: {got:?}, expected {expected}")]
    Cell {
        /// From 1.
        row: u64,
        /// The column's name.
        column: &'static str,
        /// What it is.
        got: Cell,
        /// What was expected.
        expected: &'static str,
    },
    /// The file could not be written.
    #[error("the parquet file could not be written")]
    Parquet(#[from] ParquetError),
}

/// Writes a table, row by row.
pub struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    held: Vec<Held>,
    rows: u64,
    group_rows: usize,
    group_bytes: usize,
}

impl<W: Write + Send> Writer<W> {
    /// Begins a file of these columns.
    ///
    /// # Errors
    /// [`TableError::Parquet`] when nothing can be written, or two columns have one name.
    pub fn new(out: W, columns: impl IntoIterator<Item = Column>) -> Result<Self, TableError> {
        let held: Vec<Held> = columns.into_iter().map(Held::new).collect();
        let fields = held.iter().map(|held| field(held.column)).collect::<Result<Vec<_>, _>>()?;
        let schema = Arc::new(Type::group_type_builder("table").with_fields(fields).build()?);
        let compression = Compression::ZSTD(parquet::basic::ZstdLevel::default());
        let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let file = SerializedFileWriter::new(out, schema, properties)?;
        Ok(Self { file, held, rows: 0, group_rows: 0, group_bytes: 0 })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When a cell is not what its column holds, or a full group cannot be written. The file is of no use then.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> Result<(), TableError> {
        self.rows += 1;
        let mut got = 0;
        for cell in cells {
            got += 1;
            let Some(held) = self.held.get_mut(got - 1) else { continue };
            self.group_bytes += held.push(cell, self.rows)?;
        }
        if got != self.held.len() {
            return Err(TableError::Cells { row: self.rows, got, expected: self.held.len() });
        }
        self.group_rows += 1;
        if self.group_rows >= GROUP_ROWS || self.group_bytes >= GROUP_BYTES {
            self.end_group()?;
        }
        Ok(())
    }

    /// Writes what is left and the file's end, and gives back what was written to.
    ///
    /// # Errors
    /// [`TableError::Parquet`] when it cannot be written.
    pub fn finish(mut self) -> Result<W, TableError> {
        if self.group_rows > 0 {
            self.end_group()?;
        }
        Ok(self.file.into_inner()?)
    }

    fn end_group(&mut self) -> Result<(), TableError> {
        let mut group = self.file.next_row_group()?;
        for held in &mut self.held {
            held.write(&mut group)?;
        }
        group.close()?;
        (self.group_rows, self.group_bytes) = (0, 0);
        Ok(())
    }
}

fn field(column: Column) -> Result<TypePtr, ParquetError> {
    let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let mut builder = Type::primitive_type_builder(column.name, column.kind.physical())
        .with_repetition(repetition)
        .with_logical_type(column.kind.logical());
    if let Kind::Decimal { scale } = column.kind {
        builder = builder.with_length(16).with_precision(DECIMAL_DIGITS.cast_signed()).with_scale(i32::from(scale));
    }
    Ok(Arc::new(builder.build()?))
}

#[cfg(test)]
mod tests;
