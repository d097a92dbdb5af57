//! Time of MIG instances: the ledger tells an owner's part of the whole GPU, prices of instances want the instance's hours. The minutes that the
//! ledger has of an instance go to whoever shared it, nobody too, in proportion to their shares, whole.

use std::collections::{BTreeMap, HashMap};

use clickhouse::Row;
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use serde::Deserialize;

use super::devices::QUERY_BYTES;
use super::part::Part;
use super::spans::{Spans, texts};
use crate::bill::StoreError;
use crate::bill::apportion::split;
use crate::bill::decimal::ONE;
use crate::store::Store;

/// Minutes by device and start of the span.
pub(super) type Minutes = HashMap<(String, i64), u64>;

#[derive(Deserialize, Row)]
struct MinutesRow {
    device: String,
    since: i64,
    minutes: u64,
}

/// Gives metered parts of MIG instances their part of the instances' time.
pub(super) async fn tell(store: &Store, spans: &Spans, parts: &mut [Part]) -> Result<(), StoreError> {
    let mut ids: Vec<String> =
        parts.iter().filter(|part| part.fact.is_partition()).map(|part| part.fact.device.id.clone()).collect();
    ids.sort();
    ids.dedup();
    if ids.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "SELECT toString(device) AS device_id, {} AS since, uniqExact(minute) AS minutes \
         FROM ledger WHERE {} AND device IN ({}) GROUP BY device, since",
        spans.of_minute(),
        spans.in_minutes(),
        texts(&ids),
    );
    let sql = format!("SELECT device_id AS device, since, minutes FROM ({sql})");
    let query = store.client.query(&sql).with_setting("max_query_size", QUERY_BYTES);
    let rows: Vec<MinutesRow> =
        query.fetch_all().await.map_err(StoreError::doing("count the minutes of MIG instances"))?;
    let minutes = rows.into_iter().map(|row| ((row.device, row.since), row.minutes)).collect();
    share(parts, &minutes);
    Ok(())
}

/// Shares the minutes of instances out.
fn share(parts: &mut [Part], minutes: &Minutes) {
    let mut of: BTreeMap<(String, i64), Vec<usize>> = BTreeMap::new();
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| part.fact.is_partition()) {
        of.entry((part.fact.device.id.clone(), part.fact.from)).or_default().push(at);
    }
    for (key, mut places) in of {
        // What is rounded up must not depend on the order in which the store tells.
        places.sort_by_key(|at| {
            let Part { id, fact, .. } = &parts[*at];
            (fact.kind, *id, fact.session)
        });
        let weights: Vec<BigInt> = places.iter().map(|at| BigInt::from(parts[*at].fact.allocated)).collect();
        if weights.iter().all(|weight| *weight == BigInt::ZERO) {
            continue;
        }
        let whole = BigInt::from(minutes.get(&key).copied().unwrap_or(0)) * 60_000 * ONE;
        for (at, instance) in places.into_iter().zip(split(&whole, &weights)) {
            parts[at].fact.instance = instance.to_i128().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use contador_schemas::owner::OwnerKind;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::bill::facts::{Device, Fact};

    fn part(device: &str, profile: &str, from: i64, owner: u128, share_ms: i64) -> Part {
        let device = Device { id: device.to_owned(), mig_profile: profile.to_owned(), ..Device::default() };
        let kind = if owner == 0 { OwnerKind::Idle } else { OwnerKind::Workload };
        let allocated = i128::from(share_ms) * ONE;
        let fact = Fact { kind, device: Arc::new(device), from, allocated, ..Fact::default() };
        Part { id: Uuid::from_u128(owner), fact, ..Part::default() }
    }

    #[test]
    fn an_hour_of_a_seventh_is_an_hour_of_its_instance() {
        // 60 minutes × 60,000 ms / 7 = 514,285.7 ms of the GPU, two thirds of it one owner's.
        let mut parts = vec![
            part("MIG-1", "1g.10gb", 0, 1, 342_857),
            part("MIG-1", "1g.10gb", 0, 0, 171_429),
            part("MIG-1", "1g.10gb", 3_600_000, 1, 8_571),
            part("GPU-1", "", 0, 1, 1_000),
        ];
        let minutes = [(("MIG-1".to_owned(), 0), 60), (("MIG-1".to_owned(), 3_600_000), 1)].into();
        share(&mut parts, &minutes);
        // 3,600,000 × 342,857 / 514,286 = 2,399,997.666667…, in 10^-12 of a millisecond.
        let told: Vec<i128> = parts.iter().map(|part| part.fact.instance).collect();
        assert_eq!(told[0], 3_600_000 * ONE * 342_857 / 514_286);
        assert_eq!(told[0] + told[1], 3_600_000 * ONE);
        assert_eq!((told[2], told[3]), (60_000 * ONE, 0));
    }

    proptest! {
        #[test]
        fn instances_have_their_minutes_whatever_the_order(
            shares in prop::collection::vec((0i64..2, 0u128..5, 0i64..60_000), 1..30),
            minutes in 1u64..2_000,
        ) {
            let mut parts: Vec<Part> = Vec::new();
            for (device, owner, share) in shares {
                let part = part(&format!("MIG-{device}"), "1g", 0, owner, share);
                if parts.iter().all(|other| other.key() != part.key()) {
                    parts.push(part);
                }
            }
            let minutes: Minutes = (0..2).map(|device| ((format!("MIG-{device}"), 0), minutes)).collect();
            let mut reversed: Vec<Part> = parts.iter().rev().cloned().collect();
            share(&mut parts, &minutes);
            share(&mut reversed, &minutes);
            reversed.reverse();
            prop_assert_eq!(&parts, &reversed);
            for ((device, _), minutes) in minutes {
                let of: Vec<&Part> = parts.iter().filter(|part| part.fact.device.id == device).collect();
                let sum: i128 = of.iter().map(|part| part.fact.instance).sum();
                let held = of.iter().any(|part| part.fact.allocated > 0);
                prop_assert_eq!(sum, if held { i128::from(minutes) * 60_000 * ONE } else { 0 });
            }
        }
    }
}
