//! A bill as CSV: one record a group, and nothing else, so that the column sums to the total.

use super::Report;

const HEADER: [&str; 7] = ["key", "kind", "gpu_hours", "unpriced_gpu_hours", "cost", "currency", "simulated"];

impl Report {
    /// The groups as CSV with a header line. `simulated` says of the whole bill that part of it was generated.
    ///
    /// # Errors
    /// When the writer fails, which writing to memory does not.
    pub fn to_csv(&self) -> Result<String, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(HEADER)?;
        for group in &self.groups {
            let amounts = &group.amounts;
            writer.write_record([
                self.key(group).as_str(),
                group.kind.as_str(),
                &amounts.gpu_hours.to_string(),
                &amounts.unpriced.to_string(),
                &amounts.cost.to_string(),
                &self.statement.book.currency,
                if self.statement.made.simulated { "true" } else { "false" },
            ])?;
        }
        let bytes = writer.into_inner().map_err(|error| error.into_error())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
