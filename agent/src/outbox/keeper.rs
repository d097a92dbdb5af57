//! The spool, shared between who makes records and who sends them. The disk is waited for on threads of its own, so that
//! a slow one never holds up the program's only event loop.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::queue::{Batch, Position, SpoolError};
use super::segment::{Kind, Record};
use super::spool::{Lane, Spool, SpoolLimits};
use crate::telemetry::Telemetry;

/// The shared spool.
#[derive(Clone, Debug)]
pub struct Keeper {
    dir: PathBuf,
    spool: Arc<Mutex<Spool>>,
    more: Arc<Notify>,
    ahead: Arc<Mutex<Ahead>>,
    /// Whether samples have been dropped since all was sent: said once.
    dropping: Arc<AtomicBool>,
    telemetry: Telemetry,
}

/// What was looked up for who sends before he asked, by whoever used the disk anyway: to wake a thread costs more than to
/// read what was just written.
#[derive(Debug, Default)]
enum Ahead {
    /// He has not asked, or has what he asked for.
    #[default]
    Nothing,
    /// There was nothing when he asked for so many records and bytes.
    Wanted(usize, usize),
    /// There is something now.
    Found(Lane, Batch),
}

/// Why nothing was kept.
#[derive(Debug)]
pub enum Lost<E> {
    /// What had to be done first has failed.
    Refused(E),
    /// The thread has panicked; whether it was done first is not known.
    Panicked(SpoolError),
}

impl Keeper {
    /// Opens the spool in `dir`.
    ///
    /// # Errors
    /// As [`Spool::open`].
    pub fn open(dir: &Path, limits: SpoolLimits, telemetry: Telemetry) -> Result<Self, SpoolError> {
        let mut spool = Spool::open(dir, limits)?;
        report(&mut spool, &telemetry);
        Ok(Self {
            dir: dir.to_owned(),
            spool: Arc::new(Mutex::new(spool)),
            more: Arc::default(),
            ahead: Arc::default(),
            dropping: Arc::default(),
            telemetry,
        })
    }

    /// Keeps records in this order, each as a whole; how many are kept. The first that can't be kept ends it.
    ///
    /// # Errors
    /// [`SpoolError`] of the first that can't be kept, with the number of those before it.
    pub async fn append(&self, records: Vec<Record>) -> Result<usize, (usize, SpoolError)> {
        match self.append_after(|| Ok::<_, std::convert::Infallible>(()), records).await {
            Ok(appended) => appended,
            Err(Lost::Refused(never)) => match never {},
            Err(Lost::Panicked(error)) => Err((0, error)),
        }
    }

