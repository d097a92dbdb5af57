//! What senders make of values: buckets of servers, and exponential ones.

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Histogram, HistogramDataPoint, Metric,
};

/// Upper bounds in seconds, by whose they are.
pub const SERVERS: [(&str, &[f64]); 8] = [
    (
        "vllm-e2e",
        &[
            0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
            960.0, 1920.0, 7680.0,
        ],
    ),
    (
        "vllm-ttft",
        &[
            0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
            80.0, 160.0, 640.0, 2560.0,
        ],
    ),
    (
        "vllm-inter-token",
        &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0],
    ),
    (
        "sglang-ttft",
        &[0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0],
    ),
    (
        "sglang-e2e",
        &[
            0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0, 600.0,
            1200.0, 1800.0, 2400.0,
        ],
    ),
    ("tgi", &TGI),
    ("otel-http", &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0]),
    ("gen-ai", &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]),
];

/// 0.0001 × 1.5^k for k from 1 to 35.
const TGI: [f64; 35] = {
    let mut bounds = [0.0; 35];
    let (mut bound, mut index) = (0.0001, 0);
    while index < 35 {
        bound *= 1.5;
        bounds[index] = bound;
        index += 1;
    }
    bounds
};

/// Scales of exponential histograms.
pub const SCALES: [i32; 3] = [3, 5, 8];

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Of sorted nanoseconds in `[start, end)`, how many are in each bucket of these bounds.
pub fn explicit(sorted: &[u64], bounds: &[f64], (start, end): (u64, u64)) -> HistogramDataPoint {
    let upto = bounds.iter().map(|bound| sorted.partition_point(|ns| seconds(*ns) <= *bound)).chain([sorted.len()]);
    let mut before = 0;
    let counts = upto.map(|upto| std::mem::replace(&mut before, upto).abs_diff(upto) as u64).collect();
    HistogramDataPoint {
        start_time_unix_nano: start,
        time_unix_nano: end,
        count: sorted.len() as u64,
        explicit_bounds: bounds.to_vec(),
        bucket_counts: counts,
        ..HistogramDataPoint::default()
    }
}

/// The same of an exponential histogram: bucket `i` has `(2^(i / 2^scale), 2^((i + 1) / 2^scale)]`.
pub fn exponential(sorted: &[u64], scale: i32, (start, end): (u64, u64)) -> ExponentialHistogramDataPoint {
    let zeros = sorted.partition_point(|ns| *ns == 0);
    let positive = &sorted[zeros..];
    let steps = 2.0_f64.powi(scale);
    let index_of = |ns: u64| (seconds(ns).log2() * steps).ceil() as i32 - 1;
    let (first, last) = match (positive.first(), positive.last()) {
        // One more at each end, as a logarithm may be a little off.
        (Some(least), Some(greatest)) => (index_of(*least) - 1, index_of(*greatest) + 1),
        _ => (0, -1),
    };
    let mut rest = positive;
    let mut counts = Vec::new();
    for index in first..=last {
        let upper = (f64::from(index + 1) / steps).exp2();
        let inside = rest.partition_point(|ns| seconds(*ns) <= upper);
        counts.push(inside as u64);
        rest = &rest[inside..];
    }
    assert!(rest.is_empty());
    ExponentialHistogramDataPoint {
        start_time_unix_nano: start,
        time_unix_nano: end,
        count: sorted.len() as u64,
        scale,
        zero_count: zeros as u64,
        positive: Some(Buckets { offset: first, bucket_counts: counts }),
        ..ExponentialHistogramDataPoint::default()
    }
}

fn metric(data: Data) -> Metric {
    let name = "http.server.request.duration".to_owned();
    Metric { name, unit: "s".to_owned(), data: Some(data), ..Metric::default() }
}

/// A metric of explicit increases.
pub fn explicit_metric(data_points: Vec<HistogramDataPoint>) -> Metric {
    let aggregation_temporality = AggregationTemporality::Delta as i32;
    metric(Data::Histogram(Histogram { data_points, aggregation_temporality }))
}

/// A metric of exponential increases.
pub fn exponential_metric(data_points: Vec<ExponentialHistogramDataPoint>) -> Metric {
    let aggregation_temporality = AggregationTemporality::Delta as i32;
    metric(Data::ExponentialHistogram(ExponentialHistogram { data_points, aggregation_temporality }))
}
