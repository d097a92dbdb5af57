//! What a line of a bill is for.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};

use crate::bill::prices::Consumption;

/// Who pays: a department for its workloads, or nobody.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Payer {
    /// A workload's, or what else the time was.
    pub kind: OwnerKind,
    /// The department; empty if it is unknown, or nobody's.
    pub department: Arc<str>,
}

/// What something is charged for. The order is that of reports.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Category {
    /// Use of GPUs at the book's rates.
    #[default]
    Usage,
    /// Use that a commitment covers: billed 0, with the commitment's price as effective cost. Of idle time: what a commitment has
    /// reserved and not used, and so pays for.
    Covered,
    /// A commitment itself, used or not.
    Commitment,
    /// The part of a commitment that was not used: effective cost alone.
    Unused,
    /// A share of what nobody's workload held.
    Share(OwnerKind),
    /// Energy, where it is a line of its own.
    Energy,
    /// Storage.
    Storage,
    /// Network.
    Network,
    /// A mark-up.
    Markup,
    /// A tax.
    Tax,
    /// Something given back.
    Credit,
    /// Something charged by hand.
    Adjustment,
    /// A difference to a month that is closed.
    Correction,
}

impl Category {
    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Covered => "covered",
            Self::Commitment => "commitment",
            Self::Unused => "unused",
            Self::Share(OwnerKind::Idle) => "idle-share",
            Self::Share(OwnerKind::Stranded) => "stranded-share",
            Self::Share(OwnerKind::Unattributed) => "unattributed-share",
            Self::Share(OwnerKind::Unmetered) => "unmetered-share",
            Self::Share(OwnerKind::Workload) => "share",
            Self::Energy => "energy",
            Self::Storage => "storage",
            Self::Network => "network",
            Self::Markup => "mark-up",
            Self::Tax => "tax",
            Self::Credit => "credit",
            Self::Adjustment => "adjustment",
            Self::Correction => "correction",
        }
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        let plain = [
            Self::Usage,
            Self::Covered,
            Self::Commitment,
            Self::Unused,
            Self::Energy,
            Self::Storage,
            Self::Network,
            Self::Markup,
            Self::Tax,
            Self::Credit,
            Self::Adjustment,
            Self::Correction,
        ];
        let shares = OwnerKind::ALL.map(Self::Share);
        plain.into_iter().chain(shares).find(|category| category.as_str() == name)
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a line of a bill is for: everything by which a view may group or filter.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Key {
    /// Who pays.
    pub payer: Payer,
    /// For what.
    pub category: Category,
    /// Whose it is, with the department that the directory has; without attributes for what is a department's as a whole, or nobody's.
    pub owner: Arc<Owner>,
    /// The cost centre; empty if it has none.
    pub cost_centre: Arc<str>,
    /// Model of the whole GPU; empty for what isn't a GPU's.
    pub gpu_model: Arc<str>,
    /// Profile of a MIG instance.
    pub mig_profile: Arc<str>,
    /// How it was consumed.
    pub consumption: Option<Consumption>,
    /// Name of the commitment, the mark-up, the tax, the class of storage, or the reason: what tells lines of one category apart.
    pub item: Arc<str>,
    /// Price of a unit, times `10^12` of a currency unit: of a GPU-hour, a kWh, a GiB for a month, a GiB, or a hundredth. `None` where there is none.
    pub unit_price: Option<i128>,
    /// Local day, in days since 1970; `None` for what is the period's as a whole.
    pub day: Option<u16>,
    /// The month that a correction or an adjustment is of, where that is another one.
    pub origin_month: Option<Arc<str>>,
    /// Whether it was imported.
    pub imported: bool,
    /// Whether it was generated, not measured.
    pub simulated: bool,
}

/// By the fields in their order. Neighbours have the same owner, mostly, and its attributes are not compared then.
impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let owners =
            || if Arc::ptr_eq(&self.owner, &other.owner) { Ordering::Equal } else { self.owner.cmp(&other.owner) };
        let rest = |key: &Self| (key.consumption, Arc::clone(&key.item), key.unit_price, key.day);
        let last = |key: &Self| (key.origin_month.clone(), key.imported, key.simulated);
        self.payer
            .cmp(&other.payer)
            .then_with(|| self.category.cmp(&other.category))
            .then_with(owners)
            .then_with(|| self.cost_centre.cmp(&other.cost_centre))
            .then_with(|| self.gpu_model.cmp(&other.gpu_model))
            .then_with(|| self.mig_profile.cmp(&other.mig_profile))
            .then_with(|| rest(self).cmp(&rest(other)))
            .then_with(|| last(self).cmp(&last(other)))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
