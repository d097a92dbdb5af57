//! Exponential histograms of 160 buckets: from the bytes of a request to rows, on one core, beside what decoding the
//! protobuf message alone takes, in turns in the same run.
//!
//! The result is one JSON document on standard output: points a second, the median of the rounds with the least and the most.
//!
//! `cargo bench -p contador-tests --bench latency_decode -- [--rounds 15]`
#![allow(clippy::unwrap_used, reason = "a benchmark ends at what it does not expect")]

#[path = "latency_points/mod.rs"]
mod points;
#[path = "agent_cost/process.rs"]
mod process;

use std::hint::black_box;
use std::time::Instant;

use contador::ingest::decode::decode;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use prost::Message as _;
use serde_json::{Value, json};

/// Points of a request.
const POINTS: u64 = 500;

/// Requests of a round.
const REQUESTS: u64 = 10;

fn main() {
    if !process::is_benchmark() {
        return;
    }
    let mut rounds = 15;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => rounds = words.next().and_then(|text| text.parse().ok()).expect("expected a whole number"),
            "--bench" => {}
            other => panic!("{other}: expected --rounds"),
        }
    }
    let now = points::now();
    let bytes = points::request(AggregationTemporality::Delta, POINTS, now, 1).encode_to_vec();
    let clock = i64::try_from(now).unwrap();
    let floor = || {
        black_box(ExportMetricsServiceRequest::decode(black_box(bytes.as_slice())).unwrap());
    };
    let rows = || {
        let request = ExportMetricsServiceRequest::decode(black_box(bytes.as_slice())).unwrap();
        let decoded = black_box(decode(&request, clock));
        assert_eq!((decoded.rows.latency.len() as u64, decoded.rejected.points()), (POINTS, 0));
    };
    let (mut floors, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floors.push(per_second(floor));
        whole.push(per_second(rows));
    }
    println!(
        "{:#}",
        json!({
            "buckets": points::BUCKETS,
            "bytes_per_point": bytes.len() as u64 / POINTS,
            "protobuf_points_per_s": told(floors),
            "rows_points_per_s": told(whole),
        })
    );
}

fn per_second(work: impl Fn()) -> f64 {
    let begun = Instant::now();
    (0..REQUESTS).for_each(|_| work());
    (POINTS * REQUESTS) as f64 / begun.elapsed().as_secs_f64()
}

fn told(mut rates: Vec<f64>) -> Value {
    rates.sort_by(f64::total_cmp);
    let at = |index: usize| rates.get(index).map(|rate| rate.round());
    json!({ "median": at(rates.len() / 2), "least": at(0), "most": at(rates.len() - 1) })
}
