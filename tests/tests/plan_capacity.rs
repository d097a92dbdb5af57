//! `contador plan capacity` against the real engine, on traffic whose peaks can be told by hand.

mod bill_store;
mod latency_support;

use bill_store::{Bill, failed};
use contador_schemas::cells::Cell;
use contador_schemas::owner::Owner;
use contador_schemas::rows::{Device, LedgerRow, OwnerRow, Served};
use latency_support::{SERVICE, Seen, some_day};
use serde_json::{Value, json};
use uuid::Uuid;

const SECOND_NS: i64 = 1_000_000_000;

/// So many requests, counted from `start` to `end`, Unix seconds.
fn served(service: &str, (start, end): (u32, u32), requests: u64) -> Served {
    Served {
        window: (end - 1) / 10 * 10,
        start_ts: i64::from(start) * SECOND_NS,
        ts: i64::from(end) * SECOND_NS,
        source: Uuid::from_u128(1),
        service: service.to_owned(),
        requests: Some(requests),
        ..Served::default()
    }
}

fn capacity(bill: &Bill, from: u32, arguments: &str) -> anyhow::Result<Value> {
    let time = format!("--from {from} --to {}", from + 3_900);
    Ok(serde_json::from_str(&bill.done(&format!("plan capacity --json {time} {arguments}"))?)?)
}

#[tokio::test]
async fn five_thousand_requests_a_second_need_thirty_gpus_of_two_hundred() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let day = some_day();
    // Two counts of a minute each that begin in mid-minute: half of 300,000, then 150,000 of each, then the other half.
    let rows = [
        served("shop", (day + 30, day + 90), 300_000),
        served("shop", (day + 90, day + 150), 300_000),
        // Aborted ones were borne too; a start that is unknown puts a count where it ends.
        Served {
            requests: Some(0),
            aborted: Some(60),
            start_ts: i64::from(day + 310) * SECOND_NS,
            ..served("shop", (day, day + 310), 0)
        },
    ];
    bill.insert(&rows).await?;
    bill.insert(&rows).await?;
    let told = capacity(&bill, day, "--service shop --per-gpu-rps 200")?;
    assert_eq!((&told["peak_rps"], &told["gpus"], &told["held"]), (&json!("5000.000000"), &json!(30), &Value::Null));
    assert_eq!((&told["counted"], &told["floor"]), (&json!("served"), &json!(30)));
    // Of six minutes: 2,500, 5,000, 2,500, 0, 0 and 1 a second.
    assert_eq!((&told["median_rps"], &told["most_rps"]), (&json!("1.000000"), &json!("5000.000000")));
    assert_eq!(capacity(&bill, day, "--service shop --per-gpu-rps 200 --headroom 0%")?["gpus"], 25);
    assert_eq!(capacity(&bill, day, "--service shop --per-gpu-rps 200 --headroom 20.0001%")?["gpus"], 31);
    assert_eq!(capacity(&bill, day, "--service shop --per-gpu-rps 200 --peak p50")?["gpus"], 1);
    let (code, said) = failed(&bill.contador("plan capacity --service shop")?);
    assert!(code == Some(2) && said.contains("expected --per-gpu-rps, or --target to measure it"), "{said}");
    let (code, said) = failed(&bill.contador("plan capacity --service nobody --per-gpu-rps 1")?);
    assert!(code == Some(2) && said.contains("--service \"nobody\": no requests in this time"), "{said}");
    Ok(())
}

/// A service on so many L4 that gets so many requests a second in each five minutes, and is slow above `most`.
async fn service(bill: &Bill, day: u32, gpus: u32, rates: &[u64], most: u64) -> anyhow::Result<()> {
    let owner = Owner { department: "shop".into(), service: SERVICE.into(), ..Owner::default() };
    bill.insert(&[OwnerRow::from(&owner)]).await?;
    let gpus: Vec<String> = (0..gpus).map(|gpu| format!("GPU-{gpu}")).collect();
    let device = |id: &String| Device { id: id.clone(), model: "L4".to_owned(), ..Device::default() };
    bill.insert(&gpus.iter().map(device).collect::<Vec<_>>()).await?;
    let (mut counts, mut seen, mut ledger) = (Vec::new(), Vec::new(), Vec::new());
    for (from, rps) in (day..).step_by(300).zip(rates) {
        for window in (from..from + 300).step_by(10) {
            counts.push(served(SERVICE, (window, window + 10), rps * 10));
            let (lo, hi) = if *rps <= most { (30_000.0, 40_000.0) } else { (60_000.0, 70_000.0) };
            seen.push(Seen::at(window, vec![Cell { lo, hi, n: rps * 10 }]));
        }
        for minute in (from..from + 300).step_by(60) {
            ledger.extend(gpus.iter().map(|gpu| LedgerRow {
                minute,
                device: gpu.clone(),
                owner: owner.id(),
                kind: owner.kind.as_str().to_owned(),
                held_ms: 60_000,
                share_ms: 60_000,
                ..LedgerRow::default()
            }));
        }
    }
    bill.insert(&counts).await?;
    bill.insert(&ledger).await?;
    latency_support::insert(&bill.store, &seen).await;
    Ok(())
}

