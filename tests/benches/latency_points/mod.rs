//! Requests with exponential histograms, as an SDK sends them.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Metric, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// Buckets of a histogram: what SDKs have at most, by default.
pub const BUCKETS: u64 = 160;

/// Unix nanoseconds.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

fn attribute(name: &str, value: String) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value)) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

/// `series` histograms at `time`, each of whose buckets has counted `times` its index.
pub fn request(temporality: AggregationTemporality, series: u64, time: u64, times: u64) -> ExportMetricsServiceRequest {
    let bucket_counts: Vec<u64> = (0..BUCKETS).map(|index| index * times).collect();
    let point = |series| ExponentialHistogramDataPoint {
        attributes: vec![
            attribute("http.route", format!("/v1/{series}")),
            attribute("http.request.method", "POST".to_owned()),
            attribute("http.response.status_code", "200".to_owned()),
        ],
        start_time_unix_nano: time - 1_000_000,
        time_unix_nano: time,
        count: bucket_counts.iter().sum(),
        scale: 4,
        positive: Some(Buckets { offset: -120, bucket_counts: bucket_counts.clone() }),
        ..ExponentialHistogramDataPoint::default()
    };
    let data_points = (0..series).map(point).map(|point| match temporality {
        AggregationTemporality::Cumulative => ExponentialHistogramDataPoint { start_time_unix_nano: 0, ..point },
        _ => point,
    });
    let data = ExponentialHistogram { data_points: data_points.collect(), aggregation_temporality: temporality as i32 };
    let metric = Metric {
        name: "http.server.request.duration".to_owned(),
        unit: "s".to_owned(),
        data: Some(Data::ExponentialHistogram(data)),
        ..Metric::default()
    };
    let attributes = vec![attribute("service.name", "bench".to_owned()), attribute("host.name", "node-1".to_owned())];
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_metrics: vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }],
    }
}
