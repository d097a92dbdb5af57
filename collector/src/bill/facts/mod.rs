//! What the store knows of a period: who held how much of which device, imported and metered.
//!
//! [`Grain`] says where facts are cut, and [`mod@fetch`] makes them, stage by stage: imported [`allocations`], of which [`claims`] to one device
//! may be reduced; sums of the [`ledger`] for devices that are cut alike ([`devices`], [`spans`]); [`gaps`] that are given to somebody,
//! [`sessions`], and the time of MIG [`instances`]; last, [`owners`] have their names. ClickHouse clips, cuts and sums, and what goes from one
//! stage to the next is a [`part`]. [`late`] tells whether something came since. All amounts are whole numbers.

mod allocations;
mod claims;
mod devices;
pub mod fetch;
mod gaps;
mod instances;
pub mod late;
mod ledger;
pub mod other;
pub(in crate::bill) mod owners;
mod part;
mod sessions;
pub(in crate::bill) mod spans;

use std::collections::BTreeSet;
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};

pub use fetch::fetch;
pub use late::late_since;
pub(in crate::bill) use ledger::{GREATER, UNKNOWN};
pub use other::{Item, OtherFact};

/// Where facts of a period are cut, so that within one nothing changes that a price depends on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Grain {
    /// Unix milliseconds inside the period, in order: changes of prices and of the directory, local midnights.
    pub cuts: Vec<i64>,
    /// GPU models (without profiles) to which commitments apply by the clock hour of UTC.
    pub by_hour: BTreeSet<String>,
    /// GPU models (without profiles) to which commitments apply by the minute.
    pub by_minute: BTreeSet<String>,
    /// GPU models (without profiles) of which some rate has an increment or a minimum: their facts are cut by session.
    pub by_session: BTreeSet<String>,
    /// Every model is cut by session: a rate for any model has an increment or a minimum.
    pub all_by_session: bool,
    /// Minutes without an agent belong to whom the device belonged to before and after, where that is the same, up to a day.
    pub gaps_to_last_owner: bool,
    /// Imported claims of more than a device are reduced in proportion.
    pub split_over_allocation: bool,
}

impl Grain {
    /// Cuts at these instants too.
    pub fn cut(&mut self, at: impl IntoIterator<Item = i64>) {
        self.cuts.extend(at);
        self.cuts.sort_unstable();
        self.cuts.dedup();
    }
}

/// A device, or what an allocation says of one.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Device {
    /// UUID; empty where an import does not tell it.
    pub id: String,
    /// Host name.
    pub node: String,
    /// Model of the whole GPU, as the driver names it.
    pub gpu_model: String,
    /// Profile of a MIG instance; empty for a whole GPU.
    pub mig_profile: String,
}

/// The part of a session that came before a fact.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Session {
    /// Unix millisecond at which it began; for metered ones that of its first minute, or 400 days before the period if that was earlier.
    pub start: i64,
    /// Milliseconds in which it held the device before the fact's span.
    pub before: i64,
}

/// What one owner held of one device within one span.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Fact {
    /// A workload's time, or nobody's.
    pub kind: OwnerKind,
    /// Whose, for a workload.
    pub owner: Arc<Owner>,
    /// The cost centre, where the directory has one.
    pub cost_centre: Arc<str>,
    /// Of what.
    pub device: Arc<Device>,
    /// Start of the span, Unix milliseconds.
    pub from: i64,
    /// Its end, exclusive.
    pub to: i64,
    /// Whether it was imported: its use and its energy are unknown.
    pub imported: bool,
    /// Whether it was generated, not measured.
    pub simulated: bool,
    /// Whether it is a part of a device by request: an imported fraction below 1.
    pub fraction: bool,
    /// Milliseconds in which the owner held any part of the device; with a session, those of the session, whatever the number of GPUs.
    pub held: i64,
    /// GPU time allocated: GPU-milliseconds times `10^12`.
    pub allocated: i128,
    /// Of it, time whose use is unknown.
    pub unknown: i128,
    /// GPU time in which it was busy; nothing where that is unknown.
    pub busy: i128,
    /// The greater of allocated and busy, minute by minute, summed.
    pub greater: i128,
    /// For a MIG instance: milliseconds of the instance times `10^12`. Nothing for a whole GPU.
    pub instance: i128,
    /// MiB held times milliseconds.
    pub memory_mib_ms: i128,
    /// Millijoules; nothing for what was imported.
    pub energy_mj: i128,
    /// Where [`Grain`] asks for sessions. One of these is of one imported allocation, or of all rows of a metered session.
    pub session: Option<Session>,
    /// How many rows of the store it sums.
    pub rows: u64,
}

impl Fact {
    /// Whether it is of a MIG instance.
    pub fn is_partition(&self) -> bool {
        !self.device.mig_profile.is_empty()
    }

    /// Adds the amounts of another one, which is of one owner, device, span and session with it.
    pub fn add(&mut self, other: &Self) {
        self.held += other.held;
        self.allocated += other.allocated;
        self.unknown += other.unknown;
        self.busy += other.busy;
        self.greater += other.greater;
        self.instance += other.instance;
        self.memory_mib_ms += other.memory_mib_ms;
        self.energy_mj += other.energy_mj;
        self.rows += other.rows;
        self.simulated |= other.simulated;
    }
}

/// The facts of a period.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// In no particular order.
    pub facts: Vec<Fact>,
    /// What is billed beside GPUs.
    pub other: Vec<OtherFact>,
    /// Imported allocations that touch the period.
    pub allocations: u64,
    /// Ledger rows in the period.
    pub ledger_rows: u64,
    /// Whether some of them were generated, not measured.
    pub simulated: bool,
    /// Owner ids that the store has no meaning for.
    pub unknown_owners: usize,
    /// Imported allocations of a device that was metered in the period too: both are counted.
    pub metered_too: u64,
    /// Imported GPU time that was claimed over the whole of a device: GPU-milliseconds times `10^12`. It is charged, unless claims are reduced.
    pub over_allocated: i128,
    /// Unmetered GPU time that was given to whom the device belonged to before and after: GPU-milliseconds times `10^12`.
    pub gaps_given: i128,
    /// Id of the directory that departments are from, where the owners have none themselves.
    pub directory: Option<String>,
}
