//! What holds for every bill: random fleets, months, zones, prices, commitments and policies, each with a few ways to look at it.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

#[allow(dead_code, reason = "the oracle is for another test")]
mod oracle_support;

use std::collections::BTreeMap;

use contador::bill::commitments::Agreements;
use contador::bill::facts::{Fact, Facts};
use contador::bill::period::Period;
use contador::bill::prices::{PriceBook, Spread};
use contador::bill::rate::{Category, Key};
use contador::bill::report::{Dimension, Report};
use contador::bill::settle::{Amounts, Line};
use contador::bill::statement::{self, Statement};
use contador_schemas::owner::OwnerKind;
use num_bigint::BigInt;
use num_traits::Signed;
use oracle_support::dice::Dice;
use oracle_support::fleet::{Fleet, Mode};
use oracle_support::fraction::{Fraction, sum};
use oracle_support::row::{self, COST, EFFECTIVE};
use oracle_support::{cutter, terms};

/// A fleet with what it is priced with, and what the engine makes of it.
struct Case {
    fleet: Fleet,
    book: PriceBook,
    agreements: Agreements,
    facts: Facts,
}

impl Case {
    fn bill(&self) -> Statement {
        statement::of_facts(&self.facts, &self.fleet.period, self.book.clone(), self.agreements.clone())
    }
}

/// Fleets of these seeds, after a change of their books and agreements.
fn cases(seeds: std::ops::Range<u64>, change: impl Fn(&mut PriceBook, &mut Agreements)) -> impl Iterator<Item = Case> {
    seeds.map(move |seed| {
        let mode = [Mode::Minutes, Mode::Seconds, Mode::Imported][usize::try_from(seed % 3).unwrap()];
        let fleet = Fleet::random(seed, mode);
        let mut dice = Dice::new(seed ^ 0x5eed);
        let (mut book, mut agreements) = (terms::book(&mut dice, &fleet), terms::agreements(&mut dice, &fleet));
        change(&mut book, &mut agreements);
        let facts = cutter::facts(&fleet, &book, &agreements);
        Case { fleet, book, agreements, facts }
    })
}

fn exact(statement: &Statement, measure: usize, wanted: impl Fn(&Key) -> bool) -> Fraction {
    let of = statement.rated.charges.iter().filter(|(key, _)| wanted(key));
    let amounts: Vec<Fraction> = of.map(|(_, exact)| row::amounts(exact)[measure].clone()).collect();
    sum(&amounts)
}

#[test]
fn every_view_sums_to_its_part_and_nothing_is_negative() {
    for case in cases(10_000..10_090, |_, _| ()) {
        let (seed, statement) = (case.fleet.seed, case.bill());
        let total = statement.total();
        let departments = Report::new(statement.clone(), Dimension::Department, None);
        let parts = [departments.allocated(), departments.unallocated()];
        assert_eq!(parts.iter().sum::<Amounts>(), total, "seed {seed}");
        for by in Dimension::ALL {
            let whole = Report::new(statement.clone(), by, None);
            assert_eq!(whole.groups.iter().map(|group| &group.amounts).sum::<Amounts>(), total, "seed {seed}, {by}");
            assert_eq!(whole.unallocated(), parts[1], "seed {seed}, {by}");
            for department in departments.groups.iter().filter(|group| group.kind == OwnerKind::Workload) {
                let view = Report::new(statement.clone(), by, Some(department.value.clone()));
                assert_eq!(view.total, department.amounts, "seed {seed}, {by} of {:?}", department.value);
            }
        }
        for line in &statement.lines {
            assert!(line.amounts.all().iter().all(|amount| !amount.0.is_negative()), "seed {seed}: {:?}", line.key);
        }
    }
}

#[test]
fn sharing_moves_costs_and_changes_no_sum() {
    let plain = |book: &mut PriceBook, _: &mut Agreements| {
        // Departments bear mark-ups and taxes of what they are given, and nobody those of what is left.
        (book.markups, book.taxes) = (Vec::new(), Vec::new());
    };
    for mut case in cases(11_000..11_120, plain) {
        let mut sums = Vec::new();
        for how in [Spread::Show, Spread::Proportional, Spread::Even, Spread::Platform] {
            let policy = &mut case.book.policy;
            (policy.idle, policy.stranded, policy.unattributed, policy.unmetered) = (how, how, how, how);
            let statement = case.bill();
            let total = statement.total();
            // A kWh and an hour are quantities, of which a bill has no sum.
            let told = [total.gpu_hours, total.energy, total.site_energy, total.carbon, total.cost, total.unpriced];
            sums.push((exact(&statement, COST, |_| true), told));
        }
        assert!(sums.iter().all(|sum| *sum == sums[0]), "seed {}", case.fleet.seed);
    }
}

