//! Asks ClickHouse for facts, which clips, cuts and sums, all in whole numbers: an imported allocation counts with the part of it
//! that lies in the period, which is never negative; a ledger row counts where its minute starts. Rows that a merge has not
//! replaced yet are not seen (`FINAL`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use clickhouse::Row;
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::OwnerRow;
use serde::Deserialize;
use uuid::Uuid;

use super::{Device, Fact, Facts, Grain};
use crate::bill::StoreError;
use crate::bill::decimal::ONE;
use crate::bill::period::Period;
use crate::store::Store;

/// Owners asked for at once, and the longest query that ClickHouse may then be sent: an id takes 39 bytes of it.
const OWNERS_A_QUERY: usize = 50_000;
const QUERY_BYTES: &str = "4194304";

#[derive(Deserialize, Row)]
struct SumRow {
    kind: String,
    #[serde(with = "clickhouse::serde::uuid")]
    owner: Uuid,
    device: String,
    node: String,
    gpu_model: String,
    mig_profile: String,
    since: i64,
    is_fraction: bool,
    held: i64,
    allocated: i128,
    unknown: i128,
    busy: i128,
    greater: i128,
    memory_mib_ms: i128,
    energy_mj: i128,
    rows: u64,
    simulated: bool,
}

/// Asks for the facts of a period, cut as the grain says.
///
/// # Errors
/// [`StoreError`].
pub async fn fetch(store: &Store, period: &Period, grain: &Grain) -> Result<Facts, StoreError> {
    let cuts = &grain.cuts;
    let imported: Vec<SumRow> = store
        .client
        .query(&allocations_sql(period, cuts))
        .fetch_all()
        .await
        .map_err(StoreError::doing("sum the imported allocations"))?;
    let metered: Vec<SumRow> =
        store.client.query(&ledger_sql(period, cuts)).fetch_all().await.map_err(StoreError::doing("sum the ledger"))?;
    let mut facts = Facts {
        allocations: imported.iter().map(|row| row.rows).sum(),
        ledger_rows: metered.iter().map(|row| row.rows).sum(),
        simulated: imported.iter().chain(&metered).any(|row| row.simulated),
        ..Facts::default()
    };
    let workloads = imported.iter().chain(&metered).filter(|row| row.kind == OwnerKind::Workload.as_str());
    let names = owners(store, workloads.map(|row| row.owner).collect()).await?;
    let mut unknown = HashSet::new();
    let ends: BTreeMap<i64, i64> = {
        let starts = std::iter::once(period.from).chain(cuts.iter().copied());
        starts.zip(cuts.iter().copied().chain(std::iter::once(period.to))).collect()
    };
    let imported = imported.into_iter().map(|row| (row, true));
    for (row, imported) in imported.chain(metered.into_iter().map(|row| (row, false))) {
        // A kind that this version does not know is still somebody's time: it is shown, not dropped.
        let kind = OwnerKind::parse(&row.kind).unwrap_or(OwnerKind::Unattributed);
        let owner = names.get(&row.owner).cloned().unwrap_or_else(|| Arc::new(Owner::of_kind(kind)));
        if kind == OwnerKind::Workload && !names.contains_key(&row.owner) {
            unknown.insert(row.owner);
        }
        facts.facts.push(Fact {
            kind,
            owner,
            cost_centre: "".into(),
            device: Arc::new(device(row.device, row.node, &row.gpu_model, row.mig_profile)),
            from: row.since,
            to: ends.get(&row.since).copied().unwrap_or(period.to),
            imported,
            simulated: row.simulated,
            fraction: row.is_fraction,
            held: row.held,
            allocated: row.allocated,
            unknown: row.unknown,
            busy: row.busy,
            greater: row.greater,
            instance: 0,
            memory_mib_ms: row.memory_mib_ms,
            energy_mj: row.energy_mj,
            session: None,
            rows: row.rows,
        });
    }
    facts.unknown_owners = unknown.len();
    if facts.allocations > 0 && facts.ledger_rows > 0 {
        facts.metered_too = metered_too(store, period).await?;
    }
    Ok(facts)
}

