//! An open-loop load on the demo's service: requests leave when they are due, whether or not earlier ones are answered, and
//! a latency counts from the instant at which its request was due. What the client saw is pushed as HDR histograms.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;

use super::service::SERVICE;
use crate::random::Random;

/// Mean rate of the load, requests a second.
const RATE: f64 = 40.0;

/// How often the client pushes its histogram.
const PUSH_INTERVAL: Duration = Duration::from_secs(5);

/// Name of the metric that the client pushes.
pub(super) const CLIENT_METRIC: &str = "client_request_duration";

/// Where the agent is. Whoever ends it holds this until it runs again, so that no push is cut off.
pub(super) type AgentUrl = Arc<Mutex<String>>;

/// Sends requests to `service` and pushes latencies to `agent` until `stop`.
pub(super) async fn run(service: SocketAddr, agent: AgentUrl, stop: CancellationToken) -> anyhow::Result<()> {
    let http = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?;
    let target = format!("http://{service}/rank");
    let (seen, mut latencies) = mpsc::channel::<Duration>(4096);
    let sender = async {
        let mut random = Random::new(7);
        let mut due = Instant::now();
        loop {
            due += Duration::from_secs_f64(random.exponential(1.0 / RATE));
            tokio::select! {
                () = sleep_until(due) => {}
                () = stop.cancelled() => break,
            }
            // Mostly small answers, some large ones: a tail.
            let kib = random.exponential(24.0) + if random.unit() < 0.03 { 400.0 } else { 4.0 };
            let request = http.get(&target).query(&[("kib", format!("{kib:.0}"))]);
            let seen = seen.clone();
            tokio::spawn(async move {
                if request.send().await.is_ok_and(|answer| answer.status().is_success()) {
                    // A full channel would mean 4,096 unrecorded answers; waiting here holds up nobody else.
                    let _ = seen.send(due.elapsed()).await;
                }
            });
        }
        drop(seen);
    };
    let recorder = async {
        let mut histogram = Histogram::<u64>::new(3).context("make a histogram")?;
        let mut push = interval_at(Instant::now() + PUSH_INTERVAL, PUSH_INTERVAL);
        let mut started = unix_now();
        loop {
            tokio::select! {
                latency = latencies.recv() => match latency {
                    Some(latency) => {
                        histogram.record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)).context("record a latency")?;
                    }
                    None => break,
                },
                _ = push.tick() => {
                    started = push_histogram(&http, &agent, &mut histogram, started).await?;
                }
            }
        }
        push_histogram(&http, &agent, &mut histogram, started).await?;
        anyhow::Ok(())
    };
    let ((), recorded) = tokio::join!(sender, recorder);
    recorded
}

/// Pushes what was recorded since `started` (Unix seconds) and empties the histogram; the start of the next one.
async fn push_histogram(
    http: &reqwest::Client,
    agent: &AgentUrl,
    histogram: &mut Histogram<u64>,
    started: f64,
) -> anyhow::Result<f64> {
    let agent = agent.lock().await;
    let ended = unix_now();
    if histogram.is_empty() {
        return Ok(ended);
    }
    let mut body = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut body).context("serialize a histogram")?;
    let answer = http
        .post(format!("{agent}/v1/latency"))
        .query(&[
            ("service", SERVICE),
            ("metric", CLIENT_METRIC),
            ("route", "/rank"),
            ("environment", "demo"),
            ("instance", "load-generator"),
            ("start", &format!("{started:.3}")),
            ("end", &format!("{ended:.3}")),
        ])
        .body(body)
        .send()
        .await
        .context("push a histogram to the agent")?;
    let status = answer.status();
    anyhow::ensure!(
        status.is_success(),
        "the agent refused a histogram: {status} {}",
        answer.text().await.unwrap_or_default()
    );
    histogram.reset();
    Ok(ended)
}

fn unix_now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
