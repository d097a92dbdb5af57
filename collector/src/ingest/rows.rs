//! The rows of one request, by table, and what the writer must know of each kind of row.

use contador_schemas::rows::{
    Device, Event, GpuSample, Latency, LedgerRow, Metric, NodeSample, OwnerRow, StorageSample, Table,
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
    /// Which of the table's partitions the row falls into; rows of equal numbers share one.
    fn partition(&self) -> i64;

    /// Bytes that the row holds in memory, about.
    fn weight(&self) -> usize;
}

const DAY_MS: i64 = 86_400_000;
const DAY_NS: i64 = 86_400_000_000_000;

/// Months since March of the year 0, UTC (days to civil, by H. Hinnant: `chrono`-compatible low-level date algorithms).
fn month(unix_seconds: i64) -> i64 {
    let days = unix_seconds.div_euclid(86_400) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    (era * 400 + year_of_era) * 12 + (5 * day_of_year + 2) / 153
}

fn pairs(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(name, value)| 48 + name.len() + value.len()).sum()
}

impl Stored for GpuSample {
    fn partition(&self) -> i64 {
        self.ts.div_euclid(DAY_MS)
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.device.len() + self.node.len() + self.unsupported.len() * 48
    }
}

impl Stored for StorageSample {
    fn partition(&self) -> i64 {
        self.ts.div_euclid(DAY_MS)
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.device.len() + self.node.len() + self.kind.len()
    }
}

impl Stored for NodeSample {
    fn partition(&self) -> i64 {
        self.ts.div_euclid(DAY_MS)
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.node.len()
    }
}

impl Stored for Latency {
    fn partition(&self) -> i64 {
        i64::from(self.window / 86_400)
    }

    fn weight(&self) -> usize {
        let names =
            [&self.service, &self.model, &self.metric, &self.route, &self.environment, &self.node, &self.device];
        size_of::<Self>()
            + names.into_iter().map(String::len).sum::<usize>()
            + pairs(&self.attributes)
            + self.n.len() * 24
    }
}

impl Stored for LedgerRow {
    fn partition(&self) -> i64 {
        month(i64::from(self.minute))
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.device.len() + self.kind.len() + self.node.len()
    }
}

impl Stored for OwnerRow {
    fn partition(&self) -> i64 {
        0
    }

    fn weight(&self) -> usize {
        let Self { kind, environment, cluster, namespace, pod, container, job, user, .. } = self;
        let names = [kind, environment, cluster, namespace, pod, container, job, user];
        let rest = [&self.department, &self.project, &self.experiment, &self.service, &self.model, &self.command];
        size_of::<Self>() + names.into_iter().chain(rest).map(String::len).sum::<usize>()
    }
}

impl Stored for Device {
    fn partition(&self) -> i64 {
        0
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.id.len() + self.node.len() + self.model.len() + 128
    }
}

impl Stored for Event {
    fn partition(&self) -> i64 {
        month(self.ts.div_euclid(1_000))
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.device.len() + self.kind.len() + self.message.len() + pairs(&self.attributes)
    }
}

impl Stored for Metric {
    fn partition(&self) -> i64 {
        self.ts.div_euclid(DAY_NS)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_where_the_calendar_says() {
        // date -u -d 2024-02-29T23:59:59 +%s, and so on.
        assert_eq!(month(1_709_251_199) + 1, month(1_709_251_200));
        assert_eq!(month(1_706_745_600), month(1_709_251_199));
        assert_eq!(month(1_706_745_599) + 1, month(1_706_745_600));
        // December 2025 to January 2026.
        assert_eq!(month(1_767_225_599) + 1, month(1_767_225_600));
        assert_eq!(month(1_767_225_600) - month(0), 56 * 12);
    }
}
