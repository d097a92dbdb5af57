//! What a GPU-hour costs: a price book of dated hourly rates, or one flat rate for everything.
//!
//! A book comes from a TOML [`mod@file`] and is kept in the store's [`table`] `prices`; both give the same [`PriceBook`], whose
//! id is a hash of what it says.

pub mod file;
pub mod table;

use std::collections::BTreeMap;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::decimal;

/// Model name of the rate for every model that has none of its own.
pub const ANY_MODEL: &str = "*";

/// Code of ISO 4217 for "no currency": that of a flat rate whose currency nobody told.
pub const NO_CURRENCY: &str = "XXX";

/// The rates of each model by the instant from which they are valid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PriceBook {
    /// ISO 4217.
    pub currency: String,
    /// By model and Unix second: a GPU-hour, times `10^12`.
    rates: BTreeMap<String, BTreeMap<u32, i128>>,
}

/// What facts are priced with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Prices {
    /// Every GPU-hour costs the same.
    Flat {
        /// A GPU-hour, times `10^12`.
        rate: i128,
        /// ISO 4217.
        currency: String,
    },
    /// By model and time.
    Book(PriceBook),
}

impl PriceBook {
    /// An empty book.
    pub fn new(currency: impl Into<String>) -> Self {
        Self { currency: currency.into(), rates: BTreeMap::new() }
    }

    /// Adds a rate, valid until the next one of the same model; `false` if there is one from that very instant.
    pub fn add(&mut self, gpu_model: impl Into<String>, valid_from: u32, rate: i128) -> bool {
        self.rates.entry(gpu_model.into()).or_default().insert(valid_from, rate).is_none()
    }

    /// Every rate: model, Unix second from which it is valid, and a GPU-hour times `10^12`.
    pub fn rates(&self) -> impl Iterator<Item = (&str, u32, i128)> {
        self.rates.iter().flat_map(|(model, dated)| dated.iter().map(|(from, rate)| (model.as_str(), *from, *rate)))
    }

    /// What a GPU-hour of the model costs at a Unix millisecond, times `10^12`: its own rate, or else that of `*`.
    pub fn rate(&self, gpu_model: &str, at_ms: i64) -> Option<i128> {
        let second = u32::try_from(at_ms.div_euclid(1_000)).ok()?;
        let of = |model: &str| self.rates.get(model)?.range(..=second).next_back().map(|(_, rate)| *rate);
        of(gpu_model).or_else(|| of(ANY_MODEL))
    }

    /// Hash of everything that the book says, whatever the order in which it says it: 64 hexadecimal digits.
    pub fn id(&self) -> String {
        let mut text = format!("contador price book 1\n{}\n", self.currency);
        for (model, from, rate) in self.rates() {
            let _ = writeln!(text, "{}:{model} {from} {rate}", model.len());
        }
        Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

impl Prices {
    /// ISO 4217.
    pub fn currency(&self) -> &str {
        match self {
            Self::Flat { currency, .. } => currency,
            Self::Book(book) => &book.currency,
        }
    }

    /// What a GPU-hour of the model costs at a Unix millisecond, times `10^12`; nothing if it is unpriced.
    ///
    /// A partition of a GPU is never priced like a whole one: only by a rate for its own name.
    pub fn rate(&self, gpu_model: &str, partition: bool, at_ms: i64) -> Option<i128> {
        match self {
            Self::Flat { .. } if partition => None,
            Self::Flat { rate, .. } => Some(*rate),
            Self::Book(book) if partition && !book.rates.contains_key(gpu_model) => None,
            Self::Book(book) => book.rate(gpu_model, at_ms),
        }
    }

    /// The Unix milliseconds inside a period at which some price changes, in order.
    pub fn changes(&self, from: i64, to: i64) -> Vec<i64> {
        let Self::Book(book) = self else { return Vec::new() };
        let mut changes: Vec<i64> = book.rates().map(|(_, second, _)| i64::from(second) * 1_000).collect();
        changes.retain(|change| from < *change && *change < to);
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    /// For people.
    pub fn describe(&self) -> String {
        match self {
            Self::Flat { rate, .. } => format!("flat rate of {} a GPU-hour", decimal::format(*rate)),
            Self::Book(book) => format!("price book {}", &book.id()[..12]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_valid_until_the_next_and_any_model_has_that_of_the_star() {
        let mut book = PriceBook::new("EUR");
        assert!(book.add("A", 100, 5));
        assert!(book.add("A", 200, 6));
        assert!(!book.add("A", 200, 7));
        assert_eq!(book.rate("A", 99_999), None);
        assert!(book.add("*", 0, 1));
        for (model, at, rate) in
            [("A", 99_999, 1), ("A", 100_000, 5), ("A", 199_999, 5), ("A", 200_000, 7), ("B", 0, 1)]
        {
            assert_eq!(book.rate(model, at), Some(rate), "{model} at {at}");
        }
        let prices = Prices::Book(book);
        assert_eq!(prices.changes(0, 200_000), [100_000]);
        assert_eq!(prices.changes(0, 200_001), [100_000, 200_000]);
        assert_eq!(prices.rate("B", true, 0), None);
    }

    #[test]
    fn an_id_is_of_the_content_and_not_of_its_order() {
        let (mut one, mut two) = (PriceBook::new("EUR"), PriceBook::new("EUR"));
        one.add("A", 0, 1);
        one.add("B", 0, 2);
        two.add("B", 0, 2);
        two.add("A", 0, 1);
        assert_eq!(one.id(), two.id());
        assert_eq!(one.id().len(), 64);
        two.add("A", 1, 1);
        assert_ne!(one.id(), two.id());
        assert_ne!(PriceBook::new("EUR").id(), PriceBook::new("USD").id());
    }
}
