//! What one row must say of its period, its commitment and its names.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::{At, currency};
use crate::bill::focus::value::{ChargeCategory, ChargeFrequency, Reserved};
use crate::bill::period::midnight;

pub(super) fn check(at: &mut At<'_>, zone: &TimeZone) {
    periods(at, zone);
    charge(at);
    commitment(at);
    resource(at);
    accounts(at);
}

fn local(ms: i64, zone: &TimeZone) -> Option<Date> {
    Timestamp::from_millisecond(ms).ok().map(|time| zone.to_datetime(time).date())
}

/// The first instants of the month of an instant, and of the next.
pub(in crate::bill::focus) fn month(ms: i64, zone: &TimeZone) -> Option<(i64, i64)> {
    let first = local(ms, zone)?.first_of_month();
    Some((midnight(first, zone)?, midnight(first.checked_add(1.month()).ok()?, zone)?))
}

fn periods(at: &mut At<'_>, zone: &TimeZone) {
    let row = at.row;
    let (start, end) = (row.billing_period_start.0, row.billing_period_end.0);
    let whole = month(start, zone);
    let name = zone.iana_name().unwrap_or("the time zone");
    at.must(
        whole.is_some_and(|month| month.0 == start),
        "BillingPeriodStart",
        format!("the first instant of a month in {name}"),
    );
    at.must(
        whole.is_some_and(|month| month.1 == end),
        "BillingPeriodEnd",
        format!("the first instant of the month after in {name}"),
    );
    let (from, to) = (row.charge_period_start.0, row.charge_period_end.0);
    at.must(from < to, "ChargePeriodEnd", "an instant after ChargePeriodStart");
    if row.is_correction() {
        at.must(
            to <= start,
            "ChargePeriodEnd",
            "an instant up to BillingPeriodStart, since a closed month is corrected",
        );
        let origin = local(from, zone).map(|date| date.strftime("%Y-%m").to_string());
        let expected = format!("the month that is corrected, {}", origin.as_deref().unwrap_or("as 2026-09"));
        at.must(row.origin_month == origin, "x_OriginMonth", expected);
        let ends = month(from, zone).is_some_and(|month| to <= month.1);
        at.must(ends, "ChargePeriodEnd", "an instant in the month that is corrected");
    } else {
        at.must(start <= from, "ChargePeriodStart", "an instant in the billing period");
        at.must(to <= end, "ChargePeriodEnd", "an instant in the billing period");
        at.present(&row.origin_month, false, "x_OriginMonth", "unless ChargeClass is Correction");
    }
}

fn charge(at: &mut At<'_>) {
    let row = at.row;
    let by_use = row.charge_frequency == ChargeFrequency::UsageBased;
    match row.charge_category {
        ChargeCategory::Usage => at.must(by_use, "ChargeFrequency", "Usage-Based for Usage"),
        ChargeCategory::Purchase => at.must(!by_use, "ChargeFrequency", "Recurring or One-Time for Purchase"),
        _ => {}
    }
    at.must(
        row.service_category == row.service_subcategory.category(),
        "ServiceCategory",
        "the category of ServiceSubcategory",
    );
    for column in ["BillingCurrency", "PricingCurrency"] {
        at.must(currency::exists(&row.billing_currency), column, "a code of ISO 4217");
    }
}

/// A commitment has all its columns or none, and a status where it is used.
fn commitment(at: &mut At<'_>) {
    let row = at.row;
    let has = row.commitment_id.is_some();
    let with = "with CommitmentDiscountId";
    at.present(&row.commitment_name, has, "CommitmentDiscountName", with);
    at.present(&row.commitment_category, has, "CommitmentDiscountCategory", with);
    at.present(&row.commitment_type, has, "CommitmentDiscountType", with);
    let usage = row.charge_category == ChargeCategory::Usage;
    let when = "where Usage has a CommitmentDiscountId, and only there";
    at.present(&row.commitment_status, has && usage, "CommitmentDiscountStatus", when);
    let bought = usage || row.charge_category == ChargeCategory::Purchase;
    at.must(bought || !has, "CommitmentDiscountId", "no value, since the charge is neither Usage nor Purchase");
    let counted = has && bought && !row.is_correction();
    let when = "for Usage or Purchase with a CommitmentDiscountId that is no Correction, and only there";
    at.present(&row.commitment_quantity, counted, "CommitmentDiscountQuantity", when);
    at.present(&row.commitment_unit, counted, "CommitmentDiscountUnit", "with CommitmentDiscountQuantity");

    let same = row.reservation_id.is_none() || row.reservation_id == row.commitment_id;
    at.must(same, "CapacityReservationId", "CommitmentDiscountId, since what is reserved is a commitment");
    let reserved = row.reservation_id.is_some() && usage;
    at.present(&row.reservation_status, reserved, "CapacityReservationStatus", "for Usage with CapacityReservationId");
    let agree = row.reservation_status.is_none()
        || row.commitment_status.is_none()
        || row.reservation_status == row.commitment_status;
    at.must(agree, "CapacityReservationStatus", "what CommitmentDiscountStatus says");
}

fn resource(at: &mut At<'_>) {
    let row = at.row;
    at.present(&row.resource_type, row.resource_id.is_some(), "ResourceType", "with ResourceId");
    at.must(row.resource_name.is_none() || row.resource_id.is_some(), "ResourceName", "no value without ResourceId");
    at.must(
        row.resource_name.is_none() || row.resource_name != row.resource_id,
        "ResourceName",
        "a name that is not ResourceId again",
    );
    if row.commitment_id.is_none() {
        return;
    }
    let itself = row.resource_id == row.commitment_id;
    if row.commitment_status == Some(Reserved::Used) {
        at.must(!itself && row.resource_id.is_some(), "ResourceId", "what the commitment was used for");
    } else {
        at.must(itself, "ResourceId", "CommitmentDiscountId, for what is bought or left unused");
    }
}

fn accounts(at: &mut At<'_>) {
    let row = at.row;
    let has = row.sub_account_id.is_some();
    at.present(&row.sub_account_name, has, "SubAccountName", "with SubAccountId");
    at.present(&row.sub_account_type, has, "SubAccountType", "with SubAccountId");
    at.present(&row.region_name, row.region_id.is_some(), "RegionName", "with RegionId");
    at.must(
        row.availability_zone.is_none() || row.region_id.is_some(),
        "AvailabilityZone",
        "no value without RegionId",
    );
    let own = |name: &String| name.starts_with("x_");
    at.must(
        row.sku_price_details.as_ref().is_none_or(|details| details.0.keys().all(own)),
        "SkuPriceDetails",
        "names that start with x_",
    );
}
