//! Curves against their definition, over every number of GPUs.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;
use proptest::prelude::*;
use uuid::Uuid;

use super::commitments::{Stretch, curve};
use super::demand::Level;
use super::fractions::{Need, Needs, cost};
use super::rates::Rates;
use crate::bill::commitments::Agreements;
use crate::bill::decimal::ONE;
use crate::bill::facts::{Device, Fact, Facts};
use crate::bill::period::Period;
use crate::bill::prices::PriceBook;
use crate::bill::statement;

const HOUR_MS: i64 = 3_600_000;

/// Held in one slot of an hour, GPU-milliseconds times `10^12`.
type Slots = Vec<i128>;

/// The levels that ClickHouse makes of slots.
fn levels(slots: &Slots) -> Vec<Level> {
    let mut levels: BTreeMap<u32, Level> = BTreeMap::new();
    for held in slots {
        let gpus = u32::try_from(held / (i128::from(HOUR_MS) * ONE)).unwrap();
        let level = levels.entry(gpus).or_insert(Level { gpus, ms: 0, held: 0 });
        level.ms += HOUR_MS;
        level.held += held;
    }
    levels.into_values().filter(|level| level.held > 0).collect()
}

fn stretch(slots: &Slots, on_demand: i128, reserved: i128) -> Stretch {
    let rates = Rates { on_demand, reserved: BigInt::from(reserved) * ONE, parts: on_demand };
    Stretch { ms: i64::try_from(slots.len()).unwrap() * HOUR_MS, rates, levels: levels(slots) }
}

/// The definition, in plain fractions: currency units.
fn by_definition(stretches: &[(Slots, i128, i128)], gpus: u32) -> BigRational {
    let fraction = |above: i128, below: i128| BigRational::new(above.into(), below.into());
    let mut cost = BigRational::zero();
    for (slots, on_demand, reserved) in stretches {
        for held in slots {
            let demand = fraction(*held, ONE) / BigRational::from(BigInt::from(HOUR_MS));
            let rest = demand - BigRational::from(BigInt::from(gpus));
            cost += fraction(*reserved, ONE) * BigRational::from(BigInt::from(gpus));
            cost += fraction(*on_demand, ONE) * rest.max(BigRational::zero());
        }
    }
    cost
}

/// Demand from nothing to five GPUs, often of whole ones.
fn slots() -> impl Strategy<Value = Slots> {
    let whole = (0..=5_i128).prop_map(|gpus| gpus * i128::from(HOUR_MS) * ONE);
    let any = 0..5 * i128::from(HOUR_MS) * ONE;
    prop::collection::vec(prop_oneof![whole, any], 1..20)
}

fn rate() -> impl Strategy<Value = i128> {
    prop_oneof![Just(0), Just(ONE), (0..10_i128).prop_map(|tenths| tenths * ONE / 10), 0..5 * ONE]
}

