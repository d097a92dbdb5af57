//! Pages of `contador report --format html` to look at: the sample fleet's allocations through a real engine, with made-up use,
//! energy and idle time, commitments, budgets and taxes, so that every part of a page is there. Labelled as simulated.
//!
//! `cargo run -p contador-tests --example report_pages FOLDER` (needs `target/debug/contador`); `tests/screenshots.sh` takes pictures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use contador::bill::commitments::{Agreements, Budget, Commitment, Slot};
use contador::bill::decimal::{Millionths, ONE};
use contador::bill::facts::{self, Device, Fact, Facts};
use contador::bill::period::{Period, zone};
use contador::bill::prices::{ConsumptionRule, Energy, Percentage, Policy, PriceBook, Spread, file};
use contador::bill::rate::{Category, Key, Payer};
use contador::bill::report::view::{Beside, Served};
use contador::bill::report::{Dimension, Lang, Report};
use contador::bill::settle::{Amounts, Line};
use contador::bill::statement::{self, Statement};
use contador::bill::{import, sample};
use contador::store::{Store, migrate};
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::Invoice;
use contador_tests::Engine;

const HOUR_MS: i128 = 3_600_000;

fn main() -> anyhow::Result<()> {
    let folder: PathBuf = std::env::args().nth(1).context("expected a folder for the pages")?.into();
    std::fs::create_dir_all(&folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(pages(&folder))
}

async fn pages(folder: &Path) -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let client = engine.client().with_database("contador");
    let store = Store { client, url: engine.url().to_owned(), database: "contador".to_owned() };
    migrate::up(&store).await?;
    for (month, seed) in [("2026-09-01", 2026), ("2026-10-01", 2027)] {
        let text = sample::sample_fleet(month.parse()?, seed);
        import::allocations(&store, month, text.as_bytes(), true).await?;
    }
    let zone = zone("UTC")?;
    let (september, october) = (Period::month("2026-09", &zone)?, Period::month("2026-10", &zone)?);
    let last = bill(&store, &september, september.to).await?;
    let mut whole = bill(&store, &october, october.to).await?;
    credit(&mut whole);
    whole.standing.invoice = Some(Invoice { number: 2, hash: "5f1c".repeat(16), ..Invoice::default() });
    let served = |service: &str, requests, tokens| Served {
        department: "search".into(),
        service: service.into(),
        requests,
        tokens,
    };
    let beside = Beside {
        last: Some(last.clone()),
        served: vec![served("embed-text", 48_211_904, 9_731_220_114), served("rerank", 7_120_338, 0)],
        ..Beside::default()
    };
    let report = |statement: &Statement, department: Option<&str>, beside: Beside| {
        Report::new(statement.clone(), Dimension::Department, department.map(str::to_owned)).beside(beside)
    };
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text);
    let fleet = report(&whole, None, beside.clone());
    write("fleet.html", fleet.to_html(Lang::En, false))?;
    write("fleet-es.html", fleet.to_html(Lang::Es, false))?;
    write("fleet.json", serde_json::to_string_pretty(&fleet.to_json_with_lines())?)?;
    write("department.html", report(&whole, Some("search"), beside).to_html(Lang::En, false))?;
    let now = october.from + 19 * 86_400_000 + 40_000_000;
    let so_far = bill(&store, &october, now).await?;
    let beside = Beside { last: Some(last), now: Some(now), ..Beside::default() };
    let open = report(&so_far, None, beside);
    write("open.html", open.to_html(Lang::Es, false))?;
    println!("{}", open.to_table(110));
    write("empty.html", report(&odd(&october, &[])?, None, Beside::default()).to_html(Lang::En, false))?;
    let names = [
        "<script>alert(1)</script>",
        &"a-very-long-name-without-any-space".repeat(5),
        "",
        "(research)",
        "Ünïcode – 部門",
    ];
    write("odd.html", report(&odd(&october, &names)?, None, Beside::default()).to_html(Lang::En, false))?;
    let many: Vec<String> = (0..1_000).map(|number| format!("department {number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    write("many.html", report(&odd(&october, &many)?, None, Beside::default()).to_html(Lang::En, false))?;
    Ok(())
}

fn book() -> anyhow::Result<PriceBook> {
    let mut book = file::parse("prices.example.toml", sample::sample_prices())?;
    book.issuer = "Platform Engineering".to_owned();
    book.decimals = 2;
    book.energy_is_a_line = true;
    let tenths = |tenths: i128| tenths * ONE / 10;
    book.energy = vec![Energy {
        valid_from: 0,
        nodes: Vec::new(),
        tariff: tenths(1),
        pue: tenths(13),
        carbon_g_per_kwh: Some(150 * ONE),
        source: String::new(),
    }];
    let percentage = |name: &str, percent: i128| Percentage {
        name: name.to_owned(),
        percent: percent * ONE,
        departments: BTreeSet::new(),
        valid_from: 0,
        valid_to: None,
    };
    book.markups = vec![percentage("operations", 4)];
    book.taxes = vec![percentage("VAT", 21)];
    book.policy = Policy { idle: Spread::Proportional, ..Policy::default() };
    book.consumption = Vec::<ConsumptionRule>::new();
    Ok(book)
}

fn agreements() -> Agreements {
    let budget = |department: &str, monthly: i128| Budget {
        department: department.to_owned(),
        from_month: "2026-01".to_owned(),
        monthly: monthly * ONE,
    };
    Agreements {
        currency: "EUR".to_owned(),
        commitments: vec![Commitment {
            id: "h100-research".to_owned(),
            department: "research".to_owned(),
            gpu_model: "NVIDIA H100 80GB HBM3".to_owned(),
            mig_profile: None,
            gpus: 4,
            hourly: 21 * ONE / 10,
            from: 0,
            to: None,
            slot: Slot::Hour,
        }],
        budgets: vec![
            budget("", 40_000),
            budget("research", 15_000),
            budget("search", 9_000),
            budget("support", 14_000),
        ],
    }
}

/// The bill of a period, of what was used up to `until`.
async fn bill(store: &Store, period: &Period, until: i64) -> anyhow::Result<Statement> {
    let (book, agreements) = (book()?, agreements());
    let so_far = Period { to: until, ..period.clone() };
    let grain = statement::grain(&book, &agreements, &so_far);
    let mut facts = facts::fetch(store, &so_far, &grain).await?;
    let mut idle: BTreeMap<(String, i64, i64), i128> = BTreeMap::new();
    for fact in &mut facts.facts {
        let owner = fact.owner.attributes().iter().flat_map(|(_, value)| value.bytes()).map(i128::from).sum::<i128>();
        let known = if fact.owner.project == "speech" { 60 } else { 100 };
        fact.imported = false;
        fact.unknown = fact.allocated * (100 - known) / 100;
        fact.busy = fact.allocated * known / 100 * (35 + owner % 60) / 100;
        fact.energy_mj = fact.busy / ONE * watts(&fact.device);
        *idle.entry((fact.device.gpu_model.clone(), fact.from, fact.to)).or_default() += fact.allocated / 12;
    }
    facts.facts = facts.facts.into_iter().flat_map(by_the_hour).collect();
    facts.facts.extend(
        idle.into_iter().map(|((model, from, to), allocated)| nobody(OwnerKind::Idle, model, from, to, allocated)),
    );
    let lost = 31 * HOUR_MS * ONE;
    facts.facts.push(nobody(OwnerKind::Unmetered, "NVIDIA L4".to_owned(), period.from, period.from + 86_400_000, lost));
    facts.ledger_rows = 218_440;
    Ok(statement::of_facts(&facts, period, book, agreements))
}

/// Cuts what a commitment may cover at the hours to which it applies.
fn by_the_hour(fact: Fact) -> Vec<Fact> {
    if !fact.device.gpu_model.contains("H100") {
        return vec![fact];
    }
    let (mut facts, mut from) = (Vec::new(), fact.from);
    while from < fact.to {
        let to = (from - from.rem_euclid(3_600_000) + 3_600_000).min(fact.to);
        // The part of the span up to an instant, so that the parts sum up.
        let until = |amount: i128, at: i64| amount * i128::from(at - fact.from) / i128::from(fact.to - fact.from);
        let part = |amount: i128| until(amount, to) - until(amount, from);
        facts.push(Fact {
            from,
            to,
            held: to - from,
            allocated: part(fact.allocated),
            unknown: part(fact.unknown),
            busy: part(fact.busy),
            greater: part(fact.greater),
            energy_mj: part(fact.energy_mj),
            ..fact.clone()
        });
        from = to;
    }
    facts
}

fn watts(device: &Device) -> i128 {
    match device.gpu_model.as_str() {
        "NVIDIA L4" => 68,
        "NVIDIA A100-SXM4-80GB" => 340,
        _ => 590,
    }
}

fn nobody(kind: OwnerKind, gpu_model: String, from: i64, to: i64, allocated: i128) -> Fact {
    let device = Arc::new(Device { gpu_model, ..Device::default() });
    let owner = Arc::new(Owner::of_kind(kind));
    Fact { kind, owner, device, from, to, allocated, simulated: true, ..Fact::default() }
}

/// What was given back, which is no fact.
fn credit(statement: &mut Statement) {
    let line = |category, item: &str, cost: i64| {
        let owner = Owner { department: "support".to_owned(), ..Owner::default() };
        let payer = Payer { kind: OwnerKind::Workload, department: "support".into() };
        let origin_month = (category == Category::Correction).then(|| "2026-09".into());
        let cost = Millionths((cost * 10_000).into());
        let amounts = Amounts { effective: cost.clone(), cost, ..Amounts::default() };
        Line {
            key: Key { payer, category, owner: Arc::new(owner), item: item.into(), origin_month, ..Key::default() },
            amounts,
        }
    };
    statement.lines.push(line(Category::Credit, "nodes lost on 12 October", -25_000));
    statement.lines.push(line(Category::Correction, "late allocations", 11_237));
    statement.lines.sort_by(|one, other| one.key.cmp(&other.key));
}

/// A bill with a line of each of some departments.
fn odd(period: &Period, departments: &[&str]) -> anyhow::Result<Statement> {
    let fact = |(at, name): (i64, &&str)| Fact {
        owner: Arc::new(Owner {
            department: (*name).to_owned(),
            project: name.chars().rev().collect(),
            job: format!("job of {name}"),
            ..Owner::default()
        }),
        device: Arc::new(Device { gpu_model: "NVIDIA L4".to_owned(), ..Device::default() }),
        from: period.from,
        to: period.from + 86_400_000,
        imported: true,
        unknown: i128::from(at + 1) * HOUR_MS * ONE / 7,
        allocated: i128::from(at + 1) * HOUR_MS * ONE / 7,
        ..Fact::default()
    };
    let facts = Facts { facts: (0..).zip(departments).map(fact).collect(), ..Facts::default() };
    Ok(statement::of_facts(
        &facts,
        period,
        PriceBook { decimals: 2, ..PriceBook::flat(ONE, "EUR") },
        Agreements::default(),
    ))
}
