//! Node samples: one row of CPU and memory of one node at one instant.

use std::collections::BTreeMap;

use contador_schemas::names::{self, MetricName};
use contador_schemas::rows::NodeSample;

use super::reject::Reason;
use super::value::put;
use super::{Point, only_known};

/// Samples by node and Unix milliseconds.
#[derive(Default)]
pub(super) struct Samples(BTreeMap<(String, i64), NodeSample>);

/// Whether the point names a node, and has a column. Others send CPU time by CPU, or memory in other states.
pub(super) fn is_ours(metric: &MetricName, point: &Point<'_>) -> bool {
    !point.node().is_empty()
        && only_known(point.attributes)
        && column(&mut NodeSample::default(), metric, point).is_some()
}

impl Samples {
    pub(super) fn add(&mut self, metric: &MetricName, point: &Point<'_>) -> Result<(), Reason> {
        let mut scratch = NodeSample::default();
        fill(&mut scratch, metric, point)?;
        let key = (point.node(), point.millis());
        let row = self.0.entry(key).or_insert_with_key(|(node, ts)| NodeSample {
            ts: *ts,
            node: node.clone(),
            ..NodeSample::default()
        });
        fill(row, metric, point)
    }

    pub(super) fn finish(self) -> Vec<NodeSample> {
        self.0.into_values().collect()
    }
}

fn fill(row: &mut NodeSample, metric: &MetricName, point: &Point<'_>) -> Result<(), Reason> {
    let Some(value) = point.value else { return Ok(()) };
    match column(row, metric, point).ok_or(Reason::Shape)? {
        Column::Count(column) => put(column, value.u32(1)?),
        Column::Load(column) => put(column, value.f32()?),
        Column::Millis(column) => put(column, value.u64(1_000)?),
        Column::Bytes(column) => put(column, value.u64(1)?),
    }
}

/// A column, and what its value is a number of.
enum Column<'a> {
    Count(&'a mut Option<u32>),
    Load(&'a mut Option<f32>),
    Millis(&'a mut Option<u64>),
    Bytes(&'a mut Option<u64>),
}

fn column<'a>(row: &'a mut NodeSample, metric: &MetricName, point: &Point<'_>) -> Option<Column<'a>> {
    let mode = point.attributes.get(names::CPU_MODE);
    let state = point.attributes.get(names::MEMORY_STATE);
    Some(match (metric.name, mode.as_deref(), state.as_deref()) {
        (names::CPU_TIME, Some("user"), None) => Column::Millis(&mut row.cpu_user_ms),
        (names::CPU_TIME, Some("nice"), None) => Column::Millis(&mut row.cpu_nice_ms),
        (names::CPU_TIME, Some("system"), None) => Column::Millis(&mut row.cpu_system_ms),
        (names::CPU_TIME, Some("idle"), None) => Column::Millis(&mut row.cpu_idle_ms),
        (names::CPU_TIME, Some("iowait"), None) => Column::Millis(&mut row.cpu_iowait_ms),
        (names::CPU_TIME, Some("interrupt"), None) => Column::Millis(&mut row.cpu_interrupt_ms),
        (names::CPU_TIME, Some("steal"), None) => Column::Millis(&mut row.cpu_steal_ms),
        (names::CPU_COUNT, None, None) => Column::Count(&mut row.cpus),
        (names::CPU_LOAD_1M, None, None) => Column::Load(&mut row.load_1m),
        (names::MEMORY_LIMIT, None, None) => Column::Bytes(&mut row.memory_total),
        (names::MEMORY_AVAILABLE, None, None) => Column::Bytes(&mut row.memory_available),
        (names::MEMORY_USAGE, None, Some("free")) => Column::Bytes(&mut row.memory_free),
        (names::MEMORY_USAGE, None, Some("buffers")) => Column::Bytes(&mut row.memory_buffers),
        (names::MEMORY_USAGE, None, Some("cached")) => Column::Bytes(&mut row.memory_cached),
        _ => return None,
    })
}