/// The same facts in another order, and those that are sums in two parts.
fn shuffled(facts: &[Fact], dice: &mut Dice) -> Vec<Fact> {
    let mut pieces: Vec<(i64, Fact)> = Vec::new();
    for fact in facts {
        let mut rest = fact.clone();
        if !(fact.imported && fact.session.is_some()) && dice.chance(60) {
            let cut = i128::from(dice.between(2, 5));
            let mut piece = Fact { held: fact.held / 3, ..fact.clone() };
            let of =
                |fact: &Fact| [fact.allocated, fact.unknown, fact.busy, fact.greater, fact.instance, fact.energy_mj];
            let part = of(fact).map(|amount| amount / cut);
            let left = std::array::from_fn(|at| of(fact)[at] - part[at]);
            let set = |fact: &mut Fact, to: [i128; 6]| {
                [fact.allocated, fact.unknown, fact.busy, fact.greater, fact.instance, fact.energy_mj] = to;
            };
            set(&mut piece, part);
            set(&mut rest, left);
            rest.held -= piece.held;
            pieces.push((dice.below(1_000_000), piece));
        }
        pieces.push((dice.below(1_000_000), rest));
    }
    pieces.sort_by_key(|(place, _)| *place);
    pieces.into_iter().map(|(_, fact)| fact).collect()
}

#[test]
fn no_order_and_no_batching_changes_a_bill() {
    for mut case in cases(12_000..12_120, |_, _| ()) {
        let once = case.bill();
        let mut dice = Dice::new(case.fleet.seed);
        case.facts.facts = shuffled(&case.facts.facts, &mut dice);
        case.facts.other.reverse();
        case.agreements.commitments.reverse();
        case.book.rates.reverse();
        case.book.energy.reverse();
        let again = case.bill();
        assert_eq!(once.rated.charges, again.rated.charges, "seed {}", case.fleet.seed);
        assert_eq!((once.lines, once.unpriced), (again.lines, again.unpriced), "seed {}", case.fleet.seed);
    }
}

#[test]
fn commitments_are_spread_over_their_use_and_what_was_left() {
    for case in cases(13_000..13_150, |_, _| ()) {
        let (seed, statement) = (case.fleet.seed, case.bill());
        let departments = Report::new(statement.clone(), Dimension::Department, None);
        for group in &departments.groups {
            assert_eq!(group.amounts.cost, group.amounts.effective, "seed {seed}, {:?}", group.value);
        }
        let mut bought: BTreeMap<String, (BigInt, BigInt)> = BTreeMap::new();
        for Line { key, amounts } in statement.lines.iter().filter(|line| line.key.payer.kind == OwnerKind::Workload) {
            let (purchase, spread) = bought.entry(key.item.to_string()).or_default();
            match key.category {
                Category::Commitment => *purchase += &amounts.cost.0,
                Category::Covered | Category::Unused => *spread += &amounts.effective.0,
                _ => {}
            }
        }
        for (id, (purchase, spread)) in bought {
            assert_eq!(purchase, spread, "seed {seed}, commitment {id:?}");
            let is_of = |category: &[Category], key: &Key| category.contains(&key.category) && *key.item == *id;
            let purchase = exact(&statement, COST, |key| is_of(&[Category::Commitment], key));
            let spread = exact(&statement, EFFECTIVE, |key| is_of(&[Category::Covered, Category::Unused], key));
            assert_eq!(purchase, spread, "seed {seed}, commitment {id:?}, exactly");
        }
    }
}

#[test]
fn a_period_is_the_exact_sum_of_its_days() {
    let plain = |book: &mut PriceBook, agreements: &mut Agreements| {
        // Mark-ups hold for periods that begin in time, and shares of time are those of the period.
        (book.markups, book.taxes) = (Vec::new(), Vec::new());
        book.policy = contador::bill::prices::Policy::default();
        agreements.commitments.retain(|commitment| commitment.slot.ms() == 60_000);
    };
    let mut several = 0;
    for case in cases(14_000..14_200, plain) {
        let period = &case.fleet.period;
        let mut ends = period.midnights();
        several += usize::from(!ends.is_empty());
        ends.push(period.to);
        let (mut from, mut days) = (period.from, Vec::new());
        for to in ends {
            let day = Period { from, to, ..period.clone() };
            let is_of = |at: i64| from <= at && at < to;
            let facts = Facts {
                facts: case.facts.facts.iter().filter(|fact| is_of(fact.from)).cloned().collect(),
                other: case.facts.other.iter().filter(|fact| is_of(fact.from)).cloned().collect(),
                ..Facts::default()
            };
            let bill = statement::of_facts(&facts, &day, case.book.clone(), case.agreements.clone());
            days.extend([exact(&bill, COST, |_| true)]);
            from = to;
        }
        assert_eq!(exact(&case.bill(), COST, |_| true), sum(&days), "seed {}", case.fleet.seed);
    }
    assert!(several > 50, "{several} periods have more than a day");
}
