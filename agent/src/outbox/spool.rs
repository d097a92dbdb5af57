//! What the node keeps until the collector has it. Invariants, beside those of [`super::queue`]:
//!
//! 1. Samples and records (ledger rows, latencies, events) have a queue each, so that samples can be dropped first.
//! 2. Together they have at most [`SpoolLimits::max_bytes`] bytes, plus one segment.
//! 3. When there is no room, the oldest samples are dropped, a segment at a time. A record is never dropped for a sample,
//!    nor for a record: when records alone fill the spool, appending one fails, and who made it keeps it.
//! 4. Records are durable when [`Spool::append`] returns; samples survive a kill of the agent, not a loss of power.
//! 5. What a collector refuses for good goes to the queue `rejected`, which is bounded by itself and never sent.

use std::path::{Path, PathBuf};

use super::queue::{Batch, Damage, Position, Queue, SpoolError};
use super::segment::{Kind, Record, stored_bytes};

/// How much the spool may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SpoolLimits {
    /// Bytes of samples and records together.
    pub max_bytes: u64,
    /// Bytes from which on a segment gets no more records: what is dropped at once.
    pub segment_bytes: u64,
    /// Bytes of refused records, of which the oldest are dropped.
    pub rejected_bytes: u64,
}

/// Which of the two queues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lane {
    /// Ledger rows, latencies and events.
    Records,
    /// Samples.
    Samples,
}

impl Lane {
    /// The queue that a kind belongs to.
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Samples => Self::Samples,
            Kind::Ledger | Kind::Latency | Kind::Event => Self::Records,
        }
    }
}

/// What appending cost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Appended {
    /// Records of samples that were dropped to make room.
    pub dropped_samples: u64,
}

/// The spool.
#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    limits: SpoolLimits,
    samples: Queue,
    records: Queue,
    rejected: Queue,
}

impl Spool {
    /// Opens the spool in `dir`, creating it if need be.
    ///
    /// # Errors
    /// [`SpoolError::Io`].
    pub fn open(dir: &Path, limits: SpoolLimits) -> Result<Self, SpoolError> {
        let queue = |name: &str| Queue::open(&dir.join(name), limits.segment_bytes);
        Ok(Self {
            dir: dir.to_owned(),
            limits,
            samples: queue("samples")?,
            records: queue("records")?,
            rejected: queue("rejected")?,
        })
    }

