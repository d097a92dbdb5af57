//! Device samples: one row of all metrics of one device at one instant.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use contador_schemas::names::{self, Group, MetricName};
use contador_schemas::rows::GpuSample;

use super::Point;
use super::columns::{Columns, Place};
use super::reject::Reason;

static COLUMNS: LazyLock<Columns<GpuSample>> = LazyLock::new(|| Columns::of(Group::Gpu, &[names::HW_ID]));

/// Samples by device, node and Unix milliseconds.
#[derive(Default)]
pub(super) struct Samples(BTreeMap<(String, String, i64), GpuSample>);

/// Where the point belongs, when it is about a GPU that it names. `hw.power` and the like are also said of fans and power
/// supplies.
pub(super) fn place(metric: &MetricName, point: &Point<'_>) -> Option<&'static Place<GpuSample>> {
    let kind = point.origin.named(point.attributes, names::HW_TYPE);
    let is_gpu = (kind.is_empty() || kind == "gpu") && point.attributes.get(names::HW_ID).is_some();
    COLUMNS.place(metric, point.attributes).filter(|_| is_gpu)
}

impl Samples {
    pub(super) fn add(&mut self, place: &Place<GpuSample>, point: &Point<'_>) -> Result<(), Reason> {
        let value = point.value.map(|value| place.read(value)).transpose()?;
        let unsupported = value.is_none() && point.attributes.is_true(names::UNSUPPORTED);
        if value.is_none() && !unsupported {
            return Ok(());
        }
        let key = (point.attributes.owned(names::HW_ID), point.node(), point.millis());
        let row = self.0.entry(key).or_insert_with_key(|(device, node, ts)| GpuSample {
            ts: *ts,
            device: device.clone(),
            node: node.clone(),
            ..GpuSample::default()
        });
        row.simulated |= point.simulated();
        match value {
            Some(value) => return place.put(row, value),
            None => {
                if let Err(at) = row.unsupported.binary_search(&place.label) {
                    row.unsupported.insert(at, place.label.clone());
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<GpuSample> {
        self.0.into_values().collect()
    }
}