    /// Does `first`, on the thread that the spool is used on, and then what [`Keeper::append`] does; nothing of it when `first`
    /// has failed.
    ///
    /// # Errors
    /// [`Lost`] when `first` failed. What can't be kept after it is within the value.
    pub async fn append_after<E: Send + 'static>(
        &self,
        first: impl FnOnce() -> Result<(), E> + Send + 'static,
        records: Vec<Record>,
    ) -> Result<Result<usize, (usize, SpoolError)>, Lost<E>> {
        let telemetry = self.telemetry.clone();
        let (dropping, ahead) = (Arc::clone(&self.dropping), Arc::clone(&self.ahead));
        let append = move |spool: &mut Spool| {
            for (index, record) in records.iter().enumerate() {
                let appended = spool.append(record.kind, &record.payload).map_err(|error| (index, error))?;
                if appended.dropped_samples > 0 {
                    // It may be among them.
                    *ahead.lock().unwrap_or_else(PoisonError::into_inner) = Ahead::Nothing;
                    telemetry.dropped.with_label_values(&["samples", "full"]).inc_by(appended.dropped_samples);
                    if !dropping.swap(true, Ordering::Relaxed) {
                        let dropped = appended.dropped_samples;
                        tracing::warn!(dropped, "the spool or its disk is full, the oldest samples go");
                    }
                }
            }
            let mut ahead = ahead.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ahead::Wanted(max_records, max_bytes) = *ahead
                && let Ok(Some((lane, batch))) = spool.peek(max_records, max_bytes)
            {
                *ahead = Ahead::Found(lane, batch);
                report(spool, &telemetry);
            }
            Ok(records.len())
        };
        let result = self.with(move |spool| first().map(|()| append(spool))).await;
        self.more.notify_one();
        result.map_err(Lost::Panicked)?.map_err(Lost::Refused)
    }

    /// Keeps one record.
    ///
    /// # Errors
    /// [`SpoolError`].
    pub async fn keep(&self, kind: Kind, payload: Vec<u8>) -> Result<(), SpoolError> {
        self.append(vec![Record { kind, payload }]).await.map(drop).map_err(|(_, error)| error)
    }

    /// See [`Spool::peek`].
    ///
    /// # Errors
    /// [`SpoolError`].
    pub async fn peek(&self, max_records: usize, max_bytes: usize) -> Result<Option<(Lane, Batch)>, SpoolError> {
        let found = std::mem::take(&mut *self.ahead.lock().unwrap_or_else(PoisonError::into_inner));
        if let Ahead::Found(lane, batch) = found {
            return Ok(Some((lane, batch)));
        }
        let keeper = self.clone();
        self.with(move |spool| keeper.look(spool, max_records, max_bytes)).await?
    }

    /// See [`Spool::acknowledge`].
    ///
    /// # Errors
    /// [`SpoolError`].
    pub async fn acknowledge(&self, lane: Lane, end: Position) -> Result<(), SpoolError> {
        let keeper = self.clone();
        self.with(move |spool| keeper.let_go(spool, lane, end)).await?
    }

    /// [`Keeper::acknowledge`], and then [`Keeper::peek`].
    ///
    /// # Errors
    /// [`SpoolError`].
    pub async fn acknowledge_and_peek(
        &self,
        lane: Lane,
        end: Position,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Option<(Lane, Batch)>, SpoolError> {
        let keeper = self.clone();
        self.with(move |spool| {
            keeper.let_go(spool, lane, end)?;
            keeper.look(spool, max_records, max_bytes)
        })
        .await?
    }

    fn look(
        &self,
        spool: &mut Spool,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Option<(Lane, Batch)>, SpoolError> {
        let batch = spool.peek(max_records, max_bytes);
        report(spool, &self.telemetry);
        if let Ok(None) = batch {
            *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = Ahead::Wanted(max_records, max_bytes);
        }
        batch
    }

    fn let_go(&self, spool: &mut Spool, lane: Lane, end: Position) -> Result<(), SpoolError> {
        let result = spool.acknowledge(lane, end);
        if spool.is_empty() && self.dropping.swap(false, Ordering::Relaxed) {
            tracing::info!("no longer: the spool or its disk is full, the oldest samples go");
        }
        report(spool, &self.telemetry);
        result
    }

    /// See [`Spool::reject`].
    ///
    /// # Errors
    /// [`SpoolError`].
    pub async fn reject(&self, record: Record) -> Result<(), SpoolError> {
        self.with(move |spool| spool.reject(&record)).await?
    }

    /// See [`Spool::make_room`].
    ///
    /// # Errors
    /// [`SpoolError`].
    pub async fn make_room(&self) -> Result<(), SpoolError> {
        let ahead = Arc::clone(&self.ahead);
        let make = move |spool: &mut Spool| {
            *ahead.lock().unwrap_or_else(PoisonError::into_inner) = Ahead::Nothing;
            spool.make_room()
        };
        let dropped = self.with(make).await??;
        self.telemetry.dropped.with_label_values(&["samples", "disk_full"]).inc_by(dropped);
        Ok(())
    }

    /// True when everything has been sent.
    ///
    /// # Errors
    /// [`SpoolError`].
    pub async fn is_empty(&self) -> Result<bool, SpoolError> {
        self.with(|spool| spool.is_empty()).await
    }

    /// Returns when something was kept since the last return.
    pub async fn more(&self) {
        self.more.notified().await;
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool) -> T + Send + 'static,
    ) -> Result<T, SpoolError> {
        let spool = Arc::clone(&self.spool);
        let joined = tokio::task::spawn_blocking(move || {
            // What a panic leaves behind is on disk, and is checked when it is read.
            work(&mut spool.lock().unwrap_or_else(PoisonError::into_inner))
        })
        .await;
        joined.map_err(|error| SpoolError::Io {
            action: "use",
            path: self.dir.clone(),
            source: io::Error::other(error),
        })
    }
}

fn report(spool: &mut Spool, telemetry: &Telemetry) {
    for damage in spool.take_damage() {
        telemetry.damaged_segments.inc();
        let (path, reason, kept) = (damage.path.display(), &damage.reason, damage.kept);
        tracing::error!(%path, reason, kept, "a damaged segment of the spool was set aside");
    }
    for (lane, name) in [(Lane::Records, "records"), (Lane::Samples, "samples")] {
        let bytes = i64::try_from(spool.lane_bytes(lane)).unwrap_or(i64::MAX);
        telemetry.spool_bytes.with_label_values(&[name]).set(bytes);
    }
}
