//! OTLP requests as a sender would write them, and ways to send them.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it, and a fault here fails the test")]

use clickhouse::Client;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use tonic::transport::Channel;

/// Now, in Unix seconds: old rows would be dropped by their tables' time to live.
pub fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

pub fn attributes(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
    let pair = |(name, value): &(&str, &str)| KeyValue {
        key: (*name).to_owned(),
        value: Some(AnyValue { value: Some(any_value::Value::StringValue((*value).to_owned())) }),
        ..KeyValue::default()
    };
    pairs.iter().map(pair).collect()
}

pub fn request(resource: &[(&str, &str)], metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource { attributes: attributes(resource), ..Resource::default() }),
            scope_metrics: vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }],
    }
}

/// A gauge point at `time` in Unix nanoseconds.
pub fn gauge(name: &str, value: f64, time: u64, pairs: &[(&str, &str)]) -> Metric {
    let point = NumberDataPoint {
        attributes: attributes(pairs),
        time_unix_nano: time,
        value: Some(Value::AsDouble(value)),
        ..NumberDataPoint::default()
    };
    Metric {
        name: name.to_owned(),
        unit: "1".to_owned(),
        data: Some(Data::Gauge(Gauge { data_points: vec![point] })),
        ..Metric::default()
    }
}

/// A histogram of seconds from `start` to `time`, Unix nanoseconds.
pub fn histogram(
    temporality: AggregationTemporality,
    (start, time): (u64, u64),
    bounds: &[f64],
    counts: &[u64],
) -> Metric {
    let point = HistogramDataPoint {
        start_time_unix_nano: start,
        time_unix_nano: time,
        count: counts.iter().sum(),
        explicit_bounds: bounds.to_vec(),
        bucket_counts: counts.to_vec(),
        ..HistogramDataPoint::default()
    };
    let data = Histogram { data_points: vec![point], aggregation_temporality: temporality as i32 };
    Metric {
        name: "http.server.request.duration".to_owned(),
        unit: "s".to_owned(),
        data: Some(Data::Histogram(data)),
        ..Metric::default()
    }
}

pub async fn grpc(url: &str) -> MetricsServiceClient<Channel> {
    MetricsServiceClient::connect(url.to_owned()).await.unwrap()
}

/// What the collector said to `request` by HTTP: status, headers and body.
pub async fn post(url: &str, body: Vec<u8>, headers: &[(&str, &str)]) -> reqwest::Response {
    let mut post = reqwest::Client::new().post(url).header("content-type", "application/x-protobuf");
    for (name, value) in headers {
        post = post.header(*name, *value);
    }
    post.body(body).send().await.unwrap()
}

/// Sends `request` by HTTP; it must be accepted.
pub async fn accepted(url: &str, request: &ExportMetricsServiceRequest) -> ExportMetricsServiceResponse {
    let answer = post(url, request.encode_to_vec(), &[]).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/x-protobuf");
    ExportMetricsServiceResponse::decode(answer.bytes().await.unwrap()).unwrap()
}

/// A number that ClickHouse answers.
pub async fn count(client: &Client, sql: &str) -> u64 {
    client.query(sql).fetch_one().await.unwrap()
}

/// A store of its own for one test.
pub fn store(url: &str, database: &str) -> contador::store::Store {
    contador::store::StoreArgs { url: url.to_owned(), user: "default".to_owned(), database: database.to_owned() }
        .open()
        .unwrap()
}
