#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, RowAccessor};
use proptest::prelude::*;

use super::*;

const COLUMNS: [Column; 6] = [
    Column { name: "name", kind: Kind::Text, nullable: true },
    Column { name: "count", kind: Kind::Integer, nullable: false },
    Column { name: "cost", kind: Kind::Decimal { scale: 6 }, nullable: true },
    Column { name: "price", kind: Kind::Decimal { scale: 12 }, nullable: false },
    Column { name: "simulated", kind: Kind::Boolean, nullable: false },
    Column { name: "at", kind: Kind::Timestamp, nullable: true },
];

fn written(rows: &[[Cell; 6]]) -> SerializedFileReader<Bytes> {
    let mut writer = Writer::new(Vec::new(), COLUMNS).unwrap();
    for row in rows {
        writer.row(row.clone()).unwrap();
    }
    SerializedFileReader::new(Bytes::from(writer.finish().unwrap())).unwrap()
}

/// A cell as the crate's own reader gives it back.
fn read(field: &Field) -> Cell {
    match field {
        Field::Null => Cell::Null,
        Field::Str(text) => Cell::Text(text.clone()),
        Field::Long(value) => Cell::Integer(*value),
        Field::Bool(value) => Cell::Boolean(*value),
        Field::TimestampMillis(value) => Cell::Timestamp(*value),
        Field::Decimal(value) => Cell::Decimal(i128::from_be_bytes(value.data().try_into().unwrap())),
        other => panic!("{other:?}"),
    }
}

fn all(reader: &SerializedFileReader<Bytes>) -> Vec<Vec<Cell>> {
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().get_column_iter().map(|(_, field)| read(field)).collect()).collect()
}

fn row(text: &str, whole: i64, decimal: i128) -> [Cell; 6] {
    [
        if text.is_empty() { Cell::Null } else { Cell::Text(text.to_owned()) },
        Cell::Integer(whole),
        if decimal == 0 { Cell::Null } else { Cell::Decimal(decimal) },
        Cell::Decimal(-decimal),
        Cell::Boolean(whole % 2 == 0),
        if whole == 3 { Cell::Null } else { Cell::Timestamp(whole) },
    ]
}

#[test]
fn decimals_and_instants_have_the_types_that_readers_go_by() {
    let reader = written(&[row("a", 1_790_812_800_000, 51_470_674_158)]);
    let schema = reader.metadata().file_metadata().schema_descr();
    let logical = |at: usize| schema.column(at).logical_type_ref().cloned();
    assert_eq!(logical(2), Some(LogicalType::decimal(6, 38)));
    assert_eq!(logical(3), Some(LogicalType::decimal(12, 38)));
    assert_eq!(logical(5), Some(LogicalType::timestamp(true, TimeUnit::MILLIS)));
    let row = reader.get_row_iter(None).unwrap().next().unwrap().unwrap();
    assert_eq!(row.get_decimal(2).unwrap().scale(), 6);
    assert_eq!(read(row.get_column_iter().nth(2).unwrap().1), Cell::Decimal(51_470_674_158));
}

#[test]
fn a_group_that_is_full_is_written_and_forgotten() {
    let rows: Vec<_> = (0..).take(GROUP_ROWS + 2).map(|at| row("x", at, 1)).collect();
    let reader = written(&rows);
    assert_eq!(reader.num_row_groups(), 2);
    assert_eq!(reader.metadata().row_group(1).num_rows(), 2);
    assert_eq!(all(&reader), rows);

    let wide = "w".repeat(GROUP_BYTES / 2);
    let reader = written(&[row(&wide, 1, 1), row(&wide, 2, 1), row(&wide, 3, 1)]);
    assert_eq!(reader.num_row_groups(), 2);
    assert_eq!(reader.metadata().row_group(1).num_rows(), 1);
}

#[test]
fn a_cell_that_is_not_what_its_column_holds_is_refused() {
    let refused = |cells: Vec<Cell>| Writer::new(Vec::new(), COLUMNS).unwrap().row(cells).unwrap_err().to_string();
    let mut cells = row("a", 1, 1).to_vec();
    cells[1] = Cell::Null;
    assert_eq!(refused(cells.clone()), "row 1: count: Null, expected an integer");
    cells[1] = Cell::Timestamp(1);
    assert_eq!(refused(cells.clone()), "row 1: count: Timestamp(1), expected an integer");
    cells[1] = Cell::Integer(1);
    cells[2] = Cell::Decimal(10_i128.pow(38));
    assert!(refused(cells.clone()).ends_with("expected a decimal of at most 38 digits"));
    cells.pop();
    cells[2] = Cell::Null;
    assert_eq!(refused(cells), "row 1: 5 cells, expected 6");
}

proptest! {
    #[test]
    fn what_is_written_is_read(rows in proptest::collection::vec(
        (".{0,8}", any::<i64>(), -99_999_999_999_999_999_999_999_999_999_999_999_999_i128..=99_999_999_999_999_999_999_999_999_999_999_999_999), 0..20,
    )) {
        let rows: Vec<_> = rows.iter().map(|(text, whole, decimal)| row(text, *whole, *decimal)).collect();
        prop_assert_eq!(all(&written(&rows)), rows);
    }
}
