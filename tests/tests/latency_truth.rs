//! The true quantile is inside of the interval that is told, whatever the values and whoever sent them: a million values of each
//! of twenty distributions, of eight sources in three windows each, sent as HDR histograms and as single values through an agent,
//! as exponential histograms of three scales, in the buckets of servers, and by servers that the agent scrapes. The truth comes
//! from sorting.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test ends at what it does not expect, and a million values are few"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use contador::latency::{Ask, Label, tell};
use contador::store::Store;
use contador_schemas::quantile::{Answer, Quantile};
use contador_tests::{Agent, Collector, Engine};
use futures::{StreamExt as _, TryStreamExt as _};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::Metric;

mod collector_support;
mod truth_support;
use collector_support::{accepted, now, request, store};
use truth_support::distributions::{DISTRIBUTIONS, Distribution};
use truth_support::layouts::{SCALES, SERVERS, explicit, explicit_metric, exponential, exponential_metric};
use truth_support::pages::{Pages, scraped};
use truth_support::{INTERVALS, Part, SOURCES, parts, ranked};

/// Values of each distribution.
const VALUES: usize = 1_000_000;

const QUANTILES: [Quantile; 4] = [Quantile::P50, Quantile::P95, Quantile::P99, Quantile::P999];

/// Every how manieth distribution is sent as single values, too.
const SINGLE_EVERY: usize = 4;

/// Nothing hangs for so long; a machine that builds something else beside the test has taken more than two minutes.
const DEADLINE: Duration = Duration::from_secs(600);

/// Where everything goes, and the end of the first interval in Unix seconds.
struct Places {
    agent: String,
    otlp: String,
    end: u64,
    http: reqwest::Client,
    /// Servers that the agent scrapes.
    pages: Pages,
}

impl Places {
    /// Start and end of an interval, Unix nanoseconds.
    fn interval(&self, part: &Part) -> (u64, u64) {
        let end = self.end + 20 * part.interval as u64;
        ((end - 10) * 1_000_000_000, end * 1_000_000_000)
    }

    /// Posts a body to the agent.
    async fn push(&self, service: &str, part: &Part, unit: &str, kind: &str, body: Vec<u8>) {
        let end = (self.interval(part).1 / 1_000_000_000).to_string();
        let query = [("service", service), ("instance", &part.source.to_string()), ("unit", unit), ("end", &end)];
        let post = self.http.post(format!("{}/v1/latency", self.agent)).query(&query);
        let answer = post.header("content-type", kind).body(body).send().await.unwrap();
        let status = answer.status();
        let told: serde_json::Value = answer.json().await.unwrap();
        assert_eq!((status.as_u16(), told["count"].as_u64()), (200, Some(part.sorted.len() as u64)), "{told}");
    }

    /// Servers serve what is in an interval of all sources.
    fn serve(&self, model: &'static str, parts: &[Part], interval: usize) {
        parts.iter().filter(|part| part.interval == interval).for_each(|part| self.pages.count(model, part));
    }

    /// Sends all parts as one request by OTLP, with a metric of each source.
    async fn send(&self, service: &str, parts: &[Part], metric: impl Fn(&[&Part]) -> Metric) {
        let of_source = |source: usize| {
            let own: Vec<&Part> = parts.iter().filter(|part| part.source == source).collect();
            let source = source.to_string();
            request(&[("service.name", service), ("service.instance.id", &source)], vec![metric(&own)]).resource_metrics
        };
        let resource_metrics = (0..SOURCES).flat_map(of_source).collect();
        let answer = accepted(&self.otlp, &ExportMetricsServiceRequest { resource_metrics }).await;
        assert_eq!(answer.partial_success, None, "{service}");
    }
}

fn hdr(sorted: &[u64], divisor: u64) -> Vec<u8> {
    let mut histogram = Histogram::<u64>::new(3).unwrap();
    for ns in sorted {
        histogram.record(ns / divisor).unwrap();
    }
    let mut body = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut body).unwrap();
    body
}

