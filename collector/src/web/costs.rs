//! `GET /api/v1/costs`: what a period cost, by any dimensions: the same numbers as `contador report`, since both add up the lines of the
//! same statement.
//!
//! Parameters: `month` (such as `2026-10`), or `from` and `to` (RFC 3339, dates or epoch seconds; half-open); `time_zone` (that of closed months if absent, else the price book's);
//! `by` (dimensions, separated by commas; `department` if absent); and any dimension by its name, which leaves lines of that value alone.

use std::collections::HashSet;

use axum::extract::{RawQuery, State};
use axum::routing::get;
use axum::{Json, Router};
use contador_schemas::owner::OwnerKind;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::Known;
use super::answer::{Fault, asked, only_get};
use crate::bill::period::{self, Period};
use crate::bill::report::{Dimension, named};
use crate::bill::settle::Amounts;
use crate::bill::statement::{self, BillError, Statement};
use crate::bill::units::{self, Counts, Served, UnitCosts};
use crate::bill::view::{self, Filter, Group};
use crate::store::Store;
use crate::store::watch::chain;

/// Most groups of an answer; who wants more asks for a part, or takes `contador report`.
const MOST_GROUPS: usize = 10_000;

pub(super) fn routes() -> Router<Known> {
    Router::new().route("/api/v1/costs", get(costs)).method_not_allowed_fallback(only_get)
}

impl From<BillError> for Fault {
    fn from(error: BillError) -> Self {
        match &error {
            BillError::NoPrices => {
                Self::Conflict("no prices: load a price book with contador prices load FILE".to_owned())
            }
            BillError::Currencies { .. } => Self::Conflict(error.to_string()),
            BillError::Store(_) => Self::Later(chain(&error)),
            BillError::Closed(_) => Self::Broken(chain(&error)),
        }
    }
}

/// What is asked for.
#[derive(Debug)]
struct Question {
    /// A month, or both ends of a period, as they were asked for.
    span: Span,
    /// That of closed months, else the price book's, if it is not told.
    zone: Option<TimeZone>,
    by: Vec<Dimension>,
    filter: Filter,
}

/// A period whose time zone may not be known yet.
#[derive(Clone, Debug)]
enum Span {
    Month(String),
    Between(String, String),
}

impl Question {
    /// The period, in this zone if the question does not tell one.
    fn period(&self, zone: &TimeZone) -> Result<Period, String> {
        let zone = self.zone.as_ref().unwrap_or(zone);
        let period = match &self.span {
            Span::Month(month) => Period::month(month, zone),
            Span::Between(from, to) => Period::between(from, to, zone),
        };
        period.map_err(|error| error.to_string())
    }
}

fn read(query: &str) -> Result<Question, String> {
    let (mut month, mut from, mut to, mut zone) = (None, None, None, None);
    let (mut by, mut filter) = (Vec::new(), Filter::default());
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        if name != "by" && seen.iter().any(|seen| *seen == *name) {
            return Err(format!("{name}: {value:?} is a second value, expected one"));
        }
        seen.push(name.to_string());
        let value = value.into_owned();
        match name.as_ref() {
            "month" => month = Some(value),
            "from" => from = Some(value),
            "to" => to = Some(value),
            "time_zone" => zone = Some(value),
            "by" => {
                for name in value.split(',') {
                    let dimension =
                        Dimension::parse(name).ok_or_else(|| format!("by: {name:?}, expected {}", dimensions()))?;
                    if !by.contains(&dimension) {
                        by.push(dimension);
                    }
                }
            }
            name => {
                let dimension = Dimension::parse(name).ok_or_else(|| {
                    format!(
                        "{name}: {value:?}, expected no such parameter, but month, from, to, time_zone, by, {}",
                        dimensions()
                    )
                })?;
                filter = filter.only(dimension, value);
            }
        }
    }
    let zone = zone.map(|zone| period::zone(&zone)).transpose().map_err(|error| error.to_string())?;
    // A plus that was not escaped is a blank.
    let span = match (month, from, to) {
        (Some(month), None, None) => Span::Month(month),
        (None, Some(from), Some(to)) => Span::Between(from.replace(' ', "+"), to.replace(' ', "+")),
        _ => return Err("month: expected one such as 2026-10, or from and to".to_owned()),
    };
    if by.is_empty() {
        by.push(Dimension::Department);
    }
    let question = Question { span, zone, by, filter };
    question.period(&TimeZone::UTC)?;
    Ok(question)
}

fn dimensions() -> String {
    Dimension::ALL.map(Dimension::as_str).join(", ")
}

async fn costs(State(known): State<Known>, RawQuery(query): RawQuery) -> Result<Json<Value>, Fault> {
    let question = read(&query.unwrap_or_default()).map_err(Fault::Asked)?;
    let (statement, served) = asked(&known, find(&known.store, &question)).await?;
    answer(&question, &statement, &served).map(Json)
}

async fn find(store: &Store, question: &Question) -> Result<(Statement, Served), Fault> {
    let zone = match &question.zone {
        Some(zone) => zone.clone(),
        None => statement::zone(store, None).await?,
    };
    let period = question.period(&zone).map_err(Fault::Asked)?;
    let statement = statement::build(store, &period, None).await?;
    let directory = statement::directory(store, &period).await?;
    let served = units::fetch(store, &period, directory.as_ref()).await.map_err(BillError::from)?;
    Ok((statement, served))
}

