//! One table's queue.
//!
//! Rows that come after a quiet second are inserted at once; later ones wait until the interval since the last insert has
//! passed, or until there are enough of them. A request's rows stay together, and are answered together. The queue is
//! bounded in bytes: places are reserved before anything is queued.

use std::sync::Arc;

use clickhouse::Client;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Batching, DeadLetters, Parts, WriteError, dead_letters, insert};
use crate::ingest::meters::Meters;
use crate::ingest::rows::Stored;

/// Most requests in one table's queue.
const QUEUE_JOBS: usize = 65_536;

/// Bytes that one permit stands for.
const PERMIT_BYTES: usize = 1_024;

/// Most inserts that look for the rows that are refused.
const MOST_PARTS: u32 = 512;

/// A row that ClickHouse will never take.
struct Refused<'a, T> {
    job: usize,
    row: &'a T,
    message: String,
}

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
    pub(super) fn start(parts: &Parts<'_>, tasks: &mut JoinSet<()>) -> Self {
        let Parts { client, batching, meters, alarm } = *parts;
        let (jobs, queue) = mpsc::channel(QUEUE_JOBS);
        let places = (batching.queue_bytes / PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let room = Arc::new(Semaphore::new(places));
        let worker = Worker {
            client: client.clone(),
            batching,
            meters: Arc::clone(meters),
            alarm: Arc::clone(alarm),
            room: Arc::clone(&room),
            places,
            last: None,
        };
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
    /// Rung when a table is not as it must be.
    alarm: Arc<Notify>,
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
        let all: Vec<(usize, &T)> =
            jobs.iter().enumerate().flat_map(|(job, told)| told.rows.iter().map(move |row| (job, row))).collect();
        let rows: Vec<&T> = all.iter().map(|(_, row)| *row).collect();
        let outcome = self.timed(&rows, insert::insert(&self.client, &rows, self.batching.timeout)).await;
        let answers = match outcome {
            Ok(()) => Ok(Vec::new()),
            Err(insert::Fault::Refused(message)) => self.sift(&all, message).await,
            Err(fault) => Err(self.failed::<T>(&fault)),
        };
        let answers = match answers {
            Ok(refused) => self.bury(jobs.len(), &refused).await,
            Err(error) => vec![Err(error); jobs.len()],
        };
        for (job, answer) in jobs.into_iter().zip(answers) {
            // A sender that has gone away will ask again.
            let _gone = job.done.send(answer);
        }
    }

    /// Inserts `all`, which was refused as a whole because of `message`, in ever smaller parts; the rows that are refused
    /// by themselves are left, each with what ClickHouse said. After [`MOST_PARTS`], what is refused is not divided.
    async fn sift<'a, T: Stored>(
        &self,
        all: &'a [(usize, &'a T)],
        message: String,
    ) -> Result<Vec<Refused<'a, T>>, WriteError> {
        let mut refused = Vec::new();
        let mut parts = vec![(all, message)];
        let mut inserts = 0;
        while let Some((part, message)) = parts.pop() {
            if part.len() == 1 || inserts >= MOST_PARTS {
                refused.extend(part.iter().map(|&(job, row)| Refused { job, row, message: message.clone() }));
                continue;
            }
            let (left, right) = part.split_at(part.len() / 2);
            for half in [left, right] {
                inserts += 1;
                let rows: Vec<&T> = half.iter().map(|(_, row)| *row).collect();
                match self.timed(&rows, insert::part(&self.client, &rows, self.batching.timeout)).await {
                    Ok(()) => {}
                    Err(insert::Fault::Refused(message)) => parts.push((half, message)),
                    Err(fault) => return Err(self.failed::<T>(&fault)),
                }
            }
        }
        Ok(refused)
    }

    async fn timed<T: Stored>(
        &self,
        rows: &[&T],
        insert: impl Future<Output = Result<(), insert::Fault>>,
    ) -> Result<(), insert::Fault> {
        let begun = Instant::now();
        let outcome = insert.await;
        match &outcome {
            Ok(()) => self.meters.inserted(T::TABLE, rows.len() as u64, begun.elapsed().as_secs_f64()),
            Err(fault) => {
                self.meters.insert_failed(T::TABLE);
                tracing::warn!(table = T::TABLE, rows = rows.len(), %fault, "insert failed");
            }
        }
        outcome
    }

    fn failed<T: Stored>(&self, fault: &insert::Fault) -> WriteError {
        if matches!(fault, insert::Fault::Schema(_)) {
            self.alarm.notify_one();
        }
        WriteError::Failed { table: T::TABLE, message: fault.to_string() }
    }

    /// Keeps what was refused, and says so to the jobs that it came from.
    async fn bury<T: Stored>(&self, jobs: usize, refused: &[Refused<'_, T>]) -> Vec<Result<DeadLetters, WriteError>> {
        let mut answers = vec![Ok(DeadLetters::default()); jobs];
        if refused.is_empty() {
            return answers;
        }
        let letters: Vec<(&T, &str)> = refused.iter().map(|letter| (letter.row, letter.message.as_str())).collect();
        let kept = dead_letters::keep(&self.client, &letters, self.batching.timeout).await;
        if kept.is_ok() {
            self.meters.dead_letters(T::TABLE, letters.len() as u64);
        }
        for Refused { job, message, .. } in refused {
            match (&kept, &mut answers[*job]) {
                (Ok(()), Ok(letters)) => {
                    if letters.rows == 0 {
                        letters.message = format!("table {}: {message}", T::TABLE);
                    }
                    letters.rows += 1;
                }
                (Err(fault), answer) => {
                    let message = format!("{message}; and dead_letters: {fault}");
                    *answer = Err(WriteError::Failed { table: T::TABLE, message });
                }
                (Ok(()), Err(_)) => {}
            }
        }
        answers
    }
}
