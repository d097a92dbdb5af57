//! How many statements run at once, how many may wait, and how each is stopped.
//!
//! `most` statements use the engine at once, and neither those that bring rows nor all others can take every slot, so
//! that one kind doesn't hold up the other. Beside them a few slots are kept for statements that read no table and for
//! KILL. Who holds a slot and keeps the engine waiting loses it when it is [`Wanted`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Failure;
use super::lane::Lane;

/// Statements that may wait for a slot.
const WAITING: usize = 256;
/// How long one waits.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Slots for statements that read no table, beside the others.
const PROBES: usize = 4;
/// Slots for KILL, beside the others; one may wait until what it kills is gone.
const KILLS: usize = 16;

/// The slots, and what runs in them.
pub struct Slots {
    all: Group,
    rows: Group,
    work: Group,
    probes: Group,
    kills: Group,
    most: usize,
    patience: Duration,
    waiting: AtomicUsize,
    running: Mutex<HashMap<String, Arc<Running>>>,
}

/// Slots of one kind, and how many wait for one.
struct Group {
    slots: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

impl Group {
    fn new(count: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(count)), waiting: Arc::default() }
    }

    fn free(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).try_acquire_owned().ok()
    }

    async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        let _waiting = Waiting::new(&self.waiting);
        Arc::clone(&self.slots).acquire_owned().await.ok()
    }
}

/// Tells whether somebody waits for a slot that this statement holds.
#[derive(Clone, Debug, Default)]
pub struct Wanted([Arc<AtomicUsize>; 2]);

impl Wanted {
    /// Whether somebody does.
    pub fn now(&self) -> bool {
        self.0.iter().any(|waiting| waiting.load(Ordering::SeqCst) > 0)
    }
}

/// How fast a client is that holds a slot.
#[derive(Default)]
pub struct Pace {
    waited: Duration,
    bytes: usize,
}

impl Pace {
    /// What a client must send or take …
    pub const BYTES: usize = 64 << 10;
    /// … while it is waited for this long, when others wait for its slot.
    pub const WITHIN: Duration = Duration::from_secs(5);

    /// Notes bytes that were waited for.
    pub fn took(&mut self, waited: Duration, bytes: usize) {
        self.waited += waited;
        self.bytes += bytes;
        if self.bytes >= Self::BYTES {
            *self = Self::default();
        }
    }

    /// Whether it was waited for too long.
    pub fn is_slow(&self) -> bool {
        self.waited >= Self::WITHIN
    }
}

/// A slot, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    _permits: Vec<OwnedSemaphorePermit>,
}

/// A statement that is being run.
#[derive(Debug)]
pub struct Running {
    /// What its `log_comment` ends with; it finds the statement in the engine's list.
    pub marker: String,
    /// The client's id for it.
    pub query_id: String,
    /// It changes nothing, so a client that goes away ends it.
    pub reads: AtomicBool,
    /// Nobody waits for its answer any more.
    pub abandoned: AtomicBool,
    /// It is to be stopped, whatever it does.
    pub stopped: AtomicBool,
    /// It is done.
    pub finished: AtomicBool,
}

impl Slots {
    /// Slots for `most` statements, at least for one of each kind, for which a statement waits for `patience`.
    pub fn new(most: usize, patience: Duration) -> Self {
        let most = most.max(2);
        let of_a_kind = most - (most / 4).clamp(1, 2);
        Self {
            all: Group::new(most),
            rows: Group::new(of_a_kind),
            work: Group::new(of_a_kind),
            probes: Group::new(PROBES),
            kills: Group::new(KILLS),
            most,
            patience,
            waiting: AtomicUsize::new(0),
            running: Mutex::default(),
        }
    }

    /// How many may run at once, all kinds together.
    pub fn count(&self) -> usize {
        self.most + PROBES + KILLS
    }

    /// Tells whether somebody waits for what a statement of this lane holds.
    pub fn wanted(&self, lane: Lane) -> Wanted {
        let kind = if lane == Lane::Rows { &self.rows } else { &self.work };
        Wanted([&kind.waiting, &self.all.waiting].map(Arc::clone))
    }

    /// Waits for a slot.
    ///
    /// # Errors
    /// ClickHouse's `TOO_MANY_SIMULTANEOUS_QUERIES` when too many wait already, or when it takes too long.
    pub async fn acquire(&self, lane: Lane) -> Result<Permit, Failure> {
        let waiting = Waiting::new(&self.waiting);
        if waiting.before >= WAITING {
            return Err(self.too_many("and as many wait as may"));
        }
        match tokio::time::timeout(self.patience, self.permits(lane)).await {
            Ok(Some(permits)) => Ok(Permit { _permits: permits }),
            Ok(None) => Err(self.too_many("and the endpoint is shutting down")),
            Err(_) => Err(self.too_many(&format!("and none ended within {} s", self.patience.as_secs()))),
        }
    }

