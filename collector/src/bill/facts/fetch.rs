//! Asks the store for the facts of a period, stage by stage, cut as the grain says. An imported allocation counts with the part of it that lies in the
//! period, a ledger row where its minute starts.

use std::collections::HashSet;
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};

use super::claims::{self, over_allocated};
use super::devices::{Class, Devices, classes};
use super::owners::owners;
use super::part::{Part, merge, take};
use super::spans::Spans;
use super::{Facts, Grain, allocations, gaps, instances, ledger, sessions};
use crate::bill::StoreError;
use crate::bill::period::Period;
use crate::store::Store;

/// Asks for the facts of a period, cut as the grain says.
///
/// # Errors
/// [`StoreError`].
pub async fn fetch(store: &Store, period: &Period, grain: &Grain) -> Result<Facts, StoreError> {
    let spans = Spans::new(period.from, period.to, &grain.cuts, 0);
    let mut facts = Facts::default();
    let imported = imported(store, &spans, grain, &mut facts).await?;
    let mut devices = Devices::load(store).await?;
    let mut metered = Vec::new();
    for class in classes(store, &spans, grain, &devices).await? {
        metered.extend(of_class(store, &spans, grain, &class, &mut devices, &mut facts).await?);
    }
    facts.allocations = rows(&imported);
    name(store, imported.into_iter().chain(metered).collect(), &mut facts).await?;
    if facts.allocations > 0 && facts.ledger_rows > 0 {
        facts.metered_too = metered_too(store, &spans).await?;
    }
    Ok(facts)
}

async fn imported(store: &Store, spans: &Spans, grain: &Grain, facts: &mut Facts) -> Result<Vec<Part>, StoreError> {
    let over = over_allocated(store, spans).await?;
    facts.over_allocated = over.values().sum();
    let reduced: Vec<String> = if grain.split_over_allocation { over.into_keys().collect() } else { Vec::new() };
    let mut parts = allocations::sums(store, spans, grain, &reduced).await?;
    if !reduced.is_empty() {
        parts.extend(claims::reduced(store, spans, grain, &reduced).await?);
    }
    Ok(parts)
}

/// What the ledger has of a class of devices.
async fn of_class(
    store: &Store,
    spans: &Spans,
    grain: &Grain,
    class: &Class,
    devices: &mut Devices,
    facts: &mut Facts,
) -> Result<Vec<Part>, StoreError> {
    let spans = spans.by(class.step);
    let mut parts = ledger::sums(store, &spans, class, devices).await?;
    facts.ledger_rows += rows(&parts);
    let mut given = Vec::new();
    if grain.gaps_to_last_owner {
        given = gaps::given(store, &spans, class, devices).await?;
        facts.gaps_given += given.iter().map(|part| part.fact.allocated).sum::<i128>();
        take(&mut parts, &given);
    }
    if class.by_session {
        let mut held = sessions::runs(store, &spans, class, devices).await?;
        facts.ledger_rows += rows(&held);
        held.extend(given);
        let mut held = sessions::chain(held);
        sessions::look_back(store, &spans, grain.gaps_to_last_owner, &mut held, devices).await?;
        parts.extend(held);
    } else {
        merge(&mut parts, given);
    }
    instances::tell(store, &spans, &mut parts).await?;
    Ok(parts)
}

fn rows(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.fact.rows).sum()
}

/// Gives facts their owners.
async fn name(store: &Store, parts: Vec<Part>, facts: &mut Facts) -> Result<(), StoreError> {
    let workloads = || parts.iter().filter(|part| part.fact.kind == OwnerKind::Workload).map(|part| part.id);
    let names = owners(store, workloads().collect()).await?;
    facts.simulated = parts.iter().any(|part| part.fact.simulated);
    facts.unknown_owners = workloads().filter(|id| !names.contains_key(id)).collect::<HashSet<_>>().len();
    facts.facts.reserve(parts.len());
    for Part { id, mut fact, .. } in parts {
        fact.owner = names.get(&id).cloned().unwrap_or_else(|| Arc::new(Owner::of_kind(fact.kind)));
        fact.cost_centre = "".into();
        facts.facts.push(fact);
    }
    Ok(())
}

async fn metered_too(store: &Store, spans: &Spans) -> Result<u64, StoreError> {
    let sql = format!(
        "SELECT count() FROM allocations FINAL \
         WHERE {} AND device != '' AND device GLOBAL IN (SELECT device FROM ledger WHERE {})",
        spans.touches(),
        spans.in_minutes(),
    );
    store.client.query(&sql).fetch_one().await.map_err(StoreError::doing("compare allocations with the ledger"))
}
