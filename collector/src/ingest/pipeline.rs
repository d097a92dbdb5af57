//! One request through all stages.
//!
//! A request runs in a task of its own: a sender that goes away does not stop it half-way, which would leave the memory
//! of running totals behind what was written. It is answered when ClickHouse has acknowledged every row.

use std::sync::Arc;
use std::time::Duration;

use clickhouse::Client;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use super::cumulative::work::Begun;
use super::cumulative::{Memory, Stored, Totals, Work};
use super::decode::reject::{Reason, Rejected};
use super::decode::{Decoded, decode};
use super::meters::Meters;
use super::room::{Held, Room};
use super::rows::Rows;
use super::write::{Batching, DeadLetters, WriteError, Writer};
use crate::store::StoreState;

/// Requests of this many bytes and more are decoded on a thread for blocking work.
const LARGE: usize = 128 << 10;

/// Most times that rows are written again, since others wrote of the same running totals meanwhile.
const MOST_ROUNDS: u32 = 8;

/// Bounds of the ingest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How rows are batched.
    pub batching: Batching,
    /// Most requests at work at once; more are asked to come back.
    pub requests: usize,
    /// Bytes that requests at work may take in memory, all together.
    pub inflight_bytes: usize,
    /// Most running totals that are remembered.
    pub series: usize,
    /// How long a sender is asked to wait before it tries again.
    pub retry_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batching: Batching::default(),
            requests: 4_096,
            inflight_bytes: 256 << 20,
            series: 200_000,
            retry_after: Duration::from_secs(1),
        }
    }
}

/// What became of an accepted request.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Points that are not stored, and never will be.
    pub rejected: Rejected,
    /// The reasons in words; empty when every point was stored.
    pub message: String,
}

/// Why a request was not accepted now. Sent again later, it can be.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// ClickHouse is not there, or did not take the rows.
    #[error("{0}")]
    Unavailable(String),
    /// There is more to do than the configured bounds allow.
    #[error("{0}")]
    Overloaded(String),
}

/// The ingest of one collector.
pub struct Pipeline {
    writer: Writer,
    memory: Memory,
    totals: Totals,
    store: watch::Receiver<StoreState>,
    places: Arc<Semaphore>,
    room: Room,
    tracker: TaskTracker,
    settings: Settings,
    meters: Arc<Meters>,
    _writers: JoinSet<()>,
}

impl Pipeline {
    /// Starts the tables' writers, which ring `alarm` when a table is not as it must be. Requests are refused until `store`
    /// says that ClickHouse is there.
    pub fn start(
        client: &Client,
        store: watch::Receiver<StoreState>,
        settings: Settings,
        meters: Arc<Meters>,
        alarm: &Arc<Notify>,
    ) -> Arc<Self> {
        let mut writers = JoinSet::new();
        Arc::new(Self {
            writer: Writer::start(client, settings.batching, &meters, alarm, &mut writers),
            memory: Memory::new(settings.series),
            totals: Totals::new(client, settings.batching.timeout, now()),
            store,
            places: Arc::new(Semaphore::new(settings.requests.min(Semaphore::MAX_PERMITS))),
            room: Room::new(settings.inflight_bytes),
            tracker: TaskTracker::new(),
            settings,
            meters,
            _writers: writers,
        })
    }

    /// How long a refused sender is asked to wait.
    pub fn retry_after(&self) -> Duration {
        self.settings.retry_after
    }

    /// The pipeline's meters.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Whether a request may come now; its memory is still to be taken.
    ///
    /// # Errors
    /// [`Refusal`] when it would be refused whatever it says.
    pub(super) fn admit(&self) -> Result<Held, Refusal> {
        match self.store.borrow().reason() {
            Some(reason) => Err(Refusal::Unavailable(reason.to_owned())),
            None => Ok(self.room.hold()),
        }
    }

    /// Stores what `request` says, for which `held` holds memory; `protocol` is `grpc` or `http`.
    ///
    /// # Errors
    /// [`Refusal`]; nothing is lost when the sender tries again.
    pub async fn ingest(
        self: &Arc<Self>,
        request: ExportMetricsServiceRequest,
        held: Held,
        protocol: &'static str,
    ) -> Result<Outcome, Refusal> {
        let pipeline = Arc::clone(self);
        let answer = self.tracker.spawn(async move {
            let answer = pipeline.run(request, protocol).await;
            drop(held);
            answer
        });
        let answer = answer.await;
        let answer = answer.unwrap_or_else(|error| Err(Refusal::Unavailable(format!("the request's task: {error}"))));
        self.meters.request(match &answer {
            Ok(outcome) if outcome.message.is_empty() => "accepted",
            Ok(_) => "partial",
            Err(Refusal::Unavailable(_)) => "unavailable",
            Err(Refusal::Overloaded(_)) => "overloaded",
        });
        self.count_requests();
        answer
    }

