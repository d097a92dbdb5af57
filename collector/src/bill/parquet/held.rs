//! The cells of one column until their row group is written.

use std::io::Write;

use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedRowGroupWriter;

use super::{Cell, Column, DECIMAL_DIGITS, Kind, TableError};

/// The values of one column in the group that is being collected.
pub(super) struct Held {
    pub(super) column: Column,
    values: Values,
    /// For each row whether it has a value; empty where every row has one.
    levels: Vec<i16>,
}

enum Values {
    Bytes(Vec<ByteArray>),
    Whole(Vec<i64>),
    Decimal(Vec<FixedLenByteArray>),
    Boolean(Vec<bool>),
}

impl Held {
    pub(super) fn new(column: Column) -> Self {
        let values = match column.kind {
            Kind::Text => Values::Bytes(vec![]),
            Kind::Integer | Kind::Timestamp => Values::Whole(vec![]),
            Kind::Decimal { .. } => Values::Decimal(vec![]),
            Kind::Boolean => Values::Boolean(vec![]),
        };
        Self { column, values, levels: vec![] }
    }

    /// Keeps a cell and says how many bytes that takes beside those that every row takes.
    pub(super) fn push(&mut self, cell: Cell, row: u64) -> Result<usize, TableError> {
        let fits = match (&cell, self.column.kind) {
            (Cell::Null, _) => self.column.nullable,
            (Cell::Decimal(value), Kind::Decimal { .. }) => value.unsigned_abs() < 10_u128.pow(DECIMAL_DIGITS),
            (Cell::Text(_), Kind::Text)
            | (Cell::Integer(_), Kind::Integer)
            | (Cell::Boolean(_), Kind::Boolean)
            | (Cell::Timestamp(_), Kind::Timestamp) => true,
            _ => false,
        };
        if !fits {
            let expected = self.column.kind.as_str();
            return Err(TableError::Cell { row, column: self.column.name, got: cell, expected });
        }
        if self.column.nullable {
            self.levels.push(i16::from(cell != Cell::Null));
        }
        let mut bytes = 0;
        match (cell, &mut self.values) {
            (Cell::Text(text), Values::Bytes(values)) => {
                bytes = text.len();
                values.push(ByteArray::from(text.into_bytes()));
            }
            (Cell::Integer(value) | Cell::Timestamp(value), Values::Whole(values)) => values.push(value),
            (Cell::Decimal(value), Values::Decimal(values)) => {
                bytes = 16;
                values.push(FixedLenByteArray::from(value.to_be_bytes().to_vec()));
            }
            (Cell::Boolean(value), Values::Boolean(values)) => values.push(value),
            _ => {}
        }
        Ok(bytes)
    }

    /// Writes the values as the group's next column, and forgets them.
    pub(super) fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let levels = self.column.nullable.then_some(self.levels.as_slice());
        match &mut self.values {
            Values::Bytes(values) => write::<ByteArrayType, W>(group, values, levels)?,
            Values::Whole(values) => write::<Int64Type, W>(group, values, levels)?,
            Values::Decimal(values) => write::<FixedLenByteArrayType, W>(group, values, levels)?,
            Values::Boolean(values) => write::<BoolType, W>(group, values, levels)?,
        }
        self.levels.clear();
        Ok(())
    }
}

fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &mut Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(values, levels, None)?;
        column.close()?;
    }
    values.clear();
    Ok(())
}
