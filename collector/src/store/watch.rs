//! Whether ClickHouse is there: connects and migrates until it is, then looks every second whether it still is.

use std::time::Duration;

use tokio::sync::watch;

use super::{Store, migrate};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for the answer to a look.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of ClickHouse.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreState {
    /// Not there yet, or its tables are not as they must be; why.
    Starting(String),
    /// There, with all tables.
    Up,
    /// It was there; why it is not any more.
    Down(String),
}

impl StoreState {
    /// Why the store can't be used; `None` when it can.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Up => None,
            Self::Starting(reason) | Self::Down(reason) => Some(reason),
        }
    }
}

/// A state to begin with.
pub fn starting(store: &Store) -> StoreState {
    StoreState::Starting(format!("connecting to clickhouse at {}", store.place()))
}

/// Keeps `state` true; never ends by itself. Each time that ClickHouse comes back, its tables are looked at again: it may
/// be another one.
pub async fn watch(store: Store, state: watch::Sender<StoreState>) {
    let mut was_up = false;
    loop {
        match migrate::up(&store).await {
            Ok(report) => {
                tracing::info!(version = report.version, applied = report.applied.len(), "clickhouse is up");
                state.send_replace(StoreState::Up);
                was_up = true;
                let reason = until_down(&store).await;
                tracing::warn!(reason, "clickhouse is down");
                state.send_replace(StoreState::Down(reason));
            }
            Err(error) => {
                let reason = format!("clickhouse at {}: {}", store.place(), chain(&error));
                let new = if was_up { StoreState::Down(reason) } else { StoreState::Starting(reason) };
                // The same reason again each second is not said again.
                state.send_if_modified(|state| {
                    let changed = *state != new;
                    if changed {
                        tracing::warn!(reason = new.reason(), "not ready");
                        *state = new;
                    }
                    changed
                });
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Asks every second; returns why, once ClickHouse did not answer twice in a row. One late answer is no outage.
async fn until_down(store: &Store) -> String {
    let mut failures = 0_u32;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let look = store.client.query("SELECT 1").fetch_one::<u8>();
        let look = tokio::time::timeout(PATIENCE, look).await.unwrap_or(Err(clickhouse::error::Error::TimedOut));
        match look {
            Ok(_) => failures = 0,
            Err(_) if failures == 0 => failures = 1,
            Err(error) => return format!("clickhouse at {}: {}", store.place(), chain(&error)),
        }
    }
}

/// An error with all of its sources, each once.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        source = error.source();
    }
    text
}
