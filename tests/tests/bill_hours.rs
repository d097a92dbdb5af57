//! Hours of the ledger never change a bill: not before they are summed, not when rows come late, not where a price changes within one.

mod bill_store;

use bill_store::Bill;
use contador::bill::facts::{self, Fact, Grain};
use contador::bill::hours::pass::pass;
use contador::bill::period::{self, Period};

/// 2026-10-01T00:00:00Z, Unix seconds.
const OCTOBER: i64 = 1_790_812_800;

/// Rows of so many minutes from one on, of 4 devices and a few owners; some minutes of a device have two.
async fn fill(bill: &Bill, (from, minutes): (i64, i64), seed: u8, stored: &str) -> anyhow::Result<()> {
    let sql = format!(
        "INSERT INTO ledger (minute, device, owner, kind, node, held_ms, share_ms, busy_ms, memory_mib_ms, energy_mj, simulated, \
             idle_ms, stored) \
         SELECT toDateTime({from} + (number % {minutes}) * 60, 'UTC'), concat('GPU-', toString(intDiv(number, {minutes}) % 4)), \
             toUUID(concat('00000000-0000-4000-8000-00000000000', toString(cityHash64(number, {seed}) % 5))), \
             if(number % 11 = 0, 'idle', 'workload'), concat('n', toString(intDiv(number, 700) % 3)), \
             60000, cityHash64(number, {seed}, 1) % 60000, cityHash64(number, {seed}, 2) % 3 * 20000, \
             cityHash64(number, {seed}, 3) % 100000, cityHash64(number, {seed}, 4) % 100000, false, \
             cityHash64(number, {seed}, 5) % 2 * 60000, {stored} \
         FROM numbers(8 * {minutes})"
    );
    bill.store.client.query_raw(&sql).execute().await?;
    Ok(())
}

async fn facts_of(bill: &Bill, period: &Period, grain: &Grain) -> anyhow::Result<Vec<Fact>> {
    let mut facts = facts::fetch(&bill.store, period, grain).await?.facts;
    facts.sort_by(|a, b| {
        let key = |fact: &Fact| (fact.device.clone(), fact.from, fact.kind, fact.allocated, fact.energy_mj);
        key(a).cmp(&key(b))
    });
    Ok(facts)
}

/// Periods and grains that hours fit, and that they do not.
fn asks() -> anyhow::Result<Vec<(Period, Grain)>> {
    let mut asks = Vec::new();
    for (zone, from, to) in [
        ("UTC", "2026-10-01", "2026-11-01"),
        ("Asia/Kolkata", "2026-10-02", "2026-10-04"),
        ("UTC", "2026-10-01T05:10:30Z", "2026-10-02T07:59:59Z"),
    ] {
        let period = Period::between(from, to, &period::zone(zone)?)?;
        for cuts in [vec![], period.midnights(), vec![(OCTOBER + 86_400 + 1_801) * 1_000]] {
            for by_hour in [vec![], vec![String::new()]] {
                let grain = Grain { cuts: cuts.clone(), by_hour: by_hour.into_iter().collect(), ..Grain::default() };
                asks.push((period.clone(), grain));
            }
        }
    }
    Ok(asks)
}

#[tokio::test]
async fn a_bill_is_that_of_the_rows_before_and_after_a_pass_and_with_rows_that_come_late() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let long_ago = "now64(3) - INTERVAL 1 HOUR";
    fill(&bill, (OCTOBER - 7_200, 5_000), 1, long_ago).await?;
    // Some of the rows again, with other numbers: these count.
    fill(&bill, (OCTOBER + 40_000, 500), 2, long_ago).await?;
    let asks = asks()?;
    let all = async || {
        let mut all = Vec::new();
        for (period, grain) in &asks {
            all.push(facts_of(&bill, period, grain).await?);
        }
        anyhow::Ok(all)
    };
    let of_rows = all().await?;
    assert!(of_rows.iter().all(|facts| facts.len() > 8));
    assert_eq!(pass(&bill.store).await?, 84, "5,000 minutes from 22:00 on");
    let rows: u64 = bill.store.client.query("SELECT sum(minutes) FROM ledger_hours FINAL").fetch_one().await?;
    assert_eq!(rows, bill.count("ledger").await?);
    assert!(all().await? == of_rows, "after a pass");
    assert_eq!(pass(&bill.store).await?, 0, "nothing has changed");

    // They are read, then: an hour that says something else is believed.
    let october = Period::month("2026-10", &period::zone("UTC")?)?;
    let sum = async || {
        let facts = facts::fetch(&bill.store, &october, &Grain::default()).await?;
        anyhow::Ok(facts.facts.iter().map(|fact| fact.energy_mj).sum::<i128>())
    };
    let energy = sum().await?;
    let change = |by: &str| {
        format!(
            "INSERT INTO ledger_hours SELECT * REPLACE (energy_mj {by} AS energy_mj, pass + 1 AS pass) FROM ledger_hours FINAL \
                 WHERE hour = toDateTime({OCTOBER}, 'UTC') AND device = 'GPU-1' ORDER BY owner LIMIT 1"
        )
    };
    bill.store.client.query_raw(&change("+ 1000000")).execute().await?;
    assert_eq!(sum().await?, energy + 1_000_000);
    bill.store.client.query_raw(&change("- 1000000")).execute().await?;

    // A row that came after the pass makes its hour one that is read from rows, and the next pass sums it again.
    fill(&bill, (OCTOBER + 90_000, 3), 3, "now64(3)").await?;
    let with_late = all().await?;
    assert!(with_late != of_rows);
    bill.store.client.query_raw("TRUNCATE TABLE ledger_hours").execute().await?;
    bill.store.client.query_raw("TRUNCATE TABLE rollups").execute().await?;
    assert!(all().await? == with_late, "as of rows alone");
    assert_eq!(pass(&bill.store).await?, 84);
    assert!(all().await? == with_late, "after another pass");
    Ok(())
}