/// A device; the driver's name of a MIG instance is that of its GPU, `MIG`, and its profile. An import may name one so, too.
fn device(id: String, node: String, gpu_model: &str, mig_profile: String) -> Device {
    let mig_profile = mig_profile.strip_prefix("MIG ").map_or(mig_profile.clone(), str::to_owned);
    let (gpu_model, mig_profile) = match gpu_model.rsplit_once(" MIG ") {
        Some((model, profile)) if mig_profile.is_empty() || mig_profile == profile => (model, profile.to_owned()),
        _ => (gpu_model, mig_profile),
    };
    Device { id, node, gpu_model: gpu_model.to_owned(), mig_profile }
}

/// Whole numbers as a ClickHouse array. As text they take little of a query, however many they are.
fn numbers(numbers: impl Iterator<Item = i64>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("arrayMap(number -> toInt64(number), splitByChar(',', '{}'))", numbers.join(","))
}

/// The starts of the spans between the cuts.
fn starts(period: &Period, cuts: &[i64]) -> String {
    numbers(std::iter::once(period.from).chain(cuts.iter().copied()))
}

/// The spans between the cuts, as a ClickHouse array of (start, end).
fn spans(period: &Period, cuts: &[i64]) -> String {
    let ends = numbers(cuts.iter().copied().chain(std::iter::once(period.to)));
    format!("arrayZip({}, {ends})", starts(period, cuts))
}

fn allocations_sql(period: &Period, cuts: &[i64]) -> String {
    let (from, spans, touches) = (period.from, spans(period, cuts), touches(period));
    format!(
        "SELECT 'workload' AS kind, owner, device, toString(node) AS node, toString(gpu_model) AS gpu_model, '' AS mig_profile, \
            span.1 AS since, fraction < 1 AS is_fraction, \
            sum(until - start_ms) AS held, \
            sum(toInt128(until - start_ms) * gpus * toInt128(toDecimal128(fraction, 12) * {ONE})) AS allocated, \
            allocated AS unknown, toInt128(0) AS busy, allocated AS greater, \
            toInt128(0) AS memory_mib_ms, toInt128(0) AS energy_mj, \
            countIf(greatest(begins, toInt64({from})) = start_ms) AS rows, \
            toBool(max(simulated)) AS simulated \
         FROM ( \
            SELECT owner, device, node, gpu_model, gpus, fraction, simulated, span, \
                toUnixTimestamp64Milli(start) AS begins, \
                greatest(begins, span.1) AS start_ms, \
                least(toUnixTimestamp64Milli(`end`), span.2) AS until \
            FROM allocations FINAL ARRAY JOIN arrayFilter(span -> span.1 < toUnixTimestamp64Milli(`end`) \
                AND span.2 > toUnixTimestamp64Milli(start), {spans}) AS span \
            WHERE {touches} \
         ) \
         WHERE until > start_ms \
         GROUP BY owner, device, node, gpu_model, is_fraction, since \
         SETTINGS do_not_merge_across_partitions_select_final = 1"
    )
}

fn ledger_sql(period: &Period, cuts: &[i64]) -> String {
    let in_minutes = in_minutes(period);
    let since = format!("roundDown(toInt64(toUnixTimestamp(minute)) * 1000, {})", starts(period, cuts));
    format!(
        "SELECT kind, owner, device, node, model AS gpu_model, mig_profile, since, false AS is_fraction, held, \
            toInt128(share) * {ONE} AS allocated, toInt128(unknown_ms) * {ONE} AS unknown, toInt128(busy_sum) * {ONE} AS busy, \
            toInt128(more) * {ONE} AS greater, toInt128(memory) AS memory_mib_ms, toInt128(energy) AS energy_mj, \
            n AS rows, is_simulated AS simulated \
         FROM ( \
            SELECT toString(kind) AS kind, owner, toString(device) AS device, toString(max(node)) AS node, {since} AS since, \
                toInt64(sum(held_ms)) AS held, sum(share_ms) AS share, sum(busy_ms) AS busy_sum, \
                sumIf(share_ms, busy_ms = 0 AND idle_ms = 0) AS unknown_ms, \
                sum(if(busy_ms = 0 AND idle_ms = 0, share_ms, greatest(share_ms, busy_ms))) AS more, \
                sum(memory_mib_ms) AS memory, sum(energy_mj) AS energy, count() AS n, toBool(max(simulated)) AS is_simulated \
            FROM ledger FINAL \
            WHERE {in_minutes} \
            GROUP BY kind, owner, device, since \
         ) AS held LEFT JOIN ( \
            SELECT id, anyLast(model) AS model, anyLast(mig_profile) AS mig_profile FROM devices GROUP BY id \
         ) AS what ON held.device = what.id \
         SETTINGS do_not_merge_across_partitions_select_final = 1, join_use_nulls = 0"
    )
}

