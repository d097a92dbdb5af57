//! Cases of bills that other systems got wrong, by the names that the catalogue of faults has for them: imports and rows of the
//! ledger in a real store, and rating itself where a store adds nothing.
//!
//! Elsewhere: b3, b4, b7 and b11 with reports, b19 with periods, b13 with gaps, b14 with closing, b18 with FOCUS.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod bill_store;

use std::sync::Arc;

use bill_store::{Bill, failed};
use contador::bill::commitments::Agreements;
use contador::bill::decimal::ONE;
use contador::bill::facts::{Device, Fact, Facts, Session};
use contador::bill::period::{Period, zone};
use contador::bill::prices::{Policy, PriceBook, Rate, Spread};
use contador::bill::report::{Dimension, Report};
use contador::bill::statement::{self, Statement};
use contador_agent::ledger::slices::{self, Board, Slices, WHOLE};
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::{Device as DeviceRow, LedgerRow, OwnerRow};
use num_traits::Signed;

const OCTOBER: u32 = 1_790_812_800; // 2026-10-01T00:00:00Z
const HOUR: i128 = 3_600_000 * ONE;

fn october() -> Period {
    Period::month("2026-10", &zone("UTC").unwrap()).unwrap()
}

async fn build(bill: &Bill, book: PriceBook) -> anyhow::Result<Statement> {
    Ok(statement::build(&bill.store, &october(), Some(book)).await?)
}

/// Group and cost of a view, in its order.
fn costs(statement: &Statement, by: Dimension) -> Vec<(String, String)> {
    let report = Report::new(statement.clone(), by, None);
    assert!(report.difference().is_zero());
    report.groups.iter().map(|group| (report.key(group), group.amounts.cost.to_string())).collect()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(key, cost)| ((*key).to_owned(), (*cost).to_owned())).collect()
}

/// Some of a GPU, for a department, or nobody's where it has none.
fn fact(kind: OwnerKind, department: &str, model: &str, allocated: i128) -> Fact {
    let owner = Owner { kind, department: department.to_owned(), ..Owner::default() };
    let device = Device { gpu_model: model.to_owned(), ..Device::default() };
    let from = i64::from(OCTOBER) * 1_000;
    let (owner, device) = (Arc::new(owner), Arc::new(device));
    Fact { kind, owner, device, from, to: from + 86_400_000, held: 3_600_000, allocated, ..Fact::default() }
}

fn rate(facts: &[Fact], book: PriceBook) -> Statement {
    let facts = Facts { facts: facts.to_vec(), ..Facts::default() };
    statement::of_facts(&facts, &october(), book, Agreements::default())
}

#[tokio::test]
async fn b1_a_sum_of_three_prices_is_rounded_once() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    // 4 hours, 15.325 hours, and one.
    let file = bill.allocations(
        "a.csv",
        &[
            "2026-10-01T00:00:00Z,2026-10-01T04:00:00Z,n1,,cores,1,1,,a,,,,,1",
            "2026-10-01T00:00:00Z,2026-10-01T15:19:30Z,n1,,memory,1,1,,a,,,,,1",
            "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,,L4,1,1,,a,,,,,1",
        ],
    )?;
    bill.done(&format!("import --format allocations {file}"))?;
    let prices = bill.file(
        "prices.toml",
        "currency = \"USD\"\n[[rate]]\ngpu_model = \"cores\"\nhourly = \"0.010603\"\n\
         [[rate]]\ngpu_model = \"memory\"\nhourly = \"0.001421\"\n[[rate]]\ngpu_model = \"L4\"\nhourly = \"0.461814\"\n",
    )?;
    let report = bill.report(&format!("--month 2026-10 --prices {prices} --by gpu-model"))?;
    // 0.042412 + 0.021776825 + 0.461814 = 0.526002825
    assert_eq!(report["total_exact"], "21040113/40000000");
    assert_eq!(report["total"], "0.526003");
    let groups: Vec<_> = report["groups"].as_array().unwrap().iter().map(|group| group["cost"].clone()).collect();
    assert_eq!(groups, ["0.461814", "0.042412", "0.021777"]);
    Ok(())
}

