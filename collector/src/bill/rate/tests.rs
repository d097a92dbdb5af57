//! Single rules of rating, by hand; a whole implementation of all of them is in the end-to-end tests.

use num_rational::BigRational;

use super::*;
use crate::bill::commitments::Commitment;
use crate::bill::facts::{Device, Session};
use crate::bill::prices::{Rate, Spread};

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
