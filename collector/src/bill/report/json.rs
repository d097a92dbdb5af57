//! A bill as JSON: every amount is a decimal string with six digits after the point, and the total an exact fraction
//! too, since sums of rounded months are not a rounded year.

use serde_json::{Value, json};

use super::Report;
use crate::bill::settle::Amounts;

impl Report {
    /// The bill as one JSON object.
    pub fn to_json(&self) -> Value {
        let (statement, period) = (&self.statement, &self.statement.period);
        let groups: Vec<Value> = self
            .groups
            .iter()
            .map(|group| {
                json!({
                    "key": self.key(group),
                    "kind": group.kind.as_str(),
                    "gpu_hours": group.amounts.gpu_hours,
                    "unpriced_gpu_hours": group.amounts.unpriced,
                    "cost": group.amounts.cost,
                })
            })
            .collect();
        let unpriced: Vec<Value> =
            statement.unpriced.iter().map(|(model, hours)| json!({ "gpu_model": model, "gpu_hours": hours })).collect();
        let (cost, hours) = statement.exact(|key| self.shows(key));
        json!({
            "from": period.local(period.from),
            "to": period.local(period.to),
            "month": period.month,
            "time_zone": period.zone_name(),
            "by": self.by.as_str(),
            "department": self.department,
            "status": self.status(),
            "invoice": self.invoice_json(),
            "claims": self.claims_json(),
            "currency": statement.book.currency,
            "prices": { "kind": "book", "id": statement.book.id() },
            "directory": statement.made.directory,
            "total": self.total.cost,
            "total_exact": cost.to_string(),
            "gpu_hours": self.total.gpu_hours,
            "gpu_hours_exact": hours.to_string(),
            "groups": groups,
            "allocated": amounts(&self.allocated()),
            "unallocated": amounts(&self.unallocated()),
            "fleet": amounts(&self.fleet),
            "difference": self.difference(),
            "adjustments": self.adjustments_json(),
            "corrections": self.corrections_json(),
            "unpriced": unpriced,
            "facts": {
                "allocations": statement.made.allocations,
                "ledger_rows": statement.made.ledger_rows,
                "unknown_owners": statement.made.unknown_owners,
            },
            "simulated": statement.made.simulated,
            "notes": self.notes(),
        })
    }
}

fn amounts(amounts: &Amounts) -> Value {
    json!({ "cost": amounts.cost, "gpu_hours": amounts.gpu_hours, "unpriced_gpu_hours": amounts.unpriced })
}