#[tokio::test]
async fn what_a_gpu_can_do_is_measured_where_the_target_was_met() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let day = some_day();
    // 100 requests a second more every five minutes, on four GPUs; slow above 800.
    let rates: Vec<u64> = (1..=13).map(|step| step * 100).collect();
    service(&bill, day, 4, &rates, 800).await?;
    // Another replica, for ten seconds of the last five minutes: 600 more a second, or 100 in the minute.
    let last = day + 12 * 300 + 120;
    bill.insert(&[Served { source: Uuid::from_u128(2), ..served(SERVICE, (last, last + 10), 6_000) }]).await?;
    let asked = format!("--service {SERVICE} --target p95=50ms");
    // Of 100, 200 … 800 requests a second that met it, the second highest, over four GPUs.
    let told = capacity(&bill, day, &format!("{asked} --least-windows 2"))?;
    let expected = json!({
        "per_gpu_rps": "175.000000", "windows_met": 8, "windows_at_least": 2, "windows_missed": 5, "windows_missed_below": 0,
        "windows_unknown": 0,
    });
    assert_eq!(told["measured"], expected);
    // 1,400 × 1.2 / 175 = 9.6.
    assert_eq!((&told["peak_rps"], &told["gpus"]), (&json!("1400.000000"), &json!(10)));
    assert_eq!((&told["held"]["gpus"], &told["over"]), (&json!("4.000000"), &json!("-6.000000")));
    // 1,900 × 1.2 / 175 = 13.03.
    assert_eq!(capacity(&bill, day, &format!("{asked} --least-windows 2 --window 10s"))?["gpus"], 14);
    // The first hour needs 1,200 × 1.2 / 175 = 8.2, and the next one what the peak needs.
    let hours = told["by_hour_of_week"].as_array().expect("hours");
    let known: Vec<&Value> = hours.iter().filter(|gpus| !gpus.is_null()).collect();
    assert_eq!((hours.len(), known), (168, vec![&json!(9), &json!(10)]));

    // Twelve windows did not meet it.
    let run = bill.contador(&format!("plan capacity --from {day} --to {} {asked}", day + 3_900))?;
    let (code, said) = failed(&run);
    let expected = "8 windows of 5 minutes met the target, 5 missed it, and of 0 it is not known";
    assert!(code == Some(1) && said.contains(expected) && said.contains("expected at least 12"), "{said}");
    // At a price, a week of four GPUs, of ten always, and of as many as each hour needs: 9 + 167 × 10.
    let prices = bill.file("p.toml", "currency = \"EUR\"\n[[rate]]\ngpu_model = \"L4\"\nhourly = \"0.50\"\n")?;
    let told = capacity(&bill, day, &format!("{asked} --least-windows 2 --prices {prices}"))?;
    let cost = &told["cost_a_week"];
    assert_eq!(
        (&cost["now"], &cost["peak"], &cost["by_hour"]),
        (&json!("336.000000"), &json!("840.000000"), &json!("839.500000"))
    );

    let text = bill.done(&format!("plan capacity --from {day} --to {} {asked} --least-windows 2", day + 3_900))?;
    assert!(text.contains("too few by") && text.contains("p95 within 50 ms was met in 8 of 13 windows"), "{text}");
    Ok(())
}

#[tokio::test]
async fn within_fifty_milliseconds_at_five_thousand_requests_a_second_takes_thirty_gpus() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let day = some_day();
    // An hour of 5,000 a second on 25 GPUs: 200 each, and p95 is within 50 ms.
    service(&bill, day, 25, &[5_000; 12], 5_000).await?;
    let told = capacity(&bill, day, &format!("--service {SERVICE} --target p95=50ms --headroom 20%"))?;
    assert_eq!(
        (&told["per_gpu_rps"], &told["gpus"], &told["over"]),
        (&json!("200.000000"), &json!(30), &json!("-5.000000"))
    );
    let expected = "no window missed the target (12 met it): a GPU may bear more than it ever had to";
    assert!(told["notes"].as_array().is_some_and(|notes| notes.contains(&json!(expected))), "{told}");
    Ok(())
}

#[tokio::test]
async fn where_requests_are_not_counted_latencies_are() -> anyhow::Result<()> {
    let bill = Bill::start().await?;
    let day = some_day();
    let cell = |window| Seen::at(window, vec![Cell { lo: 1.0, hi: 2.0, n: 1_000 }]);
    latency_support::insert(&bill.store, &(0..30).map(|at| cell(day + at * 10)).collect::<Vec<_>>()).await;
    // A source that counts tokens alone.
    bill.insert(&[Served { requests: None, output_tokens: Some(5), ..served(SERVICE, (day, day + 10), 0) }]).await?;
    let told = capacity(&bill, day, &format!("--service {SERVICE} --per-gpu-rps 60 --headroom 0%"))?;
    assert_eq!(
        (&told["counted"], &told["peak_rps"], &told["gpus"]),
        (&json!("latency"), &json!("100.000000"), &json!(2))
    );
    // Nothing is known of GPUs that it held.
    let run =
        bill.contador(&format!("plan capacity --from {day} --to {} --service {SERVICE} --target p99=1s", day + 300))?;
    let (code, said) = failed(&run);
    assert!(code == Some(1) && said.contains("of 1 windows of 5 minutes with requests, 0 have held GPUs"), "{said}");
    Ok(())
}
