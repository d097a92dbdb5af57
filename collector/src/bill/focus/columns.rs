//! The columns of a FOCUS 1.2 file, in its order. Writers, the reader and the checks go by this table.

use super::row::Row;
use super::value::{Field, instant};
use crate::bill::decimal::{Millionths, fixed};
use crate::bill::parquet::{self, Cell, Kind};

/// Whether FOCUS asks for a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// Always.
    Mandatory,
    /// From who has what it is about.
    Conditional,
    /// It should be there.
    Recommended,
    /// No: it is this program's own, and its name starts with `x_`.
    Own,
}

/// A column of a file.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a cell may have no value.
    pub nullable: bool,
    /// Whether FOCUS asks for it.
    pub level: Level,
    /// The texts that are allowed; empty where any is.
    pub allowed: &'static [&'static str],
    /// Its cell of a row.
    pub get: fn(&Row) -> Cell,
    /// Puts a text of a CSV file into a row, or says what was expected.
    pub(super) set: fn(&mut Row, &str) -> Result<(), String>,
}

/// A column that has a field.
macro_rules! column {
    ($name:literal, $level:ident, $type:ty, $field:ident) => {
        Column {
            name: $name,
            kind: <$type as super::value::Field>::KIND,
            nullable: <$type as super::value::Field>::NULLABLE,
            level: Level::$level,
            allowed: <$type as super::value::Field>::ALLOWED,
            get: |row| super::value::Field::cell(&row.$field),
            set: |row, text| {
                row.$field = super::value::Field::read(text)?;
                Ok(())
            },
        }
    };
}
pub(super) use column;

/// A column that says what another says: prices and costs have one currency here.
macro_rules! same {
    ($name:literal, $type:ty, $field:ident, $other:literal) => {
        Column {
            name: $name,
            kind: <$type as Field>::KIND,
            nullable: <$type as Field>::NULLABLE,
            level: Level::Conditional,
            allowed: &[],
            get: |row| row.$field.cell(),
            set: |row, text| {
                let is_same = <$type as Field>::read(text)? == row.$field;
                if is_same { Ok(()) } else { Err(format!("what {} says", $other)) }
            },
        }
    };
}

const SAME: &[Column] = &[
    same!("PricingCurrency", String, billing_currency, "BillingCurrency"),
    same!("PricingCurrencyListUnitPrice", Option<super::value::Trillionths>, list_unit_price, "ListUnitPrice"),
    same!(
        "PricingCurrencyContractedUnitPrice",
        Option<super::value::Trillionths>,
        contracted_unit_price,
        "ContractedUnitPrice"
    ),
    same!("PricingCurrencyEffectiveCost", Millionths, effective_cost, "EffectiveCost"),
];

/// All columns; a column that repeats another comes after it.
pub fn all() -> impl Iterator<Item = &'static Column> {
    Row::FIELDS.iter().chain(SAME)
}

impl Column {
    /// The same for a Parquet file.
    pub const fn table(&self) -> parquet::Column {
        parquet::Column { name: self.name, kind: self.kind, nullable: self.nullable }
    }

    /// The cell of a row as people read it; empty where there is none.
    pub fn text(&self, row: &Row) -> String {
        match ((self.get)(row), self.kind) {
            (Cell::Null, _) => String::new(),
            (Cell::Text(text), _) => text,
            (Cell::Integer(value), _) => value.to_string(),
            (Cell::Decimal(value), Kind::Decimal { scale }) => fixed(value, scale),
            (Cell::Decimal(value), _) => value.to_string(),
            (Cell::Boolean(value), _) => value.to_string(),
            (Cell::Timestamp(ms), _) => instant(ms),
        }
    }
}
