//! Random bills become rows that pass the checks and sum to the bill.

use std::sync::Arc;

use contador_schemas::mapping::Glob;
use contador_schemas::owner::{Owner, OwnerKind};
use num_bigint::BigInt;
use proptest::prelude::*;

use crate::bill::commitments::{Agreements, Commitment, Slot};
use crate::bill::decimal::{Millionths, ONE};
use crate::bill::facts::{Device, Fact, Facts, Item, OtherFact};
use crate::bill::focus::csv;
use crate::bill::focus::lines::{Export, ExportError, Unpriced};
use crate::bill::focus::row::Row;
use crate::bill::focus::value::{ChargeCategory, PricingCategory};
use crate::bill::period::{self, Period};
use crate::bill::prices::{
    Consumption, ConsumptionRule, Energy, NetworkRate, Percentage, PriceBook, Rate, Spread, StorageRate,
};
use crate::bill::rate::{Category, Key, Payer};
use crate::bill::settle::{Amounts, Line};
use crate::bill::statement::{self, Statement};
use crate::random::Random;

const HOUR: i64 = 3_600_000;
const MODELS: [&str; 3] = ["H100", "A100", "L4"];
/// A number, a blank and none: what readers of CSV stumble over.
const DEPARTMENTS: [&str; 5] = ["research", "search", "42", " ", ""];

struct Dice(Random);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0.next() % end
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()].clone()
    }

    /// From nothing to 20 of a currency unit, some with all twelve digits.
    fn price(&mut self) -> i128 {
        match self.below(4) {
            0 => i128::from(self.below(80)) * ONE / 4,
            1 => i128::from(self.below(2)),
            _ => i128::from(self.below(20_000_000_000_000)),
        }
    }

    fn owner(&mut self) -> Arc<Owner> {
        let department = self.pick(&DEPARTMENTS).to_owned();
        let job = self.pick(&["", "7", "train"]).to_owned();
        Arc::new(Owner { department, job, project: self.pick(&["", "vision"]).to_owned(), ..Owner::default() })
    }
}

/// A month of 745 hours, some days around its end, or most of two years.
fn some_period(dice: &mut Dice) -> Period {
    let zone = period::zone(dice.pick(&["UTC", "Europe/Berlin", "America/New_York"])).unwrap();
    match dice.below(6) {
        0 => Period::between("2026-10-30T05:00:00Z", "2026-11-02T17:00:00Z", &zone).unwrap(),
        1 => Period::between("2025-12-25", "2027-02-03", &zone).unwrap(),
        _ => Period::month("2026-10", &zone).unwrap(),
    }
}

fn book(dice: &mut Dice) -> PriceBook {
    let mut book = PriceBook::new("EUR");
    book.issuer = dice.pick(&["", "Example", "42"]).to_owned();
    book.decimals = u8::try_from(dice.below(7)).unwrap();
    for model in ["*", "H100", "A100"] {
        for profile in [None, Some("*"), Some("1g.10gb")] {
            if dice.chance(60) {
                book.rates.push(Rate { mig_profile: profile.map(str::to_owned), ..Rate::of(model, dice.price()) });
            }
        }
    }
    let of_jobs = vec![("job".to_owned(), Glob::parse("train").unwrap())];
    book.consumption.push(ConsumptionRule { model: Consumption::Exclusive, matches: of_jobs });
    let (tariff, pue) = (dice.price(), 13 * ONE / 10);
    let nodes = Vec::new();
    book.energy.push(Energy {
        valid_from: 0,
        nodes,
        tariff,
        pue,
        carbon_g_per_kwh: Some(344 * ONE),
        source: String::new(),
    });
    book.energy_is_a_line = dice.chance(70);
    let class = || Glob::parse("*").unwrap();
    let (department, project, valid_from) = (String::new(), String::new(), 0);
    if dice.chance(60) {
        let (department, project) = (department.clone(), project.clone());
        let per_gib_month = dice.price();
        book.storage.push(StorageRate {
            class: class(),
            department,
            project,
            valid_from,
            per_gib_month,
            month_hours: 730,
        });
    }
    if dice.chance(60) {
        book.network.push(NetworkRate { class: class(), department, project, valid_from, per_gib: dice.price() });
    }
    let percentage = |name: &str, percent| Percentage {
        name: name.to_owned(),
        percent,
        departments: Default::default(),
        valid_from: 0,
        valid_to: None,
    };
    book.markups.push(percentage("overhead", dice.price()));
    book.taxes.push(percentage("19", 19 * ONE));
    let how = [Spread::Show, Spread::Proportional, Spread::Even, Spread::Platform];
    book.policy.idle = dice.pick(&how);
    book.policy.stranded = dice.pick(&how);
    book.policy.unmetered = dice.pick(&how);
    book.policy.platform = "operations".to_owned();
    book
}