    /// Keeps `payload` until it is acknowledged.
    ///
    /// # Errors
    /// [`SpoolError`]; the payload is not kept then.
    pub fn append(&mut self, kind: Kind, payload: &[u8]) -> Result<Appended, SpoolError> {
        let mut appended = Appended::default();
        let needed = stored_bytes(payload.len());
        if self.bytes() + needed > self.limits.max_bytes {
            self.records.release()?;
        }
        while self.bytes() + needed > self.limits.max_bytes {
            match self.samples.drop_oldest()? {
                Some(lost) => appended.dropped_samples += lost,
                None => {
                    let (used, limit) = (self.bytes(), self.limits.max_bytes);
                    return Err(SpoolError::Full { path: self.dir.clone(), used, limit });
                }
            }
        }
        let lane = Lane::of(kind);
        loop {
            match self.lane(lane).append(kind, payload, lane == Lane::Records) {
                Ok(()) => return Ok(appended),
                // The disk is full before the spool is: the oldest samples give way.
                Err(error) if error.is_out_of_space() => {
                    let lost = self.samples.drop_oldest()?.unwrap_or(0);
                    appended.dropped_samples += lost;
                    // What went was the header of a segment that had just been begun: that would go on for ever.
                    if lost == 0 && self.samples.bytes() == 0 {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The oldest of what is to be sent: records if there are any, else samples. Bounds as of [`Queue::peek`].
    ///
    /// # Errors
    /// [`SpoolError::Io`].
    pub fn peek(&mut self, max_records: usize, max_bytes: usize) -> Result<Option<(Lane, Batch)>, SpoolError> {
        for lane in [Lane::Records, Lane::Samples] {
            let batch = self.lane(lane).peek(max_records, max_bytes)?;
            if !batch.records.is_empty() {
                return Ok(Some((lane, batch)));
            }
        }
        Ok(None)
    }

    /// Lets go of everything in a queue before `end`.
    ///
    /// # Errors
    /// [`SpoolError::Io`].
    pub fn acknowledge(&mut self, lane: Lane, end: Position) -> Result<(), SpoolError> {
        self.lane(lane).acknowledge(end)
    }

    /// Keeps a record that was refused for good where people can find it. To be acknowledged by itself.
    ///
    /// # Errors
    /// [`SpoolError`].
    pub fn reject(&mut self, record: &Record) -> Result<(), SpoolError> {
        let needed = stored_bytes(record.payload.len());
        while self.rejected.bytes() + needed > self.limits.rejected_bytes && self.rejected.drop_oldest()?.is_some() {}
        self.rejected.append(record.kind, &record.payload, true)
    }

    /// Drops the oldest samples, for something that the disk has no room for; how many records that were.
    ///
    /// # Errors
    /// [`SpoolError::Io`].
    pub fn make_room(&mut self) -> Result<u64, SpoolError> {
        Ok(self.samples.drop_oldest()?.unwrap_or(0))
    }

    /// Bytes on disk of samples and records.
    pub fn bytes(&self) -> u64 {
        self.samples.bytes() + self.records.bytes()
    }

    /// Bytes on disk of one queue.
    pub fn lane_bytes(&self, lane: Lane) -> u64 {
        match lane {
            Lane::Records => self.records.bytes(),
            Lane::Samples => self.samples.bytes(),
        }
    }

    /// True when everything is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.records.is_empty()
    }

    /// Segments that were damaged and set aside since the last call.
    pub fn take_damage(&mut self) -> Vec<Damage> {
        [&mut self.samples, &mut self.records, &mut self.rejected].into_iter().flat_map(Queue::take_damage).collect()
    }

    fn lane(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::Records => &mut self.records,
            Lane::Samples => &mut self.samples,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SpoolLimits = SpoolLimits { max_bytes: 2_000, segment_bytes: 300, rejected_bytes: 500 };

    #[test]
    fn samples_give_way_to_records_and_records_to_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), LIMITS).unwrap();
        let mut dropped = 0;
        for _ in 0..30 {
            dropped += spool.append(Kind::Samples, &[1; 91]).unwrap().dropped_samples;
        }
        assert!(dropped >= 10, "{dropped}");
        let mut records = 0;
        let full = loop {
            match spool.append(Kind::Ledger, &[2; 91]) {
                Ok(appended) => {
                    records += 1;
                    dropped += appended.dropped_samples;
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(full, SpoolError::Full { .. }), "{full}");
        assert_eq!(dropped, 30);
        assert!(spool.bytes() <= LIMITS.max_bytes);
        let (lane, batch) = spool.peek(usize::MAX, usize::MAX).unwrap().unwrap();
        assert_eq!((lane, batch.records.len()), (Lane::Records, records));
    }

    #[test]
    fn on_a_full_disk_the_oldest_samples_go_and_the_newest_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), LIMITS).unwrap();
        spool.append(Kind::Samples, &[0; 91]).unwrap();
        // Whatever is dropped, somebody else takes the room: the position never finds any.
        std::os::unix::fs::symlink("/dev/full", dir.path().join("samples/acknowledged.new")).unwrap();
        let (lane, batch) = spool.peek(1, 1).unwrap().unwrap();
        spool.acknowledge(lane, batch.ends[0]).unwrap();
        let mut dropped = 0;
        for number in 1..=50 {
            dropped += spool.append(Kind::Samples, &[number; 91]).unwrap().dropped_samples;
        }
        let kept = spool.peek(usize::MAX, usize::MAX).unwrap().unwrap().1.records;
        let numbers: Vec<u8> = kept.iter().map(|record| record.payload[0]).collect();
        assert_eq!(numbers, (numbers[0]..=50).collect::<Vec<_>>());
        assert!(numbers.len() > 10 && dropped == u64::from(numbers[0]) - 1, "{dropped} {numbers:?}");
        // A segment that can't be appended to makes room by the oldest ones, too.
        let segments = || {
            let entries = std::fs::read_dir(dir.path().join("samples")).unwrap().map(|entry| entry.unwrap().path());
            let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "spool")).collect();
            paths.sort();
            paths
        };
        while std::fs::metadata(segments().pop().unwrap()).unwrap().len() >= LIMITS.segment_bytes {
            spool.append(Kind::Samples, &[50; 91]).unwrap();
        }
        let last = segments().pop().unwrap();
        drop(spool);
        let mut spool = Spool::open(dir.path(), LIMITS).unwrap();
        std::fs::remove_file(&last).unwrap();
        std::os::unix::fs::symlink("/dev/full", &last).unwrap();
        spool.append(Kind::Samples, &[51; 91]).unwrap();
        assert!(spool.bytes() > 0 && !segments().contains(&last));
    }

    #[test]
    fn what_was_sent_makes_no_spool_full() {
        let dir = tempfile::tempdir().unwrap();
        let limits = SpoolLimits { segment_bytes: 1 << 20, ..LIMITS };
        let mut spool = Spool::open(dir.path(), limits).unwrap();
        for _ in 0..100 {
            spool.append(Kind::Ledger, &[2; 91]).unwrap();
            let (lane, batch) = spool.peek(usize::MAX, usize::MAX).unwrap().unwrap();
            spool.acknowledge(lane, *batch.ends.last().unwrap()).unwrap();
            assert!(spool.is_empty());
        }
    }

    #[test]
    fn refused_records_are_kept_up_to_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), LIMITS).unwrap();
        for number in 0..20 {
            spool.reject(&Record { kind: Kind::Ledger, payload: vec![number; 91] }).unwrap();
        }
        let mut rejected = Queue::open(&dir.path().join("rejected"), 300).unwrap();
        let kept = rejected.peek(usize::MAX, usize::MAX).unwrap().records;
        assert!(rejected.bytes() <= 500 && kept.last().unwrap().payload == [19; 91]);
        assert!(spool.is_empty());
    }
}
