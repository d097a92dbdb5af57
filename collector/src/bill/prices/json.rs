//! A price book for machines: JSON with decimals and instants as texts, and `null` for what it does not say.

use contador_schemas::mapping::Glob;
use serde_json::{Map, Value, json};

use super::file::words;
use super::{Consumption, ConsumptionRule, Energy, NetworkRate, Percentage, PriceBook, Rate, StorageRate};
use crate::bill::decimal::format;
use crate::bill::document::shown::rfc3339;

impl PriceBook {
    /// The whole book as one JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id(),
            "currency": self.currency,
            "time_zone": self.time_zone,
            "issuer": known(&self.issuer),
            "decimals": self.decimals,
            "rates": all(&self.rates, rate),
            "consumption": all(&self.consumption, rule),
            "energy": all(&self.energy, energy),
            "energy_billing": words::name(&words::BILLING, self.energy_is_a_line),
            "storage": all(&self.storage, storage),
            "network": all(&self.network, network),
            "markups": all(&self.markups, percentage),
            "taxes": all(&self.taxes, percentage),
            "policy": self.policy(),
        })
    }

    fn policy(&self) -> Value {
        let mut policy: Map<_, _> =
            self.policies().into_iter().map(|(of, what)| (of.to_owned(), json!(what))).collect();
        policy.insert("platform".to_owned(), json!(known(&self.policy.platform)));
        Value::Object(policy)
    }
}

fn all<T>(items: &[T], one: fn(&T) -> Value) -> Value {
    items.iter().map(one).collect()
}

/// Nothing for an empty text.
fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Nothing for always.
fn since(second: u32) -> Option<String> {
    (second != 0).then(|| rfc3339(second))
}

fn rate(rate: &Rate) -> Value {
    json!({
        "gpu_model": rate.gpu_model,
        "mig_profile": rate.mig_profile,
        "environment": rate.environment,
        "consumption": rate.consumption.map(Consumption::as_str),
        "valid_from": since(rate.valid_from),
        "hourly": format(rate.hourly),
        "of": rate.unit(),
        "basis": words::name(&words::BASES, rate.basis),
        "increment_ms": rate.increment_ms,
        "minimum_ms": rate.minimum_ms,
        "derivation": known(&rate.derivation),
        "source": known(&rate.source),
    })
}

fn rule(rule: &ConsumptionRule) -> Value {
    let matches = rule.matches.iter().map(|(name, glob)| (name.clone(), json!(glob.as_str())));
    json!({ "model": rule.model.as_str(), "match": matches.collect::<Map<_, _>>() })
}

fn energy(energy: &Energy) -> Value {
    json!({
        "valid_from": since(energy.valid_from),
        "nodes": energy.nodes.iter().map(Glob::as_str).collect::<Vec<_>>(),
        "tariff": format(energy.tariff),
        "pue": format(energy.pue),
        "carbon_g_per_kwh": energy.carbon_g_per_kwh.map(format),
        "source": known(&energy.source),
    })
}

fn storage(rate: &StorageRate) -> Value {
    json!({
        "class": rate.class.as_str(),
        "department": known(&rate.department),
        "project": known(&rate.project),
        "valid_from": since(rate.valid_from),
        "per_gib_month": format(rate.per_gib_month),
        "month_hours": rate.month_hours,
    })
}

fn network(rate: &NetworkRate) -> Value {
    json!({
        "class": rate.class.as_str(),
        "department": known(&rate.department),
        "project": known(&rate.project),
        "valid_from": since(rate.valid_from),
        "per_gib": format(rate.per_gib),
    })
}

fn percentage(percentage: &Percentage) -> Value {
    json!({
        "name": percentage.name,
        "percent": format(percentage.percent),
        "departments": percentage.departments,
        "valid_from": since(percentage.valid_from),
        "valid_to": percentage.valid_to.map(rfc3339),
    })
}
