//! The chains of the running totals that came last, so that what this collector has acknowledged is not written again.
//!
//! It is a cache of what `latency_totals` has, and a lock for each total: one request at a time works on one, from reading it
//! until ClickHouse has answered. Requests lock their totals in ascending order, so that they can't wait for each other in a
//! circle. The totals that were received least recently are forgotten, and read again when they come back.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use super::chain::Chain;
use super::work::Work;
use crate::ingest::decode::latency::Running;
use crate::ingest::decode::reject::{Reason, Rejected};

/// Bytes of acknowledged points that all totals together keep while other collectors may work on them, beside the few of each
/// that always stay.
const KEPT_BYTES: usize = 64 << 20;

/// The most of one total, since all of it is written with each point.
const KEPT_BYTES_EACH: usize = 64 << 10;

type Slot = Arc<tokio::sync::Mutex<Chain>>;

/// The chains of running totals.
pub struct Memory {
    chains: Mutex<Chains>,
    limit: usize,
}

#[derive(Default)]
struct Chains {
    slots: HashMap<Uuid, Entry>,
    /// How many requests came.
    clock: u64,
    /// How many totals were forgotten and not told yet.
    evicted: u64,
}

struct Entry {
    slot: Slot,
    /// The last request that asked for it.
    asked: u64,
}

impl Memory {
    /// A memory of at most `limit` totals.
    pub fn new(limit: usize) -> Self {
        Self { chains: Mutex::default(), limit }
    }

    /// How many totals are remembered.
    pub fn len(&self) -> usize {
        self.lock().slots.len()
    }

    /// Whether no total is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many totals were forgotten since this was asked last.
    pub fn evicted(&self) -> u64 {
        std::mem::take(&mut self.lock().evicted)
    }

    /// The work on `running`. Waits for other requests that work on the same totals.
    pub async fn hold(&self, running: Vec<Running>, rejected: &mut Rejected) -> Work {
        let mut by_total: BTreeMap<Uuid, Vec<Running>> = BTreeMap::new();
        for total in running {
            by_total.entry(total.identity.total()).or_default().push(total);
        }
        self.lock().clock += 1;
        let kept_bytes = (KEPT_BYTES / self.len().max(by_total.len()).max(1)).min(KEPT_BYTES_EACH);
        let mut work = Work::keeping(kept_bytes);
        for (total, mut points) in by_total {
            // Of two that contradict each other, the one that counts more comes first, whatever the order of sending.
            points.sort_by(|left, right| {
                let key = |total: &Running| (total.reading.start, total.reading.time);
                key(left)
                    .cmp(&key(right))
                    .then_with(|| right.reading.buckets.counts().cmp(left.reading.buckets.counts()))
            });
            match self.slot(total) {
                Some(slot) => work.add(total, points, slot.lock_owned().await),
                None => rejected.add(Reason::SeriesLimit, points.len() as u64, &points[0].name),
            }
        }
        work
    }

    /// The chain of `total`; `None` when there is no room for one more.
    fn slot(&self, total: Uuid) -> Option<Slot> {
        let mut chains = self.lock();
        if !chains.slots.contains_key(&total) && chains.slots.len() >= self.limit {
            chains.forget(self.limit / 8 + 1);
            if chains.slots.len() >= self.limit {
                return None;
            }
        }
        let asked = chains.clock;
        let entry = chains.slots.entry(total).or_insert_with(|| Entry { slot: Slot::default(), asked });
        entry.asked = entry.asked.max(asked);
        Some(Arc::clone(&entry.slot))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Chains> {
        self.chains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Chains {
    /// Forgets the `count` totals that were asked for least recently and that nobody holds. What is not acknowledged of them
    /// is in `latency_totals`, or was never written.
    fn forget(&mut self, count: usize) {
        let idle = self.slots.iter().filter(|(_, entry)| Arc::strong_count(&entry.slot) == 1);
        let mut idle: Vec<(u64, Uuid)> = idle.map(|(total, entry)| (entry.asked, *total)).collect();
        idle.sort_unstable();
        for (_, total) in idle.into_iter().take(count) {
            self.slots.remove(&total);
            self.evicted += 1;
        }
    }
}

/// A chain that a request holds.
pub(super) type Guard = OwnedMutexGuard<Chain>;
