//! What the same use would cost in parts of GPUs, and whom a part would do.
//!
//! Of each owner, device and minute, the busy time (what was allocated, where that is unknown) and the memory are rounded up to
//! the next part, so that a minute costs what a MIG-like part for it would. Memory counts where both it and the device's are
//! known. MIG instances are parts already, and count with their share.

use std::collections::BTreeMap;
use std::sync::Arc;

use clickhouse::Row;
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::quantile::Quantile;
use num_bigint::BigInt;
use serde::Deserialize;
use uuid::Uuid;

use super::demand::{self, By, Group, Scope, Whose};
use super::rates::Rates;
use super::sql::{self, MINUTE_MS};
use crate::bill::StoreError;
use crate::bill::decimal::ONE;
use crate::bill::rate::exact::{Amount, cost_denominator, hour};
use crate::store::Store;

/// Owners of a group that are told by name.
pub const MOST_OWNERS: usize = 12;

/// What one owner held within one span while it needed so many parts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Need {
    /// Which span.
    pub span: usize,
    /// Parts; 0 for MIG instances, which are parts already.
    pub parts: u32,
    /// GPU-milliseconds in which it needed them, whole minutes where it was metered.
    pub ms: i64,
    /// What it held, GPU-milliseconds times `10^12`.
    pub held: i128,
    /// Of it, what is not known to have been busy or idle.
    pub unknown: i128,
}

/// An owner's needs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Needs(pub Vec<Need>);

/// What owners of a group need.
pub type OfGroup = BTreeMap<Uuid, Needs>;

/// The use of a group in parts of GPUs.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Of how many parts a GPU is.
    pub whole: u32,
    /// Currency units.
    pub cost: Amount,
    /// Hours of whole GPUs that all parts come to.
    pub gpu_hours: Amount,
    /// GPU-hours whose use is unknown, and that count as they were allocated.
    pub unknown: Amount,
    /// For how many owners of whole GPUs a part would do: the use of all they held is known.
    pub fit: usize,
    /// GPU-hours that these held.
    pub fit_held: Amount,
    /// Those who held most, with their names.
    pub owners: Vec<Fit>,
    /// How many more there are.
    pub more: usize,
}

/// Whether a part would do for an owner.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Who.
    pub owner: Arc<Owner>,
    /// GPU-hours that it held.
    pub held: Amount,
    /// The part of a GPU that was enough in 95 % of the time, in parts of [`Shared::whole`]; nothing where it had parts only.
    pub parts: Option<u32>,
    /// Whether nothing is known of its use.
    pub unknown: bool,
}

#[derive(Deserialize, Row)]
struct NeedRow {
    gpu_model: String,
    of_kind: String,
    department: String,
    #[serde(with = "clickhouse::serde::uuid")]
    owner: Uuid,
    since: i64,
    parts: u32,
    ms: i64,
    held: i128,
    unknown: i128,
}

/// Asks what owners of each group need, in parts of which `whole` are a GPU.
///
/// # Errors
/// [`StoreError`].
pub async fn fetch(store: &Store, scope: &Scope<'_>, whole: u32) -> Result<BTreeMap<Group, OfGroup>, StoreError> {
    let whose = demand::whose(store, scope).await?;
    let sql = format!(
        "SELECT toString(model) AS gpu_model, toString(of_kind) AS of_kind, {} AS department, owner, since, parts, ms, some AS held, unknown \
         FROM ( \
            SELECT gpu_model AS model, {}, owner, since, parts, ms, some, unknown FROM ( \
                SELECT gpu_model, kind, owner, since, parts, sum(long) AS ms, sum(part) AS some, sum(not_known) AS unknown \
                FROM ({}) GROUP BY gpu_model, kind, owner, since, parts \
            ) AS held {} \
         ) ORDER BY gpu_model, of_kind, department, owner, since, parts \
         SETTINGS do_not_merge_across_partitions_select_final = 1, join_use_nulls = 0",
        whose.department,
        whose.columns,
        needs_sql(scope, whole),
        whose.join
    );
    let query = whose.bound(store.client.query(&sql));
    let rows: Vec<NeedRow> = query.fetch_all().await.map_err(StoreError::doing("sum the use of GPUs"))?;
    let mut needs: BTreeMap<Group, OfGroup> = BTreeMap::new();
    for row in rows {
        let whose = match (OwnerKind::parse(&row.of_kind), scope.by) {
            (_, By::Fleet) => Whose::Fleet,
            (Some(OwnerKind::Unattributed), _) => Whose::Unattributed,
            _ => Whose::Department(row.department),
        };
        let Some(span) = scope.spans.iter().position(|span| span.0 == row.since) else { continue };
        let of_group = needs.entry(Group { gpu_model: row.gpu_model, whose }).or_default();
        let need = Need { span, parts: row.parts, ms: row.ms, held: row.held, unknown: row.unknown };
        of_group.entry(row.owner).or_default().0.push(need);
    }
    Ok(needs)
}

