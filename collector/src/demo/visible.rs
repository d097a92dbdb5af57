//! How long a sample takes until somebody who asks ClickHouse sees it.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::store::Store;

/// How often ClickHouse is asked; what is measured is too long by up to this much.
const POLL: Duration = Duration::from_millis(50);

/// Milliseconds from the instant of each device sample to the answer in which it was first seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Visible(Vec<i64>);

impl Visible {
    /// The median and the maximum; `None` when no sample was seen.
    pub(super) fn median_and_max(mut self) -> Option<(i64, i64)> {
        self.0.sort_unstable();
        Some((*self.0.get(self.0.len().checked_sub(1)? / 2)?, *self.0.last()?))
    }
}

/// Watches `gpu_samples`, or `storage_samples` on a machine whose GPUs can't be sampled, until `stop`.
pub(super) async fn watch(store: Store, table: &'static str, stop: CancellationToken) -> anyhow::Result<Visible> {
    let mut seen = Visible::default();
    let mut last = now_ms();
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let sql = format!(
        "SELECT DISTINCT toUnixTimestamp64Milli(ts) FROM {table} WHERE ts > fromUnixTimestamp64Milli(?) ORDER BY 1"
    );
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return Ok(seen),
        }
        let fresh: Vec<i64> = store.client.query(&sql).bind(last).fetch_all().await?;
        let now = now_ms();
        seen.0.extend(fresh.iter().map(|ts| now - ts));
        last = fresh.last().copied().unwrap_or(last);
    }
}

pub(super) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_is_the_lower_one() {
        assert_eq!(Visible(vec![9, 1, 5, 3]).median_and_max(), Some((3, 9)));
        assert_eq!(Visible(vec![7]).median_and_max(), Some((7, 7)));
        assert_eq!(Visible::default().median_and_max(), None);
    }
}
