//! How long a p99 takes over an hour, a day, a week and a month, and what its windows take on the disk.
//!
//! One service with `--series` series, each with a row every 10 s, is made inside of the engine from 20,000 rows of cells: 30 to
//! 69 requests each, lognormal; half of the series in exponential buckets of scale 5 whose outer cells are narrowed by least and
//! greatest value, half in cells as narrow as those of an HDR histogram with 3 digits. Rows go back `--days` days, today's are
//! there to its end, as if it were late in the day, and they are rolled up by the real pass, once; then those that are older than
//! 14 days are dropped, as their time to live would. Nothing is dropped before (`SYSTEM STOP TTL MERGES`). Then the p99 is asked
//! for through the query module, in turns with the plain sum of the same rows, where they are kept (`rows`): what it would take
//! without roll-ups.
//!
//! `cargo bench -p contador-tests --bench latency_query -- [--days 30] [--series 100] [--rounds 5]`
#![allow(clippy::unwrap_used, reason = "a benchmark ends at what it does not expect")]

#[path = "../agent_cost/process.rs"]
mod process;

use std::time::Instant;

use contador::latency::rollup::pass;
use contador::latency::{Ask, tell};
use contador::store::{Store, StoreArgs, migrate};
use contador_tests::Engine;
use serde_json::{Value, json};

const SERVICE: &str = "bench";

const HOUR: u32 = 3_600;

const DAY: u32 = 86_400;

/// Days that rows are kept.
const KEPT_DAYS: u32 = 14;

