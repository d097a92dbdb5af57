//! Imported allocations as facts: ClickHouse clips them to the period, cuts them into spans, and sums what one owner has of a device, or of
//! what an import says of one, in each. Where sessions are asked for, each allocation is one; those of one owner that begin and end together are one,
//! with the GPUs of all.

use std::collections::BTreeSet;
use std::sync::Arc;

use clickhouse::Row;
use contador_schemas::owner::OwnerKind;
use serde::Deserialize;
use uuid::Uuid;

use super::claims::CLAIMS;
use super::devices::{QUERY_BYTES, device};
use super::part::Part;
use super::spans::{Spans, texts};
use super::{Fact, Grain, Session};
use crate::bill::StoreError;
use crate::bill::decimal::ONE;
use crate::store::Store;

#[derive(Deserialize, Row)]
struct SumRow {
    #[serde(with = "clickhouse::serde::uuid")]
    owner: Uuid,
    device: String,
    node: String,
    gpu_model: String,
    step: i64,
    since: i64,
    is_fraction: bool,
    by_session: bool,
    session_start: i64,
    held: i64,
    allocated: i128,
    rows: u64,
    simulated: bool,
}

/// What each owner has of imported allocations in each span; without claims to the devices `but`.
pub(super) async fn sums(store: &Store, spans: &Spans, grain: &Grain, but: &[String]) -> Result<Vec<Part>, StoreError> {
    let sql = sums_sql(spans, grain, but);
    let failed = || StoreError::doing("sum the imported allocations");
    let query = store.client.query(&sql).with_setting("max_query_size", QUERY_BYTES);
    let mut rows = query.fetch::<SumRow>().map_err(failed())?;
    let mut parts = Vec::new();
    while let Some(row) = rows.next().await.map_err(failed())? {
        parts.push(part(row, spans));
    }
    Ok(parts)
}

fn part(row: SumRow, spans: &Spans) -> Part {
    let device = Arc::new(device(row.device, row.node, &row.gpu_model, String::new()));
    let session = Session { start: row.session_start, before: (row.since - row.session_start).max(0) };
    let fact = Fact {
        kind: OwnerKind::Workload,
        from: row.since,
        to: spans.by(row.step).end(row.since),
        imported: true,
        simulated: row.simulated,
        fraction: row.is_fraction,
        held: row.held,
        allocated: row.allocated,
        unknown: row.allocated,
        greater: row.allocated,
        instance: if device.mig_profile.is_empty() { 0 } else { row.allocated },
        session: row.by_session.then_some(session),
        rows: row.rows,
        device,
        ..Fact::default()
    };
    Part { id: row.owner, fact, ..Part::default() }
}

fn sums_sql(spans: &Spans, grain: &Grain, but: &[String]) -> String {
    let (from, to, touches) = (spans.from, spans.to, spans.touches());
    let (step, steps) = steps(grain);
    let by_session = match (grain.all_by_session, &grain.by_session) {
        (true, _) => "true".to_owned(),
        (false, models) if models.is_empty() => "false".to_owned(),
        (false, models) => format!("{MODEL} IN ({})", texts(models)),
    };
    let but = if but.is_empty() { String::new() } else { format!("AND NOT ({CLAIMS} AND device IN ({}))", texts(but)) };
    let since = spans.start_sql("piece.1", if steps.is_empty() { "0" } else { "step" });
    let cuts = spans.cuts();
    format!(
        "SELECT owner, device, node_name AS node, model_name AS gpu_model, step, since, is_fraction, by_session, session_start, \
            held, allocated, rows, is_simulated AS simulated FROM ( \
         SELECT owner, device, node_name, model_name, step, since, is_fraction, by_session, session_start, \
            if(by_session, max(length), sum(length)) AS held, \
            sum(toInt128(length) * gpus * toInt128(toDecimal128(fraction, 12) * {ONE})) AS allocated, \
            countIf(piece.1 = held_from) AS rows, toBool(max(simulated)) AS is_simulated \
         FROM ( \
            SELECT *, piece.2 - piece.1 AS length, {since} AS since \
            FROM ( \
                SELECT owner, device, toString(node) AS node_name, toString(gpu_model) AS model_name, gpus, fraction, simulated, \
                    fraction < 1 AS is_fraction, \
                    toUnixTimestamp64Milli(start) AS begins, toUnixTimestamp64Milli(`end`) AS ends, \
                    greatest(begins, toInt64({from})) AS held_from, least(ends, toInt64({to})) AS held_to, \
                    {step} AS step, toBool({by_session}) AS by_session, \
                    if(by_session, begins, 0) AS session_start, if(by_session, ends, 0) AS session_end, \
                    arraySort(arrayConcat([held_from], \
                        arrayFilter(cut -> cut > held_from AND cut < held_to, {cuts}){steps})) AS points, \
                    arrayJoin(arrayZip(points, arrayPushBack(arrayPopFront(points), held_to))) AS piece \
                FROM allocations FINAL WHERE {touches} {but} \
            ) \
         ) \
         WHERE length > 0 \
         GROUP BY owner, device, node_name, model_name, step, since, is_fraction, by_session, session_start, session_end \
         ) SETTINGS do_not_merge_across_partitions_select_final = 1"
    )
}

/// The model of the whole GPU, as SQL.
const MODEL: &str = "splitByString(' MIG ', toString(gpu_model))[1]";

/// The step of an allocation's model as SQL, and what is added to the points at which the allocation is cut.
fn steps(grain: &Grain) -> (String, &'static str) {
    let is_in = |models: &BTreeSet<String>| {
        if models.is_empty() { "false".to_owned() } else { format!("{MODEL} IN ({})", texts(models)) }
    };
    if grain.by_minute.is_empty() && grain.by_hour.is_empty() {
        return ("toInt64(0)".to_owned(), "");
    }
    let step = format!("toInt64(multiIf({}, 60000, {}, 3600000, 0))", is_in(&grain.by_minute), is_in(&grain.by_hour));
    let steps = ", arrayMap(number -> toInt64(number) * step, range( \
        toUInt64(if(step = 0, 0, intDiv(held_from, greatest(step, 1)) + 1)), \
        toUInt64(if(step = 0, 0, intDiv(held_to - 1, greatest(step, 1)) + 1))))";
    (step, steps)
}
