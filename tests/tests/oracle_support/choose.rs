//! Which entry of a book applies, looked up the long way.

use contador::bill::facts::Device;
use contador::bill::prices::{Consumption, Energy, PriceBook, Rate};
use contador_schemas::mapping::Glob;
use contador_schemas::owner::Owner;

/// How an owner consumes a device, or a part of one.
pub fn consumption(book: &PriceBook, owner: &Owner, device: &Device, fraction: bool) -> Consumption {
    for rule in &book.consumption {
        let is = |(name, pattern): &(String, Glob)| {
            let value = match name.as_str() {
                "gpu_model" => &device.gpu_model,
                "project" => &owner.project,
                "environment" => &owner.environment,
                other => panic!("no rule is by {other}"),
            };
            value == pattern.as_str()
        };
        if rule.matches.iter().all(is) {
            return rule.model;
        }
    }
    let is_part = fraction || !device.mig_profile.is_empty();
    if is_part { Consumption::Fraction } else { Consumption::TimeSharing }
}

/// The rate for an owner and a device at a Unix millisecond, if there is one.
pub fn rate<'a>(
    book: &'a PriceBook,
    owner: &Owner,
    device: &Device,
    consumption: Consumption,
    at: i64,
) -> Option<&'a Rate> {
    let mut best: Option<((i32, u32), &Rate)> = None;
    for rate in &book.rates {
        let is_part = !device.mig_profile.is_empty();
        let for_device = match rate.mig_profile.as_deref() {
            None => !is_part,
            Some(profile) => is_part && (profile == "*" || profile == device.mig_profile),
        };
        let applies = for_device
            && (rate.gpu_model == "*" || rate.gpu_model == device.gpu_model)
            && rate.environment.as_ref().is_none_or(|environment| *environment == owner.environment)
            && rate.consumption.is_none_or(|model| model == consumption)
            && i64::from(rate.valid_from) * 1_000 <= at;
        let own = |is: bool, points| if is { points } else { 0 };
        let points = own(rate.gpu_model != "*", 8)
            + own(rate.mig_profile.as_deref().is_some_and(|profile| profile != "*"), 4)
            + own(rate.environment.is_some(), 2)
            + own(rate.consumption.is_some(), 1);
        let rank = (points, rate.valid_from);
        if applies && best.is_none_or(|(other, _)| rank > other) {
            best = Some((rank, rate));
        }
    }
    best.map(|(_, rate)| rate)
}

/// What energy costs on a node at a Unix millisecond, if that is told.
pub fn energy<'a>(book: &'a PriceBook, node: &str, at: i64) -> Option<&'a Energy> {
    let valid = book.energy.iter().filter(|energy| i64::from(energy.valid_from) * 1_000 <= at);
    let named = valid.clone().filter(|energy| energy.nodes.iter().any(|name| name.as_str() == node));
    let others = valid.filter(|energy| energy.nodes.is_empty());
    let latest = |of: &mut dyn Iterator<Item = &'_ Energy>| -> Option<u32> { of.map(|one| one.valid_from).max() };
    if let Some(from) = latest(&mut named.clone()) {
        return named.clone().find(|energy| energy.valid_from == from);
    }
    let from = latest(&mut others.clone())?;
    others.clone().find(|energy| energy.valid_from == from)
}
