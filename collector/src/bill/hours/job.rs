//! The task of `contador serve` that sums hours, and tries again for as long as it takes. Any number of collectors may run it.

use std::time::Duration;

use tokio::sync::watch;

use super::pass;
use crate::store::watch::chain;
use crate::store::{Store, StoreState};

/// Time between two passes.
const INTERVAL: Duration = Duration::from_secs(900);

/// Time until the next try after a failure.
const RETRY: Duration = Duration::from_secs(60);

/// Sums hours now and then; never ends by itself.
pub async fn run(store: Store, mut state: watch::Receiver<StoreState>) {
    loop {
        if state.wait_for(|state| state.reason().is_none()).await.is_err() {
            return;
        }
        let wait = turn(&store).await.unwrap_or_else(|error| {
            tracing::warn!(error = chain(&error), "hours of the ledger were not summed; bills are made from its rows");
            RETRY
        });
        tokio::time::sleep(wait).await;
    }
}

/// A pass, unless another collector has just made one; how long to wait then.
async fn turn(store: &Store) -> clickhouse::error::Result<Duration> {
    if let Some(age) = pass::age(store).await? {
        let age = Duration::from_millis(u64::try_from(age).unwrap_or(u64::MAX));
        if age < INTERVAL {
            return Ok(INTERVAL - age);
        }
    }
    let hours = pass::pass(store).await?;
    tracing::debug!(hours, "summed hours of the ledger");
    Ok(INTERVAL)
}
