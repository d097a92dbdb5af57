//! The facts of a period from the real engine: instances, slots, sessions, gaps and claims, each against figures made by hand.

mod bill_store;

use std::collections::BTreeSet;

use bill_store::Bill;
use contador::bill::facts::{self, Fact, Facts, Grain, Session};
use contador::bill::period::{self, Period};
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::{Device, LedgerRow, OwnerRow};

/// 2026-10-01T00:00:00Z, Unix milliseconds.
const OCTOBER: i64 = 1_790_812_800_000;

const MINUTE: i64 = 60_000;

const HOUR: i64 = 60 * MINUTE;

/// A GPU-millisecond.
const ONE: i128 = 1_000_000_000_000;

fn named(department: &str) -> Owner {
    Owner { department: department.into(), ..Owner::default() }
}

/// A row of the minute that starts so many minutes after the beginning of October.
fn row(minute: i64, device: &str, owner: &Owner, share_ms: u32) -> LedgerRow {
    LedgerRow {
        minute: u32::try_from(OCTOBER / 1_000 + minute * 60).expect("a time after 1970"),
        device: device.to_owned(),
        owner: owner.id(),
        kind: owner.kind.as_str().to_owned(),
        node: "n1".to_owned(),
        held_ms: share_ms,
        share_ms,
        ..LedgerRow::default()
    }
}

/// A row of a minute in which nobody was looking: a device that is a part of a GPU has its share of it.
fn unmetered(minute: i64, device: &str, share_ms: u32) -> LedgerRow {
    LedgerRow { held_ms: 60_000, ..row(minute, device, &Owner::of_kind(OwnerKind::Unmetered), share_ms) }
}

fn device(id: &str, model: &str, mig_profile: &str) -> Device {
    Device { id: id.into(), model: model.into(), mig_profile: mig_profile.into(), ..Device::default() }
}

fn models(models: &[&str]) -> BTreeSet<String> {
    models.iter().map(|model| (*model).to_owned()).collect()
}

async fn october(bill: &Bill, grain: &Grain) -> anyhow::Result<Facts> {
    let period = Period::month("2026-10", &period::zone("UTC")?)?;
    Ok(facts::fetch(&bill.store, &period, grain).await?)
}

/// Facts in the order of device, span, kind, department and session, as `of` tells them.
fn told<T>(facts: &Facts, of: impl Fn(&Fact) -> T) -> Vec<T> {
    let mut sorted: Vec<&Fact> = facts.facts.iter().collect();
    sorted.sort_by_key(|fact| (fact.device.clone(), fact.from, fact.kind, fact.owner.department.clone(), fact.session));
    sorted.into_iter().map(of).collect()
}

/// Start and end of the span in minutes, milliseconds held, and GPU time in milliseconds.
fn spans(fact: &Fact) -> (i64, i64, i64, i128) {
    ((fact.from - OCTOBER) / MINUTE, (fact.to - OCTOBER) / MINUTE, fact.held, fact.allocated / ONE)
}

/// The department, or the kind.
fn whose(fact: &Fact) -> String {
    match fact.kind {
        OwnerKind::Workload => fact.owner.department.clone(),
        kind => kind.as_str().to_owned(),
    }
}

