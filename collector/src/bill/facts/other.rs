//! What is billed beside GPUs: stored and moved bytes.

use std::sync::Arc;

use contador_schemas::owner::Owner;

/// What was used.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Item {
    /// Stored bytes, times milliseconds.
    Storage,
    /// Moved bytes.
    Network,
}

impl Item {
    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Network => "network",
        }
    }
}

/// What one owner used of a class of storage or network within one span.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OtherFact {
    /// Of what.
    pub item: Item,
    /// Mount point, interface, or the class that an import names.
    pub class: Arc<str>,
    /// Whose; without any attribute where that is unknown.
    pub owner: Arc<Owner>,
    /// The cost centre, where the directory has one.
    pub cost_centre: Arc<str>,
    /// Start of the span, Unix milliseconds.
    pub from: i64,
    /// Its end, exclusive.
    pub to: i64,
    /// Bytes times milliseconds of what is stored, bytes of what was moved.
    pub quantity: i128,
    /// Whether it was generated, not measured.
    pub simulated: bool,
}
