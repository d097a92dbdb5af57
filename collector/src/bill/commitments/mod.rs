//! What departments have agreed to: GPUs that they pay for, used or not, and what they mean to spend.
//!
//! Agreements come from a TOML [`mod@file`] and are kept in the store's [`table`] `commitments`, as price books are: whole, by a hash of
//! their [`canonical`] form. [`show`] is for people and machines.

mod canonical;
pub mod file;
mod show;
pub mod table;

#[cfg(test)]
mod tests;

/// Everything that was agreed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Agreements {
    /// ISO 4217; empty if nothing was agreed.
    pub currency: String,
    /// In the order of their ids.
    pub commitments: Vec<Commitment>,
    /// By department, then by the month from which they hold.
    pub budgets: Vec<Budget>,
}

/// GPUs of a model that a department pays for, used or not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Commitment {
    /// What it is called; unique.
    pub id: String,
    /// Who pays.
    pub department: String,
    /// Model of the whole GPU.
    pub gpu_model: String,
    /// For MIG instances: their profile. Without, whole GPUs and the shares of their instances.
    pub mig_profile: Option<String>,
    /// How many.
    pub gpus: u32,
    /// One for an hour, times `10^12` of a currency unit.
    pub hourly: i128,
    /// Unix second.
    pub from: u32,
    /// Unix second, exclusive; `None` is without end.
    pub to: Option<u32>,
    /// The time within which use may be unevenly spread.
    pub slot: Slot,
}

/// The time within which use of a commitment may be unevenly spread.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Slot {
    /// A clock hour of UTC.
    #[default]
    Hour,
    /// A minute.
    Minute,
}

/// What a department means to spend in a month.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Budget {
    /// Whose; empty is the whole fleet's.
    pub department: String,
    /// First month, such as `2026-01`; it holds until the department's next one.
    pub from_month: String,
    /// For a month, times `10^12` of a currency unit.
    pub monthly: i128,
}

impl Slot {
    /// How long it is, milliseconds.
    pub const fn ms(self) -> i64 {
        match self {
            Self::Hour => 3_600_000,
            Self::Minute => 60_000,
        }
    }
}

impl Agreements {
    /// The budget of a department in a month.
    pub fn budget(&self, department: &str, month: &str) -> Option<&Budget> {
        let of = |budget: &&Budget| budget.department == department && budget.from_month.as_str() <= month;
        self.budgets.iter().filter(of).max_by_key(|budget| &budget.from_month)
    }
}
