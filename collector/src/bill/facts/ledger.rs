//! Sums of the ledger by owner, device and span, as ClickHouse makes them. Rows that a merge has not replaced yet are not seen (`FINAL`).
//! Time of which it is unknown whether the device was busy counts as its whole share where the greater of both is asked for.

use clickhouse::Row;
use contador_schemas::owner::OwnerKind;
use serde::Deserialize;
use uuid::Uuid;

use super::Fact;
use super::devices::{Class, Devices, QUERY_BYTES};
use super::part::{Part, merge};
use super::spans::Spans;
use crate::bill::StoreError;
use crate::bill::decimal::ONE;
use crate::bill::hours::{self, Span};
use crate::store::Store;

/// Milliseconds of a row whose use is unknown, and the greater of share and busy time, as SQL. Nobody's time has no use that could be unknown.
pub(in crate::bill) const UNKNOWN: &str = "if(kind = 'workload' AND busy_ms = 0 AND idle_ms = 0, share_ms, 0)";
pub(in crate::bill) const GREATER: &str = "greatest(share_ms, busy_ms)";

/// Rows of workloads that may be part of a session, as SQL.
pub(super) const HOLDS: &str = "kind = 'workload' AND held_ms > 0";

/// What ClickHouse sums of an owner's rows.
#[derive(Deserialize, Row)]
pub(super) struct SumRow {
    kind: String,
    #[serde(with = "clickhouse::serde::uuid")]
    owner: Uuid,
    device: String,
    node: String,
    since: i64,
    first: i64,
    until: i64,
    held: i64,
    share: u64,
    unknown: u64,
    busy: u64,
    greater: u64,
    memory: u64,
    energy: u64,
    rows: u64,
    simulated: bool,
}

impl SumRow {
    /// The fact that it is.
    pub fn part(self, spans: &Spans, devices: &mut Devices) -> Part {
        // A kind that this version does not know is still somebody's time: it is shown, not dropped.
        let kind = OwnerKind::parse(&self.kind).unwrap_or(OwnerKind::Unattributed);
        let units = |ms: u64| i128::from(ms) * ONE;
        let fact = Fact {
            kind,
            device: devices.get(self.device, self.node),
            from: self.since,
            to: spans.end(self.since),
            simulated: self.simulated,
            held: self.held,
            allocated: units(self.share),
            unknown: units(self.unknown),
            busy: units(self.busy),
            greater: units(self.greater),
            memory_mib_ms: self.memory.into(),
            energy_mj: self.energy.into(),
            rows: self.rows,
            ..Fact::default()
        };
        Part { id: self.owner, first: self.first, end: self.until, fact }
    }
}

/// What each owner held of each device of a class in each span; of a class with sessions, without what belongs to one. Hours that are
/// summed already are not summed again, unless the class needs its minutes.
pub(super) async fn sums(
    store: &Store,
    spans: &Spans,
    class: &Class,
    devices: &mut Devices,
) -> Result<Vec<Part>, StoreError> {
    let (hours, rest) = if class.by_session || !spans.are_hours() {
        (Vec::new(), vec![spans.seconds()])
    } else {
        let clean = hours::clean(store, spans.seconds(), spans.inner()).await;
        clean.map_err(StoreError::doing("look for changes of the ledger"))?
    };
    let mut parts = Vec::new();
    if !hours.is_empty() {
        parts = read(store, &hours_sql(spans, class, &hours), spans, devices).await?;
    }
    if !rest.is_empty() {
        let more = read(store, &rows_sql(spans, class, &rest), spans, devices).await?;
        if parts.is_empty() { parts = more } else { merge(&mut parts, more) }
    }
    Ok(parts)
}

async fn read(store: &Store, sql: &str, spans: &Spans, devices: &mut Devices) -> Result<Vec<Part>, StoreError> {
    let failed = || StoreError::doing("sum the ledger");
    let query = store.client.query(sql).with_setting("max_query_size", QUERY_BYTES);
    let mut rows = query.fetch::<SumRow>().map_err(failed())?;
    let mut parts = Vec::new();
    while let Some(row) = rows.next().await.map_err(failed())? {
        parts.push(row.part(spans, devices));
    }
    Ok(parts)
}

fn rows_sql(spans: &Spans, class: &Class, of: &[Span]) -> String {
    let others = if class.by_session { format!(" AND NOT ({HOLDS})") } else { String::new() };
    let only = format!("{} AND {}{others}", hours::within("minute", of), class.only());
    sums_sql("ledger", &spans.start_of("minute"), [UNKNOWN, GREATER, "1"], &only)
}

fn hours_sql(spans: &Spans, class: &Class, of: &[Span]) -> String {
    let only = format!("{} AND {}", hours::within("hour", of), class.only());
    sums_sql("ledger_hours", &spans.start_of("hour"), ["unknown_ms", "greater_ms", "minutes"], &only)
}

fn sums_sql(table: &str, since: &str, [unknown, greater, rows]: [&str; 3], only: &str) -> String {
    format!(
        "SELECT kind_name AS kind, owner, device_id AS device, a_node AS node, since, toInt64(0) AS first, toInt64(0) AS until, \
            held, share, unknown, busy, greater, memory, energy, n AS rows, is_simulated AS simulated \
         FROM ( \
         SELECT toString(kind) AS kind_name, owner, toString(device) AS device_id, toString(max(node)) AS a_node, {since} AS since, \
            toInt64(sum(held_ms)) AS held, sum(share_ms) AS share, sum({unknown}) AS unknown, sum(busy_ms) AS busy, \
            sum({greater}) AS greater, sum(memory_mib_ms) AS memory, sum(energy_mj) AS energy, toUInt64(sum({rows})) AS n, \
            toBool(max(simulated)) AS is_simulated \
         FROM {table} FINAL WHERE {only} \
         GROUP BY kind, owner, device, since \
         ) SETTINGS do_not_merge_across_partitions_select_final = 1"
    )
}