/// Columns `gpu_model`, `owner`, `kind`, `since`, `parts`, `long`, `part`, `not_known`.
fn needs_sql(scope: &Scope<'_>, whole: u32) -> String {
    // Where there are seven parts, each has an eighth of the memory, as with MIG; all of them have all.
    let of_memory = if whole == 7 { 8 } else { whole };
    let ledger = sql::ledger(
        scope.spans,
        &format!(
            "owner, kind, {} AS gpu_model, toInt64(share_ms) AS share, busy_ms = 0 AND idle_ms = 0 AS is_unknown, \
             toInt64(if(is_unknown, share_ms, busy_ms)) AS use, toInt64(intDiv(memory_mib_ms, greatest(held_ms, 1))) AS mib, \
             {} AS is_part, toInt64({}) AS bytes",
            sql::of_device("gpu_model", "''"),
            sql::of_device("toUInt8(profile != '')", "toUInt8(0)"),
            sql::of_device("toUInt64(bytes)", "toUInt64(0)")
        ),
        "kind IN ('workload', 'unattributed')",
    );
    let allocations = sql::allocations(scope.spans, "1");
    format!(
        "SELECT gpu_model, owner, kind, since, \
            toUInt32(if(is_part, 0, least({whole}, greatest(1, intDiv(use * {whole} + 59999, 60000), \
                if(bytes > 0, intDiv(mib * 1048576 * {of_memory} + bytes - 1, greatest(bytes, 1)), 0))))) AS parts, \
            toInt64({MINUTE_MS}) AS long, toInt128(share) * {ONE} AS part, if(is_unknown, part, toInt128(0)) AS not_known \
         FROM ({ledger}) \
         UNION ALL \
         SELECT toLowCardinality(gpu_model) AS gpu_model, owner, toLowCardinality('workload') AS kind, since, \
            toUInt32(intDiv(of_each * {whole} + {ONE} - 1, {ONE})) AS parts, \
            toInt64((ends - begins) * gpus) AS long, toInt128(ends - begins) * gpus * of_each AS part, part AS not_known \
         FROM ({allocations})"
    )
}

/// What needs cost, with rates of each span.
pub fn cost(needs: &OfGroup, rates: &[Rates], whole: u32) -> (Amount, Amount) {
    let (mut money, mut time) = (BigInt::from(0), BigInt::from(0));
    for need in needs.values().flat_map(|needs| &needs.0) {
        let of_parts = match need.parts {
            0 => BigInt::from(need.held) * whole,
            parts => BigInt::from(need.ms) * parts * ONE,
        };
        money += &of_parts * rates.get(need.span).map_or(0, |rates| rates.parts);
        time += of_parts;
    }
    (Amount::new(money, &(cost_denominator() * whole)), Amount::new(time, &(hour() * whole)))
}

impl Needs {
    /// What was held, and what of it is not known, GPU-milliseconds times `10^12`.
    pub fn held(&self) -> (i128, i128) {
        (self.0.iter().map(|need| need.held).sum(), self.0.iter().map(|need| need.unknown).sum())
    }

    /// The parts that were enough in 95 % of the time; `None` where it only had parts of GPUs.
    pub fn enough(&self) -> Option<u32> {
        let mut of_parts: BTreeMap<u32, u64> = BTreeMap::new();
        for need in self.0.iter().filter(|need| need.parts > 0) {
            *of_parts.entry(need.parts).or_default() += u64::try_from(need.ms).unwrap_or_default();
        }
        let all: u64 = of_parts.values().sum();
        let rank = Quantile::P95.rank(all);
        let mut until = 0;
        of_parts
            .into_iter()
            .find(|(_, ms)| {
                until += ms;
                all > 0 && until >= rank
            })
            .map(|(parts, _)| parts)
    }
}

/// What a group would cost in parts, and whom they would do. `names` has the owners by their ids.
pub fn shared(needs: &OfGroup, rates: &[Rates], whole: u32, names: &BTreeMap<Uuid, Arc<Owner>>) -> Shared {
    let (cost, gpu_hours) = cost(needs, rates, whole);
    let unknown = needs.values().map(|needs| BigInt::from(needs.held().1)).sum();
    let biggest = biggest(needs);
    let fit = |(id, needs): &(Uuid, &Needs)| {
        let (held, unknown) = needs.held();
        Fit {
            owner: names.get(id).cloned().unwrap_or_default(),
            held: Amount::new(held.into(), &hour()),
            parts: needs.enough(),
            unknown: held == unknown,
        }
    };
    let owners: Vec<Fit> = biggest.iter().take(MOST_OWNERS).map(fit).collect();
    let fits = |needs: &&Needs| needs.held().1 == 0 && needs.enough().is_some_and(|parts| parts < whole);
    let fitting: Vec<i128> = needs.values().filter(fits).map(|needs| needs.held().0).collect();
    Shared {
        whole,
        cost,
        gpu_hours,
        unknown: Amount::new(unknown, &hour()),
        fit: fitting.len(),
        fit_held: Amount::new(fitting.iter().sum::<i128>().into(), &hour()),
        more: needs.len() - owners.len(),
        owners,
    }
}

/// Owners by what they held, most first.
pub fn biggest(needs: &OfGroup) -> Vec<(Uuid, &Needs)> {
    let mut owners: Vec<(Uuid, &Needs)> = needs.iter().map(|(id, needs)| (*id, needs)).collect();
    owners.sort_by_key(|(id, needs)| (std::cmp::Reverse(needs.held().0), *id));
    owners
}
