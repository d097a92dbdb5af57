//! An owner and the id that the ledger keeps of him.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use contador_schemas::owner::Owner;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// An owner with his id, which takes a cryptographic hash to compute: so it is made once, and shared by all that say the same of
/// him. Two are equal when their ids are, that is, when their owners are.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(from = "Owner", into = "Owner")]
pub struct Identified(Arc<(Uuid, Owner)>);

impl Identified {
    /// [`Owner::id`], as it was made.
    pub fn id(&self) -> Uuid {
        self.0.0
    }
}

/// Most owners of which a thread remembers the ids.
const MAX_REMEMBERED: usize = 512;

thread_local! {
    /// Those that were made on this thread: what is put together anew at each tick is mostly what it was at the one before.
    static REMEMBERED: RefCell<HashSet<ByOwner>> = RefCell::default();
}

/// Found by its owner.
#[derive(Debug)]
struct ByOwner(Identified);

impl Borrow<Owner> for ByOwner {
    fn borrow(&self) -> &Owner {
        &self.0
    }
}

impl Hash for ByOwner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Owner::hash(&self.0, state);
    }
}

impl PartialEq for ByOwner {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

impl Eq for ByOwner {}

impl From<Owner> for Identified {
    fn from(owner: Owner) -> Self {
        REMEMBERED.with_borrow_mut(|remembered| {
            if let Some(ByOwner(known)) = remembered.get(&owner) {
                return known.clone();
            }
            if remembered.len() >= MAX_REMEMBERED {
                remembered.clear();
            }
            let new = Self(Arc::new((owner.id(), owner)));
            remembered.insert(ByOwner(new.clone()));
            new
        })
    }
}

impl From<Identified> for Owner {
    fn from(Identified(shared): Identified) -> Self {
        Arc::try_unwrap(shared).map_or_else(|shared| shared.1.clone(), |(_, owner)| owner)
    }
}

impl Deref for Identified {
    type Target = Owner;

    fn deref(&self) -> &Owner {
        &self.0.1
    }
}

impl PartialEq for Identified {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Identified {}

impl Hash for Identified {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_its_owner_with_his_id_also_in_a_checkpoint() {
        let owner = Owner { department: "research".into(), ..Owner::default() };
        let identified = Identified::from(owner.clone());
        assert_eq!(
            (identified.id(), &*identified, Owner::from(identified.clone())),
            (owner.id(), &owner, owner.clone())
        );
        assert_ne!(identified, Identified::from(Owner { project: "vision".into(), ..owner.clone() }));
        let json = serde_json::to_value(&identified).unwrap();
        assert_eq!(json, serde_json::to_value(&owner).unwrap());
        assert_eq!(serde_json::from_value::<Identified>(json).unwrap(), identified);
    }

    #[test]
    fn more_than_are_remembered_are_themselves_all_the_same() {
        let owner = |number: usize| Owner { job: number.to_string(), ..Owner::default() };
        let first = Identified::from(owner(0));
        assert!(Arc::ptr_eq(&first.0, &Identified::from(owner(0)).0));
        for number in (0..3 * MAX_REMEMBERED).chain(0..3) {
            assert_eq!(Identified::from(owner(number)).id(), owner(number).id());
        }
        assert!(REMEMBERED.with_borrow(HashSet::len) <= MAX_REMEMBERED);
    }
}
