//! Ledger rows: all parts of one owner's minute on one device, or nothing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use contador_schemas::names::{self, MetricName};
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::LedgerRow;
use uuid::Uuid;

use super::Point;
use super::reject::{Reason, Rejected};
use super::value::put;

const MINUTE_NS: i64 = 60_000_000_000;
const MINUTE_MS: u32 = 60_000;

/// Rows by device, owner and minute in Unix seconds.
#[derive(Default)]
pub(super) struct Minutes(BTreeMap<(String, Uuid, u32), Draft>);

/// A row that is being put together, and how many points went into it.
#[derive(Default)]
struct Draft {
    node: Option<String>,
    kind: Option<OwnerKind>,
    simulated: Option<bool>,
    held: Option<u32>,
    share: Option<u32>,
    busy: Option<u32>,
    memory: Option<u64>,
    energy: Option<u64>,
    idle: Option<u32>,
    requests: Option<u64>,
    points: u64,
    /// Why the whole row is refused.
    fault: Option<Reason>,
}

/// The ids of owners that are nobody's workload.
static KINDS: LazyLock<[(Uuid, OwnerKind); 5]> =
    LazyLock::new(|| OwnerKind::ALL.map(|kind| (Owner::of_kind(kind).id(), kind)));

/// The kind of the owner `id`: told by the id itself for all but workloads.
fn kind_of(id: Uuid) -> OwnerKind {
    KINDS.iter().find(|(known, _)| *known == id).map_or(OwnerKind::Workload, |(_, kind)| *kind)
}

impl Minutes {
    pub(super) fn add(&mut self, metric: &MetricName, point: &Point<'_>) -> Result<(), Reason> {
        let device = point.attributes.get(names::HW_ID).ok_or(Reason::Attribute)?.into_owned();
        let owner = point.attributes.get(names::OWNER_ID).ok_or(Reason::Attribute)?;
        let owner = Uuid::parse_str(&owner).map_err(|_| Reason::OwnerId)?;
        let kind = kind_of(owner);
        if point.attributes.get(names::OWNER_KIND).is_some_and(|told| told != kind.as_str()) {
            return Err(Reason::OwnerId);
        }
        let start = point.start.ok_or(Reason::LedgerInterval)?;
        if start % MINUTE_NS != 0 || point.time - start != MINUTE_NS {
            return Err(Reason::LedgerInterval);
        }
        let minute = u32::try_from(start / 1_000_000_000).map_err(|_| Reason::Time)?;
        let draft = self.0.entry((device, owner, minute)).or_default();
        draft.points += 1;
        // A fault of one point is a fault of the row: told when it is finished, with all its points.
        if let Err(reason) = draft.fill(metric, kind, point) {
            draft.fault = draft.fault.max(Some(reason));
        }
        Ok(())
    }

    /// The rows that are complete; the points of the others are counted as rejected.
    pub(super) fn finish(self, rejected: &mut Rejected) -> Vec<LedgerRow> {
        let mut rows = Vec::with_capacity(self.0.len());
        for ((device, owner, minute), draft) in self.0 {
            let points = draft.points;
            match draft.row(device, owner, minute) {
                Ok(row) => rows.push(row),
                Err(reason) => rejected.add(reason, points, names::LEDGER_HELD),
            }
        }
        rows
    }
}

impl Draft {
    fn fill(&mut self, metric: &MetricName, kind: OwnerKind, point: &Point<'_>) -> Result<(), Reason> {
        put(&mut self.kind, kind)?;
        put(&mut self.node, point.node())?;
        put(&mut self.simulated, point.simulated())?;
        let value = point.value.ok_or(Reason::NoValue)?;
        match metric.name {
            names::LEDGER_HELD => put(&mut self.held, value.u32(1)?),
            names::LEDGER_SHARE => put(&mut self.share, value.u32(1)?),
            names::LEDGER_BUSY => put(&mut self.busy, value.u32(1)?),
            names::LEDGER_MEMORY => put(&mut self.memory, value.u64(1)?),
            names::LEDGER_ENERGY => put(&mut self.energy, value.u64(1)?),
            names::LEDGER_IDLE => put(&mut self.idle, value.u32(1)?),
            names::LEDGER_REQUESTS => put(&mut self.requests, value.u64(1)?),
            _ => Err(Reason::Shape),
        }
    }

    fn row(self, device: String, owner: Uuid, minute: u32) -> Result<LedgerRow, Reason> {
        if let Some(reason) = self.fault {
            return Err(reason);
        }
        let missing = Reason::LedgerIncomplete;
        let row = LedgerRow {
            minute,
            device,
            owner,
            kind: self.kind.unwrap_or_default().as_str().to_owned(),
            node: self.node.unwrap_or_default(),
            held_ms: self.held.ok_or(missing)?,
            share_ms: self.share.ok_or(missing)?,
            busy_ms: self.busy.ok_or(missing)?,
            memory_mib_ms: self.memory.ok_or(missing)?,
            energy_mj: self.energy.ok_or(missing)?,
            requests: self.requests.ok_or(missing)?,
            simulated: self.simulated.unwrap_or_default(),
            // Older agents don't tell it.
            idle_ms: self.idle.unwrap_or_default(),
        };
        if [row.held_ms, row.share_ms, row.busy_ms].into_iter().any(|millis| millis > MINUTE_MS)
            || row.idle_ms > row.held_ms
        {
            return Err(Reason::LedgerInterval);
        }
        Ok(row)
    }
}
