//! Single rules of rating, by hand; a whole implementation of all of them is in the end-to-end tests.

use num_rational::BigRational;

use super::*;
use crate::bill::commitments::{Commitment, Slot};
use crate::bill::facts::{Device, Session};
use crate::bill::period::LATEST_MS;
use crate::bill::prices::{ANY, Rate, Spread};

/// 2026-10-01T00:00:00Z, Unix milliseconds.
const OCTOBER: i64 = 1_790_812_800_000;

fn period(from: i64, to: i64) -> Period {
    Period { from, to, month: None, zone: TimeZone::UTC }
}

fn fact(kind: OwnerKind, department: &str, model: &str, (from, to): (i64, i64)) -> Fact {
    let owner = Arc::new(Owner { kind, department: department.to_owned(), ..Owner::default() });
    let device = Arc::new(Device { gpu_model: model.to_owned(), ..Device::default() });
    let allocated = i128::from(to - from) * ONE;
    let (held, greater) = (to - from, allocated);
    Fact { kind, owner, device, from, to, held, allocated, greater, ..Fact::default() }
}

fn rated(facts: Vec<Fact>, period: &Period, book: &PriceBook, commitments: &[Commitment]) -> Rated {
    let agreements = Agreements { commitments: commitments.to_vec(), ..Agreements::default() };
    rate(&Facts { facts, ..Facts::default() }, &Terms { period, book, agreements: &agreements })
}

fn cost(rated: &Rated, category: Category) -> BigRational {
    rated.charges.iter().filter(|(key, _)| key.category == category).map(|(_, exact)| exact.cost.reduced()).sum()
}

fn whole(number: impl Into<BigInt>) -> BigRational {
    BigRational::from(number.into())
}

#[test]
fn allocations_that_began_together_are_a_session_each() {
    let mut book = PriceBook::new("EUR");
    book.rates.push(Rate { increment_ms: 900_000, ..Rate::of("H100", 4 * ONE) });
    // 10 and 50 seconds of one owner, on devices that nothing tells apart, are two quarters of an hour.
    let of = |seconds: i64| Fact {
        imported: true,
        session: Some(Session { start: OCTOBER, before: 0 }),
        held: seconds * 1_000,
        allocated: i128::from(seconds) * 1_000 * ONE,
        ..fact(OwnerKind::Workload, "a", "H100", (OCTOBER, OCTOBER + 3_600_000))
    };
    let october = period(OCTOBER, OCTOBER + 3_600_000);
    for facts in [vec![of(10), of(50)], vec![of(50), of(10)]] {
        assert_eq!(cost(&rated(facts, &october, &book, &[]), Category::Usage), whole(2));
    }
    // Two that are alike in everything, too.
    assert_eq!(cost(&rated(vec![of(10), of(10)], &october, &book, &[]), Category::Usage), whole(2));
}

#[test]
fn shares_of_energy_and_of_time_are_lines_of_their_own() {
    // An hour of the GPU and a kWh cost the same.
    let mut book = PriceBook::flat(ONE, "EUR");
    book.energy_is_a_line = true;
    let energy = Energy {
        valid_from: 0,
        nodes: Vec::new(),
        tariff: ONE,
        pue: ONE,
        carbon_g_per_kwh: None,
        source: String::new(),
    };
    book.energy.push(energy);
    book.policy.idle = Spread::Proportional;
    let span = (OCTOBER, OCTOBER + 3_600_000);
    let idle = Fact { energy_mj: 1_800_000_000, ..fact(OwnerKind::Idle, "", "H100", span) };
    let facts = vec![idle, fact(OwnerKind::Workload, "a", "H100", span)];
    let rated = rated(facts, &period(span.0, span.1), &book, &[]);
    let shares: Vec<_> =
        rated.charges.iter().filter(|(key, _)| key.category == Category::Share(OwnerKind::Idle)).collect();
    let told: Vec<_> = shares.iter().map(|(key, exact)| (&*key.item, exact.quantity.reduced())).collect();
    assert_eq!(told, [("", whole(1)), ("energy", BigRational::new(1.into(), 2.into()))]);
}

#[test]
fn a_slot_that_midnight_cuts_is_of_the_day_it_begins_on() {
    // Midnight of India is at half past six in the evening: the hour from 18:00 is the day before's.
    let india = TimeZone::get("Asia/Kolkata").unwrap();
    let period = Period { zone: india, ..period(OCTOBER, OCTOBER + 86_400_000) };
    let commitment = |slot| Commitment {
        id: "c".into(),
        department: "a".into(),
        gpu_model: "H100".into(),
        mig_profile: None,
        gpus: 2,
        hourly: ONE,
        from: 0,
        to: None,
        slot,
    };
    let book = PriceBook::flat(ONE, "EUR");
    // Half an hour of one GPU before midnight, and one of another after it.
    let facts: Vec<Fact> = [0, 30]
        .map(|minute| OCTOBER + (18 * 60 + minute) * 60_000)
        .map(|from| fact(OwnerKind::Workload, "a", "H100", (from, from + 1_800_000)))
        .into();
    let rated = rated(facts, &period, &book, &[commitment(Slot::Hour)]);
    let unused = |rated: &Rated| -> Vec<BigRational> {
        let unused = rated.charges.iter().filter(|(key, _)| key.category == Category::Unused);
        unused.map(|(_, exact)| exact.quantity.reduced()).collect()
    };
    // Two GPUs for 19 hours, less the whole hour, and for the 5 hours after.
    assert_eq!(unused(&rated), [whole(37), whole(10)]);
    assert_eq!(cost(&rated, Category::Commitment), whole(48));
    let minutes = self::rated(Vec::new(), &period, &book, &[commitment(Slot::Minute)]);
    assert_eq!(unused(&minutes), [whole(37), whole(11)]);
}

#[test]
fn the_most_that_an_import_takes_is_rated_exactly() {
    const HOURS: i64 = LATEST_MS / 3_600_000;
    // 999,999,999,999,999,999.999999999999, which a book can say.
    let highest = 10_i128.pow(30) - 1;
    let all = period(0, LATEST_MS);
    let million = |department: usize| Fact {
        allocated: i128::from(LATEST_MS) * 1_000_000 * ONE,
        ..fact(OwnerKind::Workload, &department.to_string(), "H100", (0, LATEST_MS))
    };
    let facts: Vec<Fact> = (0..1_000).map(million).collect();
    let commitment = Commitment {
        id: "c".into(),
        department: "1".into(),
        gpu_model: "H200".into(),
        mig_profile: None,
        gpus: u32::MAX,
        hourly: highest,
        from: 0,
        to: None,
        slot: Slot::Minute,
    };
    let price = BigRational::new(highest.into(), ONE.into());
    for (hourly, times) in [(highest, 1), (0, 0), (1_000_000 * ONE, 1)] {
        let book = PriceBook::new("EUR").with(ANY, 0, hourly);
        let rated = rated(facts.clone(), &all, &book, std::slice::from_ref(&commitment));
        let hours = BigInt::from(HOURS) * 1_000_000_000;
        let expected = BigRational::new(BigInt::from(hourly) * hours, ONE.into()) * whole(times);
        assert_eq!(cost(&rated, Category::Usage), expected);
        assert_eq!(cost(&rated, Category::Commitment), whole(HOURS) * whole(u32::MAX) * &price);
        let lines = crate::bill::settle::settle(&rated, 6);
        let total: BigInt = lines.iter().map(|line| &line.amounts.cost.0).sum();
        assert_eq!(whole(total), ((cost(&rated, Category::Commitment) + expected) * whole(1_000_000)).round());
    }
}