#[test]
fn b2_a_price_is_multiplied_with_its_quantity_once() {
    // 8 hours of 2.50 are 20, and the line says both factors.
    let statement = rate(&[fact(OwnerKind::Workload, "a", "H100", 8 * HOUR)], PriceBook::flat(5 * ONE / 2, "EUR"));
    let [line] = statement.lines.as_slice() else { panic!("{:?}", statement.lines) };
    assert_eq!(line.key.unit_price, Some(5 * ONE / 2));
    assert_eq!(
        (line.amounts.quantity.to_string(), line.amounts.cost.to_string()),
        ("8.000000".into(), "20.000000".into())
    );
}

#[tokio::test]
async fn b5_b6_b10_claims_are_their_part_of_a_device_and_of_the_window() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let file = bill.allocations(
        "a.csv",
        &[
            "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-1,H100,1,0.25,,quarters,,,,,1",
            "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-1,H100,1,0.25,,quarters,,,,,2",
            "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-1,H100,1,0.25,,quarters,,,,,3",
            "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-1,H100,1,0.25,,quarters,,,,,4",
            // Two claim all of one device: both are charged, and nobody is given less than nothing.
            "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-2,L4,1,1,,twice,,,,,5",
            "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-2,L4,1,1,,twice,,,,,6",
            // It ended 147 seconds before the window below.
            "2026-10-01T00:00:00Z,2026-10-01T00:57:33Z,n1,GPU-3,L4,1,1,,gone,,,,,7",
        ],
    )?;
    bill.done(&format!("import --format allocations {file}"))?;
    let book = PriceBook::flat(3_600 * ONE, "EUR");
    let statement = build(&bill, book.clone()).await?;
    let hours = pairs(&[("twice", "7200.000000"), ("quarters", "3600.000000"), ("gone", "3453.000000")]);
    assert_eq!(costs(&statement, Dimension::Department), hours);
    for line in &statement.lines {
        assert_eq!(line.key.payer.kind, OwnerKind::Workload);
        assert!(line.amounts.all().iter().all(|amount| !amount.0.is_negative()));
    }
    // 76 seconds, of which 4 × 0.25 and 2 × 1 GPUs are held for a minute.
    let period = Period::between("2026-10-01T00:59:00Z", "2026-10-01T01:00:16Z", &zone("UTC")?)?;
    let statement = statement::build(&bill.store, &period, Some(book)).await?;
    assert_eq!(costs(&statement, Dimension::Department), pairs(&[("twice", "120.000000"), ("quarters", "60.000000")]));
    Ok(())
}

#[test]
fn b8_sharing_what_was_idle_changes_no_total() {
    let facts = [
        fact(OwnerKind::Workload, "research", "H100", 3 * HOUR),
        fact(OwnerKind::Workload, "search", "H100", HOUR),
        fact(OwnerKind::Workload, "support", "L4", HOUR),
        fact(OwnerKind::Idle, "", "H100", 8 * HOUR),
    ];
    for (idle, expected) in [
        (
            Spread::Show,
            [("research", "6.000000"), ("search", "2.000000"), ("support", "2.000000"), ("(idle)", "16.000000")],
        ),
        (Spread::Proportional, [("research", "18.000000"), ("search", "6.000000"), ("support", "2.000000"), ("", "")]),
        (Spread::Even, [("research", "14.000000"), ("search", "10.000000"), ("support", "2.000000"), ("", "")]),
        (
            Spread::Platform,
            [("operations", "16.000000"), ("research", "6.000000"), ("search", "2.000000"), ("support", "2.000000")],
        ),
    ] {
        let mut book = PriceBook::flat(2 * ONE, "EUR");
        book.policy = Policy { idle, platform: "operations".into(), ..Policy::default() };
        let statement = rate(&facts, book);
        let expected: Vec<_> = pairs(&expected).into_iter().filter(|(key, _)| !key.is_empty()).collect();
        assert_eq!(costs(&statement, Dimension::Department), expected, "{idle:?}");
        assert_eq!(statement.total().cost.to_string(), "26.000000");
        assert_eq!(statement.total().gpu_hours.to_string(), "13.000000");
    }
}