#[tokio::test]
async fn an_instance_has_all_of_its_minutes_whatever_its_part_of_the_gpu() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let (a, b, idle) = (named("a"), named("b"), Owner::of_kind(OwnerKind::Idle));
    bill.insert(&[device("MIG-1", "A100", "MIG 1g.10gb"), device("GPU-1", "A100", "")]).await?;
    bill.insert(&[OwnerRow::from(&a), OwnerRow::from(&b)]).await?;
    // A seventh of a GPU is 8,571.43 ms of a minute: two minutes of which `a` has two thirds, one of them idle for the rest.
    let rows = [
        row(0, "MIG-1", &a, 5_714),
        row(0, "MIG-1", &b, 2_857),
        row(1, "MIG-1", &a, 5_714),
        row(1, "MIG-1", &idle, 2_858),
        row(60, "MIG-1", &idle, 8_571),
        row(0, "GPU-1", &a, 51_429),
    ];
    bill.insert(&rows).await?;
    bill.insert(&rows[..3]).await?;
    bill.done(&format!(
        "import --format allocations {}",
        bill.allocations("a.csv", &["2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,,A100 MIG 2g.20gb,2,0.5,,a,,,,,1",])?
    ))?;
    let grain = Grain { cuts: vec![OCTOBER + HOUR], ..Grain::default() };
    let facts = october(&bill, &grain).await?;
    let told = told(&facts, |fact| (fact.device.id.clone(), whose(fact), fact.from - OCTOBER, fact.instance));
    // 120,000 ms of the instance over 17,143 ms of the GPU.
    let of = |share: i128| 120_000 * ONE * share / 17_143;
    let expected = [("", "a", 0, HOUR as i128 * ONE), ("GPU-1", "a", 0, 0), ("MIG-1", "a", 0, of(11_428))];
    let told_of: Vec<_> =
        told.iter().map(|(id, whose, from, units)| (id.as_str(), whose.as_str(), *from, *units)).collect();
    assert_eq!(told_of[..3], expected);
    assert_eq!((told_of[3].1, told_of[4].1), ("b", "idle"));
    assert!((told_of[3].3 - of(2_857)).abs() <= 1 && (told_of[4].3 - of(2_858)).abs() <= 1, "{told_of:?}");
    assert_eq!(told_of[2..5].iter().map(|told| told.3).sum::<i128>(), 120_000 * ONE);
    assert_eq!(told_of[5..], [("MIG-1", "idle", HOUR, 60_000 * ONE)]);
    Ok(())
}

#[tokio::test]
async fn slots_cut_their_models_alone() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let a = named("a");
    bill.insert(&[device("GPU-1", "H100", ""), device("GPU-2", "L4", ""), device("MIG-1", "H100", "MIG 1g.10gb")])
        .await?;
    bill.insert(&[OwnerRow::from(&a)]).await?;
    let rows: Vec<_> =
        ["GPU-1", "GPU-2", "MIG-1"].iter().flat_map(|id| (58..62).map(|at| row(at, id, &a, 60_000))).collect();
    bill.insert(&rows).await?;
    bill.done(&format!(
        "import --format allocations {}",
        bill.allocations(
            "a.csv",
            &[
                "2026-10-01T00:50:00Z,2026-10-01T02:10:00Z,n1,,H100 MIG 2g.20gb,1,1,,a,,,,,1",
                "2026-10-01T00:50:00Z,2026-10-01T02:10:00Z,n1,,T4,1,1,,a,,,,,2",
            ]
        )?
    ))?;
    let cuts = vec![OCTOBER + 59 * MINUTE, OCTOBER + 90 * MINUTE];
    let facts = october(&bill, &Grain { cuts: cuts.clone(), by_hour: models(&["H100"]), ..Grain::default() }).await?;
    let told_of = |facts: &Facts, id: &str, model: &str| {
        let mut facts = facts.clone();
        facts.facts.retain(|fact| fact.device.id == id && fact.device.gpu_model == model);
        told(&facts, spans)
    };
    let month = 744 * 60;
    let by_hour = [(0, 59, 60_000, 60_000), (59, 60, 60_000, 60_000), (60, 90, 120_000, 120_000)];
    assert_eq!(told_of(&facts, "GPU-1", "H100"), by_hour);
    assert_eq!(told_of(&facts, "MIG-1", "H100"), by_hour);
    assert_eq!(told_of(&facts, "GPU-2", "L4"), [(0, 59, 60_000, 60_000), (59, 90, 180_000, 180_000)]);
    let ms = |minutes: i64| (minutes * MINUTE, i128::from(minutes * MINUTE));
    let part = |from, to, (held, share)| (from, to, held, share);
    let hours =
        [part(0, 59, ms(9)), part(59, 60, ms(1)), part(60, 90, ms(30)), part(90, 120, ms(30)), part(120, 180, ms(10))];
    assert_eq!(told_of(&facts, "", "H100"), hours);
    assert_eq!(told_of(&facts, "", "T4"), [part(0, 59, ms(9)), part(59, 90, ms(31)), part(90, month, ms(40))]);
    assert_eq!((facts.allocations, facts.ledger_rows), (2, 12));

    let facts = october(&bill, &Grain { cuts, by_minute: models(&["H100", "T4"]), ..Grain::default() }).await?;
    let expected: Vec<_> = (58..62).map(|at| (at, at + 1, 60_000, 60_000)).collect();
    assert_eq!(told_of(&facts, "GPU-1", "H100"), expected);
    assert_eq!(told_of(&facts, "", "T4").len(), 80);
    assert_eq!((facts.allocations, facts.ledger_rows), (2, 12));
    Ok(())
}

