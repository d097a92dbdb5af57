//! The agent's HTTP listener.
//!
//! `POST /v1/latency` takes latencies: [`params`] reads whose they are from the query and [`interval`] when they were, [`body`]
//! is read up to a limit where there is [`room`] for it, [`hdr`] makes cells of a histogram and [`values`] of single values in a [`mod@unit`] of theirs, and
//! [`push`] keeps them in the spool before it answers. `POST /v1/metrics`, and `Export` by gRPC, take any metrics ([`otlp`]).
//! `GET /metrics`, `/healthz` (the process runs) and `/readyz` (the sensors answer) tell how the agent is ([`health`]);
//! `/metrics` shows what it last measured, too ([`crate::exposition`]).

pub mod body;
#[cfg(test)]
mod fixture;
pub mod hdr;
pub mod health;
pub mod interval;
pub mod otlp;
pub mod params;
pub mod push;
pub mod room;
pub mod unit;
pub mod values;

use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};

use crate::exposition::Exposition;
use crate::outbox::Keeper;
use crate::telemetry::Telemetry;
use crate::totals::Totals;

pub use health::Health;
pub use room::Room;

/// What the handlers share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Host name.
    pub node: String,
    /// Greatest body of a push in bytes.
    pub max_push_bytes: usize,
    /// How long a body may take to come: [`body::PATIENCE`].
    pub patience: Duration,
    /// Where pushes are kept.
    pub keeper: Keeper,
    /// Running totals, and where requests are kept.
    pub totals: Totals,
    /// The memory that all requests at work take together.
    pub room: Room,
    /// The agent's own counters.
    pub telemetry: Telemetry,
    /// Whether the sensors answer.
    pub health: Health,
    /// What was last measured.
    pub exposition: Exposition,
}

impl Shared {
    fn limits(&self) -> body::Limits {
        body::Limits { max_bytes: self.max_push_bytes, patience: self.patience }
    }
}

/// The listener's routes.
pub fn router(shared: Shared) -> Router {
    Router::new()
        .route("/v1/latency", post(push::push))
        .route("/v1/metrics", post(otlp::by_http))
        .route(otlp::EXPORT, post(otlp::by_grpc))
        .route("/metrics", get(health::metrics))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .with_state(shared)
}
