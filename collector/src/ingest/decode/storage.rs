//! Disk samples: one row of all metrics of one block device at one instant.

use std::collections::BTreeMap;

use contador_schemas::names::{self, MetricName};
use contador_schemas::rows::StorageSample;

use super::reject::Reason;
use super::value::put;
use super::{Point, only_known};

/// Samples by node, device and Unix milliseconds.
#[derive(Default)]
pub(super) struct Samples(BTreeMap<(String, String, i64), StorageSample>);

/// Whether the point names a node and a disk, and a direction where the metric has one.
pub(super) fn is_ours(metric: &MetricName, point: &Point<'_>) -> bool {
    let direction = point.attributes.get(names::DISK_DIRECTION);
    let directed = matches!(metric.name, names::DISK_IO | names::DISK_OPERATIONS | names::DISK_OPERATION_TIME);
    directed == matches!(direction.as_deref(), Some("read" | "write"))
        && (directed || direction.is_none())
        && point.attributes.get(names::SYSTEM_DEVICE).is_some()
        && !point.node().is_empty()
        && only_known(point.attributes)
}

impl Samples {
    pub(super) fn add(&mut self, metric: &MetricName, point: &Point<'_>) -> Result<(), Reason> {
        let mut scratch = StorageSample::default();
        fill(&mut scratch, metric, point)?;
        let key = (point.node(), point.attributes.owned(names::SYSTEM_DEVICE), point.millis());
        let row = self.0.entry(key).or_insert_with_key(|(node, device, ts)| StorageSample {
            ts: *ts,
            node: node.clone(),
            device: device.clone(),
            kind: "disk".to_owned(),
            ..StorageSample::default()
        });
        row.simulated |= point.simulated();
        fill(row, metric, point)
    }

    pub(super) fn finish(self) -> Vec<StorageSample> {
        self.0.into_values().collect()
    }
}

fn fill(row: &mut StorageSample, metric: &MetricName, point: &Point<'_>) -> Result<(), Reason> {
    let Some(value) = point.value else { return Ok(()) };
    let read = point.attributes.get(names::DISK_DIRECTION).as_deref() == Some("read");
    match (metric.name, read) {
        (names::DISK_IO, true) => put(&mut row.read_bytes, value.u64(1)?),
        (names::DISK_IO, false) => put(&mut row.written_bytes, value.u64(1)?),
        (names::DISK_OPERATIONS, true) => put(&mut row.reads, value.u64(1)?),
        (names::DISK_OPERATIONS, false) => put(&mut row.writes, value.u64(1)?),
        (names::DISK_OPERATION_TIME, true) => put(&mut row.read_ms, value.u64(1_000)?),
        (names::DISK_OPERATION_TIME, false) => put(&mut row.write_ms, value.u64(1_000)?),
        (names::DISK_IO_TIME, _) => put(&mut row.io_ms, value.u64(1_000)?),
        (names::DISK_IN_FLIGHT, _) => put(&mut row.in_flight, value.u64(1)?),
        _ => Err(Reason::Shape),
    }
}
