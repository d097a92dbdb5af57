//! How the agent is.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::Shared;
use crate::outbox::send::chain;

/// Whether the sensors answer, and if not, why. Clones share it.
#[derive(Clone, Debug)]
pub struct Health(Arc<RwLock<Result<(), String>>>);

impl Default for Health {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Err("no sample has been taken yet".to_owned()))))
    }
}

impl Health {
    /// Says how it is now.
    pub fn set(&self, state: Result<(), String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// How it is.
    pub fn get(&self) -> Result<(), String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// `GET /healthz`
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /readyz`
pub async fn readyz(State(shared): State<Shared>) -> Response {
    match shared.health.get() {
        Ok(()) => "ready\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response(),
    }
}

/// `GET /metrics`
pub async fn metrics(State(shared): State<Shared>) -> Response {
    match shared.exposition.text(&shared.telemetry, Instant::now()) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, chain(&error)).into_response(),
    }
}
