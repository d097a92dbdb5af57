//! A month's charges of every category, whose sums are worked out by hand.

use super::decimal::{self, Millionths};
use super::focus::check::Invoice;
use super::focus::row::{Row, cost, qualified};
use super::focus::value::{
    ChargeCategory, ChargeClass, ChargeFrequency, CommitmentCategory, ConsumptionModel, PricingCategory, Properties,
    Reserved, ServiceCategory, ServiceSubcategory, Time, Trillionths,
};

/// Where the months are months.
pub const ZONE: &str = "Europe/Berlin";

/// What the two invoices come to, in millionths: research has 251.25 + 7.49 + 2607.5 + 38.58 + 145.241 - 50 + 579.51181,
/// department 42 has 25.5 + 0.246914 + 1.275 - 12.5 + 0.242686.
pub const TOTALS: [i64; 2] = [3_579_572_810, 14_764_600];

/// 2026-10-01T00:00+02:00, and 2026-11-01T00:00+01:00: 745 hours.
const MONTH: [i64; 2] = [1_790_805_600_000, 1_793_487_600_000];

/// 2026-09-10T00:00+02:00, and a day later.
const BEFORE: [i64; 2] = [1_788_991_200_000, 1_789_077_600_000];

/// The invoices that the rows are on.
pub fn invoices() -> Vec<Invoice> {
    let ids = ["202610", "202611"];
    ids.iter()
        .zip(TOTALS)
        .map(|(id, total)| Invoice { id: qualified("invoice", id), total: millionths(total) })
        .collect()
}

pub fn millionths(value: i64) -> Millionths {
    Millionths(value.into())
}

