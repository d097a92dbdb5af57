//! The task of `contador serve` that rolls up, and tries again for as long as it takes.
//!
//! Any number of collectors may run it: one that finds that another has just passed waits for the next turn.

use std::time::Duration;

use tokio::sync::watch;

use super::rollup;
use crate::store::watch::chain;
use crate::store::{Store, StoreState};

/// Time between two passes: as long as the shortest window.
const INTERVAL: Duration = Duration::from_secs(300);

/// Time until the next try after a failure.
const RETRY: Duration = Duration::from_secs(10);

/// Rolls up now and then; never ends by itself.
pub async fn run(store: Store, mut state: watch::Receiver<StoreState>) {
    loop {
        if state.wait_for(|state| state.reason().is_none()).await.is_err() {
            return;
        }
        let wait = turn(&store).await.unwrap_or_else(|error| {
            tracing::warn!(error = chain(&error), "latencies were not rolled up; they are read from their rows");
            RETRY
        });
        tokio::time::sleep(wait).await;
    }
}

/// A pass, unless another collector has just made one; how long to wait then.
async fn turn(store: &Store) -> clickhouse::error::Result<Duration> {
    if let Some((finished, now)) = rollup::last(store).await? {
        let age = Duration::from_millis(u64::try_from(now - finished).unwrap_or(u64::MAX));
        if age < INTERVAL {
            return Ok(INTERVAL - age);
        }
    }
    for passed in rollup::pass(store).await? {
        tracing::debug!(table = passed.table, windows = passed.windows, "rolled up");
    }
    Ok(INTERVAL)
}
