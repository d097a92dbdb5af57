//! Random bills become rows that pass the checks and sum to the bill.

use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};
use num_bigint::BigInt;
use proptest::prelude::*;

use super::bills::{HOUR, bill};
use crate::bill::commitments::{Agreements, Commitment, Slot};
use crate::bill::decimal::{Millionths, ONE};
use crate::bill::facts::{Device, Fact, Facts};
use crate::bill::focus::csv;
use crate::bill::focus::lines::{Export, ExportError, Unpriced};
use crate::bill::focus::row::Row;
use crate::bill::focus::value::{ChargeCategory, PricingCategory};
use crate::bill::period::{self, Period};
use crate::bill::prices::{Energy, Percentage, PriceBook, Rate, Spread};
use crate::bill::rate::{Category, Key};
use crate::bill::settle::{Amounts, Line};
use crate::bill::statement::{self, Statement};

fn rows(statement: &Statement) -> Vec<Row> {
    let export = Export::new(statement, |_| true, Unpriced::Marked).unwrap();
    export.check().unwrap_or_else(|error| panic!("{error}"));
    export.rows().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn b18_any_bill_passes_the_checks_and_sums_to_its_total(seed: u64) {
        let statement = bill(seed);
        let rows = rows(&statement);
        let total = statement.total();
        let sum = |of: fn(&Row) -> &BigInt| Millionths(rows.iter().map(of).sum());
        prop_assert_eq!(sum(|row| &row.billed_cost.0), total.cost);
        prop_assert_eq!(sum(|row| &row.effective_cost.0), total.effective);
        let energy: Millionths = rows.iter().filter_map(|row| row.energy_kwh.as_ref()).sum();
        prop_assert_eq!(energy, total.energy);
        // Nothing without a price looks free, and nothing with one looks unpriced.
        let marked: BigInt = rows
            .iter()
            .filter(|row| row.pricing_category == Some(PricingCategory::Other))
            .map(|row| BigInt::from(row.pricing_quantity.unwrap().0))
            .sum();
        prop_assert_eq!(marked, &total.unpriced.0 * 1_000_000);
        // A part of the bill is that part of the rows.
        let department = |key: &Key| key.payer.kind == OwnerKind::Workload && *key.payer.department == *"research";
        let export = Export::new(&statement, department, Unpriced::Marked).unwrap();
        prop_assert!(export.check().is_ok());
        let part: Vec<Row> = rows.into_iter().filter(|row| row.department.as_deref() == Some("research")).collect();
        prop_assert_eq!(export.rows().collect::<Vec<_>>(), part);
    }
}

#[test]
fn the_written_csv_is_the_rows() {
    let statement = bill(7);
    let mut text = Vec::new();
    Export::new(&statement, |_| true, Unpriced::Marked).unwrap().write_csv(&mut text).unwrap();
    assert_eq!(csv::read(text.as_slice()).unwrap(), rows(&statement));
}

/// October in Berlin: an hour of each of these, at 2 a GPU-hour.
fn october(facts: Vec<Fact>, book: PriceBook, agreements: Agreements) -> Statement {
    let period = Period::month("2026-10", &period::zone("Europe/Berlin").unwrap()).unwrap();
    statement::of_facts(&Facts { facts, ..Facts::default() }, &period, book, agreements)
}

fn hours(department: &str, model: &str, hours: i64) -> Fact {
    // 2026-10-01T00:00+02:00.
    let from = 1_790_805_600_000;
    let owner = Owner { department: department.to_owned(), ..Owner::default() };
    let device = Device { gpu_model: model.to_owned(), ..Device::default() };
    let allocated = i128::from(hours * HOUR) * ONE;
    let (owner, device) = (Arc::new(owner), Arc::new(device));
    Fact { owner, device, from, to: from + HOUR, held: HOUR, allocated, greater: allocated, ..Fact::default() }
}

#[test]
fn b4_what_has_no_price_is_refused_or_marked_and_never_free() {
    let book = PriceBook::new("EUR").with("H100", 0, 2 * ONE);
    let statement = october(vec![hours("a", "H100", 3), hours("a", "L4", 5)], book, Agreements::default());
    let refused = Export::new(&statement, |_| true, Unpriced::Refused).unwrap_err();
    let said = "unpriced, and so in no row: L4 (5.000000); price it, or say --allow-unpriced";
    assert!(matches!(&refused, ExportError::Unpriced(_)) && refused.to_string() == said, "{refused}");
    let rows = rows(&statement);
    let row = rows.iter().find(|row| row.gpu_model.as_deref() == Some("L4")).unwrap();
    assert_eq!(row.charge_description, "L4, without a price");
    assert_eq!(row.tags.as_ref().unwrap().0["contador:unpriced"], "true");
    assert_eq!(row.sku_price_details.as_ref().unwrap().0["x_Unpriced"], "true");
    assert_eq!((row.pricing_category, row.billed_cost.is_zero()), (Some(PricingCategory::Other), true));
    assert_eq!(row.pricing_quantity.unwrap().0, 5 * ONE);
}

