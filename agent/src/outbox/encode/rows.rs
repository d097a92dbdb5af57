//! The ledger's minutes, as points, with what their owner ids mean.

use std::collections::BTreeMap;

use contador_schemas::names;
use contador_schemas::owner::Owner;
use uuid::Uuid;

use super::points::{Points, int, nanoseconds, text, yes};
use crate::ledger::{ClosedMinute, MINUTE_MS};

/// Adds closed minutes, and each owner in them once.
pub fn minutes(points: &mut Points, minutes: &[ClosedMinute]) {
    let mut owners: BTreeMap<Uuid, (&Owner, u64)> = BTreeMap::new();
    for minute in minutes {
        let times = (nanoseconds(minute.start_ms), nanoseconds(minute.start_ms + MINUTE_MS));
        for account in &minute.accounts {
            let id = account.owner.id();
            let mut attributes = vec![
                text(names::HW_ID, &minute.device),
                text(names::OWNER_ID, &id.to_string()),
                text(names::OWNER_KIND, account.owner.kind.as_str()),
            ];
            if minute.simulated {
                attributes.push(yes(names::SIMULATED));
            }
            for (name, value) in [
                (names::LEDGER_HELD, account.held_ms),
                (names::LEDGER_SHARE, account.share_ms),
                (names::LEDGER_BUSY, account.busy_ms),
                (names::LEDGER_MEMORY, account.memory_mib_ms),
                (names::LEDGER_ENERGY, account.energy_mj),
                (names::LEDGER_IDLE, account.idle_ms),
                (names::LEDGER_REQUESTS, 0),
            ] {
                points.push(name, times, attributes.clone(), int(value));
            }
            owners.insert(id, (&account.owner, times.1));
        }
    }
    for (id, (of, time)) in owners {
        known(points, id, of, time);
    }
}

/// Adds what the id of an owner means, as seen at `time_ns` (Unix nanoseconds).
pub fn owner(points: &mut Points, owner: &Owner, time_ns: u64) {
    known(points, owner.id(), owner, time_ns);
}

fn known(points: &mut Points, id: Uuid, owner: &Owner, time_ns: u64) {
    let mut attributes = vec![text(names::OWNER_ID, &id.to_string()), text(names::OWNER_KIND, owner.kind.as_str())];
    for ((_, value), (_, name)) in owner.attributes().into_iter().zip(names::OWNER_ATTRIBUTES) {
        if !value.is_empty() {
            attributes.push(text(name, value));
        }
    }
    points.push(names::OWNER_INFO, (0, time_ns), attributes, int(1));
}
