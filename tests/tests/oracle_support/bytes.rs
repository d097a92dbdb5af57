//! What is stored and moved, second by second.

use std::collections::BTreeMap;

use contador::bill::commitments::Agreements;
use contador::bill::facts::Item;
use contador::bill::prices::PriceBook;
use num_bigint::BigInt;

use super::fleet::Fleet;
use super::fraction::Fraction;
use super::row::{self, COST, EFFECTIVE, QUANTITY, Row, Rows};
use super::watch;

const ONE: i128 = 1_000_000_000_000;

/// Adds lines for storage and network.
pub fn charge(rows: &mut Rows, fleet: &Fleet, book: &PriceBook, agreements: &Agreements) {
    let ends = watch::ends(fleet, book, agreements);
    for bytes in &fleet.bytes {
        let mut spans: BTreeMap<i64, i128> = BTreeMap::new();
        let (owner, centre) = &fleet.owners[bytes.who];
        let mut span = (0, 0);
        for at in (bytes.from..bytes.to).map(|second| second * 1_000) {
            if at < fleet.period.from || at >= fleet.period.to {
                continue;
            }
            if at >= span.1 {
                span = watch::between(&ends, at);
            }
            *spans.entry(span.0).or_default() += bytes.bytes;
        }
        for (from, sum) in spans {
            let price = match bytes.item {
                Item::Storage => {
                    let rates = &book.storage;
                    let valid = rates.iter().filter(|rate| i64::from(rate.valid_from) * 1_000 <= from);
                    let rate = valid.max_by_key(|rate| rate.valid_from);
                    // Seconds of a month.
                    let of = |month_hours: u32| BigInt::from(1 << 30) * month_hours * 3_600;
                    rate.map(|rate| (rate.per_gib_month, of(rate.month_hours), rate.department.as_str()))
                }
                Item::Network => {
                    let rates = &book.network;
                    let valid = rates.iter().filter(|rate| i64::from(rate.valid_from) * 1_000 <= from);
                    let rate = valid.max_by_key(|rate| rate.valid_from);
                    rate.map(|rate| (rate.per_gib, BigInt::from(1 << 30), rate.department.as_str()))
                }
            };
            let Some((price, unit, pays)) = price else { continue };
            let is_nobodys = owner.department.is_empty() && owner.project.is_empty();
            let row = Row {
                department: if is_nobodys { pays } else { &owner.department }.to_owned(),
                category: bytes.item.as_str().to_owned(),
                item: bytes.class.to_owned(),
                project: owner.project.clone(),
                environment: owner.environment.clone(),
                centre: centre.to_string(),
                price: Some(price),
                day: Some(watch::day(fleet, from)),
                ..Row::default()
            };
            row::add(rows, &row, QUANTITY, &Fraction::new(sum, &unit));
            for measure in [COST, EFFECTIVE] {
                let cost = Fraction::new(BigInt::from(sum) * price, &(&unit * ONE));
                row::add(rows, &row, measure, &cost);
            }
        }
    }
}
