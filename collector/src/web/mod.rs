//! Rows to pages: the API of the web listener. [`params`] reads a query string into a question, [`latency`] asks it of
//! [`crate::latency`] and answers in JSON; [`costs`] does the same for a bill. Faults of the caller are 400 with what was expected. The answer is 503 and a time to
//! come back while ClickHouse is away, when it takes too long, and, which is another reason, when so many ask at once that a
//! question does not get its turn in a while.

mod answer;
mod costs;
mod latency;
mod params;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::store::{Store, StoreState};

/// Most questions that ClickHouse is asked at once.
const MOST_AT_ONCE: usize = 8;

/// Longest wait for one's turn.
const TURN: Duration = Duration::from_secs(10);

/// What a page needs.
#[derive(Clone)]
struct Known {
    store: Store,
    state: watch::Receiver<StoreState>,
    places: Places,
}

/// Places of questions that are asked at once; clones share them.
#[derive(Clone)]
struct Places {
    free: Arc<Semaphore>,
    most: usize,
    patience: Duration,
}

impl Places {
    fn new(most: usize, patience: Duration) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), most, patience }
    }

    /// A place, until it is dropped.
    ///
    /// # Errors
    /// There is none for too long; says so.
    async fn take(&self) -> Result<OwnedSemaphorePermit, String> {
        match tokio::time::timeout(self.patience, Arc::clone(&self.free).acquire_owned()).await {
            Ok(place) => place.map_err(|error| error.to_string()),
            Err(_) => Err(format!(
                "{} questions are being answered and more wait: this one had no turn within {} s, expected to come back",
                self.most,
                self.patience.as_secs_f64()
            )),
        }
    }
}

/// The routes.
pub fn router(store: Store, state: watch::Receiver<StoreState>) -> Router {
    let known = Known { store, state, places: Places::new(MOST_AT_ONCE, TURN) };
    latency::routes().merge(costs::routes()).with_state(known)
}
