//! What must hold for any facts and prices, against an oracle that adds plain fractions.

use std::collections::BTreeMap;
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};
use jiff::tz::TimeZone;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, Zero};
use proptest::prelude::*;

use super::*;
use crate::bill::decimal::ONE;
use crate::bill::prices::PriceBook;
use crate::bill::rate::Fact;

const MODELS: [&str; 3] = ["H100", "A100", "L4"];
const DEPARTMENTS: [&str; 4] = ["", "research", "search", "support"];
const PROJECTS: [&str; 3] = ["", "vision", "ranking"];

fn fact((kind, department, project, model, units): (usize, usize, usize, usize, u128)) -> Fact {
    let kind = OwnerKind::ALL[kind.saturating_sub(3)];
    let owner = match kind {
        OwnerKind::Workload => Owner {
            department: DEPARTMENTS[department].to_owned(),
            project: PROJECTS[project].to_owned(),
            ..Owner::default()
        },
        kind => Owner::of_kind(kind),
    };
    let gpu_model = MODELS[model].to_owned();
    Fact { kind, owner: Arc::new(owner), gpu_model, partition: false, since: 0, units: BigInt::from(units) }
}

fn facts() -> impl Strategy<Value = Vec<Fact>> {
    // Three of eight kinds are workloads; the units of a fact range from nothing to a month of a thousand GPUs.
    let one = (0usize..8, 0usize..4, 0usize..3, 0usize..3, 0u128..2_700_000_000_000_000_000_000_000);
    prop::collection::vec(one.prop_map(fact), 0..60)
}

fn prices() -> impl Strategy<Value = Prices> {
    let rate = 0i128..20 * ONE;
    let flat = rate.clone().prop_map(|rate| Prices::Flat { rate, currency: "XXX".to_owned() });
    let book = prop::collection::vec((0usize..3, rate), 0..4).prop_map(|rates| {
        let mut book = PriceBook::new("EUR");
        for (model, rate) in rates {
            book.add(MODELS[model], 0, rate);
        }
        Prices::Book(book)
    });
    prop_oneof![flat, book]
}

fn options(by: Dimension, department: Option<&str>) -> Options {
    let period = Period::month("2026-10", &TimeZone::UTC).unwrap();
    Options { period, prices: None, by, department: department.map(str::to_owned) }
}

fn report(facts: &[Fact], prices: &Prices, by: Dimension, department: Option<&str>) -> Report {
    let facts = Facts { facts: facts.to_vec(), ..Facts::default() };
    of_facts(facts, prices.clone(), options(by, department))
}

fn fraction(amount: &Millionths) -> BigRational {
    BigRational::new(amount.0.clone(), BigInt::from(1_000_000))
}

/// The exact cost of facts, without anything of the code under test but the price of one fact.
fn exact<'a>(facts: impl Iterator<Item = &'a Fact>, prices: &Prices) -> BigRational {
    let mut sum = BigRational::zero();
    for fact in facts {
        let milliseconds = BigRational::new(fact.units.clone(), BigInt::from(10).pow(12));
        let hours = milliseconds / BigRational::from(BigInt::from(3_600_000));
        let rate = prices.rate(&fact.gpu_model, false, fact.since).unwrap_or(0);
        sum += hours * BigRational::new(BigInt::from(rate), BigInt::from(10).pow(12));
    }
    sum
}

proptest! {
    #[test]
    fn groups_sum_to_the_total_which_is_the_exact_sum_rounded_once(facts in facts(), prices in prices()) {
        let total = exact(facts.iter(), &prices);
        for by in Dimension::ALL {
            let report = report(&facts, &prices, by, None);
            let costs: Millionths = report.groups.iter().map(|line| &line.amounts.cost).sum();
            prop_assert_eq!(&costs, &report.total.cost);
            prop_assert!(report.difference().is_zero());
            prop_assert_eq!(&report.total, &report.fleet);
            prop_assert_eq!(&[&report.allocated(), &report.unallocated()].into_iter().sum::<Amounts>(), &report.total);
            let half = BigRational::new(BigInt::from(1), BigInt::from(2_000_000));
            prop_assert!((fraction(&report.total.cost) - &total).abs() <= half);
            let json = report.to_json();
            prop_assert_eq!(json["total_exact"].as_str().unwrap(), total.to_string());
            for line in &report.groups {
                for amount in [&line.amounts.cost, &line.amounts.gpu_hours, &line.amounts.unpriced] {
                    prop_assert!(!amount.0.is_negative());
                }
                prop_assert!(line.amounts.unpriced <= Millionths(&line.amounts.gpu_hours.0 + 2));
            }
            let unpriced: Millionths = report.unpriced.iter().map(|(_, hours)| hours).sum();
            prop_assert_eq!(&unpriced, &report.fleet.unpriced);
        }
    }

    #[test]
    fn a_department_pays_what_it_used_to_less_than_a_millionth(facts in facts(), prices in prices()) {
        let report = report(&facts, &prices, Dimension::Department, None);
        for line in report.groups.iter().filter(|line| line.kind == OwnerKind::Workload) {
            let own = facts.iter().filter(|fact| fact.kind == line.kind && fact.owner.department == line.value);
            let off = (fraction(&line.amounts.cost) - exact(own, &prices)).abs();
            prop_assert!(off < BigRational::new(BigInt::from(1), BigInt::from(1_000_000)));
        }
    }

    #[test]
    fn neither_order_nor_batching_changes_a_report(facts in facts(), prices in prices(), by in 0usize..6, cut in 2i32..9) {
        let by = Dimension::ALL[by];
        let once = report(&facts, &prices, by, None);
        let mut pieces: Vec<Fact> = Vec::new();
        for fact in facts.iter().rev() {
            let piece = &fact.units / cut;
            pieces.insert(pieces.len() / 2, Fact { units: piece.clone(), ..fact.clone() });
            pieces.push(Fact { units: &fact.units - piece, ..fact.clone() });
        }
        let again = report(&pieces, &prices, by, None);
        prop_assert_eq!(&once.groups, &again.groups);
        prop_assert_eq!(&once.unpriced, &again.unpriced);
    }

    #[test]
    fn b7_a_filtered_view_is_that_part_of_the_whole(facts in facts(), prices in prices(), by in 0usize..6) {
        let by = Dimension::ALL[by];
        let departments = report(&facts, &prices, Dimension::Department, None);
        let mut all = departments.unallocated();
        for line in departments.groups.iter().filter(|line| line.kind == OwnerKind::Workload) {
            let view = report(&facts, &prices, by, Some(&line.value));
            prop_assert_eq!(&view.total, &line.amounts);
            prop_assert_eq!(&view.fleet, &departments.fleet);
            all = [&all, &view.total].into_iter().sum();
        }
        prop_assert_eq!(&all, &departments.total);
    }

    #[test]
    fn b11_every_dimension_has_one_total_and_the_same_time_for_nobody(facts in facts(), prices in prices()) {
        let departments = report(&facts, &prices, Dimension::Department, None);
        for by in Dimension::ALL {
            let other = report(&facts, &prices, by, None);
            prop_assert_eq!(&other.total, &departments.total);
            prop_assert_eq!(other.unallocated(), departments.unallocated());
        }
    }
}