fn session(fact: &Fact) -> (i64, i64, Option<(i64, i64)>, u64) {
    let session = fact.session.map(|Session { start, before }| ((start - OCTOBER) / MINUTE, before));
    ((fact.from - OCTOBER) / MINUTE, fact.held, session, fact.rows)
}

#[tokio::test]
async fn a_session_lasts_over_cuts_and_began_before_the_period() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let (a, b, idle) = (named("a"), named("b"), Owner::of_kind(OwnerKind::Idle));
    bill.insert(&[device("GPU-1", "H100", ""), device("GPU-2", "L4", "")]).await?;
    bill.insert(&[OwnerRow::from(&a), OwnerRow::from(&b)]).await?;
    // `a` since five days and a minute before October, with an earlier session before a hole; a third of each minute.
    let since = -5 * 24 * 60 - 1;
    let mut rows: Vec<_> = (since..70).map(|at| row(at, "GPU-1", &a, 20_000)).collect();
    rows.extend((since - 10..since - 1).map(|at| row(at, "GPU-1", &a, 20_000)));
    // `b` twice within a span, and once since the last minute of September; a row without time is in no session.
    rows.extend([-1, 0, 1, 10, 11, 13].map(|at| row(at, "GPU-1", &b, 40_000)));
    rows.push(LedgerRow { energy_mj: 5, ..row(2, "GPU-1", &b, 0) });
    rows.push(row(14, "GPU-1", &idle, 60_000));
    rows.push(row(0, "GPU-2", &a, 60_000));
    bill.insert(&rows).await?;
    bill.insert(&rows[..9]).await?;
    bill.done(&format!(
        "import --format allocations {}",
        bill.allocations(
            "a.csv",
            &[
                "2026-09-30T23:00:00Z,2026-10-01T02:00:00Z,n1,GPU-9,H100,4,0.5,,a,,,,,1",
                "2026-10-01T00:30:00Z,2026-10-01T00:40:00Z,n1,GPU-9,H100,1,1,,a,,,,,1",
            ]
        )?
    ))?;
    let cuts = vec![OCTOBER + HOUR];
    let facts = october(&bill, &Grain { cuts, by_session: models(&["H100"]), ..Grain::default() }).await?;
    let mut of_gpu = facts.clone();
    of_gpu.facts.retain(|fact| fact.device.id == "GPU-1");
    let before = -since * 20_000;
    let expected = [
        ("a".to_owned(), (0, 60 * 20_000, Some((since, before)), 60)),
        ("b".to_owned(), (0, 0, None, 1)),
        ("b".to_owned(), (0, 80_000, Some((-1, 40_000)), 2)),
        ("b".to_owned(), (0, 80_000, Some((10, 0)), 2)),
        ("b".to_owned(), (0, 40_000, Some((13, 0)), 1)),
        ("idle".to_owned(), (0, 60_000, None, 1)),
        ("a".to_owned(), (60, 10 * 20_000, Some((since, before + 60 * 20_000)), 10)),
    ];
    assert_eq!(told(&of_gpu, |fact| (whose(fact), session(fact))), expected);
    let mut imported = facts.clone();
    imported.facts.retain(|fact| fact.imported);
    let expected =
        [(0, HOUR, Some((-60, HOUR)), 1), (0, 10 * MINUTE, Some((30, 0)), 1), (60, HOUR, Some((-60, 2 * HOUR)), 0)];
    assert_eq!(told(&imported, session), expected);
    assert_eq!(told(&imported, |fact| fact.allocated / ONE / i128::from(MINUTE)), [120, 10, 120]);
    let other = facts.facts.iter().find(|fact| fact.device.id == "GPU-2").expect("the other model");
    assert_eq!(other.session, None);
    Ok(())
}

