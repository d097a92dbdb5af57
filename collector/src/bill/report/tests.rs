//! What must hold for any facts and prices, against an oracle that adds plain fractions.

mod pages;

use std::sync::Arc;

use jiff::tz::TimeZone;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, Zero};
use proptest::prelude::*;

use super::*;
use contador_schemas::owner::Owner;

use crate::bill::commitments::Agreements;
use crate::bill::decimal::ONE;
use crate::bill::facts::{Device, Fact, Facts};
use crate::bill::period::Period;
use crate::bill::prices::{PriceBook, Rate};
use crate::bill::statement;

const MODELS: [&str; 3] = ["H100", "A100", "L4"];
const DEPARTMENTS: [&str; 4] = ["", "research", "search", "support"];
/// 2026-10-01T00:00:00Z, Unix milliseconds.
const OCTOBER: i64 = 1_790_812_800_000;
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
    let device = Arc::new(Device { gpu_model: MODELS[model].to_owned(), ..Device::default() });
    let allocated = i128::try_from(units).unwrap();
    Fact { kind, owner: Arc::new(owner), device, from: OCTOBER, to: OCTOBER + 86_400_000, allocated, ..Fact::default() }
}

fn facts() -> impl Strategy<Value = Vec<Fact>> {
    // Three of eight kinds are workloads; the units of a fact range from nothing to a month of a thousand GPUs.
    let one = (0usize..8, 0usize..4, 0usize..3, 0usize..3, 0u128..2_700_000_000_000_000_000_000_000);
    prop::collection::vec(one.prop_map(fact), 0..60)
}

fn prices() -> impl Strategy<Value = PriceBook> {
    let rate = 0i128..20 * ONE;
    let flat = rate.clone().prop_map(|rate| PriceBook::flat(rate, "XXX"));
    let book = prop::collection::vec((0usize..3, rate), 0..4).prop_map(|rates| {
        let mut book = PriceBook::new("EUR");
        for (model, rate) in rates {
            book.rates.retain(|other| other.gpu_model != MODELS[model]);
            book.rates.push(Rate::of(MODELS[model], rate));
        }
        book
    });
    prop_oneof![flat, book]
}

fn report(facts: &[Fact], prices: &PriceBook, by: Dimension, department: Option<&str>) -> Report {
    let facts = Facts { facts: facts.to_vec(), ..Facts::default() };
    let period = Period::month("2026-10", &TimeZone::UTC).unwrap();
    let statement = statement::of_facts(&facts, &period, prices.clone(), Agreements::default());
    Report::new(statement, by, department.map(str::to_owned))
}

fn fraction(amount: &Millionths) -> BigRational {
    BigRational::new(amount.0.clone(), BigInt::from(1_000_000))
}

