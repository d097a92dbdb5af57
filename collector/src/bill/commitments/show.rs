//! Agreements for people, as text with tables, and for machines, as JSON with decimals and instants as texts.

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::{Agreements, Commitment};
use crate::bill::decimal::format;
use crate::bill::document::shown::{instant, rfc3339, table};

impl Agreements {
    /// All of them as text, its tables at most `width` columns wide, with instants in UTC.
    pub fn to_text(&self, width: u16) -> String {
        let mut out = format!("commitments {}\ncurrency {}\n", self.id(), self.currency);
        if !self.commitments.is_empty() {
            let price = format!("{} an hour of one", self.currency);
            let header = ["commitment", "department", "GPUs", "of", &price, "from", "up to", "by the"];
            out += &format!("\n{}", table(header, self.commitments.iter().map(Commitment::row), width));
        }
        if !self.budgets.is_empty() {
            let rows = self.budgets.iter().map(|budget| {
                let of = if budget.department.is_empty() { "(the whole fleet)" } else { &budget.department };
                [of.to_owned(), budget.from_month.clone(), format(budget.monthly)]
            });
            let price = format!("{} a month", self.currency);
            out += &format!("\n{}", table(["budget of", "from", &price], rows, width));
        }
        out
    }

    /// All of them as one JSON object.
    pub fn to_json(&self) -> Value {
        let commitments = self.commitments.iter().map(|commitment| {
            json!({
                "id": commitment.id,
                "department": commitment.department,
                "gpu_model": commitment.gpu_model,
                "mig_profile": commitment.mig_profile,
                "gpus": commitment.gpus,
                "hourly": format(commitment.hourly),
                "from": rfc3339(commitment.from),
                "to": commitment.to.map(rfc3339),
                "slot": commitment.slot.as_str(),
            })
        });
        let budgets = self.budgets.iter().map(|budget| {
            json!({
                "department": Some(&budget.department).filter(|department| !department.is_empty()),
                "from_month": budget.from_month,
                "monthly": format(budget.monthly),
            })
        });
        json!({
            "id": self.id(),
            "currency": self.currency,
            "commitments": commitments.collect::<Value>(),
            "budgets": budgets.collect::<Value>(),
        })
    }
}

impl Commitment {
    fn row(&self) -> [String; 8] {
        let of = match &self.mig_profile {
            Some(profile) => format!("{} MIG {profile}", self.gpu_model),
            None => self.gpu_model.clone(),
        };
        [
            self.id.clone(),
            self.department.clone(),
            self.gpus.to_string(),
            of,
            format(self.hourly),
            instant(self.from, &TimeZone::UTC),
            self.to.map_or_else(|| "without end".to_owned(), |to| instant(to, &TimeZone::UTC)),
            self.slot.as_str().to_owned(),
        ]
    }
}
