//! One pass of roll-ups: each level from the one before it, windows that have changed since its watermark, whole.
//!
//! A pass that dies in the middle leaves windows that the next one makes again, since the watermark is written last. Two
//! passes at once make the same rows. A window that is made again from fewer rows, since the others have reached the end
//! of their time to live, counts less than the row that is there, and ClickHouse keeps the one that counts more.

use std::time::Duration;

use clickhouse::Row;
use serde::{Deserialize, Serialize};

use super::levels::{LEVELS, Level, MARGIN_SECONDS, seconds, watermarks};
use crate::store::Store;

/// About how many cells one insert reads: 24 bytes each.
const CHUNK_CELLS: u64 = 4_000_000;

/// Longest time that the windows of one insert span: it may not touch more than 100 partitions.
const CHUNK_SECONDS: u32 = 30 * 86_400;

/// How far the watermark moves at once, in milliseconds: a day.
const STEP: i64 = 86_400_000;

/// Most such steps of a pass: rows are kept for 14 days.
const MOST_STEPS: i64 = 15;

/// [`MARGIN_SECONDS`] in milliseconds.
const MARGIN: i64 = MARGIN_SECONDS as i64 * 1_000;

/// Longest time that ClickHouse may take for one statement, in seconds, and how long it is waited for.
const STATEMENT_SECONDS: &str = "600";
const PATIENCE: Duration = Duration::from_secs(660);

/// A row with more cells than this has them put together.
const MOST_CELLS: u32 = 4_096;

/// Edges are put together on `2^(k/1024)`: each moves outward by less than 0.07 %.
const GRID: u32 = 1_024;

/// Cells that are narrower than this ratio stay as they are: moving their edges would widen them most.
const NARROW: f64 = 1.002;

/// What a pass has done with a level.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Passed {
    /// The level's table.
    pub table: &'static str,
    /// How many windows were made.
    pub windows: u64,
    /// Its watermark now, Unix milliseconds.
    pub watermark: i64,
}

/// A row of `rollups`.
#[derive(Deserialize, Row, Serialize)]
struct Rollup {
    level: String,
    pass: u64,
    watermark: i64,
    windows: u64,
    finished: i64,
}

/// Rolls up everything that was stored before now, less [`MARGIN_SECONDS`], by days of what was stored: what a pass that
/// dies has done by then is done.
///
/// # Errors
/// When ClickHouse fails; what was made by then stays.
pub async fn pass(store: &Store) -> clickhouse::error::Result<Vec<Passed>> {
    let target = clock(store).await? - MARGIN;
    let mut passed = LEVELS.map(|level| Passed { table: level.table, windows: 0, watermark: target });
    for watermark in steps(first(store).await?, target) {
        for (level, passed) in LEVELS.into_iter().zip(&mut passed) {
            passed.windows += roll_up(store, level, watermark, target).await?;
        }
    }
    Ok(passed.into())
}

/// Watermarks from after `first` to `target`, a day apart; all in Unix milliseconds.
fn steps(first: i64, target: i64) -> impl Iterator<Item = i64> {
    let first = first.max(target - MOST_STEPS * STEP);
    std::iter::successors(Some(first), move |at| Some(at + STEP))
        .skip(1)
        .take_while(move |at| *at < target)
        .chain(std::iter::once(target))
}

/// From when there may be something to do: the watermark that is furthest behind, or when the first row was stored.
async fn first(store: &Store) -> clickhouse::error::Result<i64> {
    let watermarks = patiently(watermarks(store)).await?;
    if let Some(least) = watermarks.into_iter().min().filter(|least| *least > 0) {
        return Ok(least);
    }
    let sql = "SELECT toUnixTimestamp64Milli(min(stored)) FROM latency";
    patiently(settings(store.client.query(sql)).fetch_one()).await
}

/// ClickHouse's clock, Unix milliseconds.
async fn clock(store: &Store) -> clickhouse::error::Result<i64> {
    patiently(store.client.query("SELECT toUnixTimestamp64Milli(now64(3))").fetch_one()).await
}

/// What a statement answers, unless it never does.
async fn patiently<T>(answer: impl Future<Output = clickhouse::error::Result<T>>) -> clickhouse::error::Result<T> {
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or(Err(clickhouse::error::Error::TimedOut))
}

/// When the last pass of all levels ended, and now, by ClickHouse's clock, Unix milliseconds; `None` before the first.
///
/// # Errors
/// When ClickHouse fails.
pub async fn last(store: &Store) -> clickhouse::error::Result<Option<(i64, i64)>> {
    let sql = "SELECT toUnixTimestamp64Milli(argMax(finished, pass)), toUnixTimestamp64Milli(now64(3)), count() \
               FROM rollups WHERE level = 'latency_1d'";
    let (finished, now, rows): (i64, i64, u64) = patiently(store.client.query(sql).fetch_one()).await?;
    Ok((rows > 0).then_some((finished, now)))
}

