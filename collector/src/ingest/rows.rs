//! The rows of one request, by table, and what the writer must know of each kind of row.

use contador_schemas::rows::{
    Device, Event, GpuSample, Latency, LatencyTotal, LedgerRow, Metric, NodeSample, OwnerRow, Served, StorageSample,
    Table,
};

/// What one request becomes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// `gpu_samples`.
    pub gpu: Vec<GpuSample>,
    /// `storage_samples`.
    pub storage: Vec<StorageSample>,
    /// `node_samples`.
    pub node: Vec<NodeSample>,
    /// `latency`.
    pub latency: Vec<Latency>,
    /// `latency_totals`.
    pub totals: Vec<LatencyTotal>,
    /// `served`.
    pub served: Vec<Served>,
    /// `ledger`.
    pub ledger: Vec<LedgerRow>,
    /// `owners`.
    pub owners: Vec<OwnerRow>,
    /// `devices`.
    pub devices: Vec<Device>,
    /// `events`.
    pub events: Vec<Event>,
    /// `metrics`.
    pub metrics: Vec<Metric>,
}

/// A row that the ingest writes.
pub trait Stored: Table + serde::Serialize + Send + Sync {
    /// Bytes that the row holds in memory, about.
    fn weight(&self) -> usize;
}

fn pairs(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(name, value)| 48 + name.len() + value.len()).sum()
}

impl Stored for GpuSample {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.device.len() + self.node.len() + self.unsupported.len() * 48
    }
}

impl Stored for StorageSample {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.device.len() + self.node.len() + self.kind.len()
    }
}

impl Stored for NodeSample {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.node.len()
    }
}

impl Stored for Latency {
    fn weight(&self) -> usize {
        let names =
            [&self.service, &self.model, &self.metric, &self.route, &self.environment, &self.node, &self.device];
        size_of::<Self>()
            + names.into_iter().map(String::len).sum::<usize>()
            + pairs(&self.attributes)
            + self.n.len() * 24
    }
}

impl Stored for LatencyTotal {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.points.len()
    }
}

impl Stored for Served {
    fn weight(&self) -> usize {
        let names = [&self.service, &self.model, &self.environment, &self.node, &self.device];
        size_of::<Self>() + names.into_iter().map(String::len).sum::<usize>()
    }
}

impl Stored for LedgerRow {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.device.len() + self.kind.len() + self.node.len()
    }
}

impl Stored for OwnerRow {
    fn weight(&self) -> usize {
        let Self { kind, environment, cluster, namespace, pod, container, job, user, .. } = self;
        let names = [kind, environment, cluster, namespace, pod, container, job, user];
        let rest = [&self.department, &self.project, &self.experiment, &self.service, &self.model, &self.command];
        size_of::<Self>() + names.into_iter().chain(rest).map(String::len).sum::<usize>()
    }
}

impl Stored for Device {
    fn weight(&self) -> usize {
        size_of::<Self>()
            + self.id.len()
            + self.node.len()
            + self.model.len()
            + 512
            + self.topology.as_ref().map_or(0, String::len)
    }
}

impl Stored for Event {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.device.len() + self.kind.len() + self.message.len() + pairs(&self.attributes)
    }
}

impl Stored for Metric {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.unit.len() + 32 + pairs(&self.attributes)
    }
}

impl Rows {
    /// How many rows there are in all.
    pub fn len(&self) -> usize {
        self.gpu.len()
            + self.storage.len()
            + self.node.len()
            + self.latency.len()
            + self.totals.len()
            + self.served.len()
            + self.ledger.len()
            + self.owners.len()
            + self.devices.len()
            + self.events.len()
            + self.metrics.len()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
