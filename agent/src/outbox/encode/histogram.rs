//! One pushed latency histogram, as a request.
//!
//! Each cell `[lo, hi]` of `n` values becomes two bounds: the greatest float below `lo`, and `hi`. The bucket between
//! them holds `n`, and the one below it none, so that the collector gets back exactly the cell.

use contador_schemas::cells::Cells;
use contador_schemas::names;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Histogram, HistogramDataPoint, Metric};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::points::{request, text};

/// Latencies of one service in one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// `service.name`.
    pub service: String,
    /// What was timed, such as `request_duration`.
    pub metric: String,
    /// Machine-learning model, or empty.
    pub model: String,
    /// Route, or empty.
    pub route: String,
    /// Deployment environment, or empty.
    pub environment: String,
    /// Replica of the service, or empty.
    pub instance: String,
    /// UUID of the device that served, or empty.
    pub device: String,
    /// Start of the interval, Unix nanoseconds.
    pub start_ns: u64,
    /// End of the interval, Unix nanoseconds.
    pub end_ns: u64,
    /// The values in microseconds: cells of whole numbers that don't overlap.
    pub cells: Cells,
    /// Sum of the values in microseconds, as far as the histogram knows it.
    pub sum_us: f64,
    /// Whether the values come from a simulation.
    pub simulated: bool,
}

/// The encoded request; `node` is the host name.
pub fn latency(latency: &Latency, node: &str) -> Vec<u8> {
    let known = |pairs: &[(&str, &str)]| {
        pairs.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| text(name, value)).collect::<Vec<_>>()
    };
    let resource = Resource {
        attributes: known(&[
            (names::HOST_NAME, node),
            (names::SERVICE_NAME, &latency.service),
            (names::SERVICE_INSTANCE_ID, &latency.instance),
            (names::ENVIRONMENT, &latency.environment),
        ]),
        ..Resource::default()
    };
    let mut attributes = known(&[
        (names::LATENCY_METRIC, &latency.metric),
        (names::MODEL, &latency.model),
        (names::HTTP_ROUTE, &latency.route),
        (names::HW_ID, &latency.device),
    ]);
    if latency.simulated {
        attributes.push(super::points::yes(names::SIMULATED));
    }
    let cells = latency.cells.as_slice();
    let (mut explicit_bounds, mut bucket_counts) = (Vec::new(), Vec::new());
    for cell in cells {
        explicit_bounds.extend([cell.lo.next_down(), cell.hi]);
        bucket_counts.extend([0, cell.n]);
    }
    if !cells.is_empty() {
        bucket_counts.push(0);
    }
    let point = HistogramDataPoint {
        attributes,
        start_time_unix_nano: latency.start_ns,
        time_unix_nano: latency.end_ns,
        count: latency.cells.count(),
        sum: Some(latency.sum_us),
        bucket_counts,
        explicit_bounds,
        min: cells.first().map(|cell| cell.lo),
        max: cells.last().map(|cell| cell.hi),
        ..HistogramDataPoint::default()
    };
    let data = Data::Histogram(Histogram {
        data_points: vec![point],
        aggregation_temporality: AggregationTemporality::Delta.into(),
    });
    let metric =
        Metric { name: names::LATENCY.to_owned(), unit: "us".to_owned(), data: Some(data), ..Metric::default() };
    request(resource, vec![metric])
}