/// Takes a level from where it is to `watermark`; nothing when it is there, unless that is `target`: then the clock was set
/// back, and what was stored since then looks older than the level's watermark.
async fn roll_up(store: &Store, level: Level, watermark: i64, target: i64) -> clickhouse::error::Result<u64> {
    let before = "SELECT ?fields FROM rollups FINAL WHERE level = ?";
    let before: Option<Rollup> = patiently(store.client.query(before).bind(level.table).fetch_optional()).await?;
    let (pass, from) = before.map_or((0, 0), |row| (row.pass, row.watermark));
    if from >= watermark && watermark < target {
        return Ok(0);
    }
    let dirty = dirty(store, level, from.min(watermark), watermark).await?;
    for chunk in chunks(&dirty) {
        make(store, level, &chunk).await?;
    }
    let windows = dirty.len() as u64;
    let finished = clock(store).await?;
    let row = Rollup { level: level.table.to_owned(), pass: pass + 1, watermark, windows, finished };
    patiently(async {
        let mut insert = store.client.insert::<Rollup>("rollups").await?;
        insert.write(&row).await?;
        insert.end().await
    })
    .await?;
    Ok(windows)
}

/// A window that is to be made, and how many cells it is made of.
type Dirty = (u32, u64);

/// Windows that have ended at the watermark and have changed since the last one, `from`: rows in them were stored since, or
/// they have ended since. In a first pass, all that the source has. Those in which a row was stored after the watermark are left
/// to the next pass: a row that is still being put right may count less then, and a window that counts less is not taken.
async fn dirty(store: &Store, level: Level, from: i64, watermark: i64) -> clickhouse::error::Result<Vec<Dirty>> {
    let Level { source, seconds: length, .. } = level;
    let end = seconds(watermark);
    let end = end - end % length;
    let start = format!("toUInt32(intDiv(toUInt32(window), {length}) * {length})");
    let changed = if from <= 0 {
        String::from("1")
    } else {
        let ended = seconds(from);
        let ended = ended - ended % length;
        format!(
            "{start} GLOBAL IN (SELECT {start} FROM latency WHERE window < toDateTime({end}, 'UTC') \
             AND stored >= fromUnixTimestamp64Milli({from}, 'UTC') \
             UNION DISTINCT SELECT {start} FROM latency WHERE window >= toDateTime({ended}, 'UTC') \
             AND window < toDateTime({end}, 'UTC'))"
        )
    };
    let sql = format!(
        "SELECT {start} AS w, toUInt64(sum(length(lo))) AS cells FROM {source} \
         WHERE window < toDateTime({end}, 'UTC') AND {changed} \
         AND {start} GLOBAL NOT IN (SELECT {start} FROM latency WHERE window < toDateTime({end}, 'UTC') \
         AND stored >= fromUnixTimestamp64Milli({watermark}, 'UTC')) GROUP BY w ORDER BY w"
    );
    patiently(settings(store.client.query(&sql)).fetch_all()).await
}

/// Windows that are made by one insert, and of which part of the series.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Chunk {
    windows: Vec<u32>,
    part: u64,
    parts: u64,
}

/// Cuts what is to be made into inserts of bounded size. A window that is too large by itself is made in parts.
fn chunks(dirty: &[Dirty]) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut room = 0;
    for &(window, cells) in dirty {
        if cells > CHUNK_CELLS {
            let parts = cells.div_ceil(CHUNK_CELLS);
            chunks.extend((0..parts).map(|part| Chunk { windows: vec![window], part, parts }));
            room = 0;
            continue;
        }
        match chunks.last_mut() {
            Some(last)
                if cells <= room
                    && last.windows.first().is_some_and(|first| window.saturating_sub(*first) <= CHUNK_SECONDS) =>
            {
                last.windows.push(window);
                room -= cells;
            }
            _ => {
                chunks.push(Chunk { windows: vec![window], part: 0, parts: 1 });
                room = CHUNK_CELLS - cells;
            }
        }
    }
    chunks
}

