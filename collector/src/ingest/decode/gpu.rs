//! Device samples: one row of all metrics of one device at one instant.

use std::collections::BTreeMap;

use contador_schemas::names::{self, MetricName};
use contador_schemas::rows::GpuSample;

use super::reject::Reason;
use super::value::put;
use super::{Point, only_known};

/// Samples by device, node and Unix milliseconds.
#[derive(Default)]
pub(super) struct Samples(BTreeMap<(String, String, i64), GpuSample>);

/// Whether the point is about a GPU that it names. `hw.power` and the like are also said of fans and power supplies.
pub(super) fn is_ours(point: &Point<'_>) -> bool {
    let kind = point.origin.named(point.attributes, names::HW_TYPE);
    (kind.is_empty() || kind == "gpu") && point.attributes.get(names::HW_ID).is_some() && only_known(point.attributes)
}

impl Samples {
    pub(super) fn add(&mut self, metric: &MetricName, point: &Point<'_>) -> Result<(), Reason> {
        let key = (point.attributes.owned(names::HW_ID), point.node(), point.millis());
        let mut scratch = GpuSample::default();
        fill(&mut scratch, metric, point)?;
        let row = self.0.entry(key).or_insert_with_key(|(device, node, ts)| GpuSample {
            ts: *ts,
            device: device.clone(),
            node: node.clone(),
            ..GpuSample::default()
        });
        row.simulated |= point.simulated();
        if point.value.is_some() {
            return fill(row, metric, point);
        }
        if point.attributes.is_true(names::UNSUPPORTED)
            && let Err(place) = row.unsupported.binary_search_by(|name| name.as_str().cmp(metric.name))
        {
            row.unsupported.insert(place, metric.name.to_owned());
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<GpuSample> {
        self.0.into_values().collect()
    }
}

fn fill(row: &mut GpuSample, metric: &MetricName, point: &Point<'_>) -> Result<(), Reason> {
    let Some(value) = point.value else { return Ok(()) };
    match metric.name {
        names::GPU_UTILIZATION => put(&mut row.utilization, value.share()?),
        names::GPU_MEMORY_UTILIZATION => put(&mut row.memory_utilization, value.share()?),
        names::GPU_MEMORY_LIMIT => put(&mut row.memory_total, value.u64(1)?),
        names::GPU_MEMORY_USAGE => put(&mut row.memory_used, value.u64(1)?),
        names::GPU_MEMORY_FREE => put(&mut row.memory_free, value.u64(1)?),
        names::GPU_MEMORY_RESERVED => put(&mut row.memory_reserved, value.u64(1)?),
        names::POWER => put(&mut row.power_mw, value.u32(1_000)?),
        names::ENERGY => put(&mut row.energy_mj, value.u64(1_000)?),
        names::TEMPERATURE => put(&mut row.temperature_c, value.i16()?),
        names::GPU_CLOCK_SM => put(&mut row.clock_sm_mhz, value.u32(1)?),
        names::GPU_CLOCK_MEMORY => put(&mut row.clock_memory_mhz, value.u32(1)?),
        names::GPU_CLOCK_GRAPHICS => put(&mut row.clock_graphics_mhz, value.u32(1)?),
        names::GPU_PROCESSES => put(&mut row.processes, value.u32(1)?),
        _ => Err(Reason::Shape),
    }
}
