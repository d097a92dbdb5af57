//! `[[rate]]`: what an hour costs, of what, and how it is billed.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use num_bigint::BigInt;

use super::tco;
use super::words::BASES;
use crate::bill::apportion::round;
use crate::bill::decimal::{self, ONE};
use crate::bill::document::device::device;
use crate::bill::document::table::Table;
use crate::bill::prices::{Consumption, Rate};
use crate::bill::rate::exact::Amount;

const KEYS: [&str; 14] = [
    "gpu_model",
    "mig_profile",
    "environment",
    "consumption",
    "valid_from",
    "hourly",
    "monthly",
    "month_hours",
    "tco",
    "basis",
    "increment",
    "minimum",
    "derivation",
    "source",
];

/// Ways to say what an hour costs.
const WAYS: [&str; 3] = ["hourly", "monthly", "tco"];

/// Hours that a month may be said to have: the longest has 745 in a time zone that ends its summer time in it.
pub(super) const MONTH_HOURS: std::ops::RangeInclusive<u32> = 1..=745;

/// The rates of a book, in canonical order.
pub(super) fn rates(top: &Table<'_>, zone: &TimeZone) -> Vec<Rate> {
    if !top.has("rate") {
        top.missing("rate", "at least one [[rate]]");
    }
    let mut rates: Vec<Rate> = Vec::new();
    let mut lines = BTreeMap::new();
    for table in top.tables("rate") {
        let rate = rate(&table, zone);
        // A model that is at fault is nobody's second one.
        if !rate.gpu_model.is_empty()
            && let Some(first) = lines.insert(identity(&rate), table.line())
        {
            table.fault(format!(
                "rate: a second one of {} from the same instant; the first is on line {first}",
                rate.what()
            ));
        }
        rates.push(rate);
    }
    rates.sort_by(|a, b| a.key().cmp(&b.key()));
    rates
}

/// What an hour has to come to.
pub(super) const DIGITS: &str = "an hour of less than 10^18";

/// What tells a rate from others.
fn identity(rate: &Rate) -> (String, Option<String>, Option<String>, Option<Consumption>, u32) {
    let (gpu_model, mig_profile, environment, consumption, valid_from) = rate.key();
    let owned = |text: Option<&str>| text.map(str::to_owned);
    (gpu_model.to_owned(), owned(mig_profile), owned(environment), consumption, valid_from)
}

fn rate(table: &Table<'_>, zone: &TimeZone) -> Rate {
    table.known(&KEYS);
    let (gpu_model, mig_profile) = device(table, true);
    let (hourly, derivation) = hourly(table);
    let consumptions = Consumption::ALL.map(|model| (model.as_str(), model));
    let increment_ms = table.duration("increment").unwrap_or_default();
    let minimum_ms = table.duration("minimum").unwrap_or_default();
    if increment_ms > 0 && !minimum_ms.is_multiple_of(increment_ms) {
        table.wrong("minimum", "a multiple of increment");
    }
    Rate {
        gpu_model,
        mig_profile,
        environment: table.text("environment"),
        consumption: table.choice("consumption", &consumptions),
        valid_from: table.valid_from(zone),
        hourly,
        basis: table.choice("basis", &BASES).unwrap_or_default(),
        increment_ms,
        minimum_ms,
        derivation,
        source: table.text("source").unwrap_or_default(),
    }
}

/// What an hour costs, and how that was derived.
fn hourly(table: &Table<'_>) -> (i128, String) {
    let ways: Vec<&str> = WAYS.into_iter().filter(|way| table.has(way)).collect();
    for way in ways.iter().skip(1) {
        table.wrong(way, &format!("nothing beside {}", ways[0]));
    }
    if !table.has("monthly") && table.has("month_hours") {
        table.wrong("month_hours", "it with monthly alone");
    }
    let derivation = table.text("derivation");
    if derivation.is_some() && !table.has("hourly") {
        table.wrong("derivation", "it with hourly alone: what is derived here says how");
    }
    match ways.first() {
        Some(&"hourly") => (table.needed_decimal("hourly"), derivation.unwrap_or_default()),
        Some(&"monthly") => monthly(table),
        Some(_) => table.table("tco").map(|table| tco::derive(&table)).unwrap_or_default(),
        None => {
            table.missing("hourly", "hourly, monthly with month_hours, or [rate.tco]");
            Default::default()
        }
    }
}

fn monthly(table: &Table<'_>) -> (i128, String) {
    let (month, hours) = (table.needed_decimal("monthly"), table.needed_whole("month_hours", MONTH_HOURS));
    let Some(hourly) = millionths(&Amount::new(month.into(), &(BigInt::from(ONE) * hours))) else {
        table.wrong("monthly", DIGITS);
        return Default::default();
    };
    (hourly, format!("{} a month / {hours} h = {}", decimal::format(month), decimal::format(hourly)))
}

/// A fraction, rounded half up to millionths and told as all decimals are; nothing if it has more digits than a decimal may have.
pub(super) fn millionths(amount: &Amount) -> Option<i128> {
    let rounded = i128::try_from(round(amount, 1_000_000)).ok()?.checked_mul(ONE / 1_000_000)?;
    decimal::parse(&decimal::format(rounded)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_is_divided_once_and_rounded_half_up() {
        for (month, hours, hourly) in
            [(1_500, 730, 2_054_795), (1_489, 1_000, 1_489_000), (1, 32, 31_250), (1, 640, 1_563)]
        {
            let amount = Amount::new(BigInt::from(month), &BigInt::from(hours));
            assert_eq!(millionths(&amount), Some(hourly * 1_000_000), "{month} / {hours}");
        }
        assert_eq!(millionths(&Amount::new(BigInt::from(10).pow(18), &BigInt::from(1))), None);
    }
}
