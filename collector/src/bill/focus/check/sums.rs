//! What rows must say together.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::{At, Fault, Found, Invoice};
use crate::bill::decimal::{Millionths, fixed};
use crate::bill::focus::columns;
use crate::bill::focus::row::Row;
use crate::bill::focus::value::ChargeCategory;

/// Columns of which one value of the first has one value of the second.
const ONE_EACH: [(&str, &str); 15] = [
    ("BillingAccountId", "BillingAccountName"),
    ("BillingAccountId", "BillingAccountType"),
    ("InvoiceId", "BillingAccountId"),
    ("InvoiceId", "BillingCurrency"),
    ("InvoiceId", "InvoiceIssuerName"),
    ("SubAccountId", "SubAccountName"),
    ("SubAccountId", "SubAccountType"),
    ("CommitmentDiscountId", "CommitmentDiscountName"),
    ("CommitmentDiscountId", "CommitmentDiscountCategory"),
    ("CommitmentDiscountId", "CommitmentDiscountType"),
    ("CommitmentDiscountId", "CommitmentDiscountUnit"),
    ("RegionId", "RegionName"),
    ("ServiceName", "ServiceSubcategory"),
    ("SkuId", "SkuMeter"),
    ("SkuPriceId", "SkuId"),
];

/// What is kept of the rows before.
#[derive(Debug)]
pub(super) struct Sums {
    /// What each invoice must sum to, and what its rows have so far.
    invoices: BTreeMap<String, (Option<BigInt>, BigInt)>,
    /// What each commitment was bought at, and what became of it.
    commitments: BTreeMap<String, Commitment>,
    /// The first value that each value of [`ONE_EACH`]'s first columns came with.
    said: BTreeMap<(usize, String), String>,
}

/// What was bought, which must be what was used and left unused, in money and in quantity.
#[derive(Debug, Default)]
struct Commitment {
    billed: BigInt,
    effective: BigInt,
    bought: BigInt,
    held: BigInt,
}

impl Commitment {
    fn row(&mut self, row: &Row) {
        let quantity = row.commitment_quantity.map_or(0, |quantity| quantity.0);
        if row.charge_category == ChargeCategory::Purchase {
            self.billed += &row.billed_cost.0;
            self.bought += quantity;
        } else {
            self.effective += &row.effective_cost.0;
            self.held += quantity;
        }
    }

    fn finish(&self, id: &str, found: &mut Found) {
        if self.billed != self.effective {
            let expected = format!("{}, what commitment {id:?} was billed at", Millionths(self.billed.clone()));
            let sum = Millionths(self.effective.clone()).to_string();
            found.push(Fault::of_file("EffectiveCost", &sum, expected));
        }
        if self.bought != self.held {
            let text = |value: &BigInt| value.to_i128().map(|value| fixed(value, 12)).unwrap_or_default();
            let expected = format!("{}, what was bought of commitment {id:?}", text(&self.bought));
            found.push(Fault::of_file("CommitmentDiscountQuantity", &text(&self.held), expected));
        }
    }
}

impl Sums {
    pub(super) fn new(invoices: impl IntoIterator<Item = Invoice>) -> Self {
        let invoices =
            invoices.into_iter().map(|invoice| (invoice.id, (Some(invoice.total.0), BigInt::ZERO))).collect();
        Self { invoices, commitments: BTreeMap::new(), said: BTreeMap::new() }
    }

    pub(super) fn row(&mut self, at: &mut At<'_>) {
        let row = at.row;
        at.must(row.invoice_id.is_some() || self.invoices.is_empty(), "InvoiceId", "one of the invoices");
        if let Some(id) = &row.invoice_id {
            self.invoices.entry(id.clone()).or_default().1 += &row.billed_cost.0;
        }
        if let Some(id) = &row.commitment_id {
            self.commitments.entry(id.clone()).or_default().row(row);
        }
        self.one_each(at);
    }

    fn one_each(&mut self, at: &mut At<'_>) {
        let text = |name: &str| columns::all().find(|column| column.name == name).map(|column| column.text(at.row));
        let pairs = ONE_EACH.map(|(key, value)| (text(key).unwrap_or_default(), text(value).unwrap_or_default()));
        for (which, (key, value)) in pairs.into_iter().enumerate() {
            if key.is_empty() || value.is_empty() {
                continue;
            }
            let (of, column) = ONE_EACH[which];
            match self.said.entry((which, key)) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(entry) => {
                    let expected = format!("{:?} as before for {of} {:?}", entry.get(), entry.key().1);
                    at.must(*entry.get() == value, column, expected);
                }
            }
        }
    }

    pub(super) fn finish(&self, found: &mut Found) {
        for (id, (expected, sum)) in &self.invoices {
            let sum = Millionths(sum.clone());
            match expected {
                None => found.push(Fault::of_file("InvoiceId", id, "an invoice that was made")),
                Some(total) if *total != sum.0 => {
                    let expected = format!("{}, the total of invoice {id:?}", Millionths(total.clone()));
                    found.push(Fault::of_file("BilledCost", &sum.to_string(), expected));
                }
                Some(_) => {}
            }
        }
        for (id, commitment) in &self.commitments {
            commitment.finish(id, found);
        }
    }
}
