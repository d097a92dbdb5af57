//! What the store knows of a period: who held how much of which GPU model, imported and metered.
//!
//! ClickHouse clips, cuts and sums, all in whole numbers: an imported allocation counts with the part of it that lies in the
//! period, which is never negative; a ledger row counts where its minute starts. Where a price changes inside the period,
//! facts are cut there. Rows that a merge has not replaced yet are not seen (`FINAL`).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use clickhouse::Row;
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::OwnerRow;
use num_bigint::BigInt;
use serde::Deserialize;
use uuid::Uuid;

use super::StoreError;
use super::decimal::ONE;
use super::period::Period;
use super::rate::Fact;
use crate::store::Store;

/// Owners asked for at once, and the longest query that ClickHouse may then be sent: an id takes 39 bytes of it.
const OWNERS_A_QUERY: usize = 50_000;
const QUERY_BYTES: &str = "4194304";

/// The facts of a period.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// In no particular order.
    pub facts: Vec<Fact>,
    /// Imported allocations that touch the period.
    pub allocations: u64,
    /// Ledger rows in the period.
    pub ledger_rows: u64,
    /// Whether some of them were generated, not measured.
    pub simulated: bool,
    /// Owner ids that the store has no meaning for.
    pub unknown_owners: usize,
    /// Imported allocations of a device that was metered in the period too: both are counted.
    pub metered_too: u64,
    /// Id of the directory that departments are from, where the owners have none themselves.
    pub directory: Option<String>,
}

#[derive(Deserialize, Row)]
struct SumRow {
    kind: String,
    #[serde(with = "clickhouse::serde::uuid")]
    owner: Uuid,
    gpu_model: String,
    mig_profile: String,
    since: i64,
    units: String,
    rows: u64,
    simulated: bool,
}

/// Asks for the facts of a period, cut at these instants (Unix milliseconds, inside the period, in order).
///
/// # Errors
/// [`StoreError`].
pub async fn fetch(store: &Store, period: &Period, cuts: &[i64]) -> Result<Facts, StoreError> {
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
    for row in imported.into_iter().chain(metered) {
        let units: BigInt = row.units.parse().unwrap_or_default();
        // A kind that this version does not know is still somebody's time: it is shown, not dropped.
        let kind = OwnerKind::parse(&row.kind).unwrap_or(OwnerKind::Unattributed);
        let partition = !row.mig_profile.is_empty();
        let gpu_model = model(row.gpu_model, &row.mig_profile);
        let owner = names.get(&row.owner).cloned().unwrap_or_else(|| Arc::new(Owner::of_kind(kind)));
        if kind == OwnerKind::Workload && !names.contains_key(&row.owner) {
            unknown.insert(row.owner);
        }
        facts.facts.push(Fact { kind, owner, gpu_model, partition, since: row.since, units });
    }
    facts.unknown_owners = unknown.len();
    if facts.allocations > 0 && facts.ledger_rows > 0 {
        facts.metered_too = metered_too(store, period).await?;
    }
    Ok(facts)
}

/// What a price book calls a device: its model, and a MIG instance by its profile, which the driver's name of it has already.
fn model(gpu_model: String, mig_profile: &str) -> String {
    match mig_profile {
        profile if gpu_model.ends_with(profile) => gpu_model,
        profile => format!("{gpu_model} {profile}"),
    }
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
        "SELECT 'workload' AS kind, owner, toString(gpu_model) AS gpu_model, '' AS mig_profile, \
            span.1 AS since, \
            toString(sum(toInt256(until - start_ms) * gpus * toInt256(toDecimal256(fraction, 12) * {ONE}))) AS units, \
            countIf(greatest(begins, toInt64({from})) = start_ms) AS rows, \
            toBool(max(simulated)) AS simulated \
         FROM ( \
            SELECT owner, gpu_model, gpus, fraction, simulated, span, \
                toUnixTimestamp64Milli(start) AS begins, \
                greatest(begins, span.1) AS start_ms, \
                least(toUnixTimestamp64Milli(`end`), span.2) AS until \
            FROM allocations FINAL ARRAY JOIN arrayFilter(span -> span.1 < toUnixTimestamp64Milli(`end`) \
                AND span.2 > toUnixTimestamp64Milli(start), {spans}) AS span \
            WHERE {touches} \
         ) \
         WHERE until > start_ms \
         GROUP BY owner, gpu_model, since \
         SETTINGS do_not_merge_across_partitions_select_final = 1"
    )
}

fn ledger_sql(period: &Period, cuts: &[i64]) -> String {
    let in_minutes = in_minutes(period);
    let since = format!("roundDown(toInt64(toUnixTimestamp(minute)) * 1000, {})", starts(period, cuts));
    format!(
        "SELECT kind, owner, model AS gpu_model, mig_profile, since, \
            toString(sum(toInt256(ms)) * toInt256({ONE})) AS units, sum(n) AS rows, toBool(max(simulated)) AS simulated \
         FROM ( \
            SELECT toString(kind) AS kind, owner, toString(device) AS device, {since} AS since, sum(share_ms) AS ms, \
                count() AS n, max(simulated) AS simulated \
            FROM ledger FINAL \
            WHERE {in_minutes} \
            GROUP BY kind, owner, device, since \
         ) AS held LEFT JOIN ( \
            SELECT id, anyLast(model) AS model, anyLast(mig_profile) AS mig_profile FROM devices GROUP BY id \
         ) AS what ON held.device = what.id \
         GROUP BY kind, owner, model, mig_profile, since \
         SETTINGS do_not_merge_across_partitions_select_final = 1, join_use_nulls = 0"
    )
}

/// What these owner ids mean.
async fn owners(store: &Store, ids: BTreeSet<Uuid>) -> Result<HashMap<Uuid, Arc<Owner>>, StoreError> {
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
fn seconds(ms: i64) -> i64 {
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
    fn a_partition_is_called_by_its_profile_once() {
        for (gpu_model, profile, called) in [
            ("NVIDIA L4", "", "NVIDIA L4"),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "1g.10gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"),
            ("A100", "1g.10gb", "A100 1g.10gb"),
        ] {
            assert_eq!(model(gpu_model.to_owned(), profile), called);
        }
    }
}