#[tokio::test]
async fn b13_gaps_go_to_the_last_owner_where_the_book_says_so() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let (a, b) = (named("a"), named("b"));
    bill.insert(&[device("GPU-1", "H100", ""), device("GPU-2", "H100", ""), device("MIG-1", "H100", "MIG 1g.10gb")])
        .await?;
    bill.insert(&[OwnerRow::from(&a), OwnerRow::from(&b)]).await?;
    let mut rows = Vec::new();
    // 10 minutes between two of `a` with two thirds and `b` with a third: 400,000 and 200,000 ms.
    for at in [0, 11] {
        rows.extend([row(at, "GPU-1", &a, 40_000), row(at, "GPU-1", &b, 20_000)]);
    }
    rows.extend((1..11).map(|at| unmetered(at, "GPU-1", 60_000)));
    // Whose the next ones are is not known.
    rows.extend([unmetered(12, "GPU-1", 60_000), row(13, "GPU-1", &a, 60_000), unmetered(14, "GPU-1", 60_000)]);
    // From three minutes before October to two after its beginning, and over its end.
    let month = 744 * 60;
    rows.extend([-4, 2, month - 2, month + 700].map(|at| row(at, "GPU-2", &a, 60_000)));
    rows.extend((-3..2).chain(month - 1..month + 700).map(|at| unmetered(at, "GPU-2", 60_000)));
    // A seventh of a GPU, partly unmetered.
    rows.push(LedgerRow { held_ms: 30_000, ..row(5, "MIG-1", &a, 4_285) });
    rows.push(LedgerRow { held_ms: 30_000, ..unmetered(5, "MIG-1", 4_286) });
    bill.insert(&rows).await?;
    let of = |facts: &Facts| told(facts, |fact| (fact.device.id.clone(), whose(fact), fact.held, fact.allocated / ONE));
    let expect = |id: &str, whose: &str, held: i64, share: i128| (id.to_owned(), whose.to_owned(), held, share);

    let nobodys = october(&bill, &Grain::default()).await?;
    assert_eq!((nobodys.gaps_given, nobodys.ledger_rows), (0, 4 + 10 + 3 + 2 + 3 + 2));
    assert!(of(&nobodys).contains(&expect("GPU-1", "unmetered", 720_000, 720_000)));

    let grain = Grain { gaps_to_last_owner: true, ..Grain::default() };
    let given = october(&bill, &grain).await?;
    let expected = [
        expect("GPU-1", "a", 80_000 + 60_000 + 600_000, 140_000 + 400_000),
        expect("GPU-1", "b", 40_000 + 600_000, 40_000 + 200_000),
        expect("GPU-1", "unmetered", 120_000, 120_000),
        expect("GPU-2", "a", 120_000 + 180_000, 300_000),
        expect("MIG-1", "a", 60_000, 8_571),
    ];
    assert_eq!(of(&given), expected);
    assert_eq!(given.gaps_given, (600_000 + 180_000 + 4_286) * ONE);
    let instance: Vec<_> = given.facts.iter().map(|fact| fact.instance).filter(|units| *units > 0).collect();
    assert_eq!(instance, [60_000 * ONE]);
    let sum = |facts: &Facts| facts.facts.iter().map(|fact| fact.allocated).sum::<i128>();
    assert_eq!((sum(&given), given.ledger_rows), (sum(&nobodys), nobodys.ledger_rows));

    // A session goes on over a gap that is given, also where October begins in it.
    let facts = october(&bill, &Grain { by_session: models(&["H100"]), ..grain }).await?;
    let of_two: Vec<_> = told(&facts, |fact| (fact.device.id.clone(), session(fact)));
    let expected: Vec<_> = [(0, 180_000, Some((-4, 4 * 60_000)), 1), (0, 120_000, Some((month - 2, 0)), 1)]
        .map(|told| ("GPU-2".to_owned(), told))
        .to_vec();
    assert_eq!(of_two.into_iter().filter(|(id, _)| id == "GPU-2").collect::<Vec<_>>(), expected);
    assert_eq!((sum(&facts), facts.gaps_given), (sum(&given), given.gaps_given));
    Ok(())
}

