//! Node samples: one row of CPU, memory and network of one node at one instant.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use contador_schemas::names::{Group, MetricName};
use contador_schemas::rows::NodeSample;

use super::Point;
use super::columns::{Columns, Place};
use super::reject::Reason;

static COLUMNS: LazyLock<Columns<NodeSample>> = LazyLock::new(|| Columns::of(Group::Node, &[]));

/// Samples by node and Unix milliseconds.
#[derive(Default)]
pub(super) struct Samples(BTreeMap<(String, i64), NodeSample>);

/// Where the point belongs, when it names a node. Others send CPU time by CPU, or memory in other states.
pub(super) fn place(metric: &MetricName, point: &Point<'_>) -> Option<&'static Place<NodeSample>> {
    COLUMNS.place(metric, point.attributes).filter(|_| !point.node().is_empty())
}

impl Samples {
    pub(super) fn add(&mut self, place: &Place<NodeSample>, point: &Point<'_>) -> Result<(), Reason> {
        let Some(value) = point.value else { return Ok(()) };
        let value = place.read(value)?;
        let row = self.0.entry((point.node(), point.millis())).or_insert_with_key(|(node, ts)| NodeSample {
            ts: *ts,
            node: node.clone(),
            ..NodeSample::default()
        });
        place.put(row, value)
    }

    pub(super) fn finish(self) -> Vec<NodeSample> {
        self.0.into_values().collect()
    }
}