#[test]
fn b4_a_model_without_a_price_is_unpriced_and_never_free() {
    let mut book = PriceBook::new("EUR");
    book.add("H100", 0, 2 * ONE);
    let hour = 3_600_000 * 1_000_000_000_000;
    let facts = [fact((0, 1, 1, 0, hour)), fact((0, 1, 1, 1, 3 * hour)), fact((0, 2, 1, 2, hour))];
    let report = report(&facts, &Prices::Book(book), Dimension::Department, None);
    assert_eq!(report.total.cost.to_string(), "2.000000");
    assert_eq!(report.total.gpu_hours.to_string(), "5.000000");
    let unpriced: Vec<_> = report.unpriced.iter().map(|(model, hours)| format!("{model} {hours}")).collect();
    assert_eq!(unpriced, ["A100 3.000000", "L4 1.000000"]);
    insta::assert_snapshot!("unpriced_table", report.to_table(80));
    insta::assert_snapshot!("unpriced_csv", report.to_csv().unwrap());
}

#[test]
fn b3_nothing_is_idle_where_there_is_no_device() {
    let report = report(&[], &Prices::Flat { rate: ONE, currency: "XXX".into() }, Dimension::Department, None);
    assert!(report.groups.is_empty());
    assert_eq!(report.total, Amounts::default());
    assert_eq!(report.notes(), ["nothing was metered or imported in this period"]);
}

#[test]
fn time_that_nobody_held_is_a_line_of_its_own() {
    let hour = 3_600_000 * 1_000_000_000_000;
    let facts: Vec<Fact> = (3..8).map(|kind| fact((kind, 1, 1, 0, hour))).collect();
    let prices = Prices::Flat { rate: 5 * ONE / 2, currency: "EUR".into() };
    let mut by_department = report(&facts, &prices, Dimension::Department, None);
    by_department.facts.simulated = true;
    insta::assert_snapshot!("kinds_table", by_department.to_table(80));
    let by_model = report(&facts, &prices, Dimension::GpuModel, None);
    let keys: Vec<String> = by_model.groups.iter().map(|line| by_model.key(line)).collect();
    assert_eq!(keys, ["H100", "(idle) H100", "(stranded) H100", "(unattributed) H100", "(unmetered) H100"]);
    let json = serde_json::to_string_pretty(&by_department.to_json()).unwrap();
    insta::assert_snapshot!("kinds_json", json);
}

#[test]
fn a_partition_is_never_priced_as_a_whole_gpu() {
    let hour = 3_600_000 * 1_000_000_000_000;
    let slice = Fact { gpu_model: "A100 MIG 1g.5gb".into(), partition: true, ..fact((0, 1, 1, 1, hour)) };
    let mut book = PriceBook::new("EUR");
    book.add("*", 0, 2 * ONE);
    let flat = Prices::Flat { rate: ONE, currency: "XXX".into() };
    for prices in [Prices::Book(book.clone()), flat] {
        let report = report(std::slice::from_ref(&slice), &prices, Dimension::Department, None);
        assert!(report.total.cost.is_zero());
        assert_eq!(report.unpriced.len(), 1);
    }
    book.add("A100 MIG 1g.5gb", 0, ONE / 2);
    let report = report(&[slice], &Prices::Book(book), Dimension::Department, None);
    assert_eq!(report.total.cost.to_string(), "0.500000");
    let models: BTreeMap<String, Millionths> = report.unpriced.into_iter().collect();
    assert!(models.is_empty());
}
