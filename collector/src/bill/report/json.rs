//! A bill as JSON: every amount is a decimal string with six digits after the point, and the total an exact fraction
//! too, since sums of rounded months are not a rounded year. `schemas/report.schema.json` says what is in it.

use serde_json::{Map, Value, json};

use super::view::{Efficiency, Outlook, Scope, Scopes};
use super::{Group, Report};
use crate::bill::rate::Category;
use crate::bill::settle::{Amounts, Line};

/// What tells versions of the JSON apart: it grows when something is no longer where it was.
pub const VERSION: u32 = 1;

impl Report {
    /// The bill as one JSON object.
    pub fn to_json(&self) -> Value {
        let (statement, period) = (&self.statement, &self.statement.period);
        let groups: Vec<Value> = self.groups.iter().map(|group| self.group(group)).collect();
        let unpriced: Vec<Value> =
            statement.unpriced.iter().map(|(model, hours)| json!({ "gpu_model": model, "gpu_hours": hours })).collect();
        let (cost, hours) = statement.exact(|key| self.shows(key));
        let scopes = Scopes::of(self);
        let departments: Vec<Value> = scopes.departments().map(department).collect();
        let mut by = self.dimensions().map(|dimension| dimension.as_str());
        json!({
            "version": VERSION,
            "from": period.local(period.from),
            "to": period.local(period.to),
            "month": period.month,
            "time_zone": period.zone_name(),
            "status": self.status_json(),
            "issuer": statement.book.issuer,
            "by": by.next(),
            "then_by": by.collect::<Vec<_>>(),
            "department": self.department,
            "invoice": self.invoice_json(),
            "claims": self.claims_json(),
            "currency": statement.book.currency,
            "decimals": statement.book.decimals,
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
            "categories": categories(self),
            "departments": departments,
            "overview": scope(&scopes.fleet),
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

    /// The same with each line of the bill, with everything that it says.
    pub fn to_json_with_lines(&self) -> Value {
        let mut json = self.to_json();
        let lines = self.statement.lines.iter().filter(|line| self.shows(&line.key)).map(line);
        json["lines"] = lines.collect();
        json
    }

    fn group(&self, group: &Group) -> Value {
        let values: Map<String, Value> =
            self.dimensions().zip(group.values()).map(|(by, value)| (by.as_str().to_owned(), json!(value))).collect();
        let mut json = json!({ "key": self.key(group), "kind": group.kind.as_str(), "values": values });
        extend(&mut json, amounts(&group.amounts));
        json
    }
}

fn extend(json: &mut Value, more: Value) {
    if let (Value::Object(json), Value::Object(more)) = (json, more) {
        json.extend(more);
    }
}

fn amounts(amounts: &Amounts) -> Value {
    json!({
        "gpu_hours": amounts.gpu_hours,
        "unpriced_gpu_hours": amounts.unpriced,
        "cost": amounts.cost,
        "effective_cost": amounts.effective,
    })
}

/// What each category comes to in a view.
fn categories(report: &Report) -> Vec<Value> {
    let mut sums: std::collections::BTreeMap<Category, Amounts> = std::collections::BTreeMap::new();
    for line in report.statement.lines.iter().filter(|line| report.shows(&line.key)) {
        *sums.entry(line.key.category).or_default() += &line.amounts;
    }
    sums.iter().map(category).collect()
}

fn category((category, sum): (&Category, &Amounts)) -> Value {
    let mut json = json!({ "category": category.as_str(), "quantity": sum.quantity });
    extend(&mut json, amounts(sum));
    json
}

fn department(of: &Scope) -> Value {
    let mut json = json!({ "department": of.department() });
    extend(&mut json, amounts(&of.total));
    let categories: Vec<Value> = of.categories.iter().map(category).collect();
    extend(&mut json, json!({ "categories": categories }));
    extend(&mut json, scope(of));
    json
}

fn scope(scope: &Scope) -> Value {
    let forecast = match &scope.outlook {
        Outlook::Over => json!({ "state": "over" }),
        Outlook::TooFew => json!({ "state": "too-few-days" }),
        Outlook::Expected { forecast, .. } => json!({
            "state": "expected",
            "low": forecast.low,
            "cost": forecast.point,
            "high": forecast.high,
            "interval": "0.80",
            "days": forecast.days,
        }),
    };
    json!({
        "last_month": scope.last,
        "budget": scope.budget,
        "forecast": forecast,
        "efficiency": efficiency(&scope.efficiency),
    })
}

fn efficiency(of: &Efficiency) -> Value {
    let known = of.metered.then_some(of);
    json!({
        "gpu_hours": of.held,
        "busy_gpu_hours": of.busy,
        "unknown_gpu_hours": of.unknown,
        "idle_gpu_hours": of.idle,
        "idle_cost": of.waste,
        "unused_gpu_hours": of.unused,
        "unused_cost": of.unused_cost,
        "energy_kwh": known.map(|of| &of.energy),
        "site_energy_kwh": known.map(|of| &of.site_energy),
        "co2e_g": known.map(|of| &of.carbon),
    })
}

fn line(line: &Line) -> Value {
    let named = super::csv::COLUMNS.iter().zip(super::csv::fields(line));
    let of = |(name, value): (&&str, String)| match (*name, value.as_str()) {
        ("imported" | "simulated", value) => ((*name).to_owned(), json!(value == "true")),
        (_, "") => ((*name).to_owned(), Value::Null),
        _ => ((*name).to_owned(), json!(value)),
    };
    Value::Object(named.map(of).collect())
}
