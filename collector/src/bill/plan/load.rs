//! What a service bore: requests by the window, the GPUs that it held, and its latencies.
//!
//! A count covers an interval, and is spread over it evenly, in whole millionths that sum to it; where its start is unknown, it belongs to the
//! window of its end. An interval of more than a day counts in its last day.

use std::collections::BTreeMap;

use clickhouse::Row;
use contador_schemas::quantile::Answer;
use serde::Deserialize;

use super::capacity::{Requests, Traffic};
use super::sql;
use super::throughput::{Target, WINDOW_S, Window};
use crate::bill::StoreError;
use crate::latency::{self, Ask, Label, tell};
use crate::store::Store;

const DAY_MS: i64 = 86_400_000;

/// Most time that latencies are asked for at once, seconds: what makes as many steps as one answer may have.
const ASKED_AT_ONCE_S: u32 = 30 * 86_400;

/// Which service, and when.
#[derive(Clone, Debug)]
pub struct Service {
    /// `service.name`.
    pub name: String,
    /// Machine-learning model; empty for all.
    pub model: String,
    /// What was timed.
    pub metric: String,
    /// Unix seconds, a multiple of [`WINDOW_S`].
    pub from: u32,
    /// Unix seconds, exclusive, a multiple of [`WINDOW_S`].
    pub to: u32,
}

/// Where requests are counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Counted {
    /// In `served`, by the servers themselves, answered and aborted ones.
    Served,
    /// In `latency`: as many as have latencies.
    Latency,
}

/// What of a service is counted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Row)]
pub struct Told {
    /// Rows with requests.
    pub counted: u64,
    /// Rows without.
    pub uncounted: u64,
    /// Whether some were made up.
    pub simulated: bool,
}

/// GPUs that a service held, by model and window of [`WINDOW_S`] (its start, Unix seconds): GPU-milliseconds times `10^12`.
pub type Held = BTreeMap<String, BTreeMap<i64, i128>>;

#[derive(Deserialize, Row)]
struct CountRow {
    at: i64,
    millionths: i128,
}

#[derive(Deserialize, Row)]
struct HeldRow {
    gpu_model: String,
    at: i64,
    held: i128,
}

impl Service {
    fn bound(&self, query: clickhouse::query::Query) -> clickhouse::query::Query {
        let query = query.param("service", &self.name).param("model", &self.model).param("metric", &self.metric);
        query.with_setting("do_not_merge_across_partitions_select_final", "1")
    }

    /// Rows of a table that may have a part in the time.
    fn rows(&self, counted: Counted) -> String {
        let metric = if counted == Counted::Latency { " AND metric = {metric:String}" } else { "" };
        format!(
            "service = {{service:String}} AND ({{model:String}} = '' OR model = {{model:String}}){metric} \
             AND window >= toDateTime({}, 'UTC') AND window < toDateTime({}, 'UTC')",
            self.from,
            u64::from(self.to) + 86_400
        )
    }
}

impl Counted {
    const fn table(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Latency => "latency",
        }
    }

    /// Its name, for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Served => "requests that servers counted",
            Self::Latency => "requests that have latencies",
        }
    }
}

/// What of the service is counted in a table.
///
/// # Errors
/// [`StoreError`].
pub async fn told(store: &Store, service: &Service, counted: Counted) -> Result<Told, StoreError> {
    let has = if counted == Counted::Served { "isNotNull(requests)" } else { "1" };
    let sql = format!(
        "SELECT countIf({has}) AS counted, countIf(NOT ({has})) AS uncounted, toBool(max(simulated)) AS simulated FROM {} FINAL \
         WHERE {} AND window < toDateTime({}, 'UTC')",
        counted.table(),
        service.rows(counted),
        service.to
    );
    service.bound(store.client.query(&sql)).fetch_one().await.map_err(StoreError::doing("look for requests"))
}

