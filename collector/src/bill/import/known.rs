//! What the store has of jobs that a file knows only in part, so that importing an older file never undoes a newer one.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::Parsed;
use crate::bill::StoreError;
use crate::store::Store;

/// Ids asked for at once, and the longest query that ClickHouse may then be sent: an id takes 39 bytes of it.
const IDS_A_QUERY: usize = 50_000;
const QUERY_BYTES: &str = "4194304";

#[derive(Deserialize, Row)]
struct Known {
    #[serde(with = "clickhouse::serde::uuid")]
    id: Uuid,
    begins: i64,
    ends: i64,
}

/// Leaves out open jobs of which the store knows as much or more, and the news that a job had no time if the store has nothing
/// of it. Asks nothing if the file has neither.
///
/// # Errors
/// [`StoreError`].
pub(super) async fn settle(store: &Store, parsed: &mut Parsed) -> Result<(), StoreError> {
    let partial = parsed.lines().iter().filter(|line| line.is_open || line.is_void());
    let asked: Vec<(i64, Uuid)> = partial.map(|line| (line.start, line.id)).collect();
    if asked.is_empty() {
        return Ok(());
    }
    let mut known = HashMap::new();
    for some in asked.chunks(IDS_A_QUERY) {
        let rows: Vec<Known> = store
            .client
            .query(&sql(some))
            .with_setting("max_query_size", QUERY_BYTES)
            .fetch_all()
            .await
            .map_err(StoreError::doing("read the jobs that were imported before"))?;
        known.extend(rows.into_iter().map(|row| (row.id, (row.begins, row.ends))));
    }
    parsed.settle(&known);
    Ok(())
}

fn sql(some: &[(i64, Uuid)]) -> String {
    let starts = || some.iter().map(|(start, _)| *start);
    let (first, last) = (starts().min().unwrap_or_default(), starts().max().unwrap_or_default());
    let ids: Vec<String> = some.iter().map(|(_, id)| format!("'{id}'")).collect();
    format!(
        "SELECT id, toUnixTimestamp64Milli(start) AS begins, toUnixTimestamp64Milli(`end`) AS ends FROM allocations FINAL \
         WHERE start >= fromUnixTimestamp64Milli(toInt64({first})) AND start <= fromUnixTimestamp64Milli(toInt64({last})) \
         AND id IN ({}) SETTINGS do_not_merge_across_partitions_select_final = 1",
        ids.join(",")
    )
}
