//! One fault for each rule is found, and the right rows pass.

use num_bigint::BigInt;

use super::{faults, sample};
use crate::bill::decimal::Millionths;
use crate::bill::focus::Row;
use crate::bill::focus::value::{
    ChargeCategory, ChargeClass, ChargeFrequency, PricingCategory, Reserved, ServiceCategory, Trillionths,
};

// Rows of the sample.
const DEMAND: usize = 0;
const PURCHASE: usize = 2;
const USED: usize = 3;
const UNUSED: usize = 4;
const CREDIT: usize = 7;
const TAX: usize = 8;
const CORRECTION: usize = 12;

/// What is said of the sample with one row changed.
fn said(at: usize, change: impl FnOnce(&mut Row)) -> Vec<String> {
    let mut rows = sample::rows();
    change(&mut rows[at]);
    faults(&rows)
}

/// One fault is found, and it says this.
#[track_caller]
fn one(at: usize, expected: &str, change: impl FnOnce(&mut Row)) {
    assert_eq!(said(at, change), [expected]);
}

/// A fault that starts with this is found.
#[track_caller]
fn found(at: usize, expected: &str, change: impl FnOnce(&mut Row)) {
    let said = said(at, change);
    assert!(said.iter().any(|fault| fault.starts_with(expected)), "{expected}: {said:#?}");
}

#[test]
fn a_good_month_passes() {
    assert_eq!(faults(&sample::rows()), Vec::<String>::new());
}

#[test]
fn b18_a_charge_that_ends_before_it_starts() {
    one(
        DEMAND,
        r#"row 1: ChargePeriodEnd: "2026-09-30T22:00:00Z", expected an instant after ChargePeriodStart"#,
        |row| {
            row.charge_period_end = row.charge_period_start;
        },
    );
}

#[test]
fn b18_a_charge_outside_its_billing_period() {
    one(
        DEMAND,
        r#"row 1: ChargePeriodStart: "2026-09-30T21:00:00Z", expected an instant in the billing period"#,
        |row| {
            row.charge_period_start.0 -= 3_600_000;
        },
    );
    one(
        DEMAND,
        r#"row 1: ChargePeriodEnd: "2026-11-01T00:00:00Z", expected an instant in the billing period"#,
        |row| {
            row.charge_period_end.0 += 3_600_000;
        },
    );
}

#[test]
fn b18_a_billing_period_that_is_no_month_of_the_zone() {
    found(
        DEMAND,
        r#"row 1: BillingPeriodStart: "2026-10-01T00:00:00Z", expected the first instant of a month in Europe/Berlin"#,
        |row| {
            row.billing_period_start.0 += 7_200_000;
        },
    );
    // A month of 744 hours, where Berlin's October has 745.
    found(
        DEMAND,
        r#"row 1: BillingPeriodEnd: "2026-10-31T22:00:00Z", expected the first instant of the month after"#,
        |row| {
            row.billing_period_end.0 -= 3_600_000;
        },
    );
    found(DEMAND, r#"row 1: ChargePeriodEnd: "2026-10-31T23:00:00Z", expected a whole second"#, |row| {
        row.charge_period_end.0 += 1;
    });
}