#[tokio::test]
async fn claims_over_the_whole_of_a_device_are_told_and_reduced_on_demand() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    bill.done(&format!(
        "import --format allocations {}",
        bill.allocations(
            "a.csv",
            &[
                // An hour of a whole GPU, half an hour of which another half is claimed: 0.5 × 1,800,000 ms are too much.
                "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-1,H100,1,1,,a,,,,,1",
                "2026-10-01T00:30:00Z,2026-10-01T01:30:00Z,n1,GPU-1,H100,1,0.5,,b,,,,,2",
                // Three halves in the first minute of October only: another 0.5 × 60,000.
                "2026-09-30T00:00:00Z,2026-10-01T00:01:00Z,n1,GPU-2,H100,1,0.5,,a,,,,,3",
                "2026-09-30T00:00:00Z,2026-10-01T00:01:00Z,n1,GPU-2,H100,1,0.5,,b,,,,,4",
                "2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,n1,GPU-2,H100,1,0.5,,c,,,,,5",
                // Exactly whole; several GPUs; no device.
                "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-3,H100,1,0.5,,a,,,,,6",
                "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-3,H100,1,0.5,,a,,,,,7",
                "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,GPU-3,H100,2,1,,a,,,,,8",
                "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,,H100,1,1,,a,,,,,9",
                "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,,H100,1,1,,b,,,,,10",
            ]
        )?
    ))?;
    let cuts = vec![OCTOBER + HOUR];
    let charged = october(&bill, &Grain { cuts: cuts.clone(), ..Grain::default() }).await?;
    let excess = (900_000 + 30_000) * ONE;
    assert_eq!((charged.over_allocated, charged.allocations), (excess, 10));
    let grain = Grain { cuts, split_over_allocation: true, by_hour: models(&["H100"]), ..Grain::default() };
    let reduced = october(&bill, &grain).await?;
    assert_eq!((reduced.over_allocated, reduced.allocations), (excess, 10));
    let sum = |facts: &Facts| facts.facts.iter().map(|fact| fact.allocated).sum::<i128>();
    assert_eq!(sum(&reduced), sum(&charged) - excess);
    let mut first = reduced.clone();
    first.facts.retain(|fact| fact.device.id == "GPU-1");
    // For half an hour two thirds and one third of the GPU.
    let expected = [("a", 0, 1_800_000 + 1_200_000), ("b", 0, 600_000), ("b", HOUR, 900_000)];
    let told_of = told(&first, |fact| (whose(fact), fact.from - OCTOBER, fact.allocated / ONE));
    let told_of: Vec<_> = told_of.iter().map(|(whose, from, share)| (whose.as_str(), *from, *share)).collect();
    assert_eq!(told_of, expected);
    Ok(())
}

#[tokio::test]
async fn what_came_after_an_instant_is_late() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let clock = || bill.store.client.query("SELECT toUnixTimestamp64Milli(now64(3))").fetch_one::<i64>();
    let period = Period::month("2026-10", &period::zone("UTC")?)?;
    let late = |instant| facts::late_since(&bill.store, &period, instant);
    let before = clock().await?;
    assert!(!late(0).await?);
    bill.insert(&[row(-24 * 60 - 3, "GPU-1", &named("a"), 60_000)]).await?;
    assert!(!late(0).await?, "two days before October");
    bill.insert(&[row(5, "GPU-1", &named("a"), 60_000)]).await?;
    assert!(late(before - 1).await?);
    let stored: i64 =
        bill.store.client.query("SELECT toUnixTimestamp64Milli(max(stored)) FROM ledger").fetch_one().await?;
    assert!(before <= stored && !late(stored).await?);
    let file = bill.allocations("a.csv", &["2026-10-30T00:00:00Z,2026-11-02T00:00:00Z,n1,,H100,1,1,,a,,,,,1"])?;
    bill.done(&format!("import --format allocations {file}"))?;
    let stored_too: i64 =
        bill.store.client.query("SELECT toUnixTimestamp64Milli(max(stored)) FROM allocations").fetch_one().await?;
    assert!(late(stored.min(stored_too - 1)).await? && !late(stored.max(stored_too)).await?);
    Ok(())
}
