//! One table's queue.
//!
//! Rows that come after a quiet second are inserted at once; later ones wait until the interval since the last insert has
//! passed, or until there are enough of them. A request's rows stay together, and are answered together. The queue is
//! bounded in bytes: places are reserved before anything is queued.

use std::sync::Arc;

use clickhouse::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Batching, DeadLetters, WriteError, dead_letters, insert};
use crate::ingest::meters::Meters;
use crate::ingest::rows::Stored;

/// Most requests in one table's queue.
const QUEUE_JOBS: usize = 65_536;

/// Bytes that one permit stands for.
const PERMIT_BYTES: usize = 1_024;

/// Rows of one request.
struct Job<T> {
    rows: Vec<T>,
    bytes: usize,
    done: oneshot::Sender<Result<DeadLetters, WriteError>>,
    /// Given back when the job is answered.
    _permit: OwnedSemaphorePermit,
}

/// Where a request's rows for one table go in.
pub(super) struct Batcher<T> {
    jobs: mpsc::Sender<Job<T>>,
    room: Arc<Semaphore>,
    places: usize,
}

/// A place in a queue, with the rows for it.
pub(super) struct Reserved<T> {
    job: Job<T>,
    place: mpsc::OwnedPermit<Job<T>>,
    ticket: Ticket,
}

/// The answer to come for one request's rows in one table.
pub(super) struct Ticket {
    table: &'static str,
    answer: oneshot::Receiver<Result<DeadLetters, WriteError>>,
}

impl<T: Stored> Batcher<T> {
    pub(super) fn start(client: Client, batching: Batching, meters: Arc<Meters>, tasks: &mut JoinSet<()>) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE_JOBS);
        let places = (batching.queue_bytes / PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let room = Arc::new(Semaphore::new(places));
        let worker = Worker { client, batching, meters, room: Arc::clone(&room), places, last: None };
        tasks.spawn(worker.run(queue));
        Self { jobs, room, places }
    }

    /// Takes a place for `rows`; `None` when there are none.
    pub(super) fn reserve(&self, rows: Vec<T>) -> Result<Option<Reserved<T>>, WriteError> {
        if rows.is_empty() {
            return Ok(None);
        }
        let bytes: usize = rows.iter().map(Stored::weight).sum();
        // A request that is larger than the whole queue may have the queue for itself.
        let permits = u32::try_from((bytes / PERMIT_BYTES + 1).min(self.places)).unwrap_or(u32::MAX);
        let full = |_| WriteError::Full(T::TABLE);
        let permit = Arc::clone(&self.room).try_acquire_many_owned(permits).map_err(full)?;
        let place = self.jobs.clone().try_reserve_owned().map_err(|_| WriteError::Full(T::TABLE))?;
        let (done, answer) = oneshot::channel();
        let ticket = Ticket { table: T::TABLE, answer };
        Ok(Some(Reserved { job: Job { rows, bytes, done, _permit: permit }, place, ticket }))
    }
}

impl<T: Stored> Reserved<T> {
    pub(super) fn send(self) -> Ticket {
        self.place.send(self.job);
        self.ticket
    }
}

impl Ticket {
    pub(super) async fn answer(self) -> Result<DeadLetters, WriteError> {
        let lost = WriteError::Failed { table: self.table, message: "the collector is stopping".to_owned() };
        self.answer.await.unwrap_or(Err(lost))
    }
}

struct Worker {
    client: Client,
    batching: Batching,
    meters: Arc<Meters>,
    room: Arc<Semaphore>,
    places: usize,
    /// When the last insert began.
    last: Option<Instant>,
}

impl Worker {
    async fn run<T: Stored>(mut self, mut queue: mpsc::Receiver<Job<T>>) {
        while let Some(first) = queue.recv().await {
            let jobs = self.collect(first, &mut queue).await;
            self.last = Some(Instant::now());
            self.write(jobs).await;
            let queued = self.places - self.room.available_permits().min(self.places);
            self.meters.state(&format!("queued_bytes_{}", T::TABLE), queued * PERMIT_BYTES);
        }
    }

    /// `first` and what comes until the interval has passed or there is enough.
    async fn collect<T: Stored>(&self, first: Job<T>, queue: &mut mpsc::Receiver<Job<T>>) -> Vec<Job<T>> {
        let (mut rows, mut bytes) = (first.rows.len(), first.bytes);
        let mut jobs = vec![first];
        let due = self.last.map(|last| last + self.batching.interval);
        while rows < self.batching.rows && bytes < self.batching.bytes {
            let next = match due.filter(|due| *due > Instant::now()) {
                Some(due) => tokio::time::timeout_at(due, queue.recv()).await.ok().flatten(),
                None => queue.try_recv().ok(),
            };
            let waited = due.is_none_or(|due| due <= Instant::now());
            match next {
                Some(job) => {
                    rows += job.rows.len();
                    bytes += job.bytes;
                    jobs.push(job);
                }
                None if waited || queue.is_closed() => break,
                None => {}
            }
        }
        jobs
    }

    async fn write<T: Stored>(&self, jobs: Vec<Job<T>>) {
        let all: Vec<&T> = jobs.iter().flat_map(|job| &job.rows).collect();
        let outcome = self.insert(&all).await;
        match outcome {
            Ok(()) => answer_all(jobs, &Ok(DeadLetters::default())),
            Err(insert::Fault::Retry(message)) => {
                answer_all(jobs, &Err(WriteError::Failed { table: T::TABLE, message }));
            }
            Err(insert::Fault::Refused(message)) if jobs.len() == 1 => {
                for job in jobs {
                    let answer = self.bury(&job.rows, message.clone()).await;
                    let _gone = job.done.send(answer);
                }
            }
            Err(insert::Fault::Refused(_)) => {
                // Whose rows are refused is found by inserting each request's alone.
                for job in jobs {
                    let rows: Vec<&T> = job.rows.iter().collect();
                    let answer = match self.insert(&rows).await {
                        Ok(()) => Ok(DeadLetters::default()),
                        Err(insert::Fault::Retry(message)) => Err(WriteError::Failed { table: T::TABLE, message }),
                        Err(insert::Fault::Refused(message)) => self.bury(&job.rows, message).await,
                    };
                    let _gone = job.done.send(answer);
                }
            }
        }
    }

    async fn insert<T: Stored>(&self, rows: &[&T]) -> Result<(), insert::Fault> {
        let begun = Instant::now();
        let outcome = insert::insert(&self.client, rows, self.batching.timeout).await;
        match &outcome {
            Ok(()) => self.meters.inserted(T::TABLE, rows.len() as u64, begun.elapsed().as_secs_f64()),
            Err(fault) => {
                self.meters.insert_failed(T::TABLE);
                tracing::warn!(table = T::TABLE, rows = rows.len(), %fault, "insert failed");
            }
        }
        outcome
    }

    async fn bury<T: Stored>(&self, rows: &[T], message: String) -> Result<DeadLetters, WriteError> {
        dead_letters::keep(&self.client, rows, &message, self.batching.timeout).await.map_err(|fault| {
            WriteError::Failed { table: T::TABLE, message: format!("{message}; and dead_letters: {fault}") }
        })?;
        self.meters.dead_letters(T::TABLE, rows.len() as u64);
        Ok(DeadLetters { rows: rows.len() as u64, message: format!("table {}: {message}", T::TABLE) })
    }
}

fn answer_all<T>(jobs: Vec<Job<T>>, answer: &Result<DeadLetters, WriteError>) {
    for job in jobs {
        // A sender that has gone away will ask again.
        let _gone = job.done.send(answer.clone());
    }
}
