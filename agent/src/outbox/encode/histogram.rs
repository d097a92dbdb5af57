//! Latency histograms, and what was served, as a request.
//!
//! Each cell `[lo, hi]` of `n` values becomes a bucket between the greatest float below `lo` and `hi`, so that the collector
//! gets back exactly the cell; between cells that don't touch there is an empty one. Of aborted requests only lower edges
//! are known: they alone are bounds then.

use contador_schemas::cells::{Cell, Cells};
use contador_schemas::names;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use uuid::Uuid;

use super::points::{int, request, text, yes};

/// Who answered.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Whose {
    /// `service.name`.
    pub service: String,
    /// Machine-learning model, or empty.
    pub model: String,
    /// Deployment environment, or empty.
    pub environment: String,
    /// Replica of the service, or empty.
    pub instance: String,
    /// UUID of the device that served, or empty.
    pub device: String,
    /// Id of the owner that served.
    pub owner: Option<Uuid>,
    /// More attributes that name the replica, such as `k8s.pod.name`.
    pub source: Vec<(String, String)>,
    /// Whether the values come from a simulation.
    pub simulated: bool,
}

/// Latencies of one service in one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// Who answered.
    pub whose: Whose,
    /// What was timed, such as `request_duration`.
    pub metric: String,
    /// Route, or empty.
    pub route: String,
    /// More attributes of the series.
    pub attributes: Vec<(String, String)>,
    /// Start of the interval, Unix nanoseconds.
    pub start_ns: u64,
    /// End of the interval, Unix nanoseconds.
    pub end_ns: u64,
    /// The values in microseconds: cells that don't overlap.
    pub cells: Cells,
    /// Sum of the values in microseconds, where it is known.
    pub sum_us: Option<f64>,
    /// Whether the values are lower bounds: of requests that were aborted.
    pub censored: bool,
    /// Whether the source began again in this interval.
    pub reset: bool,
}

/// What a service answered in one interval. `None` in a count: it does not tell it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Served {
    /// Who answered.
    pub whose: Whose,
    /// Start of the interval, Unix nanoseconds.
    pub start_ns: u64,
    /// End of the interval, Unix nanoseconds.
    pub end_ns: u64,
    /// Requests that were answered to their end.
    pub requests: Option<u64>,
    /// Requests that ended before they were answered.
    pub aborted: Option<u64>,
    /// Tokens of prompts.
    pub input_tokens: Option<u64>,
    /// Tokens that were generated.
    pub output_tokens: Option<u64>,
}

/// The encoded request; `node` is the host name.
pub fn answered(latencies: &[Latency], served: &[Served], node: &str) -> Vec<u8> {
    let mut resources: Vec<(&Whose, Vec<Metric>)> = Vec::new();
    let told = latencies.iter().map(|latency| (&latency.whose, vec![latency_metric(latency)]));
    for (whose, metrics) in told.chain(served.iter().map(|served| (&served.whose, served_metrics(served)))) {
        match resources.iter_mut().find(|(known, _)| is_one_resource(known, whose)) {
            Some((_, known)) => known.extend(metrics),
            None => resources.push((whose, metrics)),
        }
    }
    // Encoded messages one after the other are one message with all their parts.
    resources.into_iter().flat_map(|(whose, metrics)| request(resource(whose, node), metrics)).collect()
}

/// Whether the same attributes of a resource name both.
fn is_one_resource(one: &Whose, other: &Whose) -> bool {
    let named = |whose: &Whose| (whose.service.clone(), whose.instance.clone(), whose.environment.clone());
    named(one) == named(other) && one.source == other.source
}

fn resource(whose: &Whose, node: &str) -> Resource {
    let mut attributes = known(&[
        (names::HOST_NAME, node),
        (names::SERVICE_NAME, &whose.service),
        (names::SERVICE_INSTANCE_ID, &whose.instance),
        (names::ENVIRONMENT, &whose.environment),
    ]);
    attributes.extend(whose.source.iter().map(|(name, value)| text(name, value)));
    Resource { attributes, ..Resource::default() }
}

fn known(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
    pairs.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| text(name, value)).collect()
}

/// The attributes of a point that say who served.
fn served_by(whose: &Whose) -> Vec<KeyValue> {
    let owner = whose.owner.map(|owner| owner.to_string()).unwrap_or_default();
    let mut attributes =
        known(&[(names::MODEL, &whose.model), (names::HW_ID, &whose.device), (names::OWNER_ID, &owner)]);
    if whose.simulated {
        attributes.push(yes(names::SIMULATED));
    }
    attributes
}

