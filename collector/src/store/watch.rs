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

/// Keeps `state` true until it is dropped on the other side of the returned future; never ends by itself.
pub async fn watch(store: Store, state: watch::Sender<StoreState>) {
    loop {
        match migrate::up(&store).await {
            Ok(report) => {
                tracing::info!(version = report.version, applied = report.applied.len(), "clickhouse is up");
                state.send_replace(StoreState::Up);
                break;
            }
            Err(error) => {
                let reason = format!("clickhouse at {}: {}", store.place(), chain(&error));
                tracing::warn!(reason, "not ready");
                state.send_replace(StoreState::Starting(reason));
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
    let mut failures = 0_u32;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let look = store.client.query("SELECT 1").fetch_one::<u8>();
        let look = tokio::time::timeout(PATIENCE, look).await.unwrap_or(Err(clickhouse::error::Error::TimedOut));
        match look {
            Ok(_) => {
                failures = 0;
                state.send_if_modified(|state| {
                    let back = *state != StoreState::Up;
                    if back {
                        tracing::info!("clickhouse is up again");
                        *state = StoreState::Up;
                    }
                    back
                });
            }
            Err(error) => {
                // One late answer is no outage.
                failures += 1;
                if failures >= 2 {
                    let reason = format!("clickhouse at {}: {}", store.place(), chain(&error));
                    if failures == 2 {
                        tracing::warn!(reason, "clickhouse is down");
                    }
                    state.send_replace(StoreState::Down(reason));
                }
            }
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
