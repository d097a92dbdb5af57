//! The last points of each running total.
//!
//! For each series and source there is a chain of points: the last one whose row ClickHouse has acknowledged (or the base
//! line), and those after it whose rows are not acknowledged yet. Rules:
//!
//! - A new point is appended, and the request writes the rows of *every* link that is not acknowledged. So a row whose
//!   fate is unknown (a timeout) is written again with the next point, under the same key, and never counted twice.
//! - A point that is in the chain already makes the row of its link again. A point that is older than the chain makes no
//!   row: what it tells is contained in the later ones.
//! - One request at a time holds a chain, from reading it until ClickHouse has answered. Requests lock their chains in
//!   ascending order of keys, so they can't wait for each other in a circle.
//! - The first point of a series counts only when its start is known and not before the collector began to watch;
//!   otherwise it is a base line. Forgetting a series (the memory is bounded) moves that beginning to its last point, so
//!   that it can't be counted from 0 again.
//!
//! The memory is this process's own: all points of a series must come to the same collector, and after a restart of the
//! collector the first point of each series is a base line.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use contador_schemas::rows::Latency;
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use super::increase::{between, zero};
use crate::ingest::decode::histogram::Reading;
use crate::ingest::decode::latency::{Identity, Running};
use crate::ingest::decode::reject::{Reason, Rejected};

/// Most points of a chain that are not acknowledged; further ones are asked for again when those are written.
const LONGEST_CHAIN: usize = 64;

type Key = (Uuid, Uuid);
type Slot = Arc<tokio::sync::Mutex<Chain>>;

/// The chains of all running totals.
pub struct Memory {
    chains: Mutex<Chains>,
    limit: usize,
}

struct Chains {
    slots: HashMap<Key, Slot>,
    /// Unix nanoseconds: what started before may have been counted before.
    watching_since: i64,
}

/// Points of one running total, in ascending order of time.
#[derive(Default)]
struct Chain {
    points: Vec<Reading>,
    /// Index of the last acknowledged point.
    acknowledged: usize,
}

/// Chains that a request holds until its rows are acknowledged.
#[derive(Default)]
pub struct Pending {
    held: Vec<(OwnedMutexGuard<Chain>, usize)>,
}

/// What running totals add.
#[derive(Default)]
pub struct Increases {
    /// The rows to write.
    pub rows: Vec<Latency>,
    /// The chains to [`Pending::acknowledge`] when ClickHouse has them.
    pub pending: Pending,
    /// Points that were not taken, since too many before them are not acknowledged. Once the rows are written, there is
    /// room for them.
    pub postponed: u64,
}

impl Memory {
    /// A memory of at most `limit` series that watches since `now`, Unix nanoseconds.
    pub fn new(limit: usize, now: i64) -> Self {
        Self { chains: Mutex::new(Chains { slots: HashMap::new(), watching_since: now }), limit }
    }

    /// How many series are remembered.
    pub fn len(&self) -> usize {
        self.lock().slots.len()
    }

    /// Whether no series is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What `running` adds. Waits for other requests that hold the same chains.
    pub async fn increases(&self, running: Vec<Running>, rejected: &mut Rejected) -> Increases {
        let mut by_key: BTreeMap<Key, Vec<Running>> = BTreeMap::new();
        for total in running {
            by_key.entry(total.identity.key()).or_default().push(total);
        }
        let mut increases = Increases::default();
        for (key, mut totals) in by_key {
            // Of two that contradict each other, the one that counts more comes first, whatever the order of sending.
            totals.sort_by(|left, right| {
                let key = |total: &Running| (total.reading.start, total.reading.time);
                key(left)
                    .cmp(&key(right))
                    .then_with(|| right.reading.buckets.counts().cmp(left.reading.buckets.counts()))
            });
            let Some((slot, watching_since)) = self.slot(key) else {
                rejected.add(Reason::SeriesLimit, totals.len() as u64, &totals[0].name);
                continue;
            };
            let mut chain = slot.lock_owned().await;
            let mut written = chain.acknowledged;
            for total in totals {
                let before = chain.points.len();
                match chain.take(&total.identity, total.reading, watching_since, &mut increases.rows) {
                    Ok(index) => written = written.max(index),
                    Err(Refused::Full) => {
                        increases.postponed += 1;
                        let index = before - 1;
                        written = written.max(chain.write(&total.identity, index, &mut increases.rows).unwrap_or(0));
                    }
                    Err(Refused::Rejected(reason)) => rejected.add(reason, 1, &total.name),
                }
            }
            increases.pending.held.push((chain, written));
        }
        // The same link may have been asked for twice in one request.
        increases.rows.sort_by_key(|row| (row.series, row.source, row.ts));
        increases.rows.dedup_by_key(|row| (row.series, row.source, row.ts));
        increases
    }