fn latency_metric(latency: &Latency) -> Metric {
    let mut attributes = known(&[(names::LATENCY_METRIC, &latency.metric), (names::HTTP_ROUTE, &latency.route)]);
    attributes.extend(served_by(&latency.whose));
    attributes.extend(latency.attributes.iter().map(|(name, value)| text(name, value)));
    for (name, is_so) in [(names::LATENCY_CENSORED, latency.censored), (names::LATENCY_RESET, latency.reset)] {
        if is_so {
            attributes.push(yes(name));
        }
    }
    let cells = latency.cells.as_slice();
    let (explicit_bounds, bucket_counts) = if latency.censored { lower_edges(cells) } else { buckets(cells) };
    let point = HistogramDataPoint {
        attributes,
        start_time_unix_nano: latency.start_ns,
        time_unix_nano: latency.end_ns,
        count: latency.cells.count(),
        sum: latency.sum_us,
        bucket_counts,
        explicit_bounds,
        ..HistogramDataPoint::default()
    };
    let data = Data::Histogram(Histogram {
        data_points: vec![point],
        aggregation_temporality: AggregationTemporality::Delta.into(),
    });
    Metric { name: names::LATENCY.to_owned(), unit: "us".to_owned(), data: Some(data), ..Metric::default() }
}

/// Bounds and counts of cells that don't overlap.
fn buckets(cells: &[Cell]) -> (Vec<f64>, Vec<u64>) {
    let (mut bounds, mut counts): (Vec<f64>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut above = 0;
    for cell in cells {
        let below = cell.lo.next_down();
        debug_assert!(bounds.last().is_none_or(|last| *last <= below), "cells overlap at {cell:?}");
        if bounds.last() != Some(&below) {
            bounds.push(below);
            counts.push(0);
        }
        if cell.hi.is_finite() {
            bounds.push(cell.hi);
            counts.push(cell.n);
        } else {
            above = cell.n;
        }
    }
    if !bounds.is_empty() {
        counts.push(above);
    }
    (bounds, counts)
}

/// Bounds and counts of values of which only lower edges are known.
fn lower_edges(cells: &[Cell]) -> (Vec<f64>, Vec<u64>) {
    let (mut bounds, mut counts) = (Vec::new(), vec![0]);
    for cell in cells {
        let below = cell.lo.next_down();
        match counts.last_mut() {
            Some(last) if bounds.last() == Some(&below) => *last += cell.n,
            _ => {
                bounds.push(below);
                counts.push(cell.n);
            }
        }
    }
    (bounds, counts)
}

fn served_metrics(served: &Served) -> Vec<Metric> {
    let metric = |name: &'static str, kind: &str, value: Option<u64>| {
        let mut attributes = served_by(&served.whose);
        attributes.extend(known(&[(names::TOKEN_TYPE, kind)]));
        let value: Value = int(value?);
        let point = NumberDataPoint {
            attributes,
            start_time_unix_nano: served.start_ns,
            time_unix_nano: served.end_ns,
            value: Some(value),
            ..NumberDataPoint::default()
        };
        let data = Data::Sum(Sum {
            data_points: vec![point],
            aggregation_temporality: AggregationTemporality::Delta.into(),
            is_monotonic: true,
        });
        let unit = names::metric(name).map_or("", |metric| metric.unit).to_owned();
        Some(Metric { name: name.to_owned(), unit, data: Some(data), ..Metric::default() })
    };
    [
        metric(names::SERVED_REQUESTS, "", served.requests),
        metric(names::SERVED_ABORTED, "", served.aborted),
        metric(names::SERVED_TOKENS, "input", served.input_tokens),
        metric(names::SERVED_TOKENS, "output", served.output_tokens),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(lo: f64, hi: f64, n: u64) -> Cell {
        Cell { lo, hi, n }
    }

    #[test]
    fn cells_that_touch_share_a_bound_and_the_last_may_have_none() {
        let first = 1.0_f64;
        let cells = [cell(0.0, first, 3), cell(first.next_up(), 2.0, 4), cell(5.0, f64::INFINITY, 1)];
        let (bounds, counts) = buckets(&cells);
        assert_eq!(bounds, [0.0_f64.next_down(), 1.0, 2.0, 5.0_f64.next_down()]);
        assert_eq!(counts, [0, 3, 4, 0, 1]);
        assert_eq!(buckets(&[]), (vec![], vec![]));
    }

    #[test]
    fn of_aborted_requests_the_lower_edges_are_bounds() {
        let cells = [cell(0.0, f64::INFINITY, 2), cell(7.0, 8.0, 1), cell(7.0, f64::INFINITY, 1)];
        assert_eq!(lower_edges(&cells), (vec![0.0_f64.next_down(), 7.0_f64.next_down()], vec![0, 2, 2]));
    }
}