#[test]
fn b18_a_list_cost_that_is_not_price_times_quantity() {
    one(
        DEMAND,
        r#"row 1: ListCost: "301.500001", expected ListUnitPrice × PricingQuantity, to half a millionth"#,
        |row| {
            row.list_cost.0 += 1;
        },
    );
    one(
        DEMAND,
        r#"row 1: ContractedCost: "251.249999", expected ContractedUnitPrice × PricingQuantity, to half a millionth"#,
        |row| {
            row.contracted_cost.0 -= 1;
        },
    );
    found(DEMAND, "row 1: ListUnitPrice: \"-3.0", |row| row.list_unit_price = Some(Trillionths(-3_000_000_000_000)));
    found(CREDIT, r#"row 8: ListCost: "0.000000", expected BilledCost"#, |row| row.list_cost = Millionths::default());
}

#[test]
fn b18_a_purchase_that_counts_again() {
    let said = said(PURCHASE, |row| row.effective_cost = row.billed_cost.clone());
    assert_eq!(said, [r#"row 3: EffectiveCost: "2607.500000", expected 0 for what covers other charges"#]);
}

#[test]
fn b18_a_commitment_whose_use_is_not_what_was_bought() {
    one(
        USED,
        r#"EffectiveCost: "2607.500001", expected 2607.500000, what commitment "contador:commitment/1" was billed at"#,
        |row| {
            row.effective_cost.0 += 1;
        },
    );
    let mut rows = sample::rows();
    rows.remove(UNUSED);
    let quantity = r#"CommitmentDiscountQuantity: "1000.000000000000", expected 1490.000000000000, what was bought of commitment "contador:commitment/1""#;
    let cost =
        r#"EffectiveCost: "1750.000000", expected 2607.500000, what commitment "contador:commitment/1" was billed at"#;
    assert_eq!(faults(&rows), [cost, quantity]);
    found(USED, r#"row 4: BilledCost: "1.000000", expected 0 for what a commitment covers"#, |row| {
        row.billed_cost = Millionths(BigInt::from(1_000_000));
    });
    found(DEMAND, r#"row 1: EffectiveCost: "0.000000", expected BilledCost"#, |row| {
        row.effective_cost = Millionths::default()
    });
}

#[test]
fn b18_an_invoice_that_does_not_add_up() {
    found(
        TAX,
        r#"BilledCost: "3579.572811", expected 3579.572810, the total of invoice "contador:invoice/202610""#,
        |row| {
            row.billed_cost.0 += 1;
        },
    );
    let mut rows = sample::rows();
    rows.retain(|row| row.invoice_id.as_deref() == Some("contador:invoice/202610"));
    assert_eq!(
        faults(&rows),
        [r#"BilledCost: "0.000000", expected 14.764600, the total of invoice "contador:invoice/202611""#]
    );
    found(TAX, r#"InvoiceId: "none", expected an invoice that was made"#, |row| row.invoice_id = Some("none".into()));
}

#[test]
fn b18_quantities_where_nothing_was_used() {
    found(UNUSED, r#"row 5: ConsumedQuantity: "490.000000000000", expected no value where nothing was used"#, |row| {
        row.consumed_quantity = row.pricing_quantity;
    });
    found(PURCHASE, "row 3: ConsumedQuantity: \"1490", |row| row.consumed_quantity = row.pricing_quantity);
    found(DEMAND, r#"row 1: ConsumedQuantity: "", expected a value for Usage"#, |row| row.consumed_quantity = None);
    found(DEMAND, r#"row 1: ConsumedQuantity: "-1.0"#, |row| {
        row.consumed_quantity = Some(Trillionths(-1_000_000_000_000))
    });
}

#[test]
fn b18_units_without_quantities() {
    one(DEMAND, r#"row 1: PricingUnit: "", expected a value with PricingQuantity"#, |row| row.pricing_unit = None);
    one(DEMAND, r#"row 1: ConsumedUnit: "", expected a value with ConsumedQuantity"#, |row| row.consumed_unit = None);
    found(USED, r#"row 4: CommitmentDiscountUnit: "", expected a value"#, |row| row.commitment_unit = None);
    found(TAX, r#"row 9: PricingUnit: "GPU-Hours", expected no value"#, |row| {
        row.pricing_unit = Some("GPU-Hours".into())
    });
}

#[test]
fn b18_a_correction_that_corrects_nothing_closed() {
    found(
        DEMAND,
        r#"row 1: ChargePeriodEnd: "2026-10-31T23:00:00Z", expected an instant up to BillingPeriodStart"#,
        |row| {
            row.charge_class = Some(ChargeClass::Correction);
        },
    );
    one(CORRECTION, r#"row 13: x_OriginMonth: "2026-08", expected the month that is corrected, 2026-09"#, |row| {
        row.origin_month = Some("2026-08".into());
    });
    found(CORRECTION, "row 13: ChargePeriodStart: ", |row| row.charge_class = None);
    found(CORRECTION, r#"row 13: ChargePeriodEnd: "2026-09-30T22:00:00Z", expected an instant in the month"#, |row| {
        row.charge_period_start.0 -= 20 * 86_400_000;
        row.charge_period_end = row.billing_period_start;
    });
}

#[test]
fn b18_taxes_and_credits_that_have_a_price() {
    let priced = &sample::rows()[DEMAND].clone();
    for (at, name) in [(TAX, "row 9: "), (CREDIT, "row 8: ")] {
        let with =
            |column: &str, change: fn(&mut Row, &Row)| found(at, &format!("{name}{column}"), |row| change(row, priced));
        with("ListUnitPrice", |row, from| row.list_unit_price = from.list_unit_price);
        with("ContractedUnitPrice", |row, from| row.contracted_unit_price = from.contracted_unit_price);
        with("PricingQuantity", |row, from| row.pricing_quantity = from.pricing_quantity);
        with("PricingCategory", |row, from| row.pricing_category = from.pricing_category);
        with("SkuId", |row, from| row.sku_id = from.sku_id.clone());
        with("SkuPriceId", |row, from| row.sku_price_id = from.sku_price_id.clone());
        with("CommitmentDiscountId", |row, _| row.commitment_id = Some("c".into()));
    }
}

#[test]
fn b18_words_that_contradict_others() {
    found(PURCHASE, r#"row 3: ChargeFrequency: "Usage-Based", expected Recurring"#, |row| {
        row.charge_frequency = ChargeFrequency::UsageBased;
    });
    found(USED, r#"row 4: PricingCategory: "Standard", expected Committed"#, |row| {
        row.pricing_category = Some(PricingCategory::Standard);
    });
    found(USED, r#"row 4: CommitmentDiscountStatus: "", expected a value"#, |row| row.commitment_status = None);
    found(PURCHASE, r#"row 3: CommitmentDiscountStatus: "Used", expected no value"#, |row| {
        row.commitment_status = Some(Reserved::Used);
    });
    found(USED, "row 4: CapacityReservationStatus: \"Unused\"", |row| row.reservation_status = Some(Reserved::Unused));
    found(UNUSED, r#"row 5: ResourceId: "GPU-1", expected CommitmentDiscountId"#, |row| {
        row.resource_id = Some("GPU-1".into())
    });
    found(DEMAND, "row 1: CommitmentDiscountName: \"c\"", |row| row.commitment_name = Some("c".into()));
    found(DEMAND, r#"row 1: ServiceCategory: "Other", expected the category"#, |row| {
        row.service_category = ServiceCategory::Other;
    });
    found(DEMAND, r#"row 1: CapacityReservationId: "r", expected CommitmentDiscountId"#, |row| {
        row.reservation_id = Some("r".into());
    });
    found(DEMAND, r#"row 1: InvoiceId: "", expected one of the invoices"#, |row| row.invoice_id = None);
    found(DEMAND, "row 1: BillingCurrency: \"EUX\"", |row| row.billing_currency = "EUX".into());
    found(DEMAND, "row 1: ChargeDescription: \" \"", |row| row.charge_description = " ".into());
    found(USED, "row 4: SubAccountName: \"other\"", |row| row.sub_account_name = Some("other".into()));
    found(TAX, "row 9: ListUnitPrice", |row| {
        row.charge_category = ChargeCategory::Usage;
        row.charge_frequency = ChargeFrequency::UsageBased;
    });
}

#[test]
fn b18_texts_that_readers_take_for_numbers() {
    found(DEMAND, r#"row 1: ResourceId: "17", expected an id that no reader takes for a number"#, |row| {
        row.resource_id = Some("17".into());
    });
    found(DEMAND, "row 1: SubAccountId: \"1e5\"", |row| row.sub_account_id = Some("1e5".into()));
    let mut rows = sample::rows();
    rows.iter_mut().for_each(|row| row.provider_name = "42".to_owned());
    assert_eq!(
        faults(&rows),
        [r#"ProviderName: "42", expected a text that no reader takes for a number, in one row at least"#]
    );
}

#[test]
fn faults_beyond_a_thousand_are_counted() {
    let row = Row { charge_description: String::new(), ..sample::rows().remove(TAX) };
    let rows = vec![row; 1_005];
    let said = faults(&rows);
    assert_eq!(said.len(), 1_001);
    assert!(said[1_000].starts_with(r#"file: "7", expected no fault"#), "{}", said[1_000]);
}
