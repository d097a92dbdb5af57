//! Asks the store for unmetered minutes, device by device, and for whoever held the devices in the minutes that tell whose these are.

use std::collections::HashMap;

use clickhouse::Row;
use serde::Deserialize;
use uuid::Uuid;

use super::give::{Holders, give, needed};
use super::{Blind, MARGIN_MS};
use crate::bill::StoreError;
use crate::bill::facts::devices::{Class, Devices, QUERY_BYTES};
use crate::bill::facts::part::Part;
use crate::bill::facts::spans::{Spans, quoted};
use crate::store::Store;

/// Unmetered minutes that are held at once.
const MINUTES_AT_ONCE: usize = 1_000_000;

/// Minutes of devices that are asked for by one query.
const MINUTES_A_QUERY: usize = 5_000;

#[derive(Deserialize, Row)]
struct BlindRow {
    device: String,
    node: String,
    minutes: Vec<(u32, u32, u32, u64)>,
}

#[derive(Deserialize, Row)]
struct HolderRow {
    device: String,
    minute: u32,
    #[serde(with = "clickhouse::serde::uuid")]
    owner: Uuid,
    share_ms: u32,
}

/// A device with its unmetered minutes, in order.
struct Seen {
    device: String,
    node: String,
    rows: Vec<Blind>,
}

/// Unmetered time of a class of devices that belongs to somebody, as parts of those.
pub(in crate::bill::facts) async fn given(
    store: &Store,
    spans: &Spans,
    class: &Class,
    devices: &mut Devices,
) -> Result<Vec<Part>, StoreError> {
    let failed = || StoreError::doing("read the gaps of the ledger");
    let wide = Spans::new(spans.from - MARGIN_MS, spans.to + MARGIN_MS, &[], 0);
    let sql = format!(
        "SELECT toString(device) AS device, toString(max(node)) AS a_node, \
            arraySort(groupArray((toUInt32(minute), held_ms, share_ms, energy_mj))) AS minutes \
         FROM ledger FINAL WHERE {} AND {} AND kind = 'unmetered' GROUP BY device \
         SETTINGS do_not_merge_across_partitions_select_final = 1",
        wide.in_minutes(),
        class.only(),
    );
    let sql = format!("SELECT device, a_node AS node, minutes FROM ({sql})");
    let query = store.client.query(&sql).with_setting("max_query_size", QUERY_BYTES);
    let mut cursor = query.fetch::<BlindRow>().map_err(failed())?;
    let (mut parts, mut some, mut held) = (Vec::new(), Vec::new(), 0);
    while let Some(row) = cursor.next().await.map_err(failed())? {
        let rows: Vec<Blind> = row.minutes.into_iter().map(blind).collect();
        held += rows.len();
        some.push(Seen { device: row.device, node: row.node, rows });
        if held >= MINUTES_AT_ONCE {
            parts.extend(of_some(store, spans, std::mem::take(&mut some), devices).await?);
            held = 0;
        }
    }
    parts.extend(of_some(store, spans, some, devices).await?);
    Ok(parts)
}

fn blind((minute, held, share, energy): (u32, u32, u32, u64)) -> Blind {
    Blind {
        minute: i64::from(minute) * 1_000,
        held: held.into(),
        share: share.into(),
        energy: i64::try_from(energy).unwrap_or(i64::MAX),
    }
}

async fn of_some(
    store: &Store,
    spans: &Spans,
    some: Vec<Seen>,
    devices: &mut Devices,
) -> Result<Vec<Part>, StoreError> {
    let minutes: Vec<(&str, i64)> = some
        .iter()
        .flat_map(|seen| needed(&seen.rows, spans).into_iter().map(|minute| (seen.device.as_str(), minute)))
        .collect();
    let holders = holders(store, &minutes).await?;
    let mut parts = Vec::new();
    for seen in some {
        let Some(known) = holders.get(&seen.device) else { continue };
        let device = devices.get(seen.device, seen.node);
        parts.extend(give(&seen.rows, known, spans, &device));
    }
    Ok(parts)
}

/// Who held devices in minutes, by device.
async fn holders(store: &Store, minutes: &[(&str, i64)]) -> Result<HashMap<String, Holders>, StoreError> {
    let mut holders: HashMap<String, Holders> = HashMap::new();
    for some in minutes.chunks(MINUTES_A_QUERY) {
        let seconds = || some.iter().map(|(_, minute)| minute / 1_000);
        let (least, most) = (seconds().min().unwrap_or_default(), seconds().max().unwrap_or_default());
        let pairs: Vec<String> = some
            .iter()
            .map(|(device, minute)| format!("({},toDateTime({},'UTC'))", quoted(device), minute / 1_000))
            .collect();
        let sql = format!(
            "SELECT toString(device) AS device, toUInt32(minute) AS minute, owner, share_ms FROM ( \
                SELECT device, minute, owner, share_ms FROM ledger FINAL \
                WHERE minute >= toDateTime({least}, 'UTC') AND minute <= toDateTime({most}, 'UTC') \
                    AND (device, minute) IN ({}) AND kind = 'workload' AND share_ms > 0 \
                SETTINGS do_not_merge_across_partitions_select_final = 1)",
            pairs.join(","),
        );
        let query = store.client.query(&sql).with_setting("max_query_size", QUERY_BYTES);
        let rows: Vec<HolderRow> =
            query.fetch_all().await.map_err(StoreError::doing("read who held devices before and after gaps"))?;
        for row in rows {
            let at = holders.entry(row.device).or_default().entry(i64::from(row.minute) * 1_000).or_default();
            at.insert(row.owner, row.share_ms.into());
        }
    }
    Ok(holders)
}
