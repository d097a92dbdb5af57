//! Whether the program is alive (`/healthz`), ready (`/readyz`), and what it counts (`/metrics`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{StatusCode, header};
use serde_json::json;
use tokio::sync::watch;

use crate::ingest::meters::Meters;
use crate::latency::gauges::Gauges;
use crate::store::{Store, StoreState};

#[derive(Clone)]
struct Known {
    place: Arc<str>,
    state: watch::Receiver<StoreState>,
    meters: Arc<Meters>,
    gauges: Gauges,
}

/// The routes.
pub(super) fn router(store: Store, state: watch::Receiver<StoreState>, meters: Arc<Meters>, gauges: Gauges) -> Router {
    let known = Known { place: store.place().into(), state, meters, gauges };
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(known)
}

async fn ready(State(known): State<Known>) -> Response {
    let state = known.state.borrow().clone();
    let code = if state.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "ready": state.is_ready(),
        "clickhouse": { "state": state.as_str(), "at": &*known.place, "reason": state.note() },
    });
    (code, Json(body)).into_response()
}

async fn metrics(State(known): State<Known>) -> Response {
    known.meters.state("store_up", usize::from(known.state.borrow().reason().is_none()));
    match known.meters.text().and_then(|text| Ok(text + &known.gauges.text()?)) {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("metrics: {error}\n")).into_response(),
    }
}
