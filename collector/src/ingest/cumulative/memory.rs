//! The last points of each running total.
//!
//! For each series and source there is a chain of points: the last one whose row ClickHouse has acknowledged (or the base
//! line), and those after it whose rows are not acknowledged yet. Rules:
//!
//! - A new point is appended, and the request writes the rows of *every* link that is not acknowledged. So a row whose
//!   fate is unknown (a timeout) is written again with the next point, under the same key, and never counted twice.
//! - A point that is in the chain already makes the row of its link again. An older point makes no row when the next one
//!   in the chain contains what it tells; otherwise it contradicts that one, and is rejected.
//! - One request at a time holds a chain, from reading it until ClickHouse has answered. Requests lock their chains in
//!   ascending order of keys, so they can't wait for each other in a circle.
//! - The first point of a series counts from its start only when that was watched, by two clocks: the start is not before
//!   the collector began to watch, and the run is, by the sender's own clock, not older than the collector's watch. The
//!   first alone would count a total twice when the sender's clock is ahead and the collector was started again.
//!   Otherwise the point is a base line, which is counted.
//! - The memory is bounded. The series that were received least recently are forgotten, whatever times their points tell,
//!   and the watch begins again at the receipt of the last of them, so that none is counted from 0 again.
//!
//! The memory is this process's own: all points of a series must come to the same collector, and after a restart of the
//! collector the first point of each series is a base line.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contador_schemas::rows::Latency;
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use super::increase::{between, contains, zero};
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
    /// When it began, Unix nanoseconds.
    began: i64,
}

struct Chains {
    slots: HashMap<Key, Entry>,
    /// Since when every series that is not remembered has not been seen, in nanoseconds after the memory began.
    watching_since: i64,
    /// How many series were forgotten and not told yet.
    evicted: u64,
}

struct Entry {
    slot: Slot,
    /// When it was last asked for, in nanoseconds after the memory began.
    received: i64,
}

/// What was watched when a request came.
#[derive(Clone, Copy, Debug)]
struct Watch {
    /// Unix nanoseconds by this host's clock: what started before may have been counted before.
    since: i64,
    /// Nanoseconds from then on, by a clock that is never set.
    lasted: i64,
}

impl Watch {
    /// The start of a run that was watched as a whole.
    fn start_of(self, reading: &Reading) -> Option<i64> {
        let start = reading.start?;
        let run = reading.time - start;
        (start >= self.since && run > 0 && run <= self.lasted).then_some(start)
    }
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
    /// First points of series that count from now on only, since it is not known what was counted before.
    pub base_lines: u64,
    /// Series that were forgotten, since there were too many.
    pub evicted: u64,
}

impl Memory {
    /// A memory of at most `limit` series that begins `now`, Unix nanoseconds.
    pub fn new(limit: usize, now: i64) -> Self {
        let chains = Chains { slots: HashMap::new(), watching_since: 0, evicted: 0 };
        Self { chains: Mutex::new(chains), limit, began: now }
    }

    /// How many series are remembered.
    pub fn len(&self) -> usize {
        self.lock().slots.len()
    }

