//! What nobody held to who bears it, and then percentages of what departments are charged.

use std::collections::{BTreeMap, BTreeSet};

use contador::bill::prices::{Policy, PriceBook, Spread};
use contador_schemas::owner::OwnerKind;
use num_bigint::BigInt;

use super::fraction::{Fraction, sum};
use super::row::{self, Amounts, COST, EFFECTIVE, HELD, Row, Rows};

/// Moves what the policy does not show.
pub fn share(rows: &mut Rows, policy: &Policy) {
    let mut time: BTreeMap<(String, String), Fraction> = BTreeMap::new();
    for (row, amounts) in rows.iter() {
        if row.kind == OwnerKind::Workload && ["usage", "covered"].contains(&row.category.as_str()) {
            time.entry((row.model.clone(), row.department.clone())).or_default().add(&amounts[HELD]);
        }
    }
    for (row, amounts) in std::mem::take(rows) {
        let how = match row.kind {
            OwnerKind::Workload => Spread::Show,
            OwnerKind::Idle => policy.idle,
            OwnerKind::Stranded => policy.stranded,
            OwnerKind::Unattributed => policy.unattributed,
            OwnerKind::Unmetered => policy.unmetered,
        };
        let users = time.iter().filter(|((model, _), time)| *model == row.model && !time.is_zero());
        let mut weights: Vec<(String, BigInt)> =
            users.map(|((_, department), time)| (department.clone(), time.above.clone())).collect();
        match how {
            Spread::Proportional => {}
            Spread::Even => weights.iter_mut().for_each(|(_, weight)| *weight = BigInt::from(1)),
            Spread::Platform => weights = vec![(policy.platform.clone(), BigInt::from(1))],
            Spread::Show => weights.clear(),
        }
        let whole: BigInt = weights.iter().map(|(_, weight)| weight).sum();
        if weights.is_empty() {
            move_to(rows, row, &amounts);
            continue;
        }
        for (department, weight) in weights {
            let part = amounts.each_ref().map(|amount| amount.times(&weight, &whole));
            let item = if row.category == "energy" { "energy" } else { &row.item }.to_owned();
            let category = format!("{}-share", row.kind.as_str());
            move_to(rows, Row { kind: OwnerKind::Workload, department, category, item, ..row.clone() }, &part);
        }
    }
}

fn move_to(rows: &mut Rows, row: Row, amounts: &Amounts) {
    let sums = rows.entry(row).or_default();
    for (sum, amount) in sums.iter_mut().zip(amounts) {
        sum.add(amount);
    }
}

/// Mark-ups on what a department is charged, and taxes on both.
pub fn percentages(rows: &mut Rows, book: &PriceBook, period: i64) {
    for (category, percentages) in [("mark-up", &book.markups), ("tax", &book.taxes)] {
        let charged = |row: &&Row| row.kind == OwnerKind::Workload;
        let departments: BTreeSet<String> = rows.keys().filter(charged).map(|row| row.department.clone()).collect();
        let mut added = Vec::new();
        for department in departments {
            let of = rows.iter().filter(|(row, _)| charged(row) && row.department == department);
            let base = sum(of.map(|(_, amounts)| &amounts[COST]));
            for percentage in percentages {
                let begun = i64::from(percentage.valid_from) * 1_000 <= period;
                let over = percentage.valid_to.is_some_and(|to| i64::from(to) * 1_000 <= period);
                let is_named = percentage.departments.is_empty() || percentage.departments.contains(&department);
                if !begun || over || !is_named {
                    continue;
                }
                let row = Row {
                    department: department.clone(),
                    category: category.into(),
                    item: percentage.name.clone(),
                    price: Some(percentage.percent),
                    ..Row::default()
                };
                let hundred = BigInt::from(100_000_000_000_000_i64);
                added.push((row, base.times(&percentage.percent.into(), &hundred)));
            }
        }
        for (row, amount) in added {
            for measure in [COST, EFFECTIVE] {
                row::add(rows, &row, measure, &amount);
            }
        }
    }
}