/// The exact cost of facts, without anything of the code under test but the price of one fact.
fn exact<'a>(facts: impl Iterator<Item = &'a Fact>, prices: &PriceBook) -> BigRational {
    let mut sum = BigRational::zero();
    for fact in facts {
        let milliseconds = BigRational::new(fact.allocated.into(), BigInt::from(10).pow(12));
        let hours = milliseconds / BigRational::from(BigInt::from(3_600_000));
        let rate = prices.rates.iter().rfind(|rate| [&fact.device.gpu_model, "*"].contains(&rate.gpu_model.as_str()));
        let rate = rate.map_or(0, |rate| rate.hourly);
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
            let unpriced: Millionths = report.statement.unpriced.iter().map(|(_, hours)| hours).sum();
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
    fn neither_order_nor_batching_changes_a_report(facts in facts(), prices in prices(), by in 0usize..14, cut in 2i32..9) {
        let by = Dimension::ALL[by];
        let once = report(&facts, &prices, by, None);
        let mut pieces: Vec<Fact> = Vec::new();
        for fact in facts.iter().rev() {
            let piece = fact.allocated / i128::from(cut);
            pieces.insert(pieces.len() / 2, Fact { allocated: piece, ..fact.clone() });
            pieces.push(Fact { allocated: fact.allocated - piece, ..fact.clone() });
        }
        let again = report(&pieces, &prices, by, None);
        prop_assert_eq!(&once.groups, &again.groups);
        prop_assert_eq!(&once.statement.unpriced, &again.statement.unpriced);
    }

    #[test]
    fn b7_a_filtered_view_is_that_part_of_the_whole(facts in facts(), prices in prices(), by in 0usize..14) {
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
    book = book.with("H100", 0, 2 * ONE);
    let hour = 3_600_000 * 1_000_000_000_000;
    let facts = [fact((0, 1, 1, 0, hour)), fact((0, 1, 1, 1, 3 * hour)), fact((0, 2, 1, 2, hour))];
    let report = report(&facts, &book, Dimension::Department, None);
    assert_eq!(report.total.cost.to_string(), "2.000000");
    assert_eq!(report.total.gpu_hours.to_string(), "5.000000");
    let unpriced: Vec<_> = report.statement.unpriced.iter().map(|(model, hours)| format!("{model} {hours}")).collect();
    assert_eq!(unpriced, ["A100 3.000000", "L4 1.000000"]);
    let id = &report.statement.book.id()[..12];
    insta::assert_snapshot!("unpriced_table", report.to_table(80).replace(id, "123456789abc"));
    insta::assert_snapshot!("unpriced_csv", report.to_csv().unwrap());
}

#[test]
fn b3_nothing_is_idle_where_there_is_no_device() {
    let report = report(&[], &PriceBook::flat(ONE, "XXX"), Dimension::Department, None);
    assert!(report.groups.is_empty());
    assert_eq!(report.total, Amounts::default());
    assert_eq!(report.notes(), ["nothing was metered or imported in this period"]);
}

#[test]
fn time_that_nobody_held_is_a_line_of_its_own() {
    let hour = 3_600_000 * 1_000_000_000_000;
    let facts: Vec<Fact> = (3..8).map(|kind| fact((kind, 1, 1, 0, hour))).collect();
    let prices = PriceBook::flat(5 * ONE / 2, "EUR");
    let mut by_department = report(&facts, &prices, Dimension::Department, None);
    by_department.statement.made.simulated = true;
    insta::assert_snapshot!("kinds_table", by_department.to_table(80));
    let by_model = report(&facts, &prices, Dimension::GpuModel, None);
    let keys: Vec<String> = by_model.groups.iter().map(|line| by_model.key(line)).collect();
    assert_eq!(keys, ["H100", "(idle) H100", "(stranded) H100", "(unattributed) H100", "(unmetered) H100"]);
    let json = serde_json::to_string_pretty(&by_department.to_json()).unwrap();
    insta::assert_snapshot!("kinds_json", json.replace(&by_department.statement.book.id(), "0123abcd"));
}

#[test]
fn a_partition_is_never_priced_as_a_whole_gpu() {
    let hour = 3_600_000 * 1_000_000_000_000;
    let whole = fact((0, 1, 1, 1, hour));
    let device = Device { gpu_model: "A100".into(), mig_profile: "1g.5gb".into(), ..Device::default() };
    // An hour of an instance that is a seventh of a GPU, nearly.
    let slice = Fact {
        device: Arc::new(device),
        allocated: i128::try_from(hour).unwrap() / 8,
        instance: i128::try_from(hour).unwrap(),
        ..whole
    };
    let mut book = PriceBook::new("EUR").with("*", 0, 2 * ONE);
    let unpriced = report(std::slice::from_ref(&slice), &book, Dimension::Department, None);
    assert!(unpriced.total.cost.is_zero());
    let named: Vec<_> = unpriced.statement.unpriced.iter().map(|(model, hours)| format!("{model} {hours}")).collect();
    assert_eq!(named, ["A100 MIG 1g.5gb 0.125000"]);
    // By its share, where the book says so; by the hour of the instance, where it has a price of its own.
    for (profile, rate, cost) in [("*", 2 * ONE, "0.250000"), ("1g.5gb", ONE / 2, "0.500000")] {
        book.rates.push(Rate { mig_profile: Some(profile.into()), ..Rate::of("A100", rate) });
        let report = report(std::slice::from_ref(&slice), &book, Dimension::Department, None);
        assert_eq!(report.total.cost.to_string(), cost);
        assert!(report.statement.unpriced.is_empty());
    }
}