/// What was sent of one distribution.
struct Sent {
    /// Its true quantiles in microseconds.
    truth: [f64; 4],
    /// Ways, each of which is a service of its own.
    ways: Vec<&'static str>,
    name: &'static str,
}

fn service(name: &str, way: &str) -> String {
    format!("{name}.{way}")
}

const EXPONENTIAL: [&str; 3] = ["exponential-3", "exponential-5", "exponential-8"];

async fn send(places: &Places, number: usize, distribution: &'static Distribution) -> Sent {
    let name = distribution.name;
    let parts = tokio::task::spawn_blocking(move || parts(&distribution.values(number as u64 + 1, VALUES)));
    let parts = parts.await.unwrap();
    let truth = QUANTILES.map(|q| ranked(&parts, q.rank(VALUES as u64) as usize) as f64 / 1e3);
    places.serve(name, &parts, 0);
    let (unit, divisor) = if distribution.whole { ("us", 1_000) } else { ("ns", 1) };
    // Each request is answered a second after the last insert at most: all of them at once take no longer than one.
    let pushed = async {
        for part in &parts {
            let hdr = hdr(&part.sorted, divisor);
            places.push(&service(name, "hdr"), part, unit, "application/octet-stream", hdr).await;
        }
        places.serve(name, &parts, 1);
    };
    let single = number.is_multiple_of(SINGLE_EVERY);
    let values = async {
        for part in parts.iter().filter(|_| single) {
            let values: Vec<u64> = part.sorted.iter().map(|ns| ns / divisor).collect();
            let body = serde_json::json!({ "values": values }).to_string().into_bytes();
            places.push(&service(name, "values"), part, unit, "application/json", body).await;
        }
    };
    let parts = &parts;
    let exponential = EXPONENTIAL.into_iter().zip(SCALES).map(|(way, scale)| async move {
        let points = |parts: &[&Part]| {
            let point = |part: &&Part| exponential(&part.sorted, scale, places.interval(part));
            exponential_metric(parts.iter().map(point).collect())
        };
        places.send(&service(name, way), parts, points).await;
    });
    let explicit = SERVERS.into_iter().map(|(way, bounds)| async move {
        let points = |parts: &[&Part]| {
            let point = |part: &&Part| explicit(&part.sorted, bounds, places.interval(part));
            explicit_metric(parts.iter().map(point).collect())
        };
        places.send(&service(name, way), parts, points).await;
    });
    let (exponential, explicit) = (futures::future::join_all(exponential), futures::future::join_all(explicit));
    futures::join!(pushed, values, exponential, explicit);
    places.serve(name, parts, 2);
    let servers = SERVERS.map(|(way, _)| way);
    let ways = ["hdr"].into_iter().chain(single.then_some("values")).chain(EXPONENTIAL).chain(servers).collect();
    Sent { truth, ways, name }
}

/// Waits until every value of every service, model and metric is stored.
async fn stored(store: &Store, services: usize) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let sql = "SELECT concat(service, ' ', model, ' ', metric) AS s, sum(count) AS c FROM latency FINAL GROUP BY s";
        let counts: Vec<(String, u64)> = store.client.query(sql).fetch_all().await.unwrap();
        let whole = counts.iter().filter(|(_, count)| *count == VALUES as u64).count();
        if whole == services && counts.len() == services {
            return;
        }
        assert!(Instant::now() < deadline, "not every value was stored: {counts:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A service, a metric and a model, and how its intervals are called when it is told how wide they are.
struct Asked<'a> {
    sent: &'a Sent,
    service: String,
    metric: &'a str,
    model: &'a str,
    way: String,
}