/// Requests by windows of so many seconds.
///
/// # Errors
/// [`StoreError`].
pub async fn traffic(store: &Store, service: &Service, counted: Counted, window_s: u32) -> Result<Traffic, StoreError> {
    let count = match counted {
        Counted::Served => "ifNull(requests, 0) + ifNull(aborted, 0)",
        Counted::Latency => "count",
    };
    let length = i64::from(window_s) * 1_000;
    let (from, to) = (i64::from(service.from) * 1_000, i64::from(service.to) * 1_000);
    // What has come until an instant, of a count that comes evenly between two others.
    let until = |at: &str| format!("intDiv(many * toInt128({at} - begins), toInt128(greatest(ends - begins, 1)))");
    let sql = format!(
        "SELECT intDiv(slot, 1000) AS at, \
            sum(if(ends > begins, {} - {}, many)) AS millionths \
         FROM ( \
            SELECT many, begins, ends, toInt64(arrayJoin(range(toUInt64(intDiv(begins, {length}) * {length}), \
                toUInt64(greatest(ends, begins + 1)), toUInt64({length})))) AS slot \
            FROM ( \
               SELECT toInt128({count}) * 1000000 AS many, \
                  if(start_ts < ts, toUnixTimestamp64Milli(ts), toInt64(toUnixTimestamp(window)) * 1000) AS ends, \
                  if(start_ts < ts, greatest(toUnixTimestamp64Milli(start_ts), ends - {DAY_MS}), ends) AS begins \
               FROM {} FINAL WHERE {} \
            ) WHERE many > 0 \
         ) WHERE slot >= {from} AND slot < {to} GROUP BY slot",
        until(&format!("least(ends, slot + {length})")),
        until("greatest(begins, slot)"),
        counted.table(),
        service.rows(counted),
    );
    let rows: Vec<CountRow> =
        service.bound(store.client.query(&sql)).fetch_all().await.map_err(StoreError::doing("count requests"))?;
    let windows = rows.into_iter().map(|row| Requests { at: row.at, millionths: row.millionths });
    Ok(Traffic::of(window_s, windows.collect()))
}

/// GPUs that owners of the service held, metered and imported: those that say so, and those that are known to have served.
///
/// # Errors
/// [`StoreError`].
pub async fn held(store: &Store, service: &Service) -> Result<Held, StoreError> {
    let owners = format!(
        "owner GLOBAL IN (SELECT id FROM owners FINAL WHERE service = {{service:String}} AND ({{model:String}} = '' OR model IN ('', {{model:String}})) \
         UNION DISTINCT SELECT owner FROM served WHERE {} AND owner != toUUID('00000000-0000-0000-0000-000000000000'))",
        service.rows(Counted::Served)
    );
    let slot_ms = i64::from(WINDOW_S) * 1_000;
    let span = (i64::from(service.from) * 1_000, i64::from(service.to) * 1_000);
    let sql = format!(
        "SELECT toString(model) AS gpu_model, intDiv(slot, 1000) AS at, sum(part) AS held FROM ( \
            SELECT gpu_model AS model, slot, part FROM ({}) WHERE kind = 'workload' \
         ) GROUP BY model, slot \
         SETTINGS join_use_nulls = 0",
        sql::held(&[span], slot_ms, &owners)
    );
    let rows: Vec<HeldRow> =
        service.bound(store.client.query(&sql)).fetch_all().await.map_err(StoreError::doing("sum the held GPUs"))?;
    let mut held = Held::new();
    for row in rows {
        held.entry(row.gpu_model).or_default().insert(row.at, row.held);
    }
    Ok(held)
}

/// The quantile of each window of [`WINDOW_S`], by its start.
///
/// # Errors
/// [`latency::Error`].
pub async fn answers(
    store: &Store,
    service: &Service,
    target: Target,
) -> Result<BTreeMap<i64, Answer>, latency::Error> {
    let mut answers = BTreeMap::new();
    let mut from = service.from;
    while from < service.to {
        let to = from.saturating_add(ASKED_AT_ONCE_S).min(service.to);
        let mut ask = Ask::p99(&service.name, &service.metric, from, to).only(Label::Model, &service.model);
        (ask.step, ask.quantiles) = (Some(WINDOW_S), vec![target.quantile]);
        let told = tell(store, &ask).await?;
        for point in told.series.into_iter().flat_map(|series| series.points) {
            answers.extend(point.answers.into_iter().next().map(|answer| (i64::from(point.span.0), answer)));
        }
        from = to;
    }
    Ok(answers)
}

/// Puts requests, GPUs and latencies of each window of [`WINDOW_S`] together.
pub fn windows(traffic: &Traffic, held: &Held, mut answers: BTreeMap<i64, Answer>) -> Vec<Window> {
    let window = |requests: &Requests| Window {
        requests: requests.millionths,
        held: held.values().filter_map(|of_model| of_model.get(&requests.at)).sum(),
        answer: answers.remove(&requests.at),
    };
    traffic.windows.iter().map(window).collect()
}
