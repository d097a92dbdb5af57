//! Each value that a sensor reads, from the wire to its column in ClickHouse: what is selected is what was sent.

use std::collections::BTreeMap;

use contador_schemas::names::{self, Group, Instrument, MetricName, Variant};
use contador_tests::{Collector, Engine};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum};
use serde_json::{Value as Json, json};

mod collector_support;
use collector_support::{accepted, attributes, now, request};

const RESOURCE: [(&str, &str); 2] = [("service.name", "contador-agent"), ("host.name", "node-1")];

/// The table of a group, and what its points are of.
fn place(metric: &MetricName) -> Option<(&'static str, Vec<(&'static str, &'static str)>)> {
    match metric.group {
        Group::Gpu => Some(("gpu_samples", vec![(names::HW_ID, "GPU-1")])),
        Group::Storage if metric.name.contains(".disk.") => {
            Some(("storage_samples", vec![(names::SYSTEM_DEVICE, "sda")]))
        }
        Group::Storage => Some(("storage_samples", vec![(names::MOUNTPOINT, "/data")])),
        Group::Node => Some(("node_samples", vec![])),
        _ => None,
    }
}

/// As the agent writes it.
fn shaped(metric: &MetricName, variant: &Variant, value: Value, time: u64) -> Metric {
    let pairs: Vec<_> =
        place(metric).expect("a table").1.into_iter().chain(variant.attributes.iter().copied()).collect();
    let point = NumberDataPoint {
        attributes: attributes(&pairs),
        time_unix_nano: time,
        value: Some(value),
        ..NumberDataPoint::default()
    };
    let data_points = vec![point];
    let sum = |data_points, is_monotonic| {
        let aggregation_temporality = AggregationTemporality::Cumulative as i32;
        Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic })
    };
    let data = match metric.instrument {
        Instrument::Gauge => Data::Gauge(Gauge { data_points }),
        other => sum(data_points, other == Instrument::Counter),
    };
    Metric { name: metric.name.to_owned(), unit: metric.unit.to_owned(), data: Some(data), ..Metric::default() }
}

#[tokio::test]
async fn each_value_of_the_registry_is_selected_as_it_was_sent() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let client = engine.client().with_database("contador");
    // What a column holds is taken from the engine, and not from the program.
    let columns: Vec<(String, String, String)> = client
        .query("SELECT table, name, type FROM system.columns WHERE database = 'contador'")
        .fetch_all()
        .await
        .unwrap();
    let kinds: BTreeMap<(&str, &str), &str> =
        columns.iter().map(|(table, name, kind)| ((table.as_str(), name.as_str()), kind.as_str())).collect();

    let time = now() * 1_000_000_000;
    let mut metrics = Vec::new();
    let mut expected: BTreeMap<(&str, &str), Json> = BTreeMap::new();
    let mut count = 0_u32;
    for metric in names::metrics() {
        let Some((table, _)) = place(metric) else { continue };
        for variant in metric.variants {
            count += 1;
            let kind = kinds.get(&(table, variant.column));
            let kind = kind.unwrap_or_else(|| panic!("table {table} has no column {}", variant.column));
            let end = variant.column.rsplit('_').next().unwrap();
            // Different from every other value, and beyond what single precision would keep.
            let whole =
                if kind.contains("UInt64") { 9_000_000_000_001 + u64::from(count) } else { 1_000 + u64::from(count) };
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            let parts = |of: f64| Value::AsDouble(whole as f64 / of);
            let (value, stored) = match (*kind, end) {
                ("Nullable(Float32)", _) => {
                    (Value::AsDouble(f64::from(count) / 256.0), json!(f64::from(count) / 256.0))
                }
                ("Nullable(Bool)", _) => (Value::AsInt((count % 2).into()), json!(count % 2 == 1)),
                ("LowCardinality(Nullable(String))", _) => {
                    let holds = variant.attributes == [(names::STATE, "degraded")];
                    (Value::AsInt(holds.into()), json!("degraded"))
                }
                (_, "mw" | "mj" | "ms") => (parts(1e3), json!(whole)),
                (_, "us") => (parts(1e6), json!(whole)),
                _ => (Value::AsInt(i64::try_from(whole).unwrap()), json!(whole)),
            };
            metrics.push(shaped(metric, variant, value, time));
            expected.insert((table, variant.column), stored);
        }
    }
    assert!(count > 100, "{count}");
    assert_eq!(accepted(&collector.http, &request(&RESOURCE, metrics)).await.partial_success, None);

    let mut found: BTreeMap<(&str, String), Json> = BTreeMap::new();
    for table in ["gpu_samples", "storage_samples", "node_samples"] {
        let sql = format!("SELECT * FROM {table} FINAL SETTINGS output_format_json_quote_64bit_integers = 0");
        let bytes = client.query(&sql).fetch_bytes("JSONEachRow").unwrap().collect().await.unwrap();
        for line in std::str::from_utf8(&bytes).unwrap().lines() {
            let row: BTreeMap<String, Json> = serde_json::from_str(line).unwrap();
            if table == "storage_samples" {
                assert_eq!(row["kind"], if row["device"] == "sda" { "disk" } else { "mount" });
            }
            found.extend(
                row.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| ((table, name), value)),
            );
        }
    }
    for ((table, column), value) in expected {
        assert_eq!(found.get(&(table, column.to_owned())), Some(&value), "column {column} of {table}");
    }
}