/// Two H100 for the whole month at 1.50, 3 hours of which are used, and 1 hour more than they have in that hour.
fn committed() -> Statement {
    let commitment = Commitment {
        id: "two".to_owned(),
        department: "a".to_owned(),
        gpu_model: "H100".to_owned(),
        mig_profile: None,
        gpus: 2,
        hourly: 3 * ONE / 2,
        from: 0,
        to: None,
        slot: Slot::Hour,
    };
    let agreements = Agreements { currency: "EUR".into(), commitments: vec![commitment], ..Agreements::default() };
    let idle = Fact { kind: OwnerKind::Idle, owner: Arc::new(Owner::of_kind(OwnerKind::Idle)), ..hours("", "H100", 1) };
    let later = Fact { from: idle.from + HOUR, to: idle.to + HOUR, ..idle };
    let book = PriceBook::new("EUR").with("H100", 0, 2 * ONE);
    october(vec![hours("a", "H100", 3), later], book, agreements)
}

#[test]
fn a_commitment_is_bought_used_and_left_unused() {
    let rows = rows(&committed());
    let of = |text: &str| rows.iter().filter(|row| row.charge_description.contains(text)).collect::<Vec<_>>();
    let said = |row: &Row| {
        let costs = [&row.billed_cost, &row.effective_cost, &row.list_cost].map(ToString::to_string);
        let quantity = row.pricing_quantity.unwrap().0 / ONE;
        (costs.join(" "), quantity, row.consumed_quantity.map(|quantity| quantity.0 / ONE))
    };
    // 745 hours of 2 GPUs at 1.50.
    let [purchase] = of("H100, commitment two")[..] else { panic!("{rows:?}") };
    assert_eq!(said(purchase), ("2235.000000 0.000000 2235.000000".to_owned(), 1490, None));
    assert_eq!(purchase.charge_category, ChargeCategory::Purchase);
    // By list, what is covered would have cost 2.00.
    let [used] = of("covered by")[..] else { panic!("{rows:?}") };
    assert_eq!(said(used), ("0.000000 3.000000 4.000000".to_owned(), 2, Some(2)));
    let unused = of("left unused");
    assert_eq!(unused.len(), 31);
    let effective: Millionths = unused.iter().map(|row| &row.effective_cost).sum();
    assert_eq!(effective.to_string(), "2232.000000");
    assert!(unused.iter().all(|row| row.consumed_quantity.is_none()));
    // What is over the commitment is on demand; idle time of its GPUs is paid for already.
    let [demand] = of("H100, time-sharing")[..] else { panic!("{rows:?}") };
    assert_eq!(said(demand), ("2.000000 2.000000 2.000000".to_owned(), 1, Some(1)));
    let [resting] = of("idle: H100, paid for by commitment two")[..] else { panic!("{rows:?}") };
    assert_eq!(said(resting), ("0.000000 0.000000 0.000000".to_owned(), 0, Some(1)));
    assert!(resting.sub_account_id.is_none() && resting.commitment_id.is_none());
}

#[test]
fn b14_use_of_a_closed_month_moves_between_used_and_unused() {
    let mut statement = committed();
    let lines = std::mem::take(&mut statement.lines);
    // An hour that was left unused in September was used after all.
    for line in lines {
        let sign = match line.key.category {
            Category::Covered if line.key.payer.kind == OwnerKind::Workload => 1,
            Category::Unused if line.key.day == Some(20_728) => -1,
            _ => continue,
        };
        let item = format!("{}: two", line.key.category);
        let key =
            Key { category: Category::Correction, item: item.into(), origin_month: Some("2026-09".into()), ..line.key };
        let amount = |value: i64| Millionths(BigInt::from(sign * value));
        let amounts = Amounts { quantity: amount(1_000_000), effective: amount(1_500_000), ..Amounts::default() };
        statement.lines.push(Line { key, amounts });
    }
    let rows = rows(&statement);
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(row.origin_month.as_deref(), Some("2026-09"));
        assert_eq!(row.commitment_id.as_deref(), Some("contador:commitment/two"));
        assert!(row.is_correction() && row.commitment_quantity.is_none());
    }
}

#[test]
fn an_invoice_is_on_every_row_and_sums_to_it() {
    let statement = committed();
    let export = Export::new(&statement, |_| true, Unpriced::Refused).unwrap().on_invoice("202610");
    export.check().unwrap();
    assert!(export.rows().all(|row| row.invoice_id.as_deref() == Some("contador:invoice/202610")));
}