fn main() {
    if !process::is_benchmark() {
        return;
    }
    let (mut days, mut series, mut rounds) = (30_u32, 100_u32, 5_u32);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().and_then(|text| text.parse::<u32>().ok()).expect("expected a whole number");
        match word.as_str() {
            "--days" => days = value(),
            "--series" => series = value(),
            "--rounds" => rounds = value(),
            "--bench" => {}
            other => panic!("{other}: expected --days, --series or --rounds"),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("{:#}", runtime.block_on(measure(days, series, rounds)));
}

async fn measure(days: u32, series: u32, rounds: u32) -> Value {
    let engine = Engine::start().unwrap();
    let url = engine.url().to_owned();
    let args = StoreArgs { url, user: "default".to_owned(), database: "bench".to_owned() };
    let store = args.open().unwrap();
    migrate::up(&store).await.unwrap();
    run(&store, "SYSTEM STOP TTL MERGES latency").await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let now = u32::try_from(now - now % 10).unwrap();
    templates(&store).await;
    let begun = Instant::now();
    for back in (1..=days).rev() {
        fill(&store, (now - back * DAY, now - (back - 1) * DAY), series).await;
    }
    // A day is a partition: an answer that reads the last minutes from rows must not depend on how late it is.
    fill(&store, (now, now.next_multiple_of(DAY)), series).await;
    let filled = begun.elapsed();
    let rows: u64 = store.client.query("SELECT count() FROM latency").fetch_one().await.unwrap();
    let expected = (now - days * DAY..now.next_multiple_of(DAY)).step_by(10).len() as u64 * u64::from(series);
    assert_eq!(rows, expected, "a row of each series each 10 s");
    let begun = Instant::now();
    let passed = pass(&store).await.unwrap();
    let rolled = begun.elapsed();
    let sizes = sizes(&store).await;
    let sql = format!(
        "SELECT DISTINCT partition_id FROM system.parts WHERE active AND database = currentDatabase() AND table = 'latency' \
         AND partition < toString(toDate(toDateTime({}, 'UTC')))",
        now - KEPT_DAYS * DAY
    );
    let gone: Vec<String> = store.client.query(&sql).fetch_all().await.unwrap();
    for partition in gone {
        run(&store, &format!("ALTER TABLE latency DROP PARTITION ID '{partition}'")).await;
    }
    let mut times = Vec::new();
    for (name, length) in [("1h", HOUR), ("1d", DAY), ("7d", 7 * DAY), ("30d", 30 * DAY)] {
        if length <= days * DAY {
            times.push(asked(&store, name, now, length, rounds).await);
        }
    }
    let windows: u64 = passed.iter().map(|passed| passed.windows).sum();
    json!({
        "days": days, "series": series, "rounds": rounds,
        "filled_s": filled.as_secs_f64(), "rolled_up_s": rolled.as_secs_f64(), "windows_rolled_up": windows,
        "tables": sizes, "p99": times,
    })
}

async fn run(store: &Store, sql: &str) {
    store.client.query_raw(sql).execute().await.unwrap();
}

/// Rows of cells to draw from: even ones in exponential buckets of scale 5, odd ones in 1,024 cells for each power of two.
async fn templates(store: &Store) {
    run(
        store,
        "CREATE TABLE template (k UInt32, lo Array(Float64), hi Array(Float64), n Array(UInt64), count UInt64, sum Float64) \
         ENGINE = Memory",
    )
    .await;
    run(
        store,
        "INSERT INTO template WITH number % 2 AS narrow, if(narrow = 1, 1024., 32.) AS steps, \
         arrayMap(i -> exp(12 + 0.45 * sqrt(-2 * log((cityHash64(number, i, 1) % 1000000 + 1) / 1000001.)) \
             * cos(6.283185307179586 * (cityHash64(number, i, 2) % 1000000) / 1000000.)), \
             range(30 + cityHash64(number) % 40)) AS us, \
         arrayReduce('sumMap', [arrayMap(v -> toInt32(ceil(log2(v) * steps)), us)], [arrayMap(v -> toUInt64(1), us)]) AS m, \
         arrayMap(k -> exp2((k - 1) / steps), m.1) AS los, arrayMap(k -> exp2(k / steps), m.1) AS his \
         SELECT number, if(narrow = 1, los, arrayPushFront(arrayPopFront(los), greatest(los[1], arrayMin(us)))), \
         if(narrow = 1, his, arrayPushBack(arrayPopBack(his), least(his[-1], arrayMax(us)))), \
         m.2, length(us), arraySum(us) FROM numbers(20000)",
    )
    .await;
}

/// Rows of a time, in inserts of up to six hours.
async fn fill(store: &Store, (from, to): (u32, u32), series: u32) {
    for from in (from..to).step_by(6 * HOUR as usize) {
        let rows = series * (to - from).min(6 * HOUR) / 10;
        let sql = format!(
            "INSERT INTO latency (window, start_ts, ts, series, source, service, model, metric, route, environment, node, \
             attributes, lo, hi, n, count, sum_us, stored) \
             SELECT toDateTime(w, 'UTC'), toDateTime64(w, 9, 'UTC'), toDateTime64(w + 10, 9, 'UTC'), \
             toUUID(concat('00000000-0000-4000-8000-', leftPad(toString(s), 12, '0'))), \
             toUUID(concat('00000000-0000-4000-9000-', leftPad(toString(s), 12, '0'))), '{SERVICE}', \
             concat('model-', toString(s % 4)), 'request_duration', concat('/route/', toString(s % 7)), 'production', \
             concat('node-', toString(s % 10)), map('cloud.region', concat('r', toString(s % 3))), lo, hi, n, count, sum, \
             toDateTime64(w + 12, 3, 'UTC') \
             FROM (SELECT number % {series} AS s, toUInt32({from} + intDiv(number, {series}) * 10) AS w, \
                   toUInt32(cityHash64(s, w) % 10000 * 2 + s % 2) AS k FROM numbers({rows})) AS rows \
             INNER JOIN template USING (k)"
        );
        run(store, &sql).await;
    }
}

/// Rows and bytes of each table.
async fn sizes(store: &Store) -> Value {
    let mut sizes = serde_json::Map::new();
    for table in ["latency", "latency_5m", "latency_1h", "latency_1d"] {
        let sql = "SELECT toUInt64(sum(rows)), toUInt64(sum(bytes_on_disk)) FROM system.parts \
                   WHERE active AND database = currentDatabase() AND table = ?";
        let (rows, bytes): (u64, u64) = store.client.query(sql).bind(table).fetch_one().await.unwrap();
        let cells: f64 = store
            .client
            .query(&format!("SELECT ifNotFinite(avg(length(n)), 0) FROM {table}"))
            .fetch_one()
            .await
            .unwrap();
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let each = bytes as f64 / rows.max(1) as f64;
        let told = json!({ "rows": rows, "bytes": bytes, "bytes_a_row": each, "cells_a_row": cells });
        sizes.insert(table.to_owned(), told);
    }
    Value::Object(sizes)
}

/// The p99 of the last `length` seconds, and the plain sum of its rows.
async fn asked(store: &Store, name: &str, now: u32, length: u32, rounds: u32) -> Value {
    let ask = Ask::p99(SERVICE, "request_duration", now - length, now);
    let (mut told, mut rows) = (Vec::new(), Vec::new());
    let mut answer = Value::Null;
    for _ in 0..rounds {
        let begun = Instant::now();
        let point = tell(store, &ask).await.unwrap().series.remove(0).points.remove(0);
        told.push(begun.elapsed().as_secs_f64() * 1e3);
        answer = contador::latency::show::point(&point);
        if length <= 7 * DAY {
            let sql = format!(
                "SELECT count(), sum(c) FROM (SELECT l, h, sum(c) AS c FROM latency FINAL ARRAY JOIN lo AS l, hi AS h, n AS c \
                 PREWHERE service = '{SERVICE}' AND metric = 'request_duration' \
                 AND window >= toDateTime({}, 'UTC') AND window < toDateTime({now}, 'UTC') GROUP BY l, h)",
                now - length
            );
            let begun = Instant::now();
            let (_, n): (u64, u64) = store.client.query(&sql).fetch_one().await.unwrap();
            rows.push(begun.elapsed().as_secs_f64() * 1e3);
            assert_eq!(json!(n), answer["n"], "{name}");
        }
    }
    json!({ "time": name, "ms": spread(told), "rows_ms": spread(rows), "answer": answer })
}

/// Median, least and most.
fn spread(mut values: Vec<f64>) -> Value {
    values.sort_by(f64::total_cmp);
    match (values.first(), values.get(values.len() / 2), values.last()) {
        (Some(least), Some(median), Some(most)) => json!({ "median": median, "least": least, "most": most }),
        _ => Value::Null,
    }
}
