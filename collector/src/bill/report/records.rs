//! The lines of a view as a Parquet table: one record a line, with everything that it is for and all that it comes to. A view by any
//! dimension can be made of them, and their costs sum to the bill.

use std::io::Write;

use num_traits::ToPrimitive;

use super::Report;
use crate::bill::decimal::Millionths;
use crate::bill::directory;
use crate::bill::parquet::{Cell, Column, Kind, TableError, Writer};
use crate::bill::settle::Line;
use crate::bill::statement::Statement;

/// Columns that are of the whole bill.
const WHOLE: [Column; 4] = [
    Column { name: "period_start", kind: Kind::Timestamp, nullable: false },
    Column { name: "period_end", kind: Kind::Timestamp, nullable: false },
    Column { name: "time_zone", kind: Kind::Text, nullable: false },
    Column { name: "currency", kind: Kind::Text, nullable: false },
];

/// Texts of a line; what is unknown, or does not apply, has no value.
const TEXTS: [&str; 22] = [
    "kind",
    "category",
    "cost_centre",
    "environment",
    "cluster",
    "namespace",
    "pod",
    "container",
    "job",
    "user",
    "department",
    "project",
    "experiment",
    "service",
    "model",
    "command",
    "gpu_model",
    "mig_profile",
    "consumption_model",
    "item",
    "day",
    "origin_month",
];

const SAID: [Column; 3] = [
    Column { name: "imported", kind: Kind::Boolean, nullable: false },
    Column { name: "simulated", kind: Kind::Boolean, nullable: false },
    Column { name: "unit_price", kind: Kind::Decimal { scale: 12 }, nullable: true },
];

/// Amounts, in the order of [`crate::bill::settle::Amounts::all`].
const AMOUNTS: [&str; 10] = [
    "gpu_hours",
    "quantity",
    "unpriced_gpu_hours",
    "busy_gpu_hours",
    "unknown_gpu_hours",
    "energy_kwh",
    "site_energy_kwh",
    "co2e_g",
    "cost",
    "effective_cost",
];

fn columns() -> impl Iterator<Item = Column> {
    let text = |name| Column { name, kind: Kind::Text, nullable: true };
    let amount = |name| Column { name, kind: Kind::Decimal { scale: 6 }, nullable: false };
    WHOLE.into_iter().chain(TEXTS.map(text)).chain(SAID).chain(AMOUNTS.map(amount))
}

impl Report {
    /// Writes the lines of this view as Parquet.
    ///
    /// # Errors
    /// When `out` fails, or an amount has more than 38 digits.
    pub fn write_parquet(&self, out: impl Write + Send) -> Result<(), TableError> {
        let mut writer = Writer::new(out, columns())?;
        for line in self.statement.lines.iter().filter(|line| self.shows(&line.key)) {
            writer.row(cells(&self.statement, line))?;
        }
        writer.finish()?.flush().map_err(|error| TableError::Parquet(error.into()))
    }
}

fn cells(statement: &Statement, line: &Line) -> Vec<Cell> {
    let (period, key) = (&statement.period, &line.key);
    let text = |value: &str| if value.is_empty() { Cell::Null } else { Cell::Text(value.to_owned()) };
    let mut cells = vec![
        Cell::Timestamp(period.from),
        Cell::Timestamp(period.to),
        Cell::Text(period.zone_name()),
        Cell::Text(statement.book.currency.clone()),
        text(key.payer.kind.as_str()),
        text(key.category.as_str()),
        text(&key.cost_centre),
    ];
    cells.extend(key.owner.attributes().into_iter().map(|(name, value)| match name {
        // Who pays, which the directory may have told.
        "department" => text(&key.payer.department),
        _ => text(value),
    }));
    cells.extend([
        text(&key.gpu_model),
        text(&key.mig_profile),
        key.consumption.map_or(Cell::Null, |model| text(model.as_str())),
        text(&key.item),
        key.day.map_or(Cell::Null, |day| Cell::Text(directory::date(day).to_string())),
        key.origin_month.as_deref().map_or(Cell::Null, text),
        Cell::Boolean(key.imported),
        Cell::Boolean(key.simulated),
        key.unit_price.map_or(Cell::Null, Cell::Decimal),
    ]);
    // What has more digits than any file can hold is refused by the writer.
    let amount = |amount: &Millionths| Cell::Decimal(amount.0.to_i128().unwrap_or(i128::MAX));
    cells.extend(line.amounts.all().map(amount));
    cells
}