#[test]
fn a_bill_that_makes_wrong_rows_is_not_written() {
    let mut statement = committed();
    statement.book.currency = "EUX".to_owned();
    let export = Export::new(&statement, |_| true, Unpriced::Refused).unwrap();
    let mut out = Vec::new();
    let said = export.write_csv(&mut out).unwrap_err().to_string();
    assert!(
        said.starts_with("the bill does not make right rows of FOCUS, which is a fault of contador: row 1: Bil"),
        "{said}"
    );
    assert!(export.write_parquet(&mut out).is_err() && out.is_empty());
}

#[test]
fn b19_days_that_are_no_month_have_the_months_that_they_lie_in() {
    let zone = period::zone("Europe/Berlin").unwrap();
    let period = Period::between("2026-10-30T00:00:00.125+01:00", "2026-11-02", &zone).unwrap();
    let mut book = PriceBook::new("EUR").with("H100", 0, 2 * ONE);
    let name = "VAT".to_owned();
    let departments = Default::default();
    book.taxes.push(Percentage { name, percent: 10 * ONE, departments, valid_from: 0, valid_to: None });
    // An hour on 1 November.
    let fact = Fact { from: 1_793_491_200_000, to: 1_793_494_800_000, ..hours("a", "H100", 5) };
    let facts = Facts { facts: vec![fact], ..Facts::default() };
    let statement = statement::of_facts(&facts, &period, book, Agreements::default());
    let text = |row: &Row| {
        let column = |name| crate::bill::focus::columns::all().find(|column| column.name == name).unwrap().text(row);
        ["ChargeCategory", "BilledCost", "BillingPeriodStart", "ChargePeriodStart", "ChargePeriodEnd"].map(column)
    };
    // The tax of 1.00 over two days and one, less an eighth of a second.
    assert_eq!(
        rows(&statement).iter().map(text).collect::<Vec<_>>(),
        [
            ["Usage", "10.000000", "2026-10-31T23:00:00Z", "2026-10-31T23:00:00Z", "2026-11-01T23:00:00Z"],
            ["Tax", "0.666667", "2026-09-30T22:00:00Z", "2026-10-29T23:00:00Z", "2026-10-31T23:00:00Z"],
            ["Tax", "0.333333", "2026-10-31T23:00:00Z", "2026-10-31T23:00:00Z", "2026-11-01T23:00:00Z"],
        ]
    );
}

#[test]
fn units_say_what_is_priced_and_names_are_no_numbers() {
    let mut book = PriceBook::new("EUR").with("H100", 0, 2 * ONE);
    book.rates.push(Rate { mig_profile: Some("1g.10gb".to_owned()), ..Rate::of("H100", ONE / 2) });
    let (nodes, source) = (Vec::new(), String::new());
    // A kWh costs what an hour costs.
    book.energy.push(Energy { valid_from: 0, nodes, tariff: 2 * ONE, pue: ONE, carbon_g_per_kwh: None, source });
    (book.energy_is_a_line, book.policy.idle) = (true, Spread::Proportional);
    let idle = Fact {
        kind: OwnerKind::Idle,
        owner: Arc::new(Owner::of_kind(OwnerKind::Idle)),
        energy_mj: 3 * 3_600_000_000,
        ..hours("", "H100", 7)
    };
    let device = Device { gpu_model: "H100".to_owned(), mig_profile: "1g.10gb".to_owned(), ..Device::default() };
    let whole = hours("42", "H100", 1);
    let part =
        Fact { device: Arc::new(device), allocated: whole.allocated / 7, instance: whole.allocated, ..whole.clone() };
    let said = |row: &Row| {
        let quantity = row.pricing_quantity.unwrap().0 / ONE;
        let unit = row.pricing_unit.clone().unwrap();
        format!("{}: {quantity} {unit} for {}", row.charge_description, row.billed_cost)
    };
    let rows = rows(&october(vec![whole, part, idle], book, Agreements::default()));
    assert_eq!(
        rows.iter().map(said).collect::<Vec<_>>(),
        [
            "H100, time-sharing: 1 GPU-Hours for 2.000000",
            "H100 MIG 1g.10gb, fraction: 1 Instance-Hours for 0.500000",
            "share of idle: H100: 7 GPU-Hours for 14.000000",
            "share of idle: energy of H100: 3 kWh for 6.000000",
        ]
    );
    for row in &rows {
        assert_eq!(row.sub_account_id.as_deref(), Some("contador:department/42"));
        let names = [&row.sub_account_name, &row.department].map(|name| name.as_deref().unwrap());
        assert_eq!(names, ["department 42", "42"]);
    }
}