fn exact(text: &str) -> Trillionths {
    Trillionths(decimal::parse(text).unwrap_or_default())
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// What all rows of an invoice have. The second department's name is a number, as names may be.
fn row(category: ChargeCategory, description: &str, second: bool) -> Row {
    Row {
        billing_account_id: "contador:example".to_owned(),
        billing_account_name: "Example".to_owned(),
        billing_account_type: "Organisation".to_owned(),
        billing_currency: "EUR".to_owned(),
        billing_period_start: Time(MONTH[0]),
        billing_period_end: Time(MONTH[1]),
        sub_account_id: Some(qualified("department", if second { "42" } else { "7" })),
        sub_account_name: some(if second { "42" } else { "research" }),
        sub_account_type: some("Department"),
        invoice_id: Some(qualified("invoice", if second { "202611" } else { "202610" })),
        invoice_issuer_name: "Example".to_owned(),
        provider_name: "Example".to_owned(),
        publisher_name: "Example".to_owned(),
        charge_category: category,
        charge_description: description.to_owned(),
        charge_frequency: match category {
            ChargeCategory::Usage => ChargeFrequency::UsageBased,
            ChargeCategory::Purchase | ChargeCategory::Adjustment | ChargeCategory::Tax => ChargeFrequency::Recurring,
            ChargeCategory::Credit => ChargeFrequency::OneTime,
        },
        charge_period_start: Time(MONTH[0]),
        charge_period_end: Time(MONTH[1]),
        service_name: "Other charges".to_owned(),
        service_category: ServiceCategory::Other,
        service_subcategory: ServiceSubcategory::OtherOther,
        tags: Some(Properties([("team".to_owned(), "vision \"a\", b".to_owned())].into())),
        department: some(if second { "42" } else { "research" }),
        cost_centre: some("4711"),
        simulated: true,
        ..Row::default()
    }
}

/// A priced row: list and contracted price of a quantity of this unit; on demand, so billed and effective as contracted.
fn priced(mut row: Row, sku: &str, unit: &str, prices: [&str; 2], quantity: &str) -> Row {
    let (list, contracted, quantity) = (exact(prices[0]), exact(prices[1]), exact(quantity));
    row.list_unit_price = Some(list);
    row.list_cost = cost(list, quantity);
    row.contracted_unit_price = Some(contracted);
    row.contracted_cost = cost(contracted, quantity);
    row.billed_cost = row.contracted_cost.clone();
    row.effective_cost = row.contracted_cost.clone();
    row.pricing_category = Some(PricingCategory::Standard);
    row.pricing_quantity = Some(quantity);
    row.pricing_unit = some(unit);
    if row.charge_category == ChargeCategory::Usage {
        row.consumed_quantity = Some(quantity);
        row.consumed_unit = some(unit);
    }
    row.sku_id = some(sku);
    row.sku_meter = some(unit);
    row.sku_price_id = Some(format!("{sku}/2026-10"));
    row
}

fn gpu(row: Row, model: &str, prices: [&str; 2], hours: &str) -> Row {
    let mut row = priced(row, model, "GPU-Hours", prices, hours);
    row.service_name = "GPUs".to_owned();
    row.service_category = ServiceCategory::Compute;
    row.service_subcategory = ServiceSubcategory::OtherCompute;
    row.sku_price_details = Some(Properties([("x_Basis".to_owned(), "allocated".to_owned())].into()));
    row.resource_id = some("GPU-5f1d2c3b");
    row.resource_name = some("n1/0");
    row.resource_type = some("GPU");
    row.region_id = some("ber-1");
    row.region_name = some("Berlin");
    row.gpu_model = some(model);
    row.consumption_model = Some(ConsumptionModel::Exclusive);
    row
}

/// A row of the commitment: 2 H100 for 745 hours at 1.75, which is 2607.50.
fn committed(row: Row, prices: [&str; 2], hours: &str, status: Option<Reserved>) -> Row {
    let mut row = gpu(row, "NVIDIA H100 80GB HBM3", prices, hours);
    row.commitment_id = some("contador:commitment/1");
    row.commitment_name = some("two H100 for research");
    row.commitment_category = Some(CommitmentCategory::Usage);
    row.commitment_type = some("Reservation");
    row.commitment_status = status;
    row.commitment_quantity = row.pricing_quantity;
    row.commitment_unit = some("GPU-Hours");
    if status != Some(Reserved::Used) {
        (row.resource_id, row.resource_type) = (row.commitment_id.clone(), some("Reservation"));
        row.resource_name = row.commitment_name.clone();
        (row.consumed_quantity, row.consumed_unit) = (None, None);
    }
    if status.is_some() {
        row.reservation_id = row.commitment_id.clone();
        row.reservation_status = status;
        row.pricing_category = Some(PricingCategory::Committed);
        row.billed_cost = Millionths::default();
        row.effective_cost = cost(exact("1.75"), exact(hours));
    } else {
        row.sku_id = some("reservation of NVIDIA H100 80GB HBM3");
        row.sku_price_id = some("reservation of NVIDIA H100 80GB HBM3/2026-10");
        row.effective_cost = Millionths::default();
    }
    row
}

/// A row without a price.
fn amount(row: Row, value: i64) -> Row {
    let cost = millionths(value);
    Row {
        billed_cost: cost.clone(),
        effective_cost: cost.clone(),
        list_cost: cost.clone(),
        contracted_cost: cost,
        ..row
    }
}

/// A charge of each kind.
pub fn rows() -> Vec<Row> {
    use ChargeCategory::{Adjustment, Credit, Purchase, Tax, Usage};
    let mig = gpu(row(Usage, "3g.40gb", false), "NVIDIA H100 80GB HBM3 3g.40gb", ["1.25", "1.07"], "7");
    let disk = priced(row(Usage, "scratch", true), "storage", "GB-Months", ["0.02", "0.02"], "12.3456789");
    let mut correction = gpu(row(Usage, "n1 ran less", true), "NVIDIA A100", ["3", "2.5"], "5");
    for cost in [
        &mut correction.billed_cost,
        &mut correction.effective_cost,
        &mut correction.list_cost,
        &mut correction.contracted_cost,
    ] {
        cost.0 = -cost.0.clone();
    }
    let hours = [Some(Reserved::Used), Some(Reserved::Unused)];
    vec![
        gpu(row(Usage, "on demand", false), "NVIDIA H100 80GB HBM3", ["3.00", "2.50"], "100.5"),
        Row { mig_profile: some("3g.40gb"), consumption_model: Some(ConsumptionModel::Fraction), ..mig },
        committed(row(Purchase, "commitment", false), ["1.75", "1.75"], "1490", None),
        committed(row(Usage, "covered", false), ["3.00", "2.50"], "1000", hours[0]),
        committed(row(Usage, "left unused", false), ["3.00", "2.50"], "490", hours[1]),
        Row {
            energy_kwh: Some(millionths(321_500_000)),
            gco2e: Some(millionths(110_628_150_000)),
            service_name: "GPU energy".to_owned(),
            service_category: ServiceCategory::Compute,
            service_subcategory: ServiceSubcategory::OtherCompute,
            ..priced(row(Usage, "energy", false), "energy", "kWh", ["0.12", "0.12"], "321.5")
        },
        amount(row(Adjustment, "5 % overhead", false), 145_241_000),
        amount(row(Credit, "for the outage", false), -50_000_000),
        amount(row(Tax, "19 % tax", false), 579_511_810),
        Row {
            consumption_model: Some(ConsumptionModel::TimeSharing),
            ..gpu(row(Usage, "shared", true), "NVIDIA A100", ["3", "2.5"], "10.2")
        },
        Row {
            service_name: "Storage".to_owned(),
            service_category: ServiceCategory::Storage,
            service_subcategory: ServiceSubcategory::FileStorage,
            ..disk
        },
        amount(row(Adjustment, "5 % overhead", true), 1_275_000),
        Row {
            charge_class: Some(ChargeClass::Correction),
            charge_period_start: Time(BEFORE[0]),
            charge_period_end: Time(BEFORE[1]),
            origin_month: some("2026-09"),
            pricing_quantity: Some(Trillionths(-exact("5").0)),
            consumed_quantity: None,
            consumed_unit: None,
            ..correction
        },
        amount(row(Tax, "19 % tax", true), 242_686),
    ]
}
