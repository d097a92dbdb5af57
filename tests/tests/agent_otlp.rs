//! An agent as the place to which services send OTLP: by HTTP and by gRPC, running totals, and what happens to them when the
//! agent is killed.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::time::{Duration, Instant};

use contador_tests::{Agent, Collector, Engine};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Gauge, NumberDataPoint};
use prost::Message as _;
use serde_json::json;
use tonic::Code;
use tonic::codec::CompressionEncoding;
use tonic_types::StatusExt as _;

mod collector_support;
use collector_support::{gauge, grpc, histogram, now, post, request};

const SECOND: u64 = 1_000_000_000;

fn totals(start: u64, time: u64, counts: &[u64]) -> ExportMetricsServiceRequest {
    let total = histogram(AggregationTemporality::Cumulative, (start, time), &[0.1, 1.0], counts);
    request(&[("service.name", "totals"), ("service.instance.id", "i")], vec![total])
}

#[tokio::test(flavor = "multi_thread")]
async fn totals_of_services_are_increases_over_kills_of_the_agent() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let mut agent = Agent::start(&collector.grpc, "").unwrap();
    let end = now() * SECOND;
    let at = |step: u64| end - (40 - step) * SECOND;
    let http = |agent: &Agent| format!("{}/v1/metrics", agent.url);
    let ok = |answer: &reqwest::Response| assert_eq!(answer.status(), 200);

    // A base line by HTTP, then a total by gRPC in gzip, beside a metric of another kind.
    let answer = post(&http(&agent), totals(at(0), at(10), &[5, 0, 0]).encode_to_vec(), &[]).await;
    ok(&answer);
    assert_eq!(answer.headers()["content-type"], "application/x-protobuf");
    let told = ExportMetricsServiceResponse::decode(answer.bytes().await.unwrap()).unwrap();
    assert_eq!(told.partial_success, None);
    let mut more = totals(at(0), at(15), &[7, 3, 0]);
    more.resource_metrics[0].scope_metrics[0].metrics.push(gauge("model.accuracy", 0.9, at(15), &[]));
    let mut client = grpc(&agent.url).await.send_compressed(CompressionEncoding::Gzip);
    assert_eq!(client.export(more).await.unwrap().into_inner().partial_success, None);

    // Killed: it goes on, and a retry of the last one is the same row.
    agent.kill_and_restart().unwrap();
    let again = totals(at(0), at(15), &[7, 3, 0]).encode_to_vec();
    ok(&post(&http(&agent), again, &[]).await);
    let zstd = zstd::encode_all(totals(at(0), at(20), &[7, 3, 4]).encode_to_vec().as_slice(), 3).unwrap();
    ok(&post(&http(&agent), zstd, &[("content-encoding", "zstd")]).await);
    // The service is started again: what it counts since is all new. And a point that contradicts the last one.
    let restarted = totals(at(21), at(25), &[1, 1, 0]);
    let mut client = grpc(&agent.url).await.send_compressed(CompressionEncoding::Zstd);
    client.export(restarted).await.unwrap();
    let conflict =
        client.export(totals(at(21), at(25), &[9, 1, 0])).await.unwrap().into_inner().partial_success.unwrap();
    assert_eq!(conflict.rejected_data_points, 1);
    let told = format!("start {}, time {}, count 10): expected one total of a series at an instant", at(21), at(25));
    assert_eq!(
        conflict.error_message,
        format!(r#"conflicting 1 (such as "http.server.request.duration" of service "totals" with {told}"#)
    );

    // Other bounds: what came can't be told.
    let other = histogram(AggregationTemporality::Cumulative, (at(21), at(30)), &[0.2, 1.0], &[3, 1, 0]);
    let attributes = [("service.name", "totals"), ("service.instance.id", "i")];
    ok(&post(&http(&agent), request(&attributes, vec![other]).encode_to_vec(), &[]).await);

    let stored = engine.client().with_database("contador");
    let deadline = Instant::now() + Duration::from_secs(60);
    let rows = loop {
        let sql = "SELECT toString((n, hi, count, reset, node)) FROM latency FINAL WHERE service = 'totals'
            UNION ALL SELECT toString((value, service)) FROM metrics WHERE name = 'model.accuracy'";
        let mut rows: Vec<String> = stored.query(sql).fetch_all().await.unwrap();
        rows.sort_unstable();
        if rows.len() == 4 {
            break rows;
        }
        assert!(Instant::now() < deadline, "{rows:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(
        rows,
        [
            "(0.9,'totals')",
            "([1,1],[100000,1000000],2,true,'test-node')",
            "([2,3],[100000,1000000],5,false,'test-node')",
            "([4],[inf],4,false,'test-node')",
        ]
    );
    let page = reqwest::get(format!("{}/metrics", agent.url)).await.unwrap().text().await.unwrap();
    for line in [
        r#"contador_agent_otlp_requests_total{result="kept"} 5"#,
        r#"contador_agent_otlp_dropped_total{reason="buckets"} 1"#,
        "contador_agent_otlp_base_lines_total 0",
        r#"contador_agent_otlp_refused_points_total{reason="conflicting"} 1"#,
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_taken_is_refused_for_good_and_a_full_spool_for_now() {
    // Nobody takes what the agent keeps.
    let agent = Agent::start("http://127.0.0.1:9", "[http]\nmax_push_size = \"64KiB\"\n[spool]\nmax_size = \"1MiB\"\n")
        .unwrap();
    let url = format!("{}/v1/metrics", agent.url);
    let one = totals(now() * SECOND - 1, now() * SECOND, &[1, 0, 0]).encode_to_vec();
    let csv = reqwest::Client::new().post(&url).header("content-type", "text/csv").body("{}");
    assert_eq!(csv.send().await.unwrap().status(), 415);
    // Two bytes each, and hundreds in memory.
    let mut points = gauge("empty", 0.0, 0, &[]);
    points.data = Some(Data::Gauge(Gauge { data_points: vec![NumberDataPoint::default(); 20_000] }));
    for (body, header, status) in [
        (one, ("content-encoding", "br"), 415),
        (request(&[], vec![points]).encode_to_vec(), ("content-encoding", "identity"), 413),
        (vec![0; 65 << 10], ("content-encoding", "identity"), 413),
        (zstd::encode_all(vec![0; 1 << 20].as_slice(), 3).unwrap(), ("content-encoding", "zstd"), 413),
        (b"hello".to_vec(), ("content-encoding", "identity"), 400),
        (b"hello".to_vec(), ("content-encoding", "gzip"), 400),
    ] {
        let answer = post(&url, body, &[header]).await;
        assert_eq!(answer.status(), status, "{header:?}");
        assert!(!answer.headers().contains_key("retry-after"));
    }
    let wide = |time| {
        let bounds: Vec<f64> = (1..3_000_i32).map(f64::from).collect();
        let total = histogram(AggregationTemporality::Delta, (time - 1, time), &bounds, &vec![1; bounds.len() + 1]);
        request(&[("service.name", "wide")], vec![total])
    };
    let mut client = grpc(&agent.url).await;
    let mut taken = 0_u64;
    let status = loop {
        match client.export(wide(now() * SECOND + taken)).await {
            Ok(_) => taken += 1,
            Err(status) => break status,
        }
        assert!(taken < 1_000);
    };
    assert!(taken > 5);
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
    let answer = post(&url, wide(now() * SECOND).encode_to_vec(), &[]).await;
    assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].to_str().unwrap()), (429, "5"));
    // Too large is for good: no RetryInfo.
    let large = ExportMetricsServiceRequest { resource_metrics: vec![wide(SECOND).resource_metrics[0].clone(); 3] };
    let status = client.export(large).await.unwrap_err();
    assert_eq!((status.code(), status.get_details_retry_info().is_some()), (Code::ResourceExhausted, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_taken_like_protobuf_and_answered_in_json() {
    let agent = Agent::start("http://127.0.0.1:9", "[http]\nmax_push_size = \"64KiB\"\n").unwrap();
    let send = async |body: Vec<u8>, encoding: &str| {
        let request = reqwest::Client::new().post(format!("{}/v1/metrics", agent.url));
        let request =
            request.header("content-type", "application/json; charset=utf-8").header("content-encoding", encoding);
        let answer = request.body(body).send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "application/json");
        (answer.status().as_u16(), answer.json::<serde_json::Value>().await.unwrap())
    };
    let time = now() * SECOND;
    let total = |count: u64| {
        let point = json!({
            "startTimeUnixNano": (time - SECOND).to_string(), "timeUnixNano": time.to_string(), "count": count.to_string(),
            "bucketCounts": [count, "0"], "explicitBounds": [0.1],
        });
        let histogram = json!({"aggregationTemporality": 2, "dataPoints": [point]});
        let metric = json!({"name": "http.server.request.duration", "unit": "s", "histogram": histogram});
        json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}).to_string().into_bytes()
    };
    assert_eq!(send(total(3), "identity").await, (200, json!({})));
    let compressed = zstd::encode_all(total(3).as_slice(), 3).unwrap();
    assert_eq!(send(compressed, "zstd").await, (200, json!({})));
    let (status, told) = send(total(4), "identity").await;
    let message = told["partialSuccess"]["errorMessage"].as_str().unwrap();
    assert!(
        status == 200 && message.starts_with(r#"conflicting 1 (such as "http.server.request.duration" of"#),
        "{told}"
    );
    assert_eq!(told["partialSuccess"]["rejectedDataPoints"], "1");
    let (status, told) = send(br#"{"resourceMetrics": [{"scopeMetrics": 7}]}"#.to_vec(), "identity").await;
    let message = told["message"].as_str().unwrap();
    assert_eq!((status, &told["code"]), (400, &json!(Code::InvalidArgument as i32)));
    assert!(message.contains("resourceMetrics[0].scopeMetrics: got 7, expected a list"), "{message}");
    // Three bytes each, and hundreds in memory: as much as is never allowed; and more than a body may have.
    let points = format!(
        r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"gauge":{{"dataPoints":[{}{{}}]}}}}]}}]}}]}}"#,
        "{},".repeat(20_000)
    );
    for body in [points.into_bytes(), vec![b' '; 65 << 10]] {
        let (status, told) = send(body, "identity").await;
        assert_eq!((status, &told["code"]), (413, &json!(Code::ResourceExhausted as i32)), "{told}");
    }
}
