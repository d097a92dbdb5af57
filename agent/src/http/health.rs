//! How the agent is.

use std::collections::BTreeMap;
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
    /// By the server that is scraped.
    targets: BTreeMap<String, String>,
}

impl Default for Health {
    fn default() -> Self {
        let ready = Err("no sample has been taken yet".to_owned());
        Self(Arc::new(RwLock::new(Shown { ready, remarks: Vec::new(), targets: BTreeMap::new() })))
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

    /// Says what is wrong with a server that is scraped; `None`: nothing.
    pub fn note_target(&self, url: &str, remark: Option<String>) {
        let targets = &mut self.0.write().unwrap_or_else(PoisonError::into_inner).targets;
        match remark {
            Some(remark) => _ = targets.insert(url.to_owned(), remark),
            None => _ = targets.remove(url),
        }
    }

    /// How it is.
    pub fn get(&self) -> Result<(), String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).ready.clone()
    }

    /// What is wrong with single devices and schedulers, and with servers that are scraped.
    pub fn remarks(&self) -> Vec<String> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        shown.remarks.iter().chain(shown.targets.values()).cloned().collect()
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
