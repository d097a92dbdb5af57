//! A file in which any one checked cell is another is refused.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{faults, sample};
use crate::bill::focus::Row;
use crate::bill::focus::columns::{self, Column, Level};
use crate::bill::focus::value::ChargeCategory;
use crate::bill::parquet::Kind;

/// What no check can tell of a column, beside its type: it says something that nothing else in the file says.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Free {
    /// Any value is right where there is one, none where there is none.
    Value,
    /// There may be one or not, too.
    All,
}

/// The columns that are free, and why.
const FREE: &[(&str, Free, &str)] = &[
    ("AvailabilityZone", Free::All, "where something is"),
    ("ChargeDescription", Free::Value, "words for people"),
    ("ChargeFrequency", Free::Value, "only Usage and Purchase are bound to some"),
    ("ChargePeriodEnd", Free::Value, "any part of a month may be charged for"),
    ("ChargePeriodStart", Free::Value, "any part of a month may be charged for"),
    ("ConsumedQuantity", Free::Value, "what was metered need not be what is priced"),
    ("ConsumedUnit", Free::Value, "nor in its unit"),
    ("PricingCategory", Free::Value, "of what no commitment covers, Standard, Dynamic and Other are right"),
    ("PricingUnit", Free::Value, "what a price is for"),
    ("ProviderName", Free::Value, "who it is"),
    ("PublisherName", Free::Value, "who it is"),
    ("RegionId", Free::Value, "where something is"),
    ("ResourceId", Free::Value, "which device it is"),
    ("ResourceName", Free::All, "what it is called"),
    ("ResourceType", Free::Value, "what it is"),
    ("ServiceName", Free::Value, "what it is called"),
    ("ServiceSubcategory", Free::Value, "another of its category"),
    ("SkuId", Free::Value, "what it is called"),
    ("SkuMeter", Free::Value, "what of it is metered"),
    ("SkuPriceDetails", Free::All, "what else is said of a price"),
    ("SkuPriceId", Free::Value, "what it is called"),
    ("SubAccountId", Free::Value, "who pays"),
    ("Tags", Free::All, "what users say"),
];

/// Columns of prices and quantities, of which a correction may have any or none.
const PRICED: &[&str] = &["List", "Contracted", "Pricing", "Consumed", "Sku"];

/// Whether reading or checking finds something after one cell is another.
fn is_found(rows: &[Row], at: usize, column: &Column, text: &str) -> bool {
    let mut rows = rows.to_vec();
    (column.set)(&mut rows[at], text).is_err() || !faults(&rows).is_empty()
}

/// Whether another text in this cell must be found.
fn is_checked(row: &Row, column: &Column, text: &str) -> bool {
    let now = column.text(row);
    if !column.allowed.is_empty() && !text.is_empty() && !column.allowed.contains(&text) {
        return true;
    }
    if column.level == Level::Own && column.name != "x_OriginMonth" {
        return false;
    }
    if row.is_correction() && PRICED.iter().any(|part| column.name.contains(part)) {
        return false;
    }
    // Tax, Credit and Adjustment differ by their names alone.
    let unpriced = ["Tax", "Credit", "Adjustment"];
    if column.name == "ChargeCategory" && unpriced.contains(&now.as_str()) && unpriced.contains(&text) {
        return false;
    }
    // A tax may be on list prices, too.
    if row.charge_category == ChargeCategory::Tax && ["ListCost", "ContractedCost"].contains(&column.name) {
        return false;
    }
    match FREE.iter().find(|(name, ..)| *name == column.name) {
        Some((_, Free::All, _)) => false,
        Some((_, Free::Value, _)) => now.is_empty() != text.is_empty(),
        None => true,
    }
}

/// Other texts for a cell: none, and some that a fault could make of it.
fn others(column: &Column, text: &str) -> Vec<String> {
    let mut others = vec![String::new(), "Compute".to_owned(), "1".to_owned()];
    others.extend(column.allowed.iter().map(|text| (*text).to_owned()));
    match column.kind {
        Kind::Text => others.push(format!("{text} ")),
        Kind::Decimal { scale } => others.push(format!("17.{}", "1".repeat(scale.into()))),
        Kind::Timestamp => others.push("2026-10-07T00:00:00Z".to_owned()),
        Kind::Boolean | Kind::Integer => {}
    }
    others.retain(|other| other != text);
    others
}

#[test]
fn b18_no_checked_cell_can_be_another() {
    let rows = sample::rows();
    assert_eq!(faults(&rows), Vec::<String>::new());
    let (mut changed, mut missed) = (0, BTreeSet::new());
    for column in columns::all() {
        for (at, row) in rows.iter().enumerate() {
            let text = column.text(row);
            for other in others(column, &text).iter().filter(|other| is_checked(row, column, other)) {
                changed += 1;
                if !is_found(&rows, at, column, other) {
                    missed.insert(format!("{} row {} {text:?} -> {other:?}", column.name, at + 1));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(changed > 1_500, "{changed}");
}

proptest! {
    #[test]
    fn b18_any_other_amount_is_found(
        at in 0..14_usize,
        which in 0..5_usize,
        by in prop_oneof![1..=1_000_000_000_i64, -1_000_000_000..=-1_i64],
    ) {
        let mut rows = sample::rows();
        let row = &mut rows[at];
        // Of a correction or a tax, what it would be at other prices is not bound.
        let unbound = which > 1 && (row.is_correction() || row.charge_category == ChargeCategory::Tax);
        let amount = match which {
            0 => &mut row.billed_cost,
            1 => &mut row.effective_cost,
            2 => &mut row.list_cost,
            _ => &mut row.contracted_cost,
        };
        amount.0 += by;
        prop_assert!(!faults(&rows).is_empty() || unbound);
    }
}