#[test]
fn b9_what_nobody_can_bear_stays_unallocated() {
    // Who used another model, and who used none of this one, bear nothing of its 27.
    let facts = [
        fact(OwnerKind::Idle, "", "H100", 27 * HOUR),
        fact(OwnerKind::Workload, "research", "H100", 0),
        fact(OwnerKind::Workload, "search", "L4", HOUR),
    ];
    for idle in [Spread::Proportional, Spread::Even] {
        let mut book = PriceBook::flat(ONE, "EUR");
        book.policy.idle = idle;
        let expected = pairs(&[("search", "1.000000"), ("research", "0.000000"), ("(idle)", "27.000000")]);
        assert_eq!(costs(&rate(&facts, book), Dimension::Department), expected, "{idle:?}");
    }
}

fn row(minute: u32, device: &str, owner: &Owner, share_ms: u32) -> LedgerRow {
    LedgerRow {
        minute: OCTOBER + minute * 60,
        device: device.to_owned(),
        owner: owner.id(),
        kind: owner.kind.as_str().to_owned(),
        held_ms: 60_000,
        share_ms,
        ..LedgerRow::default()
    }
}

fn department(name: &str) -> Owner {
    Owner { department: name.to_owned(), ..Owner::default() }
}

#[tokio::test]
async fn b12_who_still_runs_is_billed_like_who_has_ended() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let device = DeviceRow { id: "GPU-1".into(), model: "H100".into(), ..DeviceRow::default() };
    bill.insert(&[device]).await?;
    let (ended, runs) = (department("ended"), department("runs"));
    bill.insert(&[OwnerRow::from(&ended), OwnerRow::from(&runs)]).await?;
    let rows: Vec<_> =
        (0..120).map(|minute| row(minute, "GPU-1", if minute < 60 { &ended } else { &runs }, 60_000)).collect();
    bill.insert(&rows).await?;
    let statement = build(&bill, PriceBook::flat(3 * ONE, "EUR")).await?;
    assert_eq!(costs(&statement, Dimension::Department), pairs(&[("ended", "3.000000"), ("runs", "3.000000")]));
    Ok(())
}

/// Instances of one GPU, by the compute and memory slices of each, whose weights are the agent's.
fn weighed(profiles: &[(u32, u32)]) -> (Vec<u64>, u64) {
    let own = |(at, (compute, memory)): (usize, &(u32, u32))| Slices {
        gpu_instance: at.try_into().unwrap(),
        compute: Some(*compute),
        memory: Some(*memory),
    };
    let instances: Vec<Slices> = profiles.iter().enumerate().map(own).collect();
    let weights = slices::weights(&instances, Board::default());
    let whole = weights.iter().sum::<u64>().max(WHOLE);
    (weights, whole)
}

