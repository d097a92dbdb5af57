//! Memory for requests that are at work: a bounded number of bytes that they share, taken before it is used.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that one permit stands for.
const PERMIT_BYTES: usize = 1_024;

/// The bytes that all requests share.
#[derive(Clone)]
pub(super) struct Room {
    free: Arc<Semaphore>,
    permits: usize,
}

/// What one request holds; given back when it is dropped.
pub struct Held {
    room: Room,
    permit: Option<OwnedSemaphorePermit>,
    permits: usize,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NoRoom {
    /// Others hold it.
    Now,
    /// It is more than there is in all.
    Ever,
}

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        let permits = (bytes / PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(permits)), permits }
    }

    /// Nothing, which can become more.
    pub(super) fn hold(&self) -> Held {
        Held { room: self.clone(), permit: None, permits: 0 }
    }

    /// Bytes that are held.
    pub(super) fn used(&self) -> usize {
        (self.permits - self.free.available_permits().min(self.permits)) * PERMIT_BYTES
    }
}

impl Held {
    /// Holds `bytes` in all from now on, more or fewer than before.
    pub(super) fn set(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let wanted = bytes.div_ceil(PERMIT_BYTES);
        if wanted > self.room.permits {
            return Err(NoRoom::Ever);
        }
        if wanted > self.permits {
            let more = u32::try_from(wanted - self.permits).map_err(|_| NoRoom::Ever)?;
            let more = Arc::clone(&self.room.free).try_acquire_many_owned(more).map_err(|_| NoRoom::Now)?;
            match &mut self.permit {
                Some(permit) => permit.merge(more),
                None => self.permit = Some(more),
            }
        } else if let Some(permit) = &mut self.permit {
            drop(permit.split(self.permits - wanted));
        }
        self.permits = wanted;
        Ok(())
    }

    /// Another request's part of the same room.
    pub(super) fn beside(&self) -> Self {
        self.room.hold()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_taken_from_the_others_until_it_is_given_back() {
        let room = Room::new(10 << 10);
        let (mut one, mut other) = (room.hold(), room.hold());
        assert_eq!(one.set(6 << 10), Ok(()));
        assert_eq!(other.set(5 << 10), Err(NoRoom::Now));
        assert_eq!(other.set(11 << 10), Err(NoRoom::Ever));
        assert_eq!(one.set(1), Ok(()));
        assert_eq!(other.set(9 << 10), Ok(()));
        assert_eq!(room.used(), 10 << 10);
        drop((one, other));
        assert_eq!(room.used(), 0);
    }
}