fn answer(question: &Question, statement: &Statement, served: &Served) -> Result<Value, Fault> {
    let Question { by, filter, .. } = question;
    let period = &statement.period;
    let groups = view::groups(statement, by, filter);
    if groups.len() > MOST_GROUPS {
        return Err(Fault::Asked(format!(
            "by: {} groups, expected at most {MOST_GROUPS}: ask for a part, or use contador report",
            groups.len()
        )));
    }
    let (mut counts, mut left_out) = served.of(by, filter);
    // Who served and has no line here, such as one whose GPUs are not metered, is told among the others.
    let payers: HashSet<&[String]> =
        groups.iter().filter(|group| is_workload(group)).map(|group| &*group.values).collect();
    counts.retain(|values, counts| {
        let is_here = payers.contains(values.as_slice());
        if !is_here {
            left_out.add(counts);
        }
        is_here
    });
    let total: Amounts = groups.iter().map(|group| &group.amounts).sum();
    let shown = groups.iter().map(|group| {
        let mut object = Map::new();
        for (dimension, value) in by.iter().zip(&group.values) {
            object.insert(dimension.as_str().to_owned(), json!(value));
        }
        object.insert("kind".to_owned(), json!(group.kind.as_str()));
        object.extend(amounts(&group.amounts));
        if let Some(counts) = counts.get(&group.values).filter(|_| is_workload(group)) {
            object.insert("served".to_owned(), served_of(counts));
            object.insert("units".to_owned(), units_of(&UnitCosts::of(&group.amounts, counts)));
        }
        Value::Object(object)
    });
    let filters: Map<String, Value> =
        filter.asked().map(|(dimension, value)| (dimension.as_str().to_owned(), json!(value))).collect();
    let unpriced: Vec<Value> = statement
        .unpriced
        .iter()
        .map(|(what, quantity)| json!({ "what": named(what), "quantity": quantity }))
        .collect();
    Ok(json!({
        "from": period.local(period.from),
        "to": period.local(period.to),
        "month": period.month,
        "time_zone": period.zone_name(),
        "currency": statement.book.currency,
        "prices": statement.book.id(),
        "directory": statement.made.directory,
        "by": by.iter().map(|dimension| dimension.as_str()).collect::<Vec<_>>(),
        "only": filters,
        "groups": shown.collect::<Vec<_>>(),
        "total": amounts(&total),
        "fleet": amounts(&statement.total()),
        "served_of_others": served_of(&left_out),
        "unpriced": unpriced,
        "simulated": statement.made.simulated,
    }))
}

fn is_workload(group: &Group) -> bool {
    group.kind == OwnerKind::Workload
}

fn amounts(amounts: &Amounts) -> Map<String, Value> {
    let value = json!({
        "cost": amounts.cost,
        "effective_cost": amounts.effective,
        "gpu_hours": amounts.gpu_hours,
        "unpriced_gpu_hours": amounts.unpriced,
        "busy_gpu_hours": amounts.busy,
        "unknown_use_gpu_hours": amounts.unknown,
        "energy_kwh": amounts.energy,
        "site_energy_kwh": amounts.site_energy,
        "co2e_g": amounts.carbon,
    });
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn served_of(counts: &Counts) -> Value {
    json!({
        "requests": counts.requests,
        "input_tokens": counts.input_tokens,
        "output_tokens": counts.output_tokens,
    })
}

fn units_of(units: &UnitCosts) -> Value {
    json!({
        "per_1000_requests": units.per_1000_requests,
        "per_million_output_tokens": units.per_million_output_tokens,
        "per_gpu_hour": units.per_gpu_hour,
        "per_busy_gpu_hour": units.per_busy_gpu_hour,
        "requests_per_gpu_hour": units.requests_per_gpu_hour,
        "output_tokens_per_gpu_hour": units.output_tokens_per_gpu_hour,
        "utilisation": units.utilisation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_string_is_a_question() {
        let question = read("from=2026-10-01T00:00:00%2B02:00&to=2026-10-02&time_zone=Europe/Berlin&by=department,day&by=day&project=a%20b").unwrap();
        assert_eq!(question.by, [Dimension::Department, Dimension::Day]);
        assert_eq!(question.filter.asked().collect::<Vec<_>>(), [(Dimension::Project, "a b")]);
        let period = question.period(&TimeZone::UTC).unwrap();
        assert_eq!((period.from, period.to), (1_790_805_600_000, 1_790_892_000_000));
        assert_eq!(read("month=2026-10").unwrap().by, [Dimension::Department]);
    }

    #[test]
    fn faults_name_the_parameter_its_value_and_what_was_expected() {
        let fault = |query: &str| read(query).unwrap_err();
        assert_eq!(fault(""), "month: expected one such as 2026-10, or from and to");
        assert_eq!(fault("month=2026-10&from=1&to=2"), fault(""));
        assert!(fault("month=2026").starts_with("month \"2026\": expected a year and a month"));
        assert!(fault("month=2026-10&by=team").starts_with("by: \"team\", expected department, cost-centre, project"));
        assert!(fault("month=2026-10&team=a").starts_with("team: \"a\", expected no such parameter, but month, from"));
        assert_eq!(fault("month=2026-10&project=a&project=b"), "project: \"b\" is a second value, expected one");
        assert!(fault("month=2026-10&time_zone=Mars").starts_with("time zone \"Mars\": expected"));
    }
}
