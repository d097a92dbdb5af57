//! Who pays for an owner: the configuration's rules ([`contador_schemas::mapping`]), applied wherever one is found.

use contador_schemas::mapping::{Decision, Rules};
use contador_schemas::owner::Owner;

use super::claim::Named;

/// An owner with who pays for him, and what decided that.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapped {
    /// The owner, as the ledger has him.
    pub owner: Owner,
    /// What filled in department, project and so on.
    pub decision: Decision,
}

/// Fills in what the rules say of somebody. The one place where that is done: of what is told by schedulers, by containers and
/// by processes.
pub fn apply(rules: &Rules, named: Named) -> Mapped {
    let (owner, decision) = rules.apply(named.owner, &named.labels);
    Mapped { owner, decision }
}

impl From<Owner> for Named {
    /// Somebody of whom nothing else is known.
    fn from(owner: Owner) -> Self {
        Self { owner, ..Self::default() }
    }
}
