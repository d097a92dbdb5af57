//! What running totals cost beside increases: requests of 1, 100 and 1,000 series (exponential, 160 buckets) to a collector
//! with the embedded engine, from sending until they are acknowledged.
//!
//! The collector inserts at once when it has inserted nothing for a tenth of a second, which each request waits for. The
//! result is one JSON document on standard output: milliseconds, the median with the least and the most.
//!
//! `cargo bench -p contador-tests --bench latency_totals -- [--rounds 20]`
#![allow(clippy::unwrap_used, reason = "a benchmark ends at what it does not expect")]

#[path = "latency_points/mod.rs"]
mod points;
#[path = "agent_cost/process.rs"]
mod process;

use std::time::{Duration, Instant};

use contador_tests::{Collector, Engine};
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use prost::Message as _;
use serde_json::{Map, Value, json};

/// Longer than the collector waits between two inserts.
const QUIET: Duration = Duration::from_millis(120);

#[tokio::main]
async fn main() {
    if !process::is_benchmark() {
        return;
    }
    let mut rounds = 20;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => rounds = words.next().and_then(|text| text.parse().ok()).expect("expected a whole number"),
            "--bench" => {}
            other => panic!("{other}: expected --rounds"),
        }
    }
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "[ingest]\ninsert_interval_ms = 100\n").unwrap();
    collector.ready().await.unwrap();
    let client = reqwest::Client::new();
    let mut told = Map::new();
    for series in [1, 100, 1_000] {
        for temporality in [AggregationTemporality::Delta, AggregationTemporality::Cumulative] {
            let mut taken = Vec::new();
            for round in 0..=rounds {
                tokio::time::sleep(QUIET).await;
                let body = points::request(temporality, series, points::now(), round + 1).encode_to_vec();
                let post = client.post(&collector.http).header("content-type", "application/x-protobuf").body(body);
                let begun = Instant::now();
                let answer = post.send().await.unwrap();
                assert_eq!((answer.status().as_u16(), answer.bytes().await.unwrap().len()), (200, 0));
                // The first is a base line.
                if round > 0 {
                    taken.push(begun.elapsed().as_secs_f64() * 1e3);
                }
            }
            told.insert(format!("{}_{series}", temporality.as_str_name()), milliseconds(taken));
        }
    }
    let size = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'contador' AND table = 'latency_totals'";
    let bytes: u64 = engine.client().query(size).fetch_one().await.unwrap();
    told.insert("latency_totals_bytes".to_owned(), json!(bytes));
    println!("{:#}", Value::Object(told));
}

fn milliseconds(mut taken: Vec<f64>) -> Value {
    taken.sort_by(f64::total_cmp);
    let at = |index: usize| taken.get(index).map(|value| (value * 10.0).round() / 10.0);
    json!({ "median": at(taken.len() / 2), "least": at(0), "most": at(taken.len() - 1) })
}
