//! Answers as JSON, for the API and for `--json`. Microseconds; what is not known is `null`, never NaN or infinite.

use contador_schemas::quantile::Answer;
use serde_json::{Map, Value, json};

use super::ask::Ask;
use super::phases::{Network, Phase, Phases};
use super::query::{Point, Series, Told};

/// An answer.
pub fn answer(answer: &Answer) -> Value {
    let Answer { low, high, point, ci_low, ci_high, state, n } = answer;
    json!({
        "low_us": low, "high_us": high, "point_us": point, "ci_low_us": ci_low, "ci_high_us": ci_high,
        "state": state, "n": n,
    })
}

/// A point of the first quantile that was asked for.
pub fn point(point: &Point) -> Value {
    let (from, to) = point.span;
    let mut value = json!({ "from": from, "to": to });
    if let (Value::Object(object), Some(first)) = (&mut value, point.answers.first()) {
        if let Value::Object(told) = answer(first) {
            object.extend(told);
        }
        object.insert("censored".to_owned(), json!(point.censored));
        object.insert("mean_us".to_owned(), json!(point.mean_us));
        object.insert("simulated".to_owned(), json!(point.simulated));
    }
    value
}

/// What was asked: every label that must have a value, and the rest.
pub fn asked(ask: &Ask) -> Map<String, Value> {
    let mut object = Map::new();
    for (label, value) in &ask.equal {
        let name = match label {
            super::ask::Label::Attribute(name) => format!("label.{name}"),
            column => column.name().to_owned(),
        };
        object.insert(name, json!(value));
    }
    object
}

/// All answers of the first quantile that was asked for.
pub fn told(ask: &Ask, told: &Told) -> Value {
    let mut object = asked(ask);
    let names: Vec<String> = ask.by.iter().map(super::ask::Label::shown).collect();
    let series: Vec<Value> = told
        .series
        .iter()
        .map(|Series { labels, points }| {
            let labels: Map<String, Value> =
                names.iter().cloned().zip(labels.iter().map(|value| json!(value))).collect();
            json!({ "labels": labels, "points": points.iter().map(point).collect::<Vec<Value>>() })
        })
        .collect();
    object.insert("q".to_owned(), json!(ask.quantiles.first().map(|q| q.fraction())));
    object.insert("from".to_owned(), json!(told.windows.0));
    object.insert("to".to_owned(), json!(told.windows.1));
    object.insert("step_s".to_owned(), json!(ask.step));
    object.insert("max_ratio".to_owned(), json!(ask.max_ratio));
    object.insert("confidence".to_owned(), json!(0.95));
    object.insert("series".to_owned(), json!(series));
    Value::Object(object)
}

/// All phases.
pub fn phases(ask: &Ask, told: &Phases) -> Value {
    let mut object = asked(ask);
    object.remove("metric");
    let (from, to) = ask.windows();
    object.insert("from".to_owned(), json!(from));
    object.insert("to".to_owned(), json!(to));
    let phases: Vec<Value> = told
        .phases
        .iter()
        .map(|Phase { name, metric, n, mean_us, p50, p99, simulated }| {
            json!({
                "phase": name, "metric": metric, "n": n, "mean_us": mean_us, "p50": answer(p50), "p99": answer(p99),
                "simulated": simulated,
            })
        })
        .collect();
    object.insert("phases".to_owned(), json!(phases));
    let network = match told.network {
        Network::Unknown => json!({ "state": "unknown", "mean_us": null }),
        Network::Mean(mean) => json!({ "state": "ok", "mean_us": mean }),
        Network::Inconsistent(_) => json!({ "state": "inconsistent", "mean_us": null }),
    };
    object.insert("network".to_owned(), network);
    Value::Object(object)
}