    /// The chain of `key`, and since when the memory watches; `None` when there is no room for one more.
    fn slot(&self, key: Key) -> Option<(Slot, i64)> {
        let mut chains = self.lock();
        if !chains.slots.contains_key(&key) && chains.slots.len() >= self.limit {
            chains.forget(self.limit / 8 + 1);
            if chains.slots.len() >= self.limit {
                return None;
            }
        }
        let since = chains.watching_since;
        Some((Arc::clone(chains.slots.entry(key).or_default()), since))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Chains> {
        self.chains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Chains {
    /// Forgets the `count` series that were silent for longest and that nobody holds.
    fn forget(&mut self, count: usize) {
        let mut idle: Vec<(i64, Key)> = self
            .slots
            .iter()
            .filter(|(_, slot)| Arc::strong_count(slot) == 1)
            .filter_map(|(key, slot)| {
                let chain = slot.try_lock().ok()?;
                // What is not acknowledged is still to be written.
                let settled = chain.acknowledged + 1 >= chain.points.len();
                settled.then(|| (chain.points.last().map_or(0, |point| point.time), *key))
            })
            .collect();
        idle.sort_unstable();
        for (last, key) in idle.into_iter().take(count) {
            self.slots.remove(&key);
            self.watching_since = self.watching_since.max(last + 1);
        }
    }
}

enum Refused {
    Full,
    Rejected(Reason),
}

impl Chain {
    /// Takes one point: adds the rows of its links to `rows` and returns its index.
    fn take(
        &mut self,
        identity: &Identity,
        reading: Reading,
        watching_since: i64,
        rows: &mut Vec<Latency>,
    ) -> Result<usize, Refused> {
        let Some(last) = self.points.last() else {
            let counted_from = reading.start.filter(|start| *start >= watching_since && *start < reading.time);
            if let Some(start) = counted_from {
                self.points.push(zero(&reading, start));
            }
            self.points.push(reading);
            return self.write(identity, self.points.len() - 1, rows);
        };
        if reading.start.zip(last.start).is_some_and(|(now, before)| now < before) {
            return Err(Refused::Rejected(Reason::OutOfOrder));
        }
        if reading.time > last.time {
            if self.points.len() - 1 - self.acknowledged >= LONGEST_CHAIN {
                return Err(Refused::Full);
            }
            self.points.push(reading);
            let written = self.write(identity, self.points.len() - 1, rows);
            if written.is_err() {
                self.points.pop();
            }
            return written;
        }
        match self.points.iter().position(|known| known.time == reading.time) {
            Some(index) if self.points[index].buckets == reading.buckets => self.write(identity, index, rows),
            Some(_) => Err(Refused::Rejected(Reason::Conflicting)),
            None => Ok(self.acknowledged),
        }
    }

    /// Adds the rows of all links up to the point `index` that are not acknowledged, or of its own link again.
    fn write(&self, identity: &Identity, index: usize, rows: &mut Vec<Latency>) -> Result<usize, Refused> {
        let first = (self.acknowledged + 1).min(index);
        for later in first.max(1)..=index {
            let row = between(identity, &self.points[later - 1], &self.points[later]).map_err(Refused::Rejected)?;
            rows.extend(row);
        }
        Ok(index)
    }
}

impl Pending {
    /// Says that ClickHouse has the rows. Dropping instead leaves the chains as they are, with the rows still to write.
    pub fn acknowledge(self) {
        for (mut chain, written) in self.held {
            chain.acknowledged = chain.acknowledged.max(written);
            // The link of the last acknowledged point stays, so that the point can be sent again.
            let done = chain.acknowledged.saturating_sub(1);
            chain.points.drain(..done);
            chain.acknowledged -= done;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::decode::histogram::Buckets;

    const T: i64 = 1_700_000_000_000_000_000;

    fn total(start: Option<i64>, time: i64, counts: [u64; 2]) -> Running {
        let buckets = Buckets::Explicit { bounds: vec![1.0], counts: counts.to_vec(), whole: false };
        let reading = Reading { start, time, buckets, sum: None, min: None, max: None, factor: 1.0 };
        Running { identity: Arc::new(Identity::default()), reading, name: "x".to_owned() }
    }

    async fn send(memory: &Memory, totals: Vec<Running>, acknowledged: bool) -> (Vec<(i64, u64, bool)>, Rejected) {
        let mut rejected = Rejected::default();
        let increases = memory.increases(totals, &mut rejected).await;
        if acknowledged {
            increases.pending.acknowledge();
        }
        (increases.rows.into_iter().map(|row| (row.ts - T, row.count, row.reset)).collect(), rejected)
    }

    #[tokio::test]
    async fn ten_twenty_five_fifteen_is_ten_then_a_reset_of_five_then_ten() {
        let memory = Memory::new(10, T);
        let mut told = Vec::new();
        for (index, count) in [10, 20, 5, 15].into_iter().enumerate() {
            let time = T + i64::try_from(index).unwrap() + 1;
            told.extend(send(&memory, vec![total(None, time, [count, 0])], true).await.0);
        }
        assert_eq!(told, [(2, 10, false), (3, 5, true), (4, 10, false)]);
    }

    #[tokio::test]
    async fn the_first_point_counts_only_when_its_start_was_watched() {
        let memory = Memory::new(10, T);
        assert_eq!(send(&memory, vec![total(Some(T + 1), T + 2, [3, 0])], true).await.0, [(2, 3, false)]);
        let memory = Memory::new(10, T);
        assert_eq!(send(&memory, vec![total(Some(T - 1), T + 2, [3, 0])], true).await.0, []);
        assert_eq!(send(&memory, vec![total(Some(T - 1), T + 3, [4, 0])], true).await.0, [(3, 1, false)]);
    }

    #[tokio::test]
    async fn a_repeated_point_makes_the_same_row_again() {
        let memory = Memory::new(10, T);
        send(&memory, vec![total(None, T + 1, [3, 0])], true).await;
        for _ in 0..3 {
            assert_eq!(send(&memory, vec![total(None, T + 2, [5, 1])], true).await.0, [(2, 3, false)]);
        }
        assert_eq!(send(&memory, vec![total(None, T + 1, [3, 0])], true).await.0, []);
        let (rows, rejected) = send(&memory, vec![total(None, T + 2, [9, 9])], true).await;
        assert_eq!((rows, rejected.of(Reason::Conflicting)), (vec![], 1));
    }

    #[tokio::test]
    async fn rows_of_unknown_fate_are_written_again_with_the_next_point() {
        let memory = Memory::new(10, T);
        send(&memory, vec![total(None, T + 1, [1, 0])], true).await;
        assert_eq!(send(&memory, vec![total(None, T + 2, [3, 0])], false).await.0, [(2, 2, false)]);
        assert_eq!(send(&memory, vec![total(None, T + 3, [7, 0])], false).await.0, [(2, 2, false), (3, 4, false)]);
        assert_eq!(send(&memory, vec![total(None, T + 3, [7, 0])], true).await.0, [(2, 2, false), (3, 4, false)]);
        assert_eq!(send(&memory, vec![total(None, T + 4, [8, 0])], true).await.0, [(4, 1, false)]);
    }

    #[tokio::test]
    async fn a_full_chain_is_written_before_it_takes_more() {
        let memory = Memory::new(10, T);
        let point = |index: i64| vec![total(None, T + index, [u64::try_from(index).unwrap(), 0])];
        let longest = i64::try_from(LONGEST_CHAIN).unwrap();
        for index in 1..=longest + 1 {
            send(&memory, point(index), index == 1).await;
        }
        let mut rejected = Rejected::default();
        let increases = memory.increases(point(longest + 2), &mut rejected).await;
        assert_eq!((increases.postponed, increases.rows.len()), (1, LONGEST_CHAIN));
        increases.pending.acknowledge();
        assert_eq!(send(&memory, point(longest + 2), true).await.0, [(longest + 2, 1, false)]);
    }

    #[tokio::test]
    async fn a_forgotten_series_is_not_counted_from_zero_again() {
        let memory = Memory::new(1, T);
        send(&memory, vec![total(Some(T + 1), T + 2, [3, 0])], true).await;
        memory.lock().forget(1);
        assert!(memory.is_empty());
        assert_eq!(send(&memory, vec![total(Some(T + 1), T + 9, [5, 0])], true).await.0, []);
    }

    #[tokio::test]
    async fn several_points_of_one_request_are_taken_in_the_order_of_time() {
        let memory = Memory::new(10, T);
        let totals = vec![total(None, T + 3, [9, 0]), total(None, T + 1, [1, 0]), total(None, T + 2, [4, 0])];
        assert_eq!(send(&memory, totals, true).await.0, [(2, 3, false), (3, 5, false)]);
    }
}
