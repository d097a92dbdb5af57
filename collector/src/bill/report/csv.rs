//! A bill as CSV: one record a group, and nothing else, so that the column sums to the total.

use super::Report;

impl Report {
    /// The groups as CSV with a header line.
    pub fn to_csv(&self) -> String {
        let mut out = String::from("key,kind,gpu_hours,unpriced_gpu_hours,cost,currency\n");
        for line in &self.groups {
            let amounts = &line.amounts;
            let fields = [
                quoted(&self.key(line)),
                line.kind.as_str().to_owned(),
                amounts.gpu_hours.to_string(),
                amounts.unpriced.to_string(),
                amounts.cost.to_string(),
                self.prices.currency().to_owned(),
            ];
            out.push_str(&fields.join(","));
            out.push('\n');
        }
        out
    }
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
