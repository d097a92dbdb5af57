//! The memory that all requests at work may take together: each asks for its part before that is allocated, as it grows, and gives
//! it back when it has ended.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a permit.
const KIB: usize = 1 << 10;

/// All of it, as a multiple of the greatest body.
const BODIES: usize = 64;

/// Why there is no room.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoRoom {
    /// Others hold it.
    #[error("there is no room for it beside what is at work, expected to come back")]
    Now,
    /// It is more than all requests may take, of so many bytes.
    #[error("it takes more memory than the {0} bytes that all requests may take, expected it in parts")]
    Ever(usize),
}

/// The memory; clones share it.
#[derive(Clone, Debug)]
pub struct Room {
    free: Arc<Semaphore>,
    permits: usize,
}

impl Room {
    /// For bodies of up to `max_push_bytes`.
    pub fn new(max_push_bytes: usize) -> Self {
        let permits = (BODIES.saturating_mul(max_push_bytes) / KIB).clamp(1, Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(permits)), permits }
    }

    /// How many bytes all requests may take: whole permits, so that one that asks for as many has them when it is alone.
    pub fn bytes(&self) -> usize {
        self.permits * KIB
    }

    /// Nothing of it, which can become more.
    pub fn hold(&self) -> Held {
        Held { room: self.clone(), permit: None, bytes: 0 }
    }
}

/// What one request holds of a [`Room`]; given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    room: Room,
    permit: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl Held {
    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds `bytes` in all from now on, more or fewer than before.
    ///
    /// # Errors
    /// [`NoRoom`]; what it held it still holds.
    pub fn set(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let (had, wanted) = (self.bytes.div_ceil(KIB), bytes.div_ceil(KIB));
        if wanted > self.room.permits {
            return Err(NoRoom::Ever(self.room.bytes()));
        }
        if wanted > had {
            let more = u32::try_from(wanted - had).map_err(|_| NoRoom::Ever(self.room.bytes()))?;
            let more = Arc::clone(&self.room.free).try_acquire_many_owned(more).map_err(|_| NoRoom::Now)?;
            match &mut self.permit {
                Some(permit) => permit.merge(more),
                None => self.permit = Some(more),
            }
        } else if let Some(permit) = &mut self.permit {
            drop(permit.split(had - wanted));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Holds so many bytes more.
    ///
    /// # Errors
    /// As [`Held::set`].
    pub fn add(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.set(self.bytes.saturating_add(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_said_to_be_there_is_there() {
        // 64 times 1000 bytes are 62 KiB and a half.
        let room = Room::new(1_000);
        assert_eq!(room.bytes(), 62 << 10);
        let mut held = room.hold();
        assert_eq!(held.set(room.bytes() + 1), Err(NoRoom::Ever(62 << 10)));
        assert_eq!(held.set(room.bytes()), Ok(()));
        let mut other = room.hold();
        assert_eq!(other.add(1), Err(NoRoom::Now));
        held.set(room.bytes() - 1_024).unwrap();
        assert_eq!((other.add(1), other.add(1_023), other.add(1)), (Ok(()), Ok(()), Err(NoRoom::Now)));
        drop(held);
        assert_eq!(other.set(room.bytes()), Ok(()));
    }

    proptest! {
        #[test]
        fn all_that_is_held_is_within_the_room_and_comes_back(
            steps in prop::collection::vec((0..4_usize, 0..80_000_usize), 0..60),
        ) {
            let room = Room::new(1_000);
            let mut all: Vec<Held> = (0..4).map(|_| room.hold()).collect();
            for (who, bytes) in steps {
                let before = all[who].bytes();
                let done = all[who].set(bytes);
                prop_assert_eq!(all[who].bytes(), if done.is_ok() { bytes } else { before });
                prop_assert_eq!(matches!(done, Err(NoRoom::Ever(_))), bytes > room.bytes());
                let kib: usize = all.iter().map(|held| held.bytes().div_ceil(1_024)).sum();
                prop_assert_eq!(kib + room.free.available_permits(), 62);
            }
            all.clear();
            prop_assert_eq!(room.free.available_permits(), 62);
        }
    }
}
