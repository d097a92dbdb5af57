//! OTLP as JSON: the same rows as by protobuf, answers in JSON, and nothing is lost without a word.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::io::Write as _;

use clickhouse::Row;
use contador_tests::{Collector, Engine};
use serde::Deserialize;
use serde_json::{Value, json};

mod collector_support;
use collector_support::{count, now};

/// What the collector answers to `body`: its status, and the body's JSON.
async fn post(collector: &Collector, body: Vec<u8>, encoding: Option<&str>) -> (u16, Value) {
    let mut post =
        reqwest::Client::new().post(&collector.http).header("content-type", "application/json; charset=utf-8");
    if let Some(encoding) = encoding {
        post = post.header("content-encoding", encoding);
    }
    let answer = post.body(body).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/json");
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn send(collector: &Collector, metrics: Value) -> (u16, Value) {
    post(collector, request(metrics).to_string().into_bytes(), None).await
}

fn request(metrics: Value) -> Value {
    let resource = json!({"attributes": [{"key": "service.name", "value": {"stringValue": "api"}}]});
    json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": metrics}]}]})
}

async fn started() -> (Engine, Collector) {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "[ingest]\ninsert_interval_ms = 100\n").unwrap();
    collector.ready().await.unwrap();
    (engine, collector)
}

fn nanos() -> String {
    format!("{}000000000", now())
}

#[tokio::test]
async fn c10_a_whole_number_is_stored_however_it_is_written() {
    let (engine, collector) = started().await;
    let point = |told: Value| json!({"name": format!("n{told}"), "gauge": {"dataPoints": [{"timeUnixNano": nanos(), "asInt": told}]}});
    let metrics = json!([point(json!("7")), point(json!(7)), point(json!(7.0))]);
    assert_eq!(send(&collector, metrics).await, (200, json!({})));
    let client = engine.client().with_database("contador");
    let values: Vec<f64> = client.query("SELECT assumeNotNull(value) FROM metrics FINAL").fetch_all().await.unwrap();
    assert_eq!(values, [7.0; 3]);
}

#[tokio::test]
async fn c14_what_json_cannot_say_is_rejected_and_counted_and_the_rest_is_stored() {
    let (engine, collector) = started().await;
    let metrics = json!([
        {"name": "nan", "gauge": {"dataPoints": [{"timeUnixNano": nanos(), "asDouble": "NaN"}]}},
        {"name": "absent", "gauge": {"dataPoints": [{"timeUnixNano": nanos(), "asDouble": null}]}},
        {"name": "nameless", "sum": {"aggregationTemporality": 7, "dataPoints": [{"timeUnixNano": nanos(), "asInt": "1"}]}},
        {"name": "none"},
        // An enum by its name, and attributes that are null, are no faults.
        {"name": "good", "sum": {
            "aggregationTemporality": "AGGREGATION_TEMPORALITY_CUMULATIVE", "isMonotonic": true,
            "dataPoints": [{"timeUnixNano": nanos(), "asInt": "5", "attributes": null}],
        }},
    ]);
    let (status, told) = send(&collector, metrics).await;
    assert_eq!(status, 200);
    assert_eq!(told["partialSuccess"]["rejectedDataPoints"], "4");
    let message = told["partialSuccess"]["errorMessage"].as_str().unwrap();
    for reason in [
        "not_a_number 1 (such as \"nan\")",
        "no_value 1 (such as \"absent\")",
        "temporality 1 (such as \"nameless\")",
        "no_data 1 (such as \"none\")",
    ] {
        assert!(message.contains(reason), "{message}");
    }
    assert_eq!(collector.metric("contador_ingest_rejected_points_total{reason=\"not_a_number\"}").await.unwrap(), 1.0);
    let client = engine.client().with_database("contador");
    assert_eq!(count(&client, "SELECT count() FROM metrics FINAL WHERE name = 'good' AND value = 5").await, 1);
    assert_eq!(count(&client, "SELECT count() FROM metrics FINAL").await, 1);
}

#[tokio::test]
async fn c15_impossible_times_in_json_are_rejected() {
    let (_engine, collector) = started().await;
    let times = [json!(0), json!("18446744073709551615"), json!("9223372036854775808"), json!(null)];
    let points: Vec<Value> = times.iter().map(|time| json!({"timeUnixNano": time, "asInt": 1})).collect();
    let (status, told) = send(&collector, json!([{"name": "g", "gauge": {"dataPoints": points}}])).await;
    assert_eq!((status, &told["partialSuccess"]["rejectedDataPoints"]), (200, &json!("4")));
    // What is no time at all is told with its place.
    let point = json!({"timeUnixNano": -1, "asInt": 1});
    let (status, told) = send(&collector, json!([{"name": "g", "gauge": {"dataPoints": [point]}}])).await;
    assert_eq!((status, &told["code"]), (400, &json!(3)));
    let message = told["message"].as_str().unwrap();
    let path =
        "body: resourceMetrics[0].scopeMetrics[0].metrics[0].gauge.dataPoints[0].timeUnixNano: got -1, expected a";
    assert!(message.starts_with(path), "{message}");
}

