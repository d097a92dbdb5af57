//! Rows to ClickHouse: one [`batcher`] a table collects the rows of all requests into one insert a second, and [`insert`]
//! sends them and says what a failure means. Rows that ClickHouse will never take are sifted out and go to
//! [`dead_letters`]. Tables share nothing, so that one that fails holds up nobody else.

mod batcher;
mod dead_letters;
mod insert;

use std::sync::Arc;
use std::time::Duration;

use clickhouse::Client;
use contador_schemas::rows::{
    Device, Event, GpuSample, Latency, LatencyTotal, LedgerRow, Metric, NodeSample, OwnerRow, Served, StorageSample,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::batcher::{Batcher, Reserved, Ticket};
use super::meters::Meters;
use super::rows::Rows;

/// How rows are batched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batching {
    /// Least time between two inserts into a table.
    pub interval: Duration,
    /// An insert is sent at once when it has this many rows.
    pub rows: usize,
    /// An insert is sent at once when its rows hold this many bytes of memory.
    pub bytes: usize,
    /// Bytes of rows that may wait for each table; more is refused until some are written.
    pub queue_bytes: usize,
    /// Longest wait for one insert's answer.
    pub timeout: Duration,
}

impl Default for Batching {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            rows: 100_000,
            bytes: 32 << 20,
            queue_bytes: 128 << 20,
            timeout: Duration::from_secs(30),
        }
    }
}

/// Why rows were not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The table's queue is full.
    #[error("the queue of table {0} is full")]
    Full(&'static str),
    /// ClickHouse failed, or did not answer; the rows may or may not be there.
    #[error("insert into {table}: {message}")]
    Failed {
        /// The table.
        table: &'static str,
        /// What ClickHouse or the connection said.
        message: String,
    },
}

/// Rows of a request that ClickHouse will never take: they are kept in `dead_letters`.
#[derive(Clone, Debug, Default)]
pub struct DeadLetters {
    /// How many rows.
    pub rows: u64,
    /// What ClickHouse said of the first.
    pub message: String,
}

impl DeadLetters {
    /// Adds those of another write.
    pub fn add(&mut self, other: Self) {
        if self.rows == 0 {
            *self = other;
        } else {
            self.rows += other.rows;
        }
    }
}

/// What all batchers share.
#[derive(Clone, Copy)]
struct Parts<'a> {
    client: &'a Client,
    batching: Batching,
    meters: &'a Arc<Meters>,
    alarm: &'a Arc<Notify>,
}

/// The tables' batchers.
pub struct Writer {
    gpu: Batcher<GpuSample>,
    storage: Batcher<StorageSample>,
    node: Batcher<NodeSample>,
    latency: Batcher<Latency>,
    totals: Batcher<LatencyTotal>,
    served: Batcher<Served>,
    ledger: Batcher<LedgerRow>,
    owners: Batcher<OwnerRow>,
    devices: Batcher<Device>,
    events: Batcher<Event>,
    metrics: Batcher<Metric>,
}

impl Writer {
    /// Starts a task for each table in `tasks`; they end when the writer is dropped and what is queued is answered. They
    /// ring `alarm` when a table is not as it must be.
    pub fn start(
        client: &Client,
        batching: Batching,
        meters: &Arc<Meters>,
        alarm: &Arc<Notify>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let parts = Parts { client, batching, meters, alarm };
        Self {
            gpu: Batcher::start(&parts, tasks),
            storage: Batcher::start(&parts, tasks),
            node: Batcher::start(&parts, tasks),
            latency: Batcher::start(&parts, tasks),
            totals: Batcher::start(&parts, tasks),
            served: Batcher::start(&parts, tasks),
            ledger: Batcher::start(&parts, tasks),
            owners: Batcher::start(&parts, tasks),
            devices: Batcher::start(&parts, tasks),
            events: Batcher::start(&parts, tasks),
            metrics: Batcher::start(&parts, tasks),
        }
    }

    /// Writes all rows and waits until ClickHouse has acknowledged each of them, or has refused it for ever.
    ///
    /// # Errors
    /// [`WriteError::Full`] when a table's queue has no room (nothing was written then), [`WriteError::Failed`] when any
    /// table failed (rows of other tables may be written; writing them again is harmless).
    pub async fn write(&self, rows: Rows) -> Result<DeadLetters, WriteError> {
        let Rows { gpu, storage, node, latency, totals, served, ledger, owners, devices, events, metrics } = rows;
        // First a place in every queue, so that a request is either queued whole or not at all.
        let places = (
            self.gpu.reserve(gpu)?,
            self.storage.reserve(storage)?,
            self.node.reserve(node)?,
            self.latency.reserve(latency)?,
            self.ledger.reserve(ledger)?,
            self.owners.reserve(owners)?,
            self.devices.reserve(devices)?,
            self.events.reserve(events)?,
            self.metrics.reserve(metrics)?,
            self.served.reserve(served)?,
            self.totals.reserve(totals)?,
        );
        let tickets = [
            places.0.map(Reserved::send),
            places.1.map(Reserved::send),
            places.2.map(Reserved::send),
            places.3.map(Reserved::send),
            places.4.map(Reserved::send),
            places.5.map(Reserved::send),
            places.6.map(Reserved::send),
            places.7.map(Reserved::send),
            places.8.map(Reserved::send),
            places.9.map(Reserved::send),
            places.10.map(Reserved::send),
        ];
        let mut dead = DeadLetters::default();
        let mut failed = None;
        for ticket in tickets.into_iter().flatten() {
            match Ticket::answer(ticket).await {
                Ok(letters) => dead.add(letters),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(dead), Err)
    }
}