#[tokio::test]
async fn b15_b16_instances_of_a_gpu_sum_to_it_and_the_rest_is_stranded() -> anyhow::Result<()> {
    const MINUTES: u32 = 105;
    let bill = Bill::start().await?;
    let stranded = Owner::of_kind(OwnerKind::Stranded);
    let layouts: [(&str, &[(u32, u32)]); 4] = [
        ("seven", &[(1, 1); 7]),
        ("three", &[(2, 2); 3]),
        ("halves", &[(4, 4), (3, 4)]),
        ("mixed", &[(3, 4), (2, 2), (1, 1), (1, 1)]),
    ];
    let (mut devices, mut owners, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for (name, profiles) in layouts {
        let (weights, whole) = weighed(profiles);
        devices.push(DeviceRow { id: name.into(), model: "H100".into(), ..DeviceRow::default() });
        let mut holders = Vec::new();
        for (at, weight) in weights.iter().enumerate() {
            let (id, owner) = (format!("{name}-{at}"), department(&format!("{name} {at}")));
            let mig_profile = format!("{}g", profiles[at].0);
            devices.push(DeviceRow { id: id.clone(), model: "H100".into(), mig_profile, ..DeviceRow::default() });
            owners.push(OwnerRow::from(&owner));
            holders.push((id, owner, *weight));
        }
        holders.push((name.to_owned(), stranded.clone(), whole - weights.iter().sum::<u64>()));
        for (id, owner, weight) in holders.into_iter().filter(|(_, _, weight)| *weight > 0) {
            // Whole milliseconds of each minute, which sum to the share.
            let until = |minute: u32| u64::from(minute) * 60_000 * weight / whole;
            let share = |minute| u32::try_from(until(minute + 1) - until(minute)).unwrap();
            rows.extend((0..MINUTES).map(|minute| row(minute, &id, &owner, share(minute))));
        }
    }
    bill.insert(&devices).await?;
    bill.insert(&owners).await?;
    bill.insert(&rows).await?;
    // One for a minute of a GPU: 105 for each of four.
    let statement = build(&bill, PriceBook::flat(60 * ONE, "EUR")).await?;
    let mut found = costs(&statement, Dimension::Department);
    found.sort();
    // Sevenths of 105; 2/7 each, and 1/7 is stranded; 8 and 7 fifteenths, since 4/7 + 4/8 = 15/14; 7, 4, 2 and 2 fifteenths.
    let mut expected = pairs(&[("(stranded)", "15.000000"), ("halves 0", "56.000000"), ("halves 1", "49.000000")]);
    expected.extend(
        ["49", "28", "14", "14"].iter().enumerate().map(|(at, cost)| (format!("mixed {at}"), format!("{cost}.000000"))),
    );
    expected.extend((0..7).map(|at| (format!("seven {at}"), "15.000000".to_owned())));
    expected.extend((0..3).map(|at| (format!("three {at}"), "30.000000".to_owned())));
    assert_eq!(found, expected);
    assert_eq!(statement.total().cost.to_string(), "420.000000");
    Ok(())
}

#[tokio::test]
async fn b17_a_launch_that_failed_costs_nothing() -> anyhow::Result<()> {
    // Not even the least that a session is billed for.
    let mut book = PriceBook::new("EUR");
    book.rates.push(Rate { minimum_ms: 3_600_000, ..Rate::of("H100", 880_417 * ONE / 1_000) });
    let session = Some(Session { start: i64::from(OCTOBER) * 1_000, before: 0 });
    let failed_launch = Fact { held: 0, session, ..fact(OwnerKind::Workload, "a", "H100", 0) };
    assert!(rate(std::slice::from_ref(&failed_launch), book.clone()).total().cost.is_zero());
    let second = Fact { held: 1_000, allocated: 1_000 * ONE, ..failed_launch };
    assert_eq!(rate(&[second], book).total().cost.to_string(), "880.417000");

    // An allocation that ends when it starts is told as a fault, and none of the file is charged.
    let bill = Bill::start().await?;
    let file = bill.allocations("a.csv", &["2026-10-01T00:00:00Z,2026-10-01T00:00:00Z,n1,,H100,1,1,,a,,,,,1"])?;
    let (code, said) = failed(&bill.contador(&format!("import --format allocations {file}"))?);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("expected a time after the start"), "{said}");
    assert_eq!(bill.report("--month 2026-10 --flat-rate 880.417")?["total"], "0.000000");
    Ok(())
}
