//! Rows to pages: the API of the web listener. [`params`] reads a query string into a question, [`latency`] asks it of
//! [`crate::latency`] and answers in JSON. Faults of the caller are 400 with what was expected; while ClickHouse is away,
//! or when too many ask at once, the answer is 503 and a time to come back.

mod latency;
mod params;

use std::sync::Arc;

use axum::Router;
use tokio::sync::{Semaphore, watch};

use crate::store::{Store, StoreState};

/// Most questions that ClickHouse is asked at once.
const MOST_AT_ONCE: usize = 8;

/// What a page needs.
#[derive(Clone)]
struct Known {
    store: Store,
    state: watch::Receiver<StoreState>,
    at_once: Arc<Semaphore>,
}

/// The routes.
pub fn router(store: Store, state: watch::Receiver<StoreState>) -> Router {
    let known = Known { store, state, at_once: Arc::new(Semaphore::new(MOST_AT_ONCE)) };
    latency::routes().with_state(known)
}