/// Makes the windows of a chunk whole, from the level's source.
async fn make(store: &Store, level: Level, chunk: &Chunk) -> clickhouse::error::Result<()> {
    let (Some(first), Some(last)) = (chunk.windows.first(), chunk.windows.last()) else { return Ok(()) };
    let Level { table, source, seconds: length } = level;
    let start = format!("toUInt32(intDiv(toUInt32(window), {length}) * {length})");
    let windows: Vec<String> = chunk.windows.iter().map(u32::to_string).collect();
    let part = match chunk.parts {
        1 => String::new(),
        parts => format!(" AND cityHash64(series) % {parts} = {}", chunk.part),
    };
    let (summed, sum_us) = if source == "latency" {
        ("sumIf(count, censored = 0 AND isNotNull(sum_us))", "sumIf(ifNull(sum_us, 0), censored = 0)")
    } else {
        ("sum(summed)", "sum(sum_us)")
    };
    let many = "length(merged.1) > ";
    let snapped = format!(
        "arrayReduce('sumMap', [arrayMap(cell -> if(cell.2 > cell.1 * {NARROW}, ({}, {}), cell), merged.1)], [merged.2])",
        outward("cell.1", "floor", "least", "+"),
        outward("cell.2", "ceil", "greatest", "-"),
    );
    let cells =
        if source == "latency" { "merged".to_owned() } else { format!("if({many}{MOST_CELLS}, {snapped}, merged)") };
    // Names of the sums are none of the source's: ClickHouse would take them for its columns.
    let sql = format!(
        "INSERT INTO {table} (window, series, service, model, metric, route, environment, device, owner, attributes, \
         lo, hi, n, count, summed, sum_us, censored, simulated) \
         SELECT toDateTime(w, 'UTC'), series, service, a_model, metric, a_route, an_environment, a_device, an_owner, \
         the_attributes, arrayMap(cell -> cell.1, cells.1), arrayMap(cell -> cell.2, cells.1), \
         arrayMap(each -> toUInt64(least(each, toUInt128({most}))), cells.2), \
         toUInt64(least(arraySum(cells.2), toUInt128({most}))), \
         all_summed, all_us, all_censored, any_simulated FROM (\
         SELECT {start} AS w, series, service, metric, any(model) AS a_model, any(route) AS a_route, \
         any(environment) AS an_environment, any(device) AS a_device, any(owner) AS an_owner, \
         any(attributes) AS the_attributes, arrayReduce('sumMap', [groupArrayArray(arrayZip(lo, hi))], \
         [arrayMap(each -> toUInt128(each), groupArrayArray(n))]) AS merged, {cells} AS cells, \
         {summed} AS all_summed, {sum_us} AS all_us, sum(censored) AS all_censored, \
         max(simulated AND count > 0) AS any_simulated \
         FROM {source} FINAL PREWHERE window >= toDateTime({first}, 'UTC') AND window < toDateTime({end}, 'UTC') \
         AND {start} IN ({windows}){part} GROUP BY service, metric, series, w)",
        most = u64::MAX,
        end = last.saturating_add(length),
        windows = windows.join(", "),
    );
    patiently(settings(store.client.query(&sql)).execute()).await
}

/// An edge on the grid, never inward: an edge that is on it stays, up to the rounding of `log2`.
fn outward(edge: &str, round: &str, bound: &str, sign: &str) -> String {
    format!("if({edge} > 0, {bound}({edge}, exp2({round}(log2({edge}) * {GRID} {sign} 1e-9) / {GRID})), {edge})")
}

/// Settings of a pass: an insert into a distributed table is done when it is answered.
fn settings(query: clickhouse::query::Query) -> clickhouse::query::Query {
    query
        .with_setting("max_query_size", "16777216")
        .with_setting("distributed_foreground_insert", "1")
        .with_setting("do_not_merge_across_partitions_select_final", "1")
        .with_setting("max_execution_time", STATEMENT_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_goes_by_days_and_ends_where_it_should() {
        let day = 86_400_000;
        let all = |first, target| steps(first, target).collect::<Vec<_>>();
        assert_eq!(all(7, 7 + 2 * day + 1), [7 + day, 7 + 2 * day, 7 + 2 * day + 1]);
        assert_eq!(all(7, 7 + 2 * day), [7 + day, 7 + 2 * day]);
        assert_eq!(all(7, 8), [8]);
        // The clock was set back.
        assert_eq!(all(8, 7), [7]);
        // Nothing was stored yet, or a year ago.
        assert_eq!(all(0, 400 * day).len(), 15);
    }

    #[test]
    fn inserts_are_bounded_and_leave_no_window_out() {
        let dirty: Vec<Dirty> = (0..50).map(|index| (index * 300, 1_000_000)).collect();
        let chunks = chunks(&dirty);
        assert_eq!(chunks.iter().map(|chunk| chunk.windows.len()).max(), Some(4));
        assert_eq!(chunks.iter().flat_map(|chunk| chunk.windows.clone()).count(), 50);
    }

    #[test]
    fn a_window_that_is_too_large_is_made_in_parts_and_distant_ones_apart() {
        let made = chunks(&[(0, 1), (300, 9_000_000), (600, 1), (CHUNK_SECONDS + 900, 1)]);
        let parts: Vec<(u32, u64, u64)> =
            made.iter().map(|chunk| (chunk.windows[0], chunk.part, chunk.parts)).collect();
        assert_eq!(parts, [(0, 0, 1), (300, 0, 3), (300, 1, 3), (300, 2, 3), (600, 0, 1), (CHUNK_SECONDS + 900, 0, 1)]);
        assert!(chunks(&[]).is_empty());
    }
}
