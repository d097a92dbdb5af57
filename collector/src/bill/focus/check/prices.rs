//! What one row must say of its quantities, prices and costs.

use num_bigint::BigInt;
use num_traits::{Signed, Zero};

use super::At;
use crate::bill::decimal::Millionths;
use crate::bill::focus::value::{ChargeCategory, PricingCategory, Reserved, Trillionths};

pub(super) fn check(at: &mut At<'_>) {
    priced(at);
    quantities(at);
    products(at);
    effective(at);
}

/// Usage and purchases have a price and what is priced; a correction may have, and nothing else has.
fn priced(at: &mut At<'_>) {
    let row = at.row;
    let may = matches!(row.charge_category, ChargeCategory::Usage | ChargeCategory::Purchase);
    let must = may && !row.is_correction();
    let has = [
        ("ListUnitPrice", row.list_unit_price.is_some()),
        ("ContractedUnitPrice", row.contracted_unit_price.is_some()),
        ("PricingQuantity", row.pricing_quantity.is_some()),
        ("PricingCategory", row.pricing_category.is_some()),
        ("SkuId", row.sku_id.is_some()),
        ("SkuPriceId", row.sku_price_id.is_some()),
    ];
    for (column, has) in has {
        at.must(has || !must, column, "a value for Usage and Purchase");
        at.must(!has || may, column, format!("no value for {}", row.charge_category.as_str()));
    }
    at.present(&row.sku_meter, row.sku_id.is_some(), "SkuMeter", "with SkuId");
    at.must(
        row.sku_price_details.is_none() || row.sku_price_id.is_some(),
        "SkuPriceDetails",
        "no value without SkuPriceId",
    );
    let negative = |price: &Option<Trillionths>| price.is_some_and(|price| price.0 < 0);
    at.must(!negative(&row.list_unit_price), "ListUnitPrice", "a price that is not negative");
    at.must(!negative(&row.contracted_unit_price), "ContractedUnitPrice", "a price that is not negative");
    if let Some(category) = row.pricing_category {
        let covered = row.commitment_status.is_some();
        let expected = "Committed for what a commitment covers, and only for that";
        at.must((category == PricingCategory::Committed) == covered, "PricingCategory", expected);
    }
}

fn quantities(at: &mut At<'_>) {
    let row = at.row;
    at.present(&row.pricing_unit, row.pricing_quantity.is_some(), "PricingUnit", "with PricingQuantity");
    at.present(&row.consumed_unit, row.consumed_quantity.is_some(), "ConsumedUnit", "with ConsumedQuantity");
    let used = row.charge_category == ChargeCategory::Usage && row.commitment_status != Some(Reserved::Unused);
    let has = row.consumed_quantity.is_some();
    at.must(!has || used, "ConsumedQuantity", "no value where nothing was used");
    at.must(has || !used || row.is_correction(), "ConsumedQuantity", "a value for Usage");
    if row.is_correction() {
        return;
    }
    let quantities = [
        ("PricingQuantity", row.pricing_quantity),
        ("ConsumedQuantity", row.consumed_quantity),
        ("CommitmentDiscountQuantity", row.commitment_quantity),
    ];
    for (column, quantity) in quantities {
        at.must(quantity.is_none_or(|quantity| quantity.0 >= 0), column, "a quantity that is not negative");
    }
}

/// A cost is price × quantity, to half of its last digit; one without a price is what is billed.
fn products(at: &mut At<'_>) {
    let row = at.row;
    if row.is_correction() {
        return;
    }
    let costs = [
        ("ListCost", "ListUnitPrice", &row.list_cost, row.list_unit_price),
        ("ContractedCost", "ContractedUnitPrice", &row.contracted_cost, row.contracted_unit_price),
    ];
    for (column, name, cost, price) in costs {
        match (price, row.pricing_quantity) {
            (Some(price), Some(quantity)) => {
                let expected = format!("{name} × PricingQuantity, to half a millionth");
                at.must(is_product(cost, price, quantity), column, expected);
            }
            _ if row.charge_category == ChargeCategory::Tax => {}
            _ => at.must(*cost == row.billed_cost, column, "BilledCost, since there is no unit price"),
        }
    }
}

/// Whether a cost, in millionths, is at most half a millionth from price × quantity, in `10^-24`.
fn is_product(cost: &Millionths, price: Trillionths, quantity: Trillionths) -> bool {
    let one = BigInt::from(10).pow(18);
    let off = (BigInt::from(price.0) * quantity.0 - &cost.0 * &one).abs();
    off * 2 <= one
}

/// A commitment is billed where it is bought, and counts where it is used or left unused.
fn effective(at: &mut At<'_>) {
    let row = at.row;
    match (&row.commitment_id, row.charge_category) {
        (Some(_), ChargeCategory::Purchase) => {
            at.must(row.effective_cost.is_zero(), "EffectiveCost", "0 for what covers other charges");
        }
        (Some(_), _) => at.must(row.billed_cost.0.is_zero(), "BilledCost", "0 for what a commitment covers"),
        (None, _) => {
            at.must(row.effective_cost == row.billed_cost, "EffectiveCost", "BilledCost, without a commitment")
        }
    }
}
