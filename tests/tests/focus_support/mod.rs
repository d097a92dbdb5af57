//! A month whose bill has a line of every category.

use std::collections::BTreeSet;
use std::sync::Arc;

use contador::bill::commitments::{Agreements, Commitment, Slot};
use contador::bill::decimal::{Millionths, ONE};
use contador::bill::facts::{Device, Fact, Facts, Item, OtherFact};
use contador::bill::period::{self, Period};
use contador::bill::prices::{Energy, NetworkRate, Percentage, PriceBook, Rate, Spread, StorageRate};
use contador::bill::rate::{Category, Key, Payer};
use contador::bill::settle::{Amounts, Line};
use contador::bill::statement::{self, Statement};
use contador_schemas::mapping::Glob;
use contador_schemas::owner::{Owner, OwnerKind};

const HOUR: i64 = 3_600_000;
const H100: &str = "NVIDIA H100 80GB HBM3";

/// Of an hour of October in Berlin: who has how many GPUs of which model and profile.
fn held(department: &str, hour: i64, model: &str, profile: &str, gpus: i64) -> Fact {
    // 2026-10-01T00:00+02:00.
    let from = 1_790_805_600_000 + hour * HOUR;
    let owner = Owner {
        department: department.to_owned(),
        project: "vision".to_owned(),
        cluster: "berlin".to_owned(),
        job: "train, \"7\"".to_owned(),
        ..Owner::default()
    };
    let device = Device { gpu_model: model.to_owned(), mig_profile: profile.to_owned(), ..Device::default() };
    let allocated = i128::from(gpus * HOUR) * ONE;
    Fact {
        owner: Arc::new(owner),
        device: Arc::new(device),
        from,
        to: from + HOUR,
        held: HOUR,
        // A seventh of a GPU for each instance.
        allocated: if profile.is_empty() { allocated } else { allocated / 7 },
        instance: if profile.is_empty() { 0 } else { allocated },
        greater: allocated,
        energy_mj: i128::from(2_345_678_901 * gpus),
        ..Fact::default()
    }
}

fn nobodys(kind: OwnerKind, fact: Fact) -> Fact {
    Fact { kind, owner: Arc::new(Owner::of_kind(kind)), ..fact }
}

fn facts() -> Facts {
    let mut facts = vec![
        held("platform", 30, "NVIDIA L4", "", 2),
        held("research", 30, "NVIDIA L4", "", 1),
        held("search", 40, H100, "MIG 1g.10gb", 5),
        held("", 50, "NVIDIA L4", "", 1),
        nobodys(OwnerKind::Idle, held("", 31, "NVIDIA L4", "", 3)),
        nobodys(OwnerKind::Idle, held("", 60, H100, "", 1)),
        nobodys(OwnerKind::Stranded, held("", 40, H100, "", 1)),
        nobodys(OwnerKind::Unmetered, held("", 41, H100, "", 1)),
    ];
    facts.extend((0..50).map(|hour| held("research", hour, H100, "", 1 + hour % 3)));
    let other = |item, class: &str, quantity| OtherFact {
        item,
        class: class.into(),
        owner: Arc::new(Owner { department: "research".to_owned(), ..Owner::default() }),
        cost_centre: "0042".into(),
        from: facts[0].from,
        to: facts[0].to,
        quantity,
        simulated: false,
    };
    let gib = 1 << 30;
    let other =
        vec![other(Item::Storage, "/scratch", 12_345 * gib * i128::from(HOUR)), other(Item::Network, "eth0", 77 * gib)];
    Facts { facts, other, ..Facts::default() }
}

fn book() -> PriceBook {
    let mut book = PriceBook::new("EUR").with(H100, 0, 5 * ONE / 2).with("NVIDIA L4", 0, 4 * ONE / 5);
    book.issuer = "Example computing centre".to_owned();
    book.rates.push(Rate { mig_profile: Some("MIG 1g.10gb".to_owned()), ..Rate::of(H100, 2 * ONE / 5) });
    book.energy.push(Energy {
        valid_from: 0,
        nodes: Vec::new(),
        tariff: 12 * ONE / 100,
        pue: 13 * ONE / 10,
        carbon_g_per_kwh: Some(3_441 * ONE / 10),
        source: String::new(),
    });
    book.energy_is_a_line = true;
    let any = || Glob::parse("*").unwrap();
    let (department, project, valid_from) = (String::new, String::new, 0);
    let (per_gib_month, month_hours) = (ONE / 50, 730);
    let (class, whose, what_for) = (any(), department(), project());
    book.storage.push(StorageRate {
        class,
        department: whose,
        project: what_for,
        valid_from,
        per_gib_month,
        month_hours,
    });
    let (class, department, project) = (any(), department(), project());
    book.network.push(NetworkRate { class, department, project, valid_from, per_gib: ONE / 100 });
    let percentage = |name: &str, percent: i128| Percentage {
        name: name.to_owned(),
        percent: percent * ONE,
        departments: BTreeSet::new(),
        valid_from: 0,
        valid_to: None,
    };
    book.markups.push(percentage("overhead", 5));
    book.taxes.push(percentage("VAT", 19));
    book.policy.idle = Spread::Proportional;
    book
}

/// The bill of October 2026 in Berlin: on demand, covered, unused and bought, shared and shown, energy, storage, network, mark-up, tax,
/// a credit, and a correction of September.
pub fn statement() -> Statement {
    let period = Period::month("2026-10", &period::zone("Europe/Berlin").unwrap()).unwrap();
    let commitment = Commitment {
        id: "two-h100".to_owned(),
        department: "research".to_owned(),
        gpu_model: H100.to_owned(),
        mig_profile: None,
        gpus: 2,
        hourly: 7 * ONE / 4,
        from: 0,
        to: None,
        slot: Slot::Hour,
    };
    let agreements = Agreements { currency: "EUR".to_owned(), commitments: vec![commitment], ..Agreements::default() };
    let mut statement = statement::of_facts(&facts(), &period, book(), agreements);
    let demand = statement.lines.iter().find(|line| line.key.category == Category::Usage).unwrap().key.clone();
    let credit = Key {
        payer: Payer { kind: OwnerKind::Workload, department: "research".into() },
        category: Category::Credit,
        item: "for the outage".into(),
        ..Key::default()
    };
    let correction = Key {
        category: Category::Correction,
        item: "usage".into(),
        origin_month: Some("2026-09".into()),
        // 2026-09-10.
        day: Some(20_706),
        ..demand
    };
    for (key, cost, quantity) in [(credit, -50_000_000, 0), (correction, -12_500_000, -5_000_000)] {
        let millionths = |value: i64| Millionths(value.into());
        let amounts = Amounts {
            cost: millionths(cost),
            effective: millionths(cost),
            quantity: millionths(quantity),
            gpu_hours: millionths(quantity),
            ..Amounts::default()
        };
        statement.lines.push(Line { key, amounts });
    }
    statement
}
