//! The rating engine against a second, plain implementation that looks at small random fleets second by second: every exact
//! amount of every line, and what each is rounded to. A fleet that fails is told by its seed.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod oracle_support;

use std::collections::{BTreeMap, BTreeSet};

use contador::bill::statement;
use oracle_support::dice::Dice;
use oracle_support::fleet::{Fleet, Mode};
use oracle_support::row::{self, Amounts};
use oracle_support::{cutter, oracle, rounded, terms};

/// Rates the fleet of a seed both ways: the categories that it has lines of, or what differs.
fn compare(seed: u64, mode: Mode) -> Result<BTreeSet<String>, String> {
    let fleet = Fleet::random(seed, mode);
    let mut dice = Dice::new(seed ^ 0x5eed);
    let (book, agreements) = (terms::book(&mut dice, &fleet), terms::agreements(&mut dice, &fleet));
    let facts = cutter::facts(&fleet, &book, &agreements);
    let decimals = book.decimals;
    let expected = oracle::bill(&fleet, &book, &agreements);
    let statement = statement::of_facts(&facts, &fleet.period, book, agreements);
    let rated = row::of_engine(&statement.rated);
    if let Some(difference) = row::difference(&expected, &rated) {
        return Err(difference);
    }
    let exact: Vec<Amounts> = statement.rated.charges.values().map(row::amounts).collect();
    let settled = rounded::lines(&statement.lines, &exact, decimals);
    for (line, expected) in statement.lines.iter().zip(settled) {
        let found = line.amounts.all().map(|amount| amount.0.clone());
        if found != expected {
            return Err(format!("{:?}\nexpected {expected:?}\nfound    {found:?}", line.key));
        }
    }
    Ok(expected.into_keys().map(|row| row.category).collect())
}

/// Compares fleets of these seeds; every one of these categories must come up in a tenth of them.
fn all(mode: Mode, seeds: std::ops::Range<u64>, categories: &[&str]) {
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    for seed in seeds.clone() {
        match compare(seed, mode) {
            Ok(categories) => categories.into_iter().for_each(|category| *times.entry(category).or_default() += 1),
            Err(difference) => panic!("{mode:?} fleet of seed {seed}: {difference}"),
        }
    }
    for category in categories {
        let times = times.get(*category).copied().unwrap_or_default();
        assert!(times * 10 >= seeds.end - seeds.start, "{category}: in {times} fleets of {seeds:?}");
    }
}

const METERED: [&str; 12] = [
    "usage",
    "covered",
    "commitment",
    "unused",
    "idle-share",
    "stranded-share",
    "unattributed-share",
    "unmetered-share",
    "energy",
    "storage",
    "mark-up",
    "tax",
];

#[test]
fn jobs_by_the_minute_are_rated_as_the_oracle_rates_them() {
    all(Mode::Minutes, 0..330, &METERED);
}

#[test]
fn jobs_by_the_second_are_rated_as_the_oracle_rates_them() {
    all(Mode::Seconds, 1_000..1_330, &METERED);
}

#[test]
fn imported_allocations_are_rated_as_the_oracle_rates_them() {
    all(
        Mode::Imported,
        2_000..2_320,
        &["usage", "covered", "commitment", "unused", "storage", "network", "mark-up", "tax"],
    );
}

#[test]
fn days_of_jobs_are_rated_as_the_oracle_rates_them() {
    all(Mode::Long, 3_000..3_020, &METERED);
}
