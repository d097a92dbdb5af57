//! `/api/v1/latency/…`: quantiles, phases, and which services there are.

use axum::extract::{RawQuery, State};
use axum::routing::get;
use axum::{Json, Router};
use contador_schemas::quantile::State as Trust;
use http::Uri;
use serde_json::{Value, json};

use super::Known;
use super::answer::{Fault, asked, only_get};
use super::params::{self, Page};
use crate::latency::query::metrics_of;
use crate::latency::{Ask, Error, Label, Told, phases, services, show, tell};
use crate::store::watch::chain;

/// Most services or metrics that are named to one who asks for another.
const MOST_NAMES: usize = 20;

pub(super) fn routes() -> Router<Known> {
    Router::new()
        .route("/api/v1/latency/quantile", get(quantile))
        .route("/api/v1/latency/phases", get(phases_of))
        .route("/api/v1/latency/services", get(all_services))
        .route("/api/v1/latency", get(unknown))
        .route("/api/v1/latency/", get(unknown))
        .route("/api/v1/latency/{*page}", get(unknown))
        .method_not_allowed_fallback(only_get)
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match &error {
            Error::Asked { .. } => Self::Asked(error.to_string()),
            Error::Store(_) => Self::Later(chain(&error)),
            Error::Cells { .. } => Self::Broken(chain(&error)),
        }
    }
}

async fn unknown(uri: Uri) -> Fault {
    Fault::Unknown(format!("{:?}, expected one of /api/v1/latency/quantile, phases and services", uri.path()))
}

fn read(page: Page, query: Option<String>) -> Result<Ask, Fault> {
    let ask = params::ask(page, &query.unwrap_or_default()).map_err(|fault| Fault::Asked(fault.to_string()))?;
    ask.check()?;
    Ok(ask)
}

async fn quantile(State(known): State<Known>, RawQuery(query): RawQuery) -> Result<Json<Value>, Fault> {
    let ask = read(Page::Quantile, query)?;
    let told = asked(&known, tell(&known.store, &ask)).await?;
    let mut value = show::told(&ask, &told);
    if !has_traffic(&told) {
        with_names(&known, &ask, &mut value).await?;
    }
    Ok(Json(value))
}

fn has_traffic(told: &Told) -> bool {
    let mut answers = told.series.iter().flat_map(|series| &series.points).flat_map(|point| &point.answers);
    answers.any(|answer| answer.state != Trust::NoTraffic)
}

/// Who asks for a service or a metric that has nothing is told which have.
async fn with_names(known: &Known, ask: &Ask, value: &mut Value) -> Result<(), Fault> {
    let (from, to) = ask.windows();
    let found = asked(known, services(&known.store, from, to)).await?;
    let Value::Object(object) = value else { return Ok(()) };
    let mut metrics = metrics_of(&found, ask.value(&Label::Service).unwrap_or_default());
    if metrics.is_empty() {
        let mut names: Vec<&str> = found.iter().map(|(service, _)| service.as_str()).collect();
        names.dedup();
        object.insert("services_with_traffic".to_owned(), json!(names.len()));
        names.truncate(MOST_NAMES);
        object.insert("services".to_owned(), json!(names));
    } else if ask.value(&Label::Metric).is_none_or(|metric| !metrics.contains(&metric)) {
        object.insert("metrics_with_traffic".to_owned(), json!(metrics.len()));
        metrics.truncate(MOST_NAMES);
        object.insert("metrics".to_owned(), json!(metrics));
    }
    Ok(())
}

async fn phases_of(State(known): State<Known>, RawQuery(query): RawQuery) -> Result<Json<Value>, Fault> {
    let ask = read(Page::Phases, query)?;
    let told = asked(&known, phases::phases(&known.store, &ask)).await?;
    let mut value = show::phases(&ask, &told);
    if told.phases.is_empty() {
        with_names(&known, &ask, &mut value).await?;
    }
    Ok(Json(value))
}

async fn all_services(State(known): State<Known>, RawQuery(query): RawQuery) -> Result<Json<Value>, Fault> {
    let (from, to) = read(Page::Services, query)?.windows();
    let found = asked(&known, services(&known.store, from, to)).await?;
    let mut services: Vec<Value> = Vec::new();
    for part in found.chunk_by(|left, right| left.0 == right.0) {
        let metrics: Vec<&str> = part.iter().map(|(_, metric)| metric.as_str()).collect();
        services.push(json!({ "service": part[0].0, "metrics": metrics }));
    }
    Ok(Json(json!({ "from": from, "to": to, "services": services })))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use tokio::sync::watch;
    use tower::ServiceExt as _;

    use http::StatusCode;

    use super::*;
    use crate::store::{StoreArgs, StoreState};
    use crate::web::Places;

    /// Without a ClickHouse, and so many questions that may be asked at once.
    fn known(most: usize) -> Known {
        let args = StoreArgs {
            url: "http://127.0.0.1:9".to_owned(),
            user: "default".to_owned(),
            database: "contador".to_owned(),
        };
        let store = args.open_with(None).unwrap();
        let (_, state) = watch::channel(StoreState::Up);
        Known { store, state, places: Places::new(most, Duration::from_millis(20)) }
    }

    #[tokio::test]
    async fn who_gets_no_place_is_told_that_too_many_ask_and_not_that_clickhouse_is_slow() {
        let known = known(1);
        let place = known.places.take().await;
        let Err(Fault::Later(reason)) = asked(&known, async { Ok::<_, Error>(()) }).await else {
            panic!("expected no place")
        };
        assert_eq!(
            reason,
            "1 questions are being answered and more wait: this one had no turn within 0.02 s, expected to come back"
        );
        drop(place);
        assert!(asked(&known, async { Ok::<_, Error>(()) }).await.is_ok());
    }

    #[tokio::test]
    async fn every_path_that_is_no_page_is_told_which_there_are() {
        for path in ["/api/v1/latency", "/api/v1/latency/", "/api/v1/latency/quantiles", "/api/v1/latency/a/b"] {
            let request = http::Request::get(path).body(Body::empty()).unwrap();
            let answer = routes().with_state(known(1)).oneshot(request).await.unwrap();
            let status = answer.status();
            let body = to_bytes(answer.into_body(), 1 << 16).await.unwrap();
            let expected = format!("{path:?}, expected one of /api/v1/latency/quantile, phases and services");
            let expected = json!({ "error": expected }).to_string();
            assert_eq!((status, &*body), (StatusCode::NOT_FOUND, expected.as_bytes()));
        }
    }
}
