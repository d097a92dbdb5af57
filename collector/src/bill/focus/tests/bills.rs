//! Random bills: with lines of every category, in months and in other periods.

use std::sync::Arc;

use contador_schemas::mapping::Glob;
use contador_schemas::owner::{Owner, OwnerKind};
use num_bigint::BigInt;

use crate::bill::commitments::{Agreements, Commitment, Slot};
use crate::bill::decimal::{Millionths, ONE};
use crate::bill::facts::{Device, Fact, Facts, Item, OtherFact};
use crate::bill::period::{self, Period};
use crate::bill::prices::{
    Consumption, ConsumptionRule, Energy, NetworkRate, Percentage, PriceBook, Rate, Spread, StorageRate,
};
use crate::bill::rate::{Category, Key, Payer};
use crate::bill::settle::{Amounts, Line};
use crate::bill::statement::{self, Statement};
use crate::random::Random;

pub(super) const HOUR: i64 = 3_600_000;
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

/// The bill of a seed.
pub(super) fn bill(seed: u64) -> Statement {
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
