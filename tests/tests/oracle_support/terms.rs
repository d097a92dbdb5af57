//! Random price books and agreements.

use std::collections::BTreeSet;

use contador::bill::commitments::{Agreements, Commitment, Slot};
use contador::bill::prices::{
    Basis, Consumption, ConsumptionRule, Energy, NetworkRate, Percentage, Policy, PriceBook, Rate, Spread, StorageRate,
};
use contador_schemas::mapping::Glob;

use super::dice::Dice;
use super::fleet::{CLASSES, ENVIRONMENTS, Fleet, MODELS, Mode, NODES, PROFILES};

/// A price from nothing to that of a small country, some with all twelve digits.
fn price(dice: &mut Dice) -> i128 {
    let one = 1_000_000_000_000;
    match dice.below(10) {
        0 => 0,
        1 => 1,
        2 => 1_000_000 * one,
        3..6 => i128::from(dice.below(20)) * one / 4,
        _ => i128::from(dice.below(5_000_000_000_000)),
    }
}

/// A Unix second from which something holds: for ever, or from an instant in or around the period.
fn since(dice: &mut Dice, fleet: &Fleet) -> u32 {
    if dice.chance(50) {
        return 0;
    }
    let at = dice.between(fleet.first, fleet.last);
    let at = if dice.chance(60) { at - at % 60 } else { at };
    at.try_into().unwrap()
}

pub fn book(dice: &mut Dice, fleet: &Fleet) -> PriceBook {
    let mut book = PriceBook::new("EUR");
    book.decimals = dice.below(7).try_into().unwrap();
    for _ in 0..dice.between(2, 9) {
        let rate = rate(dice, fleet);
        if book.rates.iter().all(|other| other.key() != rate.key()) {
            book.rates.push(rate);
        }
    }
    for _ in 0..dice.below(3) {
        let field = dice.pick(&[("project", "vision"), ("environment", "production"), ("gpu_model", "L4")]);
        let matches = vec![(field.0.to_owned(), Glob::parse(field.1).unwrap())];
        book.consumption.push(ConsumptionRule { model: dice.pick(&Consumption::ALL), matches });
    }
    for _ in 0..dice.below(4) {
        let nodes = if dice.chance(30) { vec![Glob::parse(dice.pick(&NODES)).unwrap()] } else { Vec::new() };
        let valid_from = since(dice, fleet);
        let (tariff, pue) = (price(dice), 1_000_000_000_000 + i128::from(dice.below(1_000_000_000_000)));
        let carbon_g_per_kwh = dice.chance(50).then_some(344_100_000_000_000);
        let energy = Energy { valid_from, nodes, tariff, pue, carbon_g_per_kwh, source: String::new() };
        if book.energy.iter().all(|other| (&other.nodes, other.valid_from) != (&energy.nodes, valid_from)) {
            book.energy.push(energy);
        }
    }
    book.energy_is_a_line = dice.chance(50);
    other(dice, fleet, &mut book);
    percentages(dice, fleet, &mut book);
    let how = [Spread::Show, Spread::Proportional, Spread::Even, Spread::Platform];
    book.policy = Policy {
        idle: dice.pick(&how),
        stranded: dice.pick(&how),
        unattributed: dice.pick(&how),
        unmetered: dice.pick(&how),
        platform: dice.pick(&["operations", "research"]).to_owned(),
        ..Policy::default()
    };
    book
}

fn rate(dice: &mut Dice, fleet: &Fleet) -> Rate {
    let model = dice.pick(&["*", MODELS[0], MODELS[0], MODELS[1]]);
    let profile = dice.pick(&[None, None, None, Some("*"), Some(PROFILES[0]), Some(PROFILES[1])]);
    let environment = dice.chance(25).then(|| dice.pick(&ENVIRONMENTS[1..]).to_owned());
    let consumption = dice.chance(25).then(|| dice.pick(&Consumption::ALL));
    let sessions = dice.chance(35);
    Rate {
        mig_profile: profile.map(str::to_owned),
        environment,
        consumption,
        valid_from: since(dice, fleet),
        basis: dice.pick(&[Basis::Allocated, Basis::Used, Basis::Greater]),
        increment_ms: if sessions { dice.pick(&[0, 1_000, 7_000, 60_000, 900_000, 3_600_000]) } else { 0 },
        minimum_ms: if sessions { dice.pick(&[0, 0, 60_000, 600_000, 3_600_000]) } else { 0 },
        ..Rate::of(model, price(dice))
    }
}

fn other(dice: &mut Dice, fleet: &Fleet, book: &mut PriceBook) {
    for _ in 0..dice.below(3) {
        let class = Glob::parse(CLASSES[0]).unwrap();
        let (valid_from, per_gib_month) = (since(dice, fleet), price(dice));
        let (department, month_hours) = (dice.pick(&["", "research"]).to_owned(), dice.pick(&[730, 744]));
        let project = String::new();
        if book.storage.iter().all(|other| other.valid_from != valid_from) {
            book.storage.push(StorageRate { class, department, project, valid_from, per_gib_month, month_hours });
        }
    }
    if dice.chance(50) {
        let (class, per_gib) = (Glob::parse(CLASSES[1]).unwrap(), price(dice));
        let (department, project, valid_from) = (String::new(), String::new(), since(dice, fleet));
        book.network.push(NetworkRate { class, department, project, valid_from, per_gib });
    }
}

fn percentages(dice: &mut Dice, fleet: &Fleet, book: &mut PriceBook) {
    for name in ["overhead", "support"].into_iter().take(usize::try_from(dice.below(3)).unwrap()) {
        let percentage = percentage(dice, fleet, name);
        book.markups.push(percentage);
    }
    for name in ["VAT", "levy"].into_iter().take(usize::try_from(dice.below(3)).unwrap()) {
        let percentage = percentage(dice, fleet, name);
        book.taxes.push(percentage);
    }
}

fn percentage(dice: &mut Dice, fleet: &Fleet, name: &str) -> Percentage {
    let only = dice.chance(40).then(|| dice.pick(&["research", "search", "operations"]).to_owned());
    Percentage {
        name: name.to_owned(),
        percent: i128::from(dice.below(30_000_000_000_000)),
        departments: only.into_iter().collect::<BTreeSet<_>>(),
        valid_from: if dice.chance(80) { 0 } else { since(dice, fleet) },
        valid_to: dice.chance(20).then(|| since(dice, fleet).max(1)),
    }
}

pub fn agreements(dice: &mut Dice, fleet: &Fleet) -> Agreements {
    let mut agreements = Agreements { currency: "EUR".to_owned(), ..Agreements::default() };
    for number in 0..dice.below(5) {
        let from = since(dice, fleet);
        let to = dice.chance(40).then(|| u32::try_from(dice.between(fleet.first, fleet.last)).unwrap());
        let by_minute = fleet.mode != Mode::Long && dice.chance(30);
        agreements.commitments.push(Commitment {
            id: format!("c{number}"),
            department: dice.pick(&["research", "research", "search", "support"]).to_owned(),
            gpu_model: dice.pick(&MODELS).to_owned(),
            mig_profile: dice.chance(25).then(|| dice.pick(&PROFILES).to_owned()),
            gpus: dice.between(1, 2).try_into().unwrap(),
            hourly: price(dice),
            from,
            to: to.filter(|to| *to > from),
            slot: if by_minute { Slot::Minute } else { Slot::Hour },
        });
    }
    agreements
}