    /// What a statement of this lane must hold; `None` when the slots are closed.
    async fn permits(&self, lane: Lane) -> Option<Vec<OwnedSemaphorePermit>> {
        let one = async |group: &Group| group.wait().await.map(|permit| vec![permit]);
        match lane {
            Lane::Kill => one(&self.kills).await,
            // When the probes' slots are taken, one of the others will do.
            Lane::Probe => tokio::select! {
                biased;
                permits = one(&self.probes) => permits,
                permits = self.shared(&self.work) => permits,
            },
            Lane::Rows => self.shared(&self.rows).await,
            Lane::Work => self.shared(&self.work).await,
        }
    }

    async fn shared(&self, kind: &Group) -> Option<Vec<OwnedSemaphorePermit>> {
        let first = match kind.free() {
            Some(permit) => permit,
            None => kind.wait().await?,
        };
        let second = match self.all.free() {
            Some(permit) => permit,
            None => self.all.wait().await?,
        };
        Some(vec![first, second])
    }

    fn too_many(&self, why: &str) -> Failure {
        let text = format!("Too many simultaneous queries. Maximum: {}, {why}", self.most);
        Failure::new(202, "TOO_MANY_SIMULTANEOUS_QUERIES", text)
    }

    /// Enters a statement into the list.
    ///
    /// # Errors
    /// ClickHouse's `QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING`.
    pub fn enter(&self, query_id: &str) -> Result<Arc<Running>, Failure> {
        let mut list = self.lock();
        if list.values().any(|running| running.query_id == query_id) {
            let text = format!("Query with id = {query_id} is already running");
            return Err(Failure::new(216, "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING", text));
        }
        let running = Arc::new(Running {
            marker: format!("contador:{}", uuid::Uuid::new_v4()),
            query_id: query_id.to_owned(),
            reads: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            finished: AtomicBool::new(false),
        });
        list.insert(running.marker.clone(), Arc::clone(&running));
        Ok(running)
    }

    /// Takes a finished statement off the list.
    pub fn leave(&self, running: &Running) {
        running.finished.store(true, Ordering::SeqCst);
        self.lock().remove(&running.marker);
    }

    /// What runs now.
    pub fn all(&self) -> Vec<Arc<Running>> {
        self.lock().values().cloned().collect()
    }

    /// The running statement with this id.
    pub fn named(&self, query_id: &str) -> Option<Arc<Running>> {
        self.lock().values().find(|running| running.query_id == query_id).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one that waits, for as long as it does.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::SeqCst) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_endpoint_says_so_after_a_while() {
        let slots = Slots::new(1, Duration::from_millis(1));
        let held = slots.acquire(Lane::Work).await.expect("the first");
        assert_eq!(slots.acquire(Lane::Work).await.expect_err("no second").code, 202);
        drop(held);
        assert!(slots.acquire(Lane::Work).await.is_ok());
    }

    #[tokio::test]
    async fn no_kind_takes_every_slot() {
        for (most, of_a_kind) in [(1, 1), (2, 1), (3, 2), (4, 3), (8, 6), (256, 254)] {
            for (greedy, other) in [(Lane::Work, Lane::Rows), (Lane::Rows, Lane::Work)] {
                let slots = Slots::new(most, Duration::from_millis(1));
                let mut held = Vec::new();
                for _ in 0..of_a_kind {
                    held.push(slots.acquire(greedy).await.expect("one of its own"));
                }
                assert!(slots.acquire(greedy).await.is_err(), "{most}");
                for _ in of_a_kind..most.max(2) {
                    held.push(slots.acquire(other).await.expect("one that is kept for it"));
                }
                assert!(slots.acquire(other).await.is_err() && !slots.wanted(other).now(), "{most}");
                for lane in [[Lane::Probe; PROBES].as_slice(), &[Lane::Kill; KILLS]].concat() {
                    held.push(slots.acquire(lane).await.expect("a slot beside the others"));
                }
                assert!(slots.acquire(Lane::Probe).await.is_err() && held.len() == slots.count());
            }
        }
    }

    #[tokio::test]
    async fn a_slot_is_wanted_while_somebody_waits() {
        let slots = Arc::new(Slots::new(2, PATIENCE));
        let held = slots.acquire(Lane::Rows).await.expect("the first");
        assert!(!slots.wanted(Lane::Rows).now());
        let waiting = Arc::clone(&slots);
        let waits = tokio::spawn(async move { waiting.acquire(Lane::Rows).await.is_ok() });
        while !slots.wanted(Lane::Rows).now() {
            tokio::task::yield_now().await;
        }
        // Another kind's slot would not help.
        assert!(!slots.wanted(Lane::Work).now());
        drop(held);
        assert!(waits.await.expect("a task") && !slots.wanted(Lane::Rows).now());
    }
}
