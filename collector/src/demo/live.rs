//! What the live view shows, asked from ClickHouse.

use clickhouse::Row;
use contador_schemas::quantile::Answer;
use serde::Deserialize;

use super::load::CLIENT_METRIC;
use super::service::SERVICE;
use crate::latency::{Ask, quantile};
use crate::store::Store;

/// A device now.
#[derive(Clone, Debug, Deserialize, Row)]
pub(super) struct DeviceNow {
    pub(super) device: String,
    pub(super) model: String,
    pub(super) simulated: bool,
    /// 0 to 1.
    pub(super) utilization: Option<f32>,
    /// Bytes.
    pub(super) memory_used: Option<u64>,
    /// Bytes.
    pub(super) memory_total: Option<u64>,
    /// Milliwatts.
    pub(super) power_mw: Option<u32>,
    /// Owners of the last closed minute with their shares; empty before the first one.
    pub(super) owners: String,
}

/// A disk over the last seconds.
#[derive(Clone, Debug, Deserialize, Row)]
pub(super) struct DiskNow {
    pub(super) device: String,
    /// Bytes a second.
    pub(super) read_rate: f64,
    /// Bytes a second.
    pub(super) write_rate: f64,
    pub(super) in_flight: u64,
}

/// The node over the last seconds.
#[derive(Clone, Debug, Deserialize, Row)]
pub(super) struct NodeNow {
    pub(super) node: String,
    /// 0 to 1; NaN before there are two samples.
    pub(super) cpu_busy: f64,
    /// Bytes.
    pub(super) memory_available: u64,
    /// Bytes.
    pub(super) memory_total: u64,
}

/// Everything that changes on the screen.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) devices: Vec<DeviceNow>,
    pub(super) disks: Vec<DiskNow>,
    pub(super) node: Option<NodeNow>,
    /// Name of what was timed, and its p99 in microseconds.
    pub(super) p99: Vec<(&'static str, Answer)>,
    /// What the agent has been through.
    pub(super) agent: String,
}

const DEVICES: &str = include_str!("../../../dashboards/queries/devices_now.sql");

const DISKS: &str = include_str!("../../../dashboards/queries/disks_now.sql");

const NODE: &str = include_str!("../../../dashboards/queries/node_now.sql");

/// Asks for all of it; latencies are those of the last five minutes. `agent`: what that has been through.
pub(super) async fn snapshot(store: &Store, agent: String) -> anyhow::Result<Snapshot> {
    // The window that is still open counts too.
    let to = u32::try_from(jiff::Timestamp::now().as_second())?.saturating_add(10);
    let from = to.saturating_sub(310);
    let mut p99 = Vec::new();
    for (label, metric) in [("server", "request_duration"), ("client", CLIENT_METRIC)] {
        p99.push((label, quantile(store, &Ask::p99(SERVICE, metric, from, to)).await?));
    }
    Ok(Snapshot {
        devices: store.client.query(DEVICES).fetch_all().await?,
        disks: store.client.query(DISKS).fetch_all().await?,
        node: store.client.query(NODE).fetch_optional().await?,
        p99,
        agent,
    })
}
