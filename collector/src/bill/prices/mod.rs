//! What a GPU-hour and all the rest costs: a price [`book`], of which [`choose`] finds the rate that applies.
//!
//! A book comes from a TOML [`mod@file`] and is kept in the store's [`table`] `prices`; both give the same [`PriceBook`], whose
//! id is a hash of its [`canonical`] form, which reads back to an equal book. It [`show`]s itself to people, and as
//! [`json`] to machines. `--flat-rate` is a book too.

pub mod book;
mod canonical;
mod choose;
pub mod file;
mod json;
mod show;
pub mod table;

use std::fmt::{self, Write};

use crate::bill::document::write;

pub use book::{Basis, ConsumptionRule, Energy, NetworkRate, Percentage, Policy, PriceBook, Rate, Spread, StorageRate};

/// What stands for any model, and for any MIG profile.
pub const ANY: &str = "*";

/// Code of ISO 4217 for "no currency": that of a flat rate whose currency nobody told.
pub const NO_CURRENCY: &str = "XXX";

/// How a GPU is consumed.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Consumption {
    /// Whole GPUs that the owner has for himself.
    Exclusive,
    /// Whole GPUs for as long as they are held, by the second, minute or hour.
    TimeSharing,
    /// Parts of GPUs: MIG instances, and fractions by request.
    Fraction,
}

impl Consumption {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Exclusive, Self::TimeSharing, Self::Fraction];

    /// Its name in books and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::TimeSharing => "time-sharing",
            Self::Fraction => "fraction",
        }
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|model| model.as_str() == name)
    }
}

impl fmt::Display for Consumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PriceBook {
    /// For people.
    pub fn describe(&self) -> String {
        match self.rates.as_slice() {
            [rate, share] if rate.gpu_model == ANY && rate.mig_profile.is_none() && share.gpu_model == ANY => {
                format!("flat rate of {} a GPU-hour", super::decimal::format(rate.hourly))
            }
            _ => format!("price book {}", &self.id()[..12]),
        }
    }

    /// Hash of the book's canonical form: 64 hexadecimal digits. It is of everything that the book says, whatever the order of its
    /// rates.
    pub fn id(&self) -> String {
        write::id(&self.canonical())
    }
}

impl Rate {
    /// What it is for, in words.
    pub fn what(&self) -> String {
        let mut what = match self.mig_profile.as_deref() {
            None => self.gpu_model.clone(),
            Some(ANY) => format!("{} MIG, by share", self.gpu_model),
            Some(profile) => format!("{} MIG {profile}", self.gpu_model),
        };
        if let Some(environment) = &self.environment {
            what += &format!(", environment {environment}");
        }
        if let Some(consumption) = self.consumption {
            what += &format!(", {consumption}");
        }
        what
    }

    /// What tells it from other rates.
    pub fn key(&self) -> (&str, Option<&str>, Option<&str>, Option<Consumption>, u32) {
        (&self.gpu_model, self.mig_profile.as_deref(), self.environment.as_deref(), self.consumption, self.valid_from)
    }
}

/// Bytes as hexadecimal digits.
pub(in crate::bill) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_of_the_content_and_not_of_its_order() {
        let one = PriceBook::new("EUR").with("A", 0, 1).with("B", 0, 2);
        let two = PriceBook::new("EUR").with("B", 0, 2).with("A", 0, 1);
        assert_eq!(one.id(), two.id());
        assert_eq!(one.id().len(), 64);
        assert_ne!(one.id(), two.with("A", 1, 1).id());
        assert_ne!(PriceBook::new("EUR").id(), PriceBook::new("USD").id());
    }
}
