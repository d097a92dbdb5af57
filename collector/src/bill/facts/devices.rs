//! Which devices there are, and how the facts of each are cut.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use clickhouse::Row;
use serde::Deserialize;

use super::spans::{Spans, texts};
use super::{Device, Grain};
use crate::bill::StoreError;
use crate::store::Store;

/// Devices whose minutes are put together by one query: about 45,000 rows each in a month.
const DEVICES_A_QUERY: usize = 32;

/// Longest query that ClickHouse may be sent.
pub(super) const QUERY_BYTES: &str = "4194304";

/// What the store knows of devices.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// Model and profile, by id.
    known: HashMap<String, (String, String)>,
    /// By id and node.
    made: HashMap<(String, String), Arc<Device>>,
}

#[derive(Deserialize, Row)]
struct KnownRow {
    id: String,
    model: String,
    mig_profile: String,
}

impl Devices {
    /// Reads them all.
    pub async fn load(store: &Store) -> Result<Self, StoreError> {
        let sql = "SELECT id, anyLast(model) AS model, anyLast(mig_profile) AS mig_profile FROM devices GROUP BY id";
        let rows: Vec<KnownRow> =
            store.client.query(sql).fetch_all().await.map_err(StoreError::doing("read the devices"))?;
        let known = rows.into_iter().map(|row| (row.id, (row.model, row.mig_profile))).collect();
        Ok(Self { known, made: HashMap::new() })
    }

    /// The device of this id on this node.
    pub fn get(&mut self, id: String, node: String) -> Arc<Device> {
        let key = (id, node);
        if let Some(device) = self.made.get(&key) {
            return Arc::clone(device);
        }
        let (model, profile) = self.known.get(&key.0).cloned().unwrap_or_default();
        let device = Arc::new(device(key.0.clone(), key.1.clone(), &model, profile));
        self.made.insert(key, Arc::clone(&device));
        device
    }

    /// The model of the whole GPU, as prices have it.
    fn model(&self, id: &str) -> String {
        let (model, profile) = self.known.get(id).cloned().unwrap_or_default();
        device(String::new(), String::new(), &model, profile).gpu_model
    }
}

/// A device; the driver's name of a MIG instance is that of its GPU, `MIG`, and its profile. An import may name one so, too.
pub(super) fn device(id: String, node: String, gpu_model: &str, mig_profile: String) -> Device {
    let mig_profile = mig_profile.strip_prefix("MIG ").map_or(mig_profile.clone(), str::to_owned);
    let (gpu_model, mig_profile) = match gpu_model.rsplit_once(" MIG ") {
        Some((model, profile)) if mig_profile.is_empty() || mig_profile == profile => (model, profile.to_owned()),
        _ => (gpu_model, mig_profile),
    };
    Device { id, node, gpu_model: gpu_model.to_owned(), mig_profile }
}

/// Devices whose facts are cut alike.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Class {
    /// Cut at multiples of so many milliseconds; 0 for none.
    pub step: i64,
    /// Cut by session.
    pub by_session: bool,
    /// Their ids; `None` for all that there are.
    pub devices: Option<Vec<String>>,
}

impl Class {
    /// The condition on rows of the ledger.
    pub fn only(&self) -> String {
        match &self.devices {
            Some(devices) => format!("device IN ({})", texts(devices)),
            None => "1".to_owned(),
        }
    }

    /// Some devices, cut by session.
    pub fn of_sessions(devices: Vec<String>) -> Self {
        Self { step: 0, by_session: true, devices: Some(devices) }
    }
}

/// How facts of a model are cut: by steps of so many milliseconds, and by session.
pub(super) fn cut(grain: &Grain, gpu_model: &str) -> (i64, bool) {
    let step = if grain.by_minute.contains(gpu_model) {
        60_000
    } else if grain.by_hour.contains(gpu_model) {
        3_600_000
    } else {
        0
    };
    (step, grain.all_by_session || grain.by_session.contains(gpu_model))
}

/// The classes of the devices that the ledger has in these spans. Those with sessions have few devices each.
pub(super) async fn classes(
    store: &Store,
    spans: &Spans,
    grain: &Grain,
    devices: &Devices,
) -> Result<Vec<Class>, StoreError> {
    let models = [&grain.by_hour, &grain.by_minute, &grain.by_session];
    if !grain.all_by_session && models.iter().all(|models| models.is_empty()) {
        return Ok(vec![Class { step: 0, by_session: false, devices: None }]);
    }
    let sql = format!("SELECT DISTINCT toString(device) AS d FROM ledger WHERE {} ORDER BY d", spans.in_minutes());
    let ids: Vec<String> =
        store.client.query(&sql).fetch_all().await.map_err(StoreError::doing("read the devices of the ledger"))?;
    let mut alike: BTreeMap<(i64, bool), Vec<String>> = BTreeMap::new();
    for id in ids {
        alike.entry(cut(grain, &devices.model(&id))).or_default().push(id);
    }
    let mut classes = Vec::new();
    for ((step, by_session), ids) in alike {
        let some = if by_session { DEVICES_A_QUERY } else { ids.len() };
        let chunks = ids.chunks(some.max(1));
        classes.extend(chunks.map(|chunk| Class { step, by_session, devices: Some(chunk.to_vec()) }));
    }
    Ok(classes)
}

/// The same devices, few at once.
pub(super) fn few(mut devices: Vec<String>) -> Vec<Vec<String>> {
    devices.sort();
    devices.dedup();
    devices.chunks(DEVICES_A_QUERY).map(<[String]>::to_vec).collect()
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

    #[test]
    fn a_model_is_cut_as_finely_as_any_of_its_commitments_needs() {
        let of = |model: &str| [model.to_owned()].into();
        let grain = Grain { by_hour: of("A"), by_minute: of("A"), by_session: of("B"), ..Grain::default() };
        assert_eq!([cut(&grain, "A"), cut(&grain, "B")], [(60_000, false), (0, true)]);
        let grain = Grain { by_hour: of("A"), all_by_session: true, ..Grain::default() };
        assert_eq!([cut(&grain, "A"), cut(&grain, "B")], [(3_600_000, true), (0, true)]);
    }
}
