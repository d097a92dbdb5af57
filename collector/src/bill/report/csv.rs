//! A bill as CSV: one record a group or a line, and nothing else, so that the column sums to the total.

use super::{Dimension, Report};
use crate::bill::decimal;
use crate::bill::settle::Line;

const AMOUNTS: [&str; 5] = ["gpu_hours", "unpriced_gpu_hours", "cost", "currency", "simulated"];

/// Columns of a line: what it is for, and its amounts.
pub const COLUMNS: [&str; 35] = [
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
    "unit_price",
    "day",
    "origin_month",
    "imported",
    "simulated",
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

impl Report {
    /// The groups as CSV with a header line. `simulated` says of the whole bill that part of it was generated. Groups of several
    /// dimensions have a column for each, and with commitments there is the effective cost.
    ///
    /// # Errors
    /// When the writer fails, which writing to memory does not.
    pub fn to_csv(&self) -> Result<String, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let dimensions: Vec<&str> = self.dimensions().map(Dimension::as_str).collect();
        let is_one = dimensions.len() == 1;
        let with_effective = self.has_commitments();
        let keys = if is_one { vec!["key"] } else { dimensions };
        let mut header: Vec<&str> = keys.into_iter().chain(["kind"]).chain(AMOUNTS).collect();
        if with_effective {
            header.push("effective_cost");
        }
        writer.write_record(header)?;
        for group in &self.groups {
            let amounts = &group.amounts;
            let mut record = if is_one { vec![self.key(group)] } else { group.values().map(str::to_owned).collect() };
            record.extend([
                group.kind.as_str().to_owned(),
                amounts.gpu_hours.to_string(),
                amounts.unpriced.to_string(),
                amounts.cost.to_string(),
                self.statement.book.currency.clone(),
                self.statement.made.simulated.to_string(),
            ]);
            if with_effective {
                record.push(amounts.effective.to_string());
            }
            writer.write_record(record)?;
        }
        text(writer)
    }

    /// Each line of the bill as CSV, with everything that it says.
    ///
    /// # Errors
    /// When the writer fails, which writing to memory does not.
    pub fn to_csv_of_lines(&self) -> Result<String, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(COLUMNS.iter().chain(&["currency"]))?;
        for line in self.statement.lines.iter().filter(|line| self.shows(&line.key)) {
            let fields = fields(line);
            writer.write_record(fields.iter().chain([&self.statement.book.currency]))?;
        }
        text(writer)
    }
}

/// What a line says, in the order of [`COLUMNS`]. What is unknown, or does not apply, is empty.
pub fn fields(line: &Line) -> Vec<String> {
    let key = &line.key;
    let mut fields: Vec<String> =
        [key.payer.kind.as_str(), key.category.as_str(), &key.cost_centre].map(str::to_owned).to_vec();
    fields.extend(key.owner.attributes().into_iter().map(|(name, value)| match name {
        // Who pays, which the directory may have told.
        "department" => key.payer.department.to_string(),
        _ => value.to_owned(),
    }));
    fields.extend([
        key.gpu_model.to_string(),
        key.mig_profile.to_string(),
        key.consumption.map_or_else(String::new, |model| model.to_string()),
        key.item.to_string(),
        key.unit_price.map(decimal::format).unwrap_or_default(),
        Dimension::Day.of(key).into_owned(),
        key.origin_month.as_deref().unwrap_or_default().to_owned(),
        key.imported.to_string(),
        key.simulated.to_string(),
    ]);
    fields.extend(line.amounts.all().into_iter().map(ToString::to_string));
    fields
}

fn text(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
