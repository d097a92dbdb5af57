//! Replays latencies that others recorded, through a real agent, collector and engine: the p99 of each hour is inside the
//! interval that is told, and how far fixed buckets would have been off is printed, as a table and as JSON.
//!
//! ```sh
//! cargo build --workspace --bins
//! cargo run -p contador-tests --example replay_latency -- inference_latency_ms.csv.gz
//! ```
//!
//! The file is gzipped CSV below a header: Unix seconds, milliseconds, replica. Times are moved to the recent past.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use contador::failure::Failure;
use contador::latency::{Ask, quantile as told};
use contador::store::{Store, StoreArgs};
use contador_tests::replay::{HOUR, OTEL, Off, VLLM, by_hour, interpolated, off, quantile, read, shift};
use contador_tests::{Agent, Collector, Engine};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;

const SERVICE: &str = "replayed";

const DEADLINE: Duration = Duration::from_secs(120);

/// Pushes that are under way at once.
const PUSHES: usize = 8;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).context("usage: replay_latency FILE.csv.gz")?;
    let file = std::fs::File::open(&path).with_context(|| format!("cannot read {path}"))?;
    let mut requests = read(file).with_context(|| path.clone())?;
    shift(&mut requests, SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;

    let engine = Engine::start()?;
    let collector = Collector::start(engine.url(), "")?;
    collector.ready().await?;
    let agent = Agent::start(&collector.grpc, "")?;
    let hours = by_hour(&requests);
    let pushes =
        hours.iter().flat_map(|(hour, replicas)| replicas.iter().map(move |(replica, values)| (hour, replica, values)));
    let http = reqwest::Client::new();
    futures::stream::iter(pushes.map(Ok::<_, anyhow::Error>))
        .try_for_each_concurrent(PUSHES, |(hour, replica, values)| push(&http, &agent.url, *hour, replica, values))
        .await?;

    let store = StoreArgs { url: engine.url().to_owned(), user: "default".to_owned(), database: "contador".to_owned() };
    let store = store.open().map_err(Failure::into_error)?;
    stored(&store, requests.len()).await?;
    let mut told = futures::stream::iter(hours.iter().map(|(hour, replicas)| {
        let mut sorted: Vec<f64> = replicas.values().flatten().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        checked(&store, *hour, sorted)
    }))
    .buffered(PUSHES);
    let (mut p99, mut p50, mut widest) = ((vec![], vec![]), (vec![], vec![]), 0.0_f64);
    println!("{:<22}{:>9}{:>12}{:>25}{:>12}{:>12}", "hour", "requests", "p99", "told", "vLLM", "OTel");
    while let Some(hour) = told.next().await {
        let Hour { at, sorted, truth, low, high } = hour?;
        widest = widest.max((high - low) / truth);
        let of = |bounds: &[f64], q| interpolated(&sorted, bounds, q).unwrap_or_default();
        let (vllm, otel) = (of(VLLM, 0.99), of(OTEL, 0.99));
        println!(
            "{:<22}{:>9}{truth:>10.3} s{low:>11.3} to {high:>8.3} s{vllm:>10.3} s{otel:>10.3} s",
            shown_hour(at),
            sorted.len()
        );
        p99.0.push((vllm, truth));
        p99.1.push((otel, truth));
        let median = quantile(&sorted, 0.5).unwrap_or_default();
        p50.0.push((of(VLLM, 0.5), median));
        p50.1.push((of(OTEL, 0.5), median));
    }
    let shown = |off: Off| format!("{:.1} % on average, {:+.1} % at worst", off.mean * 100.0, off.worst * 100.0);
    for (name, pairs) in [("vLLM's bounds", [&p50.0, &p99.0]), ("OTel's bounds", [&p50.1, &p99.1])] {
        let [p50, p99] = pairs.map(|pairs| shown(off(pairs)));
        println!("{name}: p50 off by {p50}; p99 off by {p99}");
    }
    let told = json!({
        "requests": requests.len(), "hours": hours.len(), "inside": hours.len(), "widest": widest,
        "p50": {"vllm": off(&p50.0), "otel": off(&p50.1)}, "p99": {"vllm": off(&p99.0), "otel": off(&p99.1)},
    });
    println!("{told}");
    Ok(())
}

/// Pushes what one replica answered in an hour.
async fn push(http: &reqwest::Client, agent: &str, hour: u64, replica: &str, values: &[f64]) -> anyhow::Result<()> {
    let body = json!({
        "service": SERVICE, "instance": replica, "start": hour, "end": hour + HOUR, "id": "replay", "unit": "ms",
        "values": values,
    });
    let answer = http.post(format!("{agent}/v1/latency")).json(&body).send().await.context("push to the agent")?;
    let status = answer.status();
    ensure!(status.is_success(), "the agent refuses: {status} {}", answer.text().await?);
    Ok(())
}

/// Waits until so many values are stored.
async fn stored(store: &Store, values: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let count: u64 = store.client.query("SELECT sum(count) FROM latency FINAL").fetch_one().await?;
        if count == values as u64 {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{count} values were stored, expected {values}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// An hour, in seconds.
struct Hour {
    at: u64,
    sorted: Vec<f64>,
    truth: f64,
    low: f64,
    high: f64,
}

/// The p99 of an hour, which must be inside of what is told.
async fn checked(store: &Store, at: u64, milliseconds: Vec<f64>) -> anyhow::Result<Hour> {
    let (from, to) = (u32::try_from(at)?, u32::try_from(at + HOUR)?);
    let answer = told(store, &Ask::p99(SERVICE, "request_duration", from, to)).await?;
    let truth = quantile(&milliseconds, 0.99).context("an hour without requests")?;
    let (low, high) = (answer.low.context("no lower end")? / 1e3, answer.high.context("no upper end")? / 1e3);
    ensure!(low <= truth && truth <= high, "the p99 of hour {at} is {truth} ms, told is {low} to {high}");
    ensure!(
        answer.n == milliseconds.len() as u64,
        "hour {at} has {} values, told are {}",
        milliseconds.len(),
        answer.n
    );
    let sorted = milliseconds.into_iter().map(|value| value / 1e3).collect();
    Ok(Hour { at, sorted, truth: truth / 1e3, low: low / 1e3, high: high / 1e3 })
}

/// An hour of UTC, for people.
fn shown_hour(at: u64) -> String {
    let (days, hour) = (at / 86_400, at % 86_400 / HOUR);
    format!("day {days}, {hour:02}:00 UTC")
}
