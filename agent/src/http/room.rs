//! The memory that all requests at work may take together: each asks for its part before that is allocated, and gives it back
//! with its [`Part`].

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a permit.
const KIB: usize = 1 << 10;

/// All of it, as a multiple of the greatest body.
const BODIES: usize = 64;

/// What is said when there is none.
pub const FULL: &str = "there is no room for it beside what is at work, expected to come back";

/// What is taken of a [`Room`].
pub type Part = OwnedSemaphorePermit;

/// How many bytes a part is, whole permits.
pub fn held(part: &Part) -> usize {
    part.num_permits() * KIB
}

/// The memory; clones share it.
#[derive(Clone, Debug)]
pub struct Room {
    free: Arc<Semaphore>,
    bytes: usize,
}

impl Room {
    /// For bodies of up to `max_push_bytes`.
    pub fn new(max_push_bytes: usize) -> Self {
        let bytes = BODIES.saturating_mul(max_push_bytes);
        Self { free: Arc::new(Semaphore::new((bytes / KIB).min(Semaphore::MAX_PERMITS))), bytes }
    }

    /// How much all requests may take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many bytes of it, if they are free.
    pub fn take(&self, bytes: usize) -> Option<Part> {
        let kib = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX);
        Arc::clone(&self.free).try_acquire_many_owned(kib).ok()
    }
}
