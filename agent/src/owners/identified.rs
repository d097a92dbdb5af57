//! An owner and the id that the ledger keeps of him.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use contador_schemas::owner::Owner;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// An owner with his id, which takes a hash to compute: so it is made once, when he is found out, and shared by all that say the
/// same of him. Two are equal when their ids are, that is, when their owners are.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(from = "Owner", into = "Owner")]
pub struct Identified(Arc<(Uuid, Owner)>);

impl Identified {
    /// [`Owner::id`], as it was made.
    pub fn id(&self) -> Uuid {
        self.0.0
    }
}

impl From<Owner> for Identified {
    fn from(owner: Owner) -> Self {
        Self(Arc::new((owner.id(), owner)))
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
}