/// What these owner ids mean.
pub(in crate::bill) async fn owners(
    store: &Store,
    ids: BTreeSet<Uuid>,
) -> Result<HashMap<Uuid, Arc<Owner>>, StoreError> {
    let failed = || StoreError::doing("read the owners");
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let mut names = HashMap::with_capacity(ids.len());
    for some in ids.chunks(OWNERS_A_QUERY) {
        let list: Vec<String> = some.iter().map(|id| format!("'{id}'")).collect();
        let sql = format!("SELECT ?fields FROM owners FINAL WHERE id IN ({})", list.join(","));
        let query = store.client.query(&sql).with_setting("max_query_size", QUERY_BYTES);
        let mut rows = query.fetch::<OwnerRow>().map_err(failed())?;
        while let Some(row) = rows.next().await.map_err(failed())? {
            names.insert(row.id, Arc::new(owner(row)));
        }
    }
    Ok(names)
}

async fn metered_too(store: &Store, period: &Period) -> Result<u64, StoreError> {
    let sql = format!(
        "SELECT count() FROM allocations FINAL \
         WHERE {} AND device != '' AND device IN (SELECT device FROM ledger WHERE {})",
        touches(period),
        in_minutes(period),
    );
    store.client.query(&sql).fetch_one().await.map_err(StoreError::doing("compare allocations with the ledger"))
}

/// The condition under which an allocation has a part in the period.
fn touches(period: &Period) -> String {
    let (from, to) = (period.from, period.to);
    format!("start < fromUnixTimestamp64Milli(toInt64({to})) AND `end` > fromUnixTimestamp64Milli(toInt64({from}))")
}

/// The condition under which a ledger row belongs to the period.
fn in_minutes(period: &Period) -> String {
    let (from, to) = (seconds(period.from), seconds(period.to));
    format!("minute >= toDateTime({from}, 'UTC') AND minute < toDateTime({to}, 'UTC')")
}

/// The first whole Unix second at or after a millisecond.
pub(in crate::bill) fn seconds(ms: i64) -> i64 {
    ms.div_euclid(1_000) + i64::from(ms.rem_euclid(1_000) > 0)
}

fn owner(row: OwnerRow) -> Owner {
    Owner {
        kind: OwnerKind::parse(&row.kind).unwrap_or(OwnerKind::Unattributed),
        environment: row.environment,
        cluster: row.cluster,
        namespace: row.namespace,
        pod: row.pod,
        container: row.container,
        job: row.job,
        user: row.user,
        department: row.department,
        project: row.project,
        experiment: row.experiment,
        service: row.service,
        model: row.model,
        command: row.command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_called_by_its_gpu_and_its_profile() {
        for (gpu_model, profile, of, called) in [
            ("NVIDIA L4", "", "NVIDIA L4", ""),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "1g.10gb", "NVIDIA H100 80GB HBM3", "1g.10gb"),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "", "NVIDIA H100 80GB HBM3", "1g.10gb"),
            ("A100", "1g.10gb", "A100", "1g.10gb"),
        ] {
            let device = device(String::new(), String::new(), gpu_model, profile.to_owned());
            assert_eq!((device.gpu_model.as_str(), device.mig_profile.as_str()), (of, called));
        }
    }
}