proptest! {
    #[test]
    fn a_curve_is_what_its_definition_says_and_its_best_is_the_least(
        stretches in prop::collection::vec((slots(), rate(), rate()), 1..4),
    ) {
        let made: Vec<Stretch> = stretches.iter().map(|(slots, on, reserved)| stretch(slots, *on, *reserved)).collect();
        let curve = curve(&made);
        let hours: usize = stretches.iter().map(|(slots, ..)| slots.len()).sum();
        prop_assert_eq!(curve.hours.reduced(), BigRational::from(BigInt::from(hours)));
        let held = stretches.iter().flat_map(|(slots, ..)| slots).max().copied().unwrap_or_default();
        let whole = i128::from(HOUR_MS) * ONE;
        prop_assert_eq!(curve.points.len(), usize::try_from((held + whole - 1) / whole).unwrap() + 1);
        for point in &curve.points {
            prop_assert_eq!(point.total.reduced(), by_definition(&stretches, point.gpus));
            prop_assert_eq!(point.total.reduced(), point.reserved.reduced() + point.on_demand.reduced());
        }
        // Beyond the most that was held there is nothing to save: seven is more than any demand here.
        let costs: Vec<BigRational> = (0..=7).map(|gpus| by_definition(&stretches, gpus)).collect();
        let least = costs.iter().min().unwrap();
        prop_assert_eq!(&curve.best().total.reduced(), least);
        prop_assert_eq!(curve.best, costs.iter().position(|cost| cost == least).unwrap());
        prop_assert_eq!(curve.saving().reduced(), &costs[0] - least);
        // Each further GPU saves no more than the one before.
        for three in costs.windows(3) {
            prop_assert!(&three[0] - &three[1] >= &three[1] - &three[2]);
        }
        // A GPU pays exactly up to the best number.
        for point in curve.points.iter().skip(1) {
            prop_assert_eq!(point.pays, point.gpus <= curve.best().gpus);
        }
    }

    #[test]
    fn a_gpu_pays_if_it_is_used_for_longer_than_it_breaks_even(slots in slots(), on_demand in 1..5 * ONE, reserved in rate()) {
        let curve = curve(&[stretch(&slots, on_demand, reserved)]);
        let break_even = curve.break_even.clone().unwrap().reduced();
        prop_assert_eq!(&break_even * BigInt::from(on_demand), curve.hours.reduced() * BigInt::from(reserved));
        for point in curve.points.iter().skip(1) {
            prop_assert_eq!(point.pays, point.last_used.reduced() > break_even);
        }
    }

    #[test]
    fn reserving_nothing_costs_what_the_bill_of_the_same_facts_is(
        slots in prop::collection::vec(prop::collection::vec(1..2 * HOUR_MS, 0..4), 1..6),
        hourly in rate(),
    ) {
        let mut facts = Facts::default();
        for (hour, parts) in slots.iter().enumerate() {
            for (device, held) in parts.iter().enumerate() {
                let from = i64::try_from(hour).unwrap() * HOUR_MS;
                let device = Device { id: device.to_string(), gpu_model: "A".into(), ..Device::default() };
                let allocated = i128::from(*held) * ONE;
                let fact = Fact { device: device.into(), from, to: from + HOUR_MS, held: *held, allocated, unknown: allocated, ..Fact::default() };
                facts.facts.push(fact);
            }
        }
        let to = i64::try_from(slots.len()).unwrap() * HOUR_MS;
        let period = Period { from: 0, to, month: None, zone: jiff::tz::TimeZone::UTC };
        let bill = statement::of_facts(&facts, &period, PriceBook::flat(hourly, "EUR"), Agreements::default());
        let sums: Slots = slots.iter().map(|parts| parts.iter().map(|held| i128::from(*held) * ONE).sum()).collect();
        let curve = curve(&[stretch(&sums, hourly, 0)]);
        prop_assert_eq!(curve.nothing().total.reduced(), bill.exact(|_| true).0);
    }

    #[test]
    fn parts_of_a_gpu_cost_at_least_the_use_and_at_most_whole_gpus(
        needs in prop::collection::vec((1u32..=7, 1..HOUR_MS), 1..10),
        hourly in 1..5 * ONE,
    ) {
        let rates = [Rates { on_demand: hourly, reserved: BigInt::zero(), parts: hourly }];
        let of = |parts: u32, ms: i64| Need { parts, ms, ..Need::default() };
        let group = |needs: Vec<Need>| BTreeMap::from([(Uuid::nil(), Needs(needs))]);
        let made = cost(&group(needs.iter().map(|(parts, ms)| of(*parts, *ms)).collect()), &rates, 7).0.reduced();
        let wholly = cost(&group(needs.iter().map(|(_, ms)| of(7, *ms)).collect()), &rates, 7).0.reduced();
        let expected: BigRational = needs.iter().map(|(parts, ms)| {
            BigRational::new(BigInt::from(*ms) * *parts * hourly, BigInt::from(7) * HOUR_MS * ONE)
        }).sum();
        prop_assert_eq!(&made, &expected);
        prop_assert!(made <= wholly);
    }
}

#[test]
fn ten_hours_of_two_gpus_and_fourteen_of_one_are_worth_one_or_two() {
    // A day: a reserved GPU costs 24 h × 0.60 = 14.40, and pays above 14.4 h on demand at 1.00.
    let gpu = i128::from(HOUR_MS) * ONE;
    let day: Slots = (0..24).map(|hour| if hour < 10 { 2 * gpu } else { gpu }).collect();
    let curve = curve(&[stretch(&day, ONE, ONE * 6 / 10)]);
    let totals: Vec<String> = curve.points.iter().map(|point| point.total.reduced().to_string()).collect();
    assert_eq!(totals, ["34", "122/5", "144/5"]); // 34; 14.40 + 10; 28.80
    assert_eq!((curve.best, curve.break_even.clone().unwrap().reduced().to_string()), (1, "72/5".to_owned()));
    assert_eq!(
        curve.points.iter().map(|point| curve.use_of(point)).collect::<Vec<_>>(),
        [None, Some(1_000), Some(708)]
    );
    assert_eq!(curve.points.iter().map(|point| point.pays).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_part_is_enough_if_it_was_in_nineteen_of_twenty_minutes() {
    let need = |parts: u32, minutes: i64| Need { parts, ms: minutes * 60_000, ..Need::default() };
    assert_eq!(Needs(vec![need(7, 1), need(2, 19)]).enough(), Some(2));
    assert_eq!(Needs(vec![need(2, 18), need(7, 2)]).enough(), Some(7));
    assert_eq!(Needs(vec![need(0, 20)]).enough(), None);
}
