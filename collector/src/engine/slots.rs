//! How many statements run at once, how many may wait, and how each is stopped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Failure;

/// Statements that may wait for a slot.
const WAITING: usize = 256;
/// How long one waits.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The slots, and what runs in them.
pub struct Slots {
    semaphore: Arc<Semaphore>,
    most: usize,
    patience: Duration,
    waiting: AtomicUsize,
    running: Mutex<HashMap<String, Arc<Running>>>,
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
    /// `most` slots, for which a statement waits for `patience`.
    pub fn new(most: usize, patience: Duration) -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(most)),
            most,
            patience,
            waiting: AtomicUsize::new(0),
            running: Mutex::default(),
        }
    }

    /// Waits for a slot.
    ///
    /// # Errors
    /// ClickHouse's `TOO_MANY_SIMULTANEOUS_QUERIES` when too many wait already, or when it takes too long.
    pub async fn acquire(&self) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(permit) = Arc::clone(&self.semaphore).try_acquire_owned() {
            return Ok(permit);
        }
        let waiting = Waiting::new(&self.waiting);
        if waiting.before >= WAITING {
            return Err(self.too_many("and as many wait as may"));
        }
        match tokio::time::timeout(self.patience, Arc::clone(&self.semaphore).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(self.too_many("and the endpoint is shutting down")),
            Err(_) => Err(self.too_many(&format!("and none ended within {} s", self.patience.as_secs()))),
        }
    }

    fn too_many(&self, why: &str) -> Failure {
        let text = format!("Too many simultaneous queries. Maximum: {}, {why}", self.most);
        Failure::new(202, "TOO_MANY_SIMULTANEOUS_QUERIES", text)
    }

    /// Enters a statement into the list.
    pub fn enter(&self, query_id: &str) -> Arc<Running> {
        let running = Arc::new(Running {
            marker: format!("contador:{}", uuid::Uuid::new_v4()),
            query_id: query_id.to_owned(),
            reads: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            finished: AtomicBool::new(false),
        });
        self.lock().insert(running.marker.clone(), Arc::clone(&running));
        running
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
        let held = slots.acquire().await.expect("the first");
        assert_eq!(slots.acquire().await.expect_err("no second").code, 202);
        drop(held);
        assert!(slots.acquire().await.is_ok());
    }
}
