//! Pushes latencies to contador's agent: copy what you need.
//!
//! Reads milliseconds from its standard input, one a line, records them in an HDR histogram, and pushes that as the latencies
//! of one interval:
//!
//! ```sh
//! printf '12.5\n13\n250\n' | cargo run -p contador-tests --example push_latency -- ranker [http://127.0.0.1:9746]
//! ```
//!
//! A service records each request as it ends, and pushes every 10 s what was recorded meanwhile.

use std::io::BufRead as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

/// How often one push is tried.
const TRIES: u32 = 8;

/// Latencies that were not pushed yet.
struct Latencies {
    http: reqwest::Client,
    url: String,
    service: String,
    histogram: Histogram<u64>,
}

impl Latencies {
    /// None, of a service, for the agent at this URL.
    fn new(agent: &str, service: &str) -> anyhow::Result<Self> {
        Ok(Self {
            http: reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?,
            url: format!("{agent}/v1/latency"),
            service: service.to_owned(),
            histogram: Histogram::new(3).context("3 significant digits")?,
        })
    }

    /// A request has ended after this time.
    fn record(&mut self, took: Duration) -> anyhow::Result<()> {
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.histogram.record(microseconds).with_context(|| format!("{took:?} does not fit"))
    }

    /// Pushes what was recorded since the last push; what the agent answers.
    ///
    /// Each try has the same `id` and `end`, so however many of them arrive, the values count once. The agent answers 200 when
    /// they are on its disk. 503 says that they are not, and to come back, and 408 that they came too slowly; other refusals are
    /// for good.
    async fn push(&mut self) -> anyhow::Result<String> {
        let mut body = Vec::new();
        V2DeflateSerializer::new().serialize(&self.histogram, &mut body).context("serialize the histogram")?;
        let end = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let query = [
            ("service", self.service.clone()),
            // One of each replica, so that pushes of several at one instant are several rows.
            ("instance", format!("pid-{}", std::process::id())),
            ("end", format!("{}.{:09}", end.as_secs(), end.subsec_nanos())),
            ("id", format!("{}", end.as_nanos())),
        ];
        for attempt in 1..=TRIES {
            let sent = self.http.post(&self.url).query(&query).body(body.clone()).send().await;
            match sent {
                Ok(answer) if answer.status().is_success() => {
                    self.histogram.reset();
                    return Ok(answer.text().await?);
                }
                Ok(answer) if !matches!(answer.status().as_u16(), 408 | 503) || attempt == TRIES => {
                    bail!("the agent refuses: {} {}", answer.status(), answer.text().await.unwrap_or_default());
                }
                Err(error) if attempt == TRIES => return Err(error).context("the agent does not answer"),
                _ => tokio::time::sleep(Duration::from_millis(250 << attempt)).await,
            }
        }
        bail!("never tried")
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let service = arguments.next().context("usage: push_latency SERVICE [AGENT]")?;
    let agent = arguments.next().unwrap_or_else(|| "http://127.0.0.1:9746".to_owned());
    let mut latencies = Latencies::new(&agent, &service)?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let milliseconds: f64 = line.trim().parse().with_context(|| format!("{line:?} is no number"))?;
        latencies.record(Duration::try_from_secs_f64(milliseconds / 1e3)?)?;
    }
    println!("{}", latencies.push().await?);
    Ok(())
}