    fn count_requests(&self) {
        let limit = self.settings.requests.min(Semaphore::MAX_PERMITS);
        self.meters.state("requests", limit - self.places.available_permits().min(limit));
        self.meters.state("inflight_bytes", self.room.used());
    }

    /// Waits until every request that was taken is answered.
    pub async fn drained(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Whether every request that was taken is answered.
    pub fn is_idle(&self) -> bool {
        self.tracker.is_empty()
    }

    async fn run(&self, request: ExportMetricsServiceRequest, protocol: &'static str) -> Result<Outcome, Refusal> {
        if let Some(reason) = self.store.borrow().reason() {
            return Err(Refusal::Unavailable(reason.to_owned()));
        }
        let busy = |_| Refusal::Overloaded(format!("{} requests are at work already", self.settings.requests));
        let _place = self.places.try_acquire().map_err(busy)?;
        self.count_requests();
        let decoded = if request.encoded_len() < LARGE {
            decode(&request, now())
        } else {
            let stopped = |error| Refusal::Unavailable(format!("decoding: {error}"));
            tokio::task::spawn_blocking(move || decode(&request, now())).await.map_err(stopped)?
        };
        let Decoded { mut rows, running, mut rejected, points } = decoded;
        let mut work = self.memory.hold(running, &mut rejected).await;
        if !work.is_empty() {
            let stored = self.stored(&work).await?;
            work.take(stored, now(), &mut rejected);
            rows.totals = work.records();
            self.totals.sign(&mut rows.totals, now());
            self.meters.running_totals(work.base_lines, self.memory.evicted());
            for (reason, Begun { points, service, metric }) in &work.untold {
                self.meters.untold(*reason, *points);
                tracing::info!(
                    reason = reason.name(),
                    points,
                    service,
                    metric,
                    "running totals begin anew, such as this"
                );
            }
            self.meters.state("cumulative_series", self.memory.len());
        }
        let mut dead = self.write(rows).await?;
        let postponed = work.postponed;
        if !work.is_empty() {
            dead.add(self.increases(work).await?);
        }
        if postponed > 0 {
            return Err(Refusal::Overloaded(format!(
                "{postponed} cumulative points came before earlier ones were stored"
            )));
        }
        let mut message = rejected.message();
        if dead.rows > 0 {
            rejected.add(Reason::Stored, dead.rows, "rows");
            let separator = if message.is_empty() { "" } else { "; " };
            message = format!("{message}{separator}{} rows kept in dead_letters: {}", dead.rows, dead.message);
        }
        self.meters.points(protocol, points, &rejected);
        if !message.is_empty() {
            tracing::debug!(protocol, rejected = rejected.points(), message, "partial success");
        }
        Ok(Outcome { rejected, message })
    }
}

impl Pipeline {
    /// Writes what came since the totals before, whose points are stored already. They may have been written from other
    /// points meanwhile, so what is known is read again until it stays the same.
    async fn increases(&self, mut work: Work) -> Result<DeadLetters, Refusal> {
        let mut dead = DeadLetters::default();
        self.read_again(&mut work).await?;
        for _ in 0..MOST_ROUNDS {
            dead.add(self.write(work.by_table()).await?);
            if !self.read_again(&mut work).await? {
                work.acknowledge();
                return Ok(dead);
            }
        }
        Err(Refusal::Overloaded("others count the same running totals at the same time".to_owned()))
    }

    /// Reads what others have written meanwhile; whether rows are to be written again.
    async fn read_again(&self, work: &mut Work) -> Result<bool, Refusal> {
        let stored = self.stored(work).await?;
        let is_changed = work.merge(stored);
        match work.overtaken {
            0 => Ok(is_changed),
            points => Err(Refusal::Unavailable(format!(
                "{points} cumulative points are of a run whose place an older one has taken at another collector meanwhile"
            ))),
        }
    }

    async fn stored(&self, work: &Work) -> Result<Stored, Refusal> {
        let totals: Vec<_> = work.totals().collect();
        let read = self.totals.read(&totals, now()).await;
        read.map_err(|error| Refusal::Unavailable(format!("reading latency_totals: {error}")))
    }

    async fn write(&self, rows: Rows) -> Result<DeadLetters, Refusal> {
        self.writer.write(rows).await.map_err(|error| match error {
            WriteError::Full(_) => Refusal::Overloaded(error.to_string()),
            WriteError::Failed { .. } => Refusal::Unavailable(error.to_string()),
        })
    }
}

/// Unix nanoseconds by this host's clock.
fn now() -> i64 {
    i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}