/// Everything that has the truth of a distribution: what was sent, and what was scraped.
fn asked(sent: &Sent) -> impl Iterator<Item = Asked<'_>> {
    let pushed = sent.ways.iter().map(|way| Asked {
        sent,
        service: service(sent.name, way),
        metric: "request_duration",
        model: "",
        way: (*way).to_owned(),
    });
    pushed.chain(scraped().map(|(kind, metric)| Asked {
        sent,
        service: kind.to_owned(),
        metric,
        model: sent.name,
        way: format!("scraped {kind} {metric}"),
    }))
}

/// The quantiles of what is asked, as the collector tells them.
async fn answers(store: &Store, asked: &Asked<'_>, (from, to): (u32, u32)) -> Vec<Answer> {
    let ask = Ask::p99(&asked.service, asked.metric, from, to).only(Label::Model, asked.model);
    let ask = Ask { quantiles: QUANTILES.to_vec(), ..ask };
    let told = tell(store, &ask).await.unwrap();
    told.series.into_iter().flat_map(|series| series.points).flat_map(|point| point.answers).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_truth_is_inside_whatever_the_values_and_whoever_sent_them() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let pages = Pages::start(DISTRIBUTIONS.iter().map(|distribution| distribution.name)).await;
    let config = format!("[scrape]\ninterval = \"1s\"\n{}", pages.targets());
    let agent = Agent::start(&collector.grpc, &config).unwrap();
    pages.are_read(DEADLINE).await;
    let end = now() / 10 * 10 - 20 * INTERVALS as u64;
    let http = reqwest::Client::new();
    let places = Places { agent: agent.url.clone(), otlp: collector.http.clone(), end, http, pages };
    let began = Instant::now();
    let sent: Vec<Sent> = futures::stream::iter(DISTRIBUTIONS.iter().enumerate())
        .map(|(number, distribution)| send(&places, number, distribution))
        .buffered(4)
        .collect()
        .await;
    println!("sent after {:.1?}", began.elapsed());
    places.pages.are_read(DEADLINE).await;
    let store = store(engine.url(), "contador");
    let all: Vec<Asked<'_>> = sent.iter().flat_map(asked).collect();
    stored(&store, all.len()).await;
    println!("stored after {:.1?}", began.elapsed());

    let span = (u32::try_from(end - 60).unwrap(), u32::try_from(now() + 10).unwrap());
    let mut widest: BTreeMap<&str, [f64; 4]> = BTreeMap::new();
    let told = futures::stream::iter(&all).map(|asked| {
        let store = &store;
        async move { Ok::<_, ()>((asked, answers(store, asked, span).await)) }
    });
    let told: Vec<_> = told.buffered(6).try_collect().await.unwrap();
    for (asked, answers) in told {
        let (sent, way) = (asked.sent, asked.way.as_str());
        assert_eq!(answers.len(), QUANTILES.len(), "{} {way}", sent.name);
        for (index, (answer, truth)) in answers.iter().zip(sent.truth).enumerate() {
            let (low, high) = (answer.low.unwrap(), answer.high.unwrap_or(f64::INFINITY));
            assert!(low <= truth && truth <= high, "{} {way} {index}: {truth} is not in {answer:?}", sent.name);
            assert_eq!(answer.n, VALUES as u64, "{} {way}", sent.name);
            if matches!(way, "hdr" | "values") {
                let allowed = (truth / 1_000.0).max(1.0);
                assert!(high - low <= allowed, "{} {way} {index}: {truth} in {answer:?}", sent.name);
            }
            let width = if high == low { 0.0 } else { (high - low) / truth };
            let widest = widest.entry(way).or_default();
            widest[index] = widest[index].max(width);
        }
    }
    println!("told after {:.1?}; the greatest width of an interval, as a part of the true value:", began.elapsed());
    println!("{:<36}{:>10}{:>10}{:>10}{:>10}", "sent as", "p50", "p95", "p99", "p99.9");
    for (way, widths) in widest {
        let shown: String = widths.iter().map(|width| format!("{:>9.2}%", width * 100.0)).collect();
        println!("{way:<36}{shown}");
    }
}
