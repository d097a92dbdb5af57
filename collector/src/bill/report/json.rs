//! A bill as JSON: every amount is a decimal string with six digits after the point, and the total an exact fraction
//! too, since sums of rounded months are not a rounded year.

use num_bigint::BigInt;
use num_rational::BigRational;
use serde_json::{Value, json};

use super::Report;
use super::total::Amounts;
use crate::bill::decimal;
use crate::bill::prices::Prices;
use crate::bill::rate::{cost_denominator, hour};

impl Report {
    /// The bill as one JSON object.
    pub fn to_json(&self) -> Value {
        let period = &self.options.period;
        let groups: Vec<Value> = self
            .groups
            .iter()
            .map(|line| {
                json!({
                    "key": self.key(line),
                    "kind": line.kind.as_str(),
                    "gpu_hours": line.amounts.gpu_hours,
                    "unpriced_gpu_hours": line.amounts.unpriced,
                    "cost": line.amounts.cost,
                })
            })
            .collect();
        let unpriced: Vec<Value> =
            self.unpriced.iter().map(|(model, hours)| json!({ "gpu_model": model, "gpu_hours": hours })).collect();
        let prices = match &self.prices {
            Prices::Flat { rate, .. } => json!({ "kind": "flat", "hourly": decimal::format(*rate) }),
            Prices::Book(book) => json!({ "kind": "book", "id": book.id() }),
        };
        json!({
            "from": period.local(period.from),
            "to": period.local(period.to),
            "month": period.month,
            "time_zone": period.zone_name(),
            "by": self.options.by.as_str(),
            "department": self.options.department,
            "currency": self.prices.currency(),
            "prices": prices,
            "directory": self.facts.directory,
            "total": self.total.cost,
            "total_exact": fraction(&self.exact.cost, cost_denominator()),
            "gpu_hours": self.total.gpu_hours,
            "gpu_hours_exact": fraction(&self.exact.hours, hour()),
            "groups": groups,
            "allocated": amounts(&self.allocated()),
            "unallocated": amounts(&self.unallocated()),
            "fleet": amounts(&self.fleet),
            "difference": self.difference(),
            "unpriced": unpriced,
            "facts": {
                "allocations": self.facts.allocations,
                "ledger_rows": self.facts.ledger_rows,
                "unknown_owners": self.facts.unknown_owners,
            },
            "simulated": self.facts.simulated,
            "notes": self.notes(),
        })
    }
}

/// A fraction in lowest terms, such as `5/3`, or `2` if it is whole: what may be added over several reports.
fn fraction(numerator: &BigInt, denominator: BigInt) -> String {
    BigRational::new(numerator.clone(), denominator).to_string()
}

fn amounts(amounts: &Amounts) -> Value {
    json!({ "cost": amounts.cost, "gpu_hours": amounts.gpu_hours, "unpriced_gpu_hours": amounts.unpriced })
}
