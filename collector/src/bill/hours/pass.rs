//! One pass: hours that have ended and have changed since the last one are summed again, whole. A pass that dies leaves hours that the next
//! one makes again, since the watermark is written last; two at once make the same rows.

use clickhouse::Row;
use serde::{Deserialize, Serialize};

use super::{HOUR, Span, TABLE, within};
use crate::bill::facts::{GREATER, UNKNOWN};
use crate::latency::levels::MARGIN_SECONDS;
use crate::store::Store;

/// Hours that are summed at once: a week.
const HOURS_AT_ONCE: usize = 168;

/// Longest time that ClickHouse may take for a statement, seconds.
const STATEMENT_SECONDS: &str = "600";

/// A row of `rollups`.
#[derive(Deserialize, Row, Serialize)]
struct Rollup {
    level: String,
    pass: u64,
    watermark: i64,
    windows: u64,
    finished: i64,
}

/// Number of the last pass, its watermark, and now by ClickHouse's clock, Unix milliseconds; the first two are 0 before the first pass.
pub(super) async fn last(store: &Store) -> clickhouse::error::Result<(u64, i64, i64)> {
    let sql = format!(
        "SELECT max(pass), if(count() = 0, 0, toUnixTimestamp64Milli(argMax(watermark, pass))), \
             toUnixTimestamp64Milli(now64(3)) FROM rollups WHERE level = '{TABLE}'"
    );
    store.client.query(&sql).fetch_one().await
}

/// Milliseconds since the last pass ended; `None` before the first.
pub(super) async fn age(store: &Store) -> clickhouse::error::Result<Option<i64>> {
    let sql = format!(
        "SELECT count(), toUnixTimestamp64Milli(now64(3)) - toUnixTimestamp64Milli(max(finished)) \
         FROM rollups WHERE level = '{TABLE}'"
    );
    let (passes, age): (u64, i64) = store.client.query(&sql).fetch_one().await?;
    Ok((passes > 0).then_some(age))
}

/// Sums every hour that has ended and of which a row was stored since the last pass; returns how many.
///
/// # Errors
/// When ClickHouse fails; what was made by then stays.
pub async fn pass(store: &Store) -> clickhouse::error::Result<usize> {
    let (pass, from, now) = last(store).await?;
    let watermark = now - i64::from(MARGIN_SECONDS) * 1_000;
    let dirty = dirty(store, from.min(watermark), watermark).await?;
    for some in dirty.chunks(HOURS_AT_ONCE) {
        let spans: Vec<Span> = some.iter().map(|hour| (*hour, hour + HOUR)).collect();
        make(store, &spans, pass + 1).await?;
    }
    let (_, _, finished) = last(store).await?;
    let windows = dirty.len() as u64;
    let row = Rollup { level: TABLE.to_owned(), pass: pass + 1, watermark, windows, finished };
    let mut insert = store.client.insert::<Rollup>("rollups").await?;
    insert.write(&row).await?;
    insert.end().await?;
    Ok(dirty.len())
}

/// Hours that end by the watermark, and that have rows from after `from`, or ended after it.
async fn dirty(store: &Store, from: i64, watermark: i64) -> clickhouse::error::Result<Vec<u32>> {
    let hour = format!("toUInt32(intDiv(toUInt32(minute), {HOUR}) * {HOUR})");
    let end = watermark.div_euclid(1_000);
    let end = (end - end.rem_euclid(HOUR.into())).max(0);
    let ended = from.div_euclid(1_000);
    let ended = (ended - ended.rem_euclid(HOUR.into())).max(0);
    let sql = format!(
        "SELECT DISTINCT {hour} AS dirty FROM ledger WHERE minute < toDateTime({end}, 'UTC') \
         AND (stored >= fromUnixTimestamp64Milli(toInt64({from})) OR minute >= toDateTime({ended}, 'UTC')) ORDER BY dirty"
    );
    store.client.query(&sql).with_setting("max_execution_time", STATEMENT_SECONDS).fetch_all().await
}

async fn make(store: &Store, spans: &[Span], pass: u64) -> clickhouse::error::Result<()> {
    // Consecutive hours are one condition.
    let mut joined: Vec<Span> = Vec::new();
    for (from, to) in spans {
        match joined.last_mut() {
            Some(last) if last.1 == *from => last.1 = *to,
            _ => joined.push((*from, *to)),
        }
    }
    let sql = format!(
        "INSERT INTO {TABLE} (hour, device, owner, kind, node, held_ms, share_ms, unknown_ms, busy_ms, greater_ms, \
            memory_mib_ms, energy_mj, minutes, simulated, pass) \
         SELECT toStartOfHour(minute) AS start, device, owner, kind, max(node), sum(held_ms), sum(share_ms), sum({UNKNOWN}), \
            sum(busy_ms), sum({GREATER}), sum(memory_mib_ms), sum(energy_mj), count(), max(simulated), {pass} \
         FROM ledger FINAL WHERE {} GROUP BY device, owner, kind, start",
        within("minute", &joined),
    );
    let query = store.client.query(&sql).with_setting("max_query_size", "4194304");
    query
        .with_setting("distributed_foreground_insert", "1")
        .with_setting("do_not_merge_across_partitions_select_final", "1")
        .with_setting("max_execution_time", STATEMENT_SECONDS)
        .execute()
        .await
}
