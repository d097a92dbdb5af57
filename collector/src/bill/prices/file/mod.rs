//! A price book as TOML (docs/price-book.md), read strictly: every fault with its file, line, value and what was expected.
//!
//! [`rates`] are what GPUs cost, by the hour or [derived](tco) from what a node costs; [`others`] are energy, storage and
//! network; [`terms`] say who consumes how, who bears what nobody held, and what is added in percent; all in these [`words`]. What is read is a
//! [`PriceBook`], and what that writes as its canonical form is read here again.

mod others;
mod rates;
mod tco;
mod terms;
pub(super) mod words;

#[cfg(test)]
mod tests;

use std::path::Path;

use super::PriceBook;
pub use crate::bill::document::currency_code;
use crate::bill::document::table::Table;
use crate::bill::document::{self, DocumentError, Refused};

/// Keys of the whole book.
const KEYS: [&str; 12] = [
    "currency",
    "time_zone",
    "issuer",
    "decimals",
    "policy",
    "consumption",
    "rate",
    "energy",
    "storage",
    "network",
    "markup",
    "tax",
];

/// Reads the book in a file.
///
/// # Errors
/// [`DocumentError`] with every fault.
pub fn read(path: &Path) -> Result<PriceBook, DocumentError> {
    document::read(path, parse)
}

/// Reads a book; `path` is its name in messages.
///
/// # Errors
/// [`Refused`] with every fault.
pub fn parse(path: &str, text: &str) -> Result<PriceBook, Refused> {
    document::parse(path, text, book)
}

fn book(top: &Table<'_>) -> PriceBook {
    top.known(&KEYS);
    let zone = top.zone();
    let (energy, energy_is_a_line) = others::energy(top, &zone);
    PriceBook {
        currency: top.currency(),
        time_zone: zone.iana_name().unwrap_or("UTC").to_owned(),
        issuer: top.text("issuer").unwrap_or_default(),
        decimals: top.whole("decimals", 0..=6).and_then(|decimals| u8::try_from(decimals).ok()).unwrap_or(6),
        rates: rates::rates(top, &zone),
        consumption: terms::consumption(top),
        energy,
        energy_is_a_line,
        storage: others::storage(top, &zone),
        network: others::network(top, &zone),
        markups: terms::percentages(top, "markup", &zone),
        taxes: terms::percentages(top, "tax", &zone),
        policy: terms::policy(top),
    }
}
