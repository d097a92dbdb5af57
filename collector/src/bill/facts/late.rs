//! Whether something came late: rows of a period that the store took after an instant.

use super::gaps;
use super::spans::Spans;
use crate::bill::StoreError;
use crate::bill::period::Period;
use crate::store::Store;

/// Whether the store has taken, after `instant` (Unix milliseconds, by its own clock), an allocation that touches the period, or a row of
/// the ledger that is of it or so near that it may end a gap which is. A row that was sent again counts, although it changes nothing:
/// this only says where to look. It costs little, since parts of a table that are older are not read.
///
/// # Errors
/// [`StoreError`].
pub async fn late_since(store: &Store, period: &Period, instant: i64) -> Result<bool, StoreError> {
    let late = format!("stored > fromUnixTimestamp64Milli(toInt64({instant}))");
    let exact = Spans::new(period.from, period.to, &[], 0);
    let wide = Spans::new(period.from - gaps::MARGIN_MS, period.to + gaps::MARGIN_MS, &[], 0);
    let sql = format!(
        "SELECT count() FROM (SELECT 1 FROM ledger WHERE {} AND {late} LIMIT 1 \
             UNION ALL SELECT 1 FROM allocations WHERE {} AND {late} LIMIT 1)",
        wide.in_minutes(),
        exact.touches(),
    );
    let found: u64 = store.client.query(&sql).fetch_one().await.map_err(StoreError::doing("look for late rows"))?;
    Ok(found > 0)
}