    /// Whether no series is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What `running` adds, received `age` after the memory began. Waits for other requests that hold the same chains.
    pub async fn increases(&self, running: Vec<Running>, age: Duration, rejected: &mut Rejected) -> Increases {
        let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
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
            let Some((slot, watch)) = self.slot(key, age) else {
                rejected.add(Reason::SeriesLimit, totals.len() as u64, &totals[0].name);
                continue;
            };
            let mut chain = slot.lock_owned().await;
            let mut written = chain.acknowledged;
            for total in totals {
                let before = chain.points.len();
                match chain.take(&total.identity, total.reading, watch, &mut increases.rows) {
                    Ok(index) => {
                        written = written.max(index);
                        increases.base_lines += u64::from(before == 0 && chain.points.len() == 1);
                    }
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
        increases.evicted = std::mem::take(&mut self.lock().evicted);
        // The same link may have been asked for twice in one request.
        increases.rows.sort_by_key(|row| (row.series, row.source, row.ts));
        increases.rows.dedup_by_key(|row| (row.series, row.source, row.ts));
        increases
    }

    /// The chain of `key`, and what was watched; `None` when there is no room for one more.
    fn slot(&self, key: Key, age: i64) -> Option<(Slot, Watch)> {
        let mut chains = self.lock();
        if !chains.slots.contains_key(&key) && chains.slots.len() >= self.limit {
            chains.forget(self.limit / 8 + 1);
            if chains.slots.len() >= self.limit {
                return None;
            }
        }
        let since = chains.watching_since;
        let watch = Watch { since: self.began.saturating_add(since), lasted: age.saturating_sub(since) };
        let entry = chains.slots.entry(key).or_insert_with(|| Entry { slot: Slot::default(), received: age });
        entry.received = entry.received.max(age);
        Some((Arc::clone(&entry.slot), watch))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Chains> {
        self.chains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Chains {
    /// Forgets the `count` series that were received least recently and that nobody holds.
    fn forget(&mut self, count: usize) {
        let mut idle: Vec<(i64, Key)> = self
            .slots
            .iter()
            .filter(|(_, entry)| Arc::strong_count(&entry.slot) == 1)
            .filter_map(|(key, entry)| {
                let chain = entry.slot.try_lock().ok()?;
                // What is not acknowledged is still to be written.
                let settled = chain.acknowledged + 1 >= chain.points.len();
                settled.then_some((entry.received, *key))
            })
            .collect();
        idle.sort_unstable();
        for (received, key) in idle.into_iter().take(count) {
            self.slots.remove(&key);
            self.evicted += 1;
            self.watching_since = self.watching_since.max(received.saturating_add(1));
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
        watch: Watch,
        rows: &mut Vec<Latency>,
    ) -> Result<usize, Refused> {
        let Some(last) = self.points.last() else {
            if let Some(start) = watch.start_of(&reading) {
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
            None => match self.points.iter().find(|known| known.time > reading.time) {
                Some(next) if contains(next, &reading) => Ok(self.acknowledged),
                _ => Err(Refused::Rejected(Reason::OutOfOrder)),
            },
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
    use contador_schemas::running::Buckets;

    use super::*;

    const T: i64 = 1_700_000_000_000_000_000;

    fn total(start: Option<i64>, time: i64, counts: [u64; 2]) -> Running {
        let buckets = Buckets::Explicit { bounds: vec![1.0], counts: counts.to_vec(), whole: false };
        let reading = Reading { start, time, buckets, sum: None, min: None, max: None, factor: 1.0 };
        Running { identity: Arc::new(Identity::default()), reading, name: "x".to_owned() }
    }

    /// A day after the memory began.
    const LATE: Duration = Duration::from_secs(86_400);

    async fn send(memory: &Memory, totals: Vec<Running>, acknowledged: bool) -> (Vec<(i64, u64, bool)>, Rejected) {
        send_at(memory, LATE, totals, acknowledged).await
    }

    async fn send_at(
        memory: &Memory,
        age: Duration,
        totals: Vec<Running>,
        acknowledged: bool,
    ) -> (Vec<(i64, u64, bool)>, Rejected) {
        let mut rejected = Rejected::default();
        let increases = memory.increases(totals, age, &mut rejected).await;
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
        let increases = memory.increases(point(longest + 2), LATE, &mut rejected).await;
        assert_eq!((increases.postponed, increases.rows.len()), (1, LONGEST_CHAIN));
        increases.pending.acknowledge();
        assert_eq!(send(&memory, point(longest + 2), true).await.0, [(longest + 2, 1, false)]);
    }

    fn of(series: u128, start: Option<i64>, time: i64, count: u64) -> Vec<Running> {
        let mut running = total(start, time, [count, 0]);
        running.identity = Arc::new(Identity::of_series(Uuid::from_u128(series)));
        vec![running]
    }

    #[tokio::test]
    async fn what_was_received_least_recently_is_forgotten_whatever_its_points_say() {
        let memory = Memory::new(8, T);
        let second = Duration::from_secs;
        // A steady sender, and a flood of series whose points claim to be newer.
        send_at(&memory, second(1), of(1, None, T, 10), true).await;
        for series in 2..40 {
            let age = second(u64::try_from(series).unwrap());
            send_at(&memory, age, of(series, None, T + 500_000_000_000, 1), true).await;
            let count = 10 + u64::try_from(series).unwrap();
            let time = T + i64::try_from(series).unwrap();
            let (rows, _) = send_at(&memory, age, of(1, None, time, count), true).await;
            assert_eq!(rows.len(), 1, "series {series}");
        }
        assert!(memory.len() <= 8, "{}", memory.len());
    }

    #[tokio::test]
    async fn a_forgotten_series_is_a_base_line_again_and_is_told() {
        let memory = Memory::new(1, T);
        let second = Duration::from_secs;
        let nanos = 1_000_000_000;
        let rows = send_at(&memory, second(2), of(1, Some(T + nanos), T + 2 * nanos, 3), true).await.0;
        assert_eq!(rows.len(), 1);
        let mut rejected = Rejected::default();
        let other = memory.increases(of(2, None, T + 3 * nanos, 3), second(3), &mut rejected).await;
        assert_eq!((memory.len(), other.evicted, other.base_lines), (1, 1, 1));
        drop(other);
        let again = memory.increases(of(1, Some(T + nanos), T + 9 * nanos, 5), second(9), &mut rejected).await;
        assert_eq!((again.rows.len(), again.base_lines), (0, 1));
        // A run that began after that is counted from its start.
        let rows = send_at(&memory, second(20), of(3, Some(T + 15 * nanos), T + 20 * nanos, 5), true).await.0;
        assert_eq!(rows, []);
        let memory = Memory::new(2, T);
        let rows = send_at(&memory, second(20), of(3, Some(T + 15 * nanos), T + 20 * nanos, 5), true).await.0;
        assert_eq!(rows.len(), 1);
    }

    #[tokio::test]
    async fn a_run_that_is_older_than_the_collector_by_the_senders_clock_is_a_base_line() {
        // The collector was started at T; the sender's clock is a minute ahead and its run is 30 s old.
        let memory = Memory::new(10, T);
        let nanos = 1_000_000_000;
        let ahead = total(Some(T + 40 * nanos), T + 70 * nanos, [100, 0]);
        let (rows, _) = send_at(&memory, Duration::from_secs(10), vec![ahead], true).await;
        assert_eq!(rows, []);
        let next = total(Some(T + 40 * nanos), T + 71 * nanos, [103, 0]);
        let (rows, _) = send_at(&memory, Duration::from_secs(11), vec![next], true).await;
        assert_eq!(rows, [(71 * nanos, 3, false)]);
    }

    #[tokio::test]
    async fn an_older_point_that_counts_more_than_a_newer_one_is_rejected() {
        let memory = Memory::new(10, T);
        send(&memory, vec![total(None, T + 1, [10, 0])], true).await;
        // From a clock that was ahead.
        send(&memory, vec![total(None, T + 500, [20, 0])], true).await;
        let (rows, rejected) = send(&memory, vec![total(None, T + 2, [30, 0])], true).await;
        assert_eq!((rows, rejected.of(Reason::OutOfOrder)), (vec![], 1));
        // What the newer one contains is no contradiction.
        let (rows, rejected) = send(&memory, vec![total(None, T + 2, [15, 0])], true).await;
        assert_eq!((rows, rejected.points()), (vec![], 0));
        // A run whose end the newer point doesn't contain.
        let memory = Memory::new(10, T);
        send(&memory, vec![total(None, T + 1, [10, 0])], true).await;
        send(&memory, vec![total(Some(T + 3), T + 5, [2, 0])], true).await;
        let (_, rejected) = send(&memory, vec![total(None, T + 2, [1, 0])], true).await;
        assert_eq!(rejected.of(Reason::OutOfOrder), 1);
    }

    #[tokio::test]
    async fn several_points_of_one_request_are_taken_in_the_order_of_time() {
        let memory = Memory::new(10, T);
        let totals = vec![total(None, T + 3, [9, 0]), total(None, T + 1, [1, 0]), total(None, T + 2, [4, 0])];
        assert_eq!(send(&memory, totals, true).await.0, [(2, 3, false), (3, 5, false)]);
    }
}