#[derive(Debug, Deserialize, PartialEq, Row)]
struct Cells {
    lo: Vec<f64>,
    hi: Vec<f64>,
    n: Vec<u64>,
    count: u64,
}

#[tokio::test]
async fn a_histogram_in_json_becomes_the_row_that_protobuf_makes() {
    let (engine, collector) = started().await;
    let point = json!({
        "startTimeUnixNano": format!("{}000000000", now() - 10), "timeUnixNano": nanos(),
        "count": "4", "sum": 0.75, "min": 0.05, "max": 0.4,
        "explicitBounds": [0.1, 0.2, 0.30000000000000004], "bucketCounts": ["1", 2, "0", 1],
    });
    let exponential = json!({
        "timeUnixNano": nanos(), "count": 6, "scale": 3, "zeroCount": "1", "zeroThreshold": 1e-6,
        "positive": {"offset": -2, "bucketCounts": ["2", 0, "3"]}, "negative": {"offset": 0, "bucketCounts": []},
    });
    let metrics = json!([
        {"name": "http.server.request.duration", "unit": "s",
         "histogram": {"aggregationTemporality": 1, "dataPoints": [point]}},
        {"name": "queue", "unit": "s", "exponentialHistogram": {"aggregationTemporality": 1, "dataPoints": [exponential]}},
    ]);
    for (encoding, body) in [
        (None, request(metrics.clone()).to_string().into_bytes()),
        (Some("gzip"), {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(request(metrics.clone()).to_string().as_bytes()).unwrap();
            gzip.finish().unwrap()
        }),
        (Some("zstd"), zstd::encode_all(request(metrics.clone()).to_string().as_bytes(), 1).unwrap()),
    ] {
        // The same rows each time.
        assert_eq!(post(&collector, body, encoding).await, (200, json!({})));
    }
    let client = engine.client().with_database("contador");
    let rows: Vec<Cells> =
        client.query("SELECT lo, hi, n, count FROM latency FINAL ORDER BY metric DESC").fetch_all().await.unwrap();
    let [explicit, exponential] = rows.as_slice() else { panic!("{rows:?}") };
    // Microseconds: the outer cells end at the least and the greatest value.
    let expected = Cells {
        lo: vec![50_000.0, 100_000.0, 0.300_000_000_000_000_04 * 1e6],
        hi: vec![100_000.0, 200_000.0, 400_000.0],
        n: vec![1, 2, 1],
        count: 4,
    };
    assert_eq!(*explicit, expected);
    // 2^(i/8) s for i = -2, -1, 0 and 1, and the zero bucket of 1 us.
    let edge = |index: f64| (index / 8.0).exp2() * 1e6;
    assert_eq!((&exponential.n, exponential.count), (&vec![1, 2, 3], 6));
    for (told, expected) in exponential.lo.iter().zip([0.0, edge(-2.0), edge(0.0)]) {
        assert!((told - expected).abs() <= 1e-9 * expected, "{told} is not {expected}");
    }
    for (told, expected) in exponential.hi.iter().zip([1.0, edge(-1.0), edge(1.0)]) {
        assert!((told - expected).abs() <= 1e-9 * expected, "{told} is not {expected}");
    }
}

#[tokio::test]
async fn faults_are_told_in_json() {
    let (mut engine, collector) = started().await;
    let (status, told) = post(&collector, b"{\"resourceMetrics\": [".to_vec(), None).await;
    assert_eq!((status, &told["code"]), (400, &json!(3)));
    let (status, told) = post(&collector, br#"{"resourceSpans": []}"#.to_vec(), None).await;
    assert_eq!(status, 400);
    assert_eq!(told["message"], "body: got \"resourceSpans\", expected resourceMetrics at line 1 column 21");
    let (status, told) = post(&collector, b"{}".to_vec(), Some("br")).await;
    assert_eq!((status, &told["code"]), (415, &json!(3)));
    assert_eq!(post(&collector, b"{}".to_vec(), None).await, (200, json!({})));
    let large = format!(r#"{{"x": "{}"}}"#, "x".repeat(64 << 20)).into_bytes();
    let (status, told) = post(&collector, large, None).await;
    assert_eq!(
        (status, &told["message"]),
        (413, &json!("the request has more than 67108864 bytes after decompression"))
    );
    // Three bytes of text that become a point of a row each.
    let points = "{},".repeat(2_000_000);
    let many = format!(
        r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"gauge":{{"dataPoints":[{points}{{}}]}}}}]}}]}}]}}"#
    );
    let packed = zstd::encode_all(many.as_bytes(), 1).unwrap();
    let (status, told) = post(&collector, packed, Some("zstd")).await;
    assert_eq!((status, &told["code"]), (413, &json!(8)), "{told}");
    engine.kill().unwrap();
    let good = json!([{"name": "g", "gauge": {"dataPoints": [{"timeUnixNano": nanos(), "asInt": 1}]}}]);
    let (status, told) = send(&collector, good).await;
    assert_eq!((status, &told["code"]), (503, &json!(14)), "{told}");
}
