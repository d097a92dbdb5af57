//! The spool, shared between who makes records and who sends them. The disk is waited for by a [`Crew`], so that a slow one
//! never holds up the program's only event loop.
//!
//! To wake a thread costs more than what it does here. So whoever uses the disk anyway does with it what others wait for: he
//! looks up what is to be sent next, and lets go of what was sent last ([`Ahead`]).

use std::ffi::CStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::queue::{Batch, Position, SpoolError};
use super::segment::{Kind, Record};
use super::spool::{Lane, Spool, SpoolLimits};
use crate::crew::Crew;
use crate::errors::chain;
use crate::telemetry::Telemetry;

/// The shared spool.
#[derive(Clone, Debug)]
pub struct Keeper {
    dir: PathBuf,
    spool: Arc<Mutex<Spool>>,
    crew: Crew,
    job: Arc<CStr>,
    /// Who uses the disk, or will: whoever comes meanwhile waits without a thread, which sensors may need.
    turn: Arc<tokio::sync::Mutex<()>>,
    more: Arc<Notify>,
    ahead: Arc<Mutex<Ahead>>,
    /// Whether samples have been dropped since all was sent: said once.
    dropping: Arc<AtomicBool>,
    telemetry: Telemetry,
}

/// What whoever uses the disk next does for who sends, and what was done so.
#[derive(Debug, Default)]
enum Ahead {
    /// Nothing.
    #[default]
    Nothing,
    /// He has sent all there was: the next that comes is looked up for him, so many records and bytes at most, once what he
    /// has sent last is let go of.
    Wanted { max_records: usize, max_bytes: usize, sent: Option<(Lane, Position)> },
    /// This was looked up, and whether it is all there is.
    Found { lane: Lane, batch: Batch, is_all: bool },
    /// He has all there is, up to here.
    Taken(Lane, Position),
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
        let io_error = |source| SpoolError::Io { action: "start a thread for", path: dir.to_owned(), source };
        Ok(Self {
            dir: dir.to_owned(),
            spool: Arc::new(Mutex::new(spool)),
            crew: Crew::start().map_err(io_error)?,
            job: Crew::job_name("disk"),
            turn: Arc::default(),
            more: Arc::default(),
            ahead: Arc::default(),
            dropping: Arc::default(),
            telemetry,
        })
    }

    /// Who waits for the disk, and has time for other things.
    pub fn crew(&self) -> &Crew {
        &self.crew
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
        let keeper = self.clone();
        let result = self.with(move |spool| first().map(|()| keeper.add(spool, &records))).await;
        self.more.notify_one();
        result.map_err(Lost::Panicked)?.map_err(Lost::Refused)
    }

    fn add(&self, spool: &mut Spool, records: &[Record]) -> Result<usize, (usize, SpoolError)> {
        for (index, record) in records.iter().enumerate() {
            let appended = spool.append(record.kind, &record.payload).map_err(|error| (index, error))?;
            if appended.dropped_samples > 0 {
                // It may be among them.
                self.forget(spool);
                self.telemetry.dropped.with_label_values(&["samples", "full"]).inc_by(appended.dropped_samples);
                if !self.dropping.swap(true, Ordering::Relaxed) {
                    let dropped = appended.dropped_samples;
                    tracing::warn!(dropped, "the spool or its disk is full, the oldest samples go");
                }
            }
        }
        let wanted = match &mut *self.ahead() {
            Ahead::Wanted { max_records, max_bytes, sent } => Some((*max_records, *max_bytes, sent.take())),
            Ahead::Found { is_all, .. } => {
                *is_all = false;
                None
            }
            ahead => {
                *ahead = Ahead::Nothing;
                None
            }
        };
        if let Some((max_records, max_bytes, sent)) = wanted {
            // It was sent while this was done.
            self.settle(spool, sent);
            if let Ok(Some((lane, batch))) = spool.peek(max_records, max_bytes) {
                let is_all = batch.records.len() == records.len();
                *self.ahead() = Ahead::Found { lane, batch, is_all };
                report(spool, &self.telemetry);
            }
        }
        Ok(records.len())
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
        if let Some(found) = self.take_found() {
            return Ok(Some(found));
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

    /// [`Keeper::acknowledge`], and then [`Keeper::peek`]. What was all there is, is let go of when the disk is used next: a
    /// kill before that sends it once more, which is harmless.
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
        {
            let mut ahead = self.ahead();
            if matches!(*ahead, Ahead::Taken(of, to) if (of, to) == (lane, end)) {
                *ahead = Ahead::Wanted { max_records, max_bytes, sent: Some((lane, end)) };
                return Ok(None);
            }
        }
        let keeper = self.clone();
        self.with(move |spool| {
            keeper.let_go(spool, lane, end)?;
            keeper.look(spool, max_records, max_bytes)
        })
        .await?
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_found(&self) -> Option<(Lane, Batch)> {
        let mut ahead = self.ahead();
        match std::mem::take(&mut *ahead) {
            Ahead::Found { lane, batch, is_all } => {
                if let Some(&end) = batch.ends.last().filter(|_| is_all) {
                    *ahead = Ahead::Taken(lane, end);
                }
                Some((lane, batch))
            }
            // It is let go of before anything is looked up.
            wanted @ Ahead::Wanted { sent: Some(_), .. } => {
                *ahead = wanted;
                None
            }
            _ => None,
        }
    }

    /// Lets go of what was sent last, and has nobody wait for what was looked up.
    fn forget(&self, spool: &mut Spool) {
        let sent = match std::mem::take(&mut *self.ahead()) {
            Ahead::Wanted { sent, .. } => sent,
            _ => None,
        };
        self.settle(spool, sent);
    }

    /// Lets go of what was sent last, when that was left to whoever uses the disk next.
    fn settle(&self, spool: &mut Spool, sent: Option<(Lane, Position)>) {
        if let Some((lane, end)) = sent
            && let Err(error) = self.let_go(spool, lane, end)
        {
            tracing::debug!(error = chain(&error), "what was sent is sent once more after a restart");
        }
    }

    fn look(
        &self,
        spool: &mut Spool,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Option<(Lane, Batch)>, SpoolError> {
        let batch = spool.peek(max_records, max_bytes);
        report(spool, &self.telemetry);
        *self.ahead() = match batch {
            Ok(None) => Ahead::Wanted { max_records, max_bytes, sent: None },
            _ => Ahead::Nothing,
        };
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
        let keeper = self.clone();
        let make = move |spool: &mut Spool| {
            keeper.forget(spool);
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
        let keeper = self.clone();
        // It is kept until the work is done, also when nobody waits for that any more.
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let done = self.crew.run(&self.job, move || {
            let _turn = turn;
            // What a panic leaves behind is on disk, and is checked when it is read.
            let mut spool = keeper.spool.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = match &mut *keeper.ahead() {
                Ahead::Wanted { sent, .. } => sent.take(),
                _ => None,
            };
            keeper.settle(&mut spool, sent);
            work(&mut spool)
        });
        done.await.ok_or_else(|| SpoolError::Io {
            action: "use",
            path: self.dir.clone(),
            source: io::Error::other("the thread that used it has panicked"),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: SpoolLimits = SpoolLimits { max_bytes: 1 << 24, segment_bytes: 300, rejected_bytes: 1 << 10 };

    fn open(dir: &Path) -> Keeper {
        Keeper::open(dir, LIMITS, Telemetry::new().unwrap()).unwrap()
    }

    fn record(kind: Kind, number: u8) -> Record {
        Record { kind, payload: vec![number; 40] }
    }

    fn numbers(batch: &Batch) -> Vec<u8> {
        batch.records.iter().map(|record| record.payload[0]).collect()
    }

    #[tokio::test]
    async fn who_keeps_the_next_lets_go_of_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let keeper = open(dir.path());
        let on_disk = || !keeper.spool.lock().unwrap().is_empty();
        assert_eq!(keeper.peek(10, 1_000).await.unwrap(), None);
        keeper.append(vec![record(Kind::Samples, 1)]).await.unwrap();
        let (lane, batch) = keeper.peek(10, 1_000).await.unwrap().unwrap();
        assert_eq!(keeper.acknowledge_and_peek(lane, batch.ends[0], 10, 1_000).await.unwrap(), None);
        assert!(on_disk(), "nobody was woken for it");
        keeper.append(vec![record(Kind::Samples, 2)]).await.unwrap();
        let (lane, batch) = keeper.peek(10, 1_000).await.unwrap().unwrap();
        assert_eq!(numbers(&batch), [2]);
        // What comes while it is sent is told at once.
        keeper.append(vec![record(Kind::Event, 3)]).await.unwrap();
        let (lane, batch) = keeper.acknowledge_and_peek(lane, batch.ends[0], 10, 1_000).await.unwrap().unwrap();
        assert_eq!(numbers(&batch), [3]);
        assert_eq!(keeper.acknowledge_and_peek(lane, batch.ends[0], 10, 1_000).await.unwrap(), None);
        assert!(keeper.is_empty().await.unwrap() && !on_disk());
        drop(keeper);
        assert_eq!(open(dir.path()).peek(10, 1_000).await.unwrap(), None);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Append(Kind, u8),
        /// Sends as many of what there is at most.
        Send(usize),
        /// What is taken is not sent.
        Fail,
        Reopen,
    }

    fn step() -> impl Strategy<Value = Step> {
        let kind = prop_oneof![Just(Kind::Samples), Just(Kind::Event)];
        prop_oneof![
            4 => (kind, 1_u8..4).prop_map(|(kind, count)| Step::Append(kind, count)),
            4 => (1_usize..4).prop_map(Step::Send),
            1 => Just(Step::Fail),
            1 => Just(Step::Reopen),
        ]
    }

    proptest! {
        /// Each record of a kind is sent, in order; twice only when a kill came in between.
        #[test]
        fn each_record_is_sent_in_order(steps in proptest::collection::vec(step(), 1..60)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let dir = tempfile::tempdir().unwrap();
                let mut keeper = open(dir.path());
                let (mut made, mut sent) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
                let mut following: Option<Option<(Lane, Batch)>> = None;
                let (mut number, mut was_killed) = (0_u8, false);
                for step in steps.into_iter().chain(std::iter::repeat_n(Step::Send(3), 200)) {
                    match step {
                        Step::Append(kind, count) => {
                            let records: Vec<Record> = (0..count).map(|more| record(kind, number + more)).collect();
                            made[usize::from(kind == Kind::Samples)].extend(number..number + count);
                            number += count;
                            keeper.append(records).await.unwrap();
                        }
                        Step::Send(most) => {
                            let next = match following.take() {
                                Some(Some(next)) => Some(next),
                                _ => keeper.peek(3, 1_000).await.unwrap(),
                            };
                            let Some((lane, mut batch)) = next else { continue };
                            batch.records.truncate(most);
                            batch.ends.truncate(most);
                            let to = &mut sent[usize::from(lane == Lane::Samples)];
                            for number in numbers(&batch) {
                                prop_assert!(was_killed || !to.contains(&number));
                                to.retain(|before| *before != number);
                                to.push(number);
                            }
                            let end = *batch.ends.last().unwrap();
                            following = Some(keeper.acknowledge_and_peek(lane, end, 3, 1_000).await.unwrap());
                        }
                        Step::Fail => _ = following.take(),
                        Step::Reopen => {
                            (following, was_killed) = (None, true);
                            keeper = open(dir.path());
                        }
                    }
                }
                prop_assert_eq!(sent, made);
                prop_assert!(keeper.is_empty().await.unwrap());
                Ok(())
            })?;
        }
    }
}