fn agreements(dice: &mut Dice, period: &Period) -> Agreements {
    let mut agreements = Agreements { currency: "EUR".to_owned(), ..Agreements::default() };
    for number in 0..dice.below(4) {
        let from = u32::try_from((period.from / HOUR + i64::try_from(dice.below(60)).unwrap() - 20) * 3_600).unwrap();
        agreements.commitments.push(Commitment {
            id: dice.pick(&["", "c"]).to_owned() + &number.to_string(),
            department: dice.pick(&DEPARTMENTS[..3]).to_owned(),
            gpu_model: dice.pick(&MODELS).to_owned(),
            mig_profile: dice.chance(30).then(|| "1g.10gb".to_owned()),
            gpus: u32::try_from(1 + dice.below(3)).unwrap(),
            hourly: dice.price(),
            from,
            to: dice.chance(50).then(|| from + 3_600 * u32::try_from(1 + dice.below(200)).unwrap()),
            slot: Slot::Hour,
        });
    }
    agreements
}

/// What somebody or nobody had for an hour.
fn fact(dice: &mut Dice, period: &Period) -> Fact {
    let hours = u64::try_from((period.to - period.from) / HOUR).unwrap();
    let from = period.from + i64::try_from(dice.below(hours.min(100))).unwrap() * HOUR;
    let kind = if dice.chance(60) { OwnerKind::Workload } else { dice.pick(&OwnerKind::ALL) };
    let mig_profile = dice.pick(&["", "", "1g.10gb"]).to_owned();
    let device = Device { gpu_model: dice.pick(&MODELS).to_owned(), mig_profile, ..Device::default() };
    let whole = i128::from(dice.below(4 * 3_600_000)) * ONE + i128::from(dice.below(1_000_000));
    Fact {
        kind,
        owner: if kind == OwnerKind::Workload { dice.owner() } else { Arc::new(Owner::of_kind(kind)) },
        cost_centre: dice.pick(&["", "0042"]).into(),
        from,
        to: from + HOUR,
        held: HOUR,
        allocated: whole,
        busy: whole / 3,
        greater: whole,
        instance: if device.mig_profile.is_empty() { 0 } else { whole * 7 },
        energy_mj: i128::from(dice.below(2_000_000_000)),
        device: Arc::new(device),
        ..Fact::default()
    }
}

fn other(dice: &mut Dice, period: &Period) -> OtherFact {
    let (from, to) = (period.from, period.from + HOUR);
    let (item, class) = dice.pick(&[(Item::Storage, "/data"), (Item::Network, "7")]);
    let quantity = i128::from(dice.below(1 << 60));
    OtherFact {
        item,
        class: class.into(),
        owner: dice.owner(),
        cost_centre: "".into(),
        from,
        to,
        quantity,
        simulated: false,
    }
}

/// What was signed by hand, and what corrects a month that is closed: parts of lines, taken away.
fn by_hand(dice: &mut Dice, lines: &[Line]) -> Vec<Line> {
    let mut more = Vec::new();
    for (category, cost, origin) in [
        (Category::Credit, -50_000_000, None),
        (Category::Adjustment, 1_234_567, Some("2025-08")),
        (Category::Credit, -1, Some("2025-08")),
        // For a month that is still to come, which is no correction.
        (Category::Credit, -2, Some("2027-12")),
    ] {
        let cost = Millionths(BigInt::from(cost));
        let key = Key {
            payer: Payer { kind: OwnerKind::Workload, department: "search".into() },
            owner: Arc::new(Owner { department: "search".to_owned(), ..Owner::default() }),
            category,
            item: "for the outage".into(),
            origin_month: origin.map(Into::into),
            ..Key::default()
        };
        more.push(Line { key, amounts: Amounts { effective: cost.clone(), cost, ..Amounts::default() } });
    }
    for line in lines.iter().filter(|line| line.amounts.cost == line.amounts.effective) {
        if !dice.chance(30) {
            continue;
        }
        let category = line.key.category.as_str();
        let item = if line.key.item.is_empty() { category.into() } else { format!("{category}: {}", line.key.item) };
        let key = Key {
            category: Category::Correction,
            item: item.into(),
            origin_month: Some("2025-09".into()),
            day: line.key.day.and(Some(20_342)),
            ..line.key.clone()
        };
        let mut amounts = line.amounts.clone();
        amounts.all_mut().into_iter().for_each(|amount| amount.0 = -&amount.0 / 3);
        amounts.effective = amounts.cost.clone();
        more.push(Line { key, amounts });
    }
    more
}

fn bill(seed: u64) -> Statement {
    let mut dice = Dice(Random::new(seed));
    let period = some_period(&mut dice);
    let (book, agreements) = (book(&mut dice), agreements(&mut dice, &period));
    let count = dice.below(40);
    let facts = (0..count).map(|_| fact(&mut dice, &period)).collect();
    let other = (0..dice.below(4)).map(|_| other(&mut dice, &period)).collect();
    let mut statement = statement::of_facts(&Facts { facts, other, ..Facts::default() }, &period, book, agreements);
    let more = by_hand(&mut dice, &statement.lines);
    statement.lines.extend(more);
    statement.lines.sort_by(|one, other| one.key.cmp(&other.key));
    statement
}

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
