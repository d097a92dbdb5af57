//! How the agent is.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::Shared;
use crate::errors::chain;

/// Whether the sensors answer, and if not, why. Clones share it.
#[derive(Clone, Debug)]
pub struct Health(Arc<RwLock<Shown>>);

#[derive(Debug)]
struct Shown {
    ready: Result<(), String>,
    remarks: Vec<String>,
}

impl Default for Health {
    fn default() -> Self {
        let ready = Err("no sample has been taken yet".to_owned());
        Self(Arc::new(RwLock::new(Shown { ready, remarks: Vec::new() })))
    }
}

impl Health {
    /// Says how it is now.
    pub fn set(&self, state: Result<(), String>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).ready = state;
    }

    /// Says what is wrong with single devices and schedulers, of which the others don't know.
    pub fn set_remarks(&self, remarks: Vec<String>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remarks = remarks;
    }

    /// How it is.
    pub fn get(&self) -> Result<(), String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).ready.clone()
    }

    /// What is wrong with single devices and schedulers.
    pub fn remarks(&self) -> Vec<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).remarks.clone()
    }
}

/// `GET /healthz`
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /readyz`
pub async fn readyz(State(shared): State<Shared>) -> Response {
    let remarks: String = shared.health.remarks().iter().map(|remark| format!("{remark}\n")).collect();
    match shared.health.get() {
        Ok(()) => format!("ready\n{remarks}").into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n{remarks}")).into_response(),
    }
}

/// `GET /metrics`
pub async fn metrics(State(shared): State<Shared>) -> Response {
    match shared.exposition.text(&shared.telemetry, Instant::now()) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, chain(&error)).into_response(),
    }
}
