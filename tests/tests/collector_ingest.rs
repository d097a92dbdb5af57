//! What is sent by OTLP is in ClickHouse when it is acknowledged, once, however it is sent.

use std::io::Write as _;

use contador::latency::{Ask, quantile};
use contador_schemas::quantile::{Quantile, State};
use contador_tests::{Collector, Engine};
use hdrhistogram::Histogram as Hdr;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Metric,
};
use prost::Message as _;
use tonic::codec::CompressionEncoding;

mod collector_support;
use collector_support::{accepted, attributes, count, gauge, grpc, histogram, now, post, request};

const SECOND: u64 = 1_000_000_000;
const API: [(&str, &str); 2] = [("service.name", "api"), ("host.name", "node-1")];

#[tokio::test]
async fn an_acknowledged_point_is_stored_once_by_every_way_in() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let client = engine.client().with_database("contador");
    let time = now() * SECOND;
    let send = |name: &str| request(&API, vec![gauge(name, 0.5, time, &[("queue", "a")])]);
    let stored = |name: &'static str| {
        let client = client.clone();
        async move { count(&client, &format!("SELECT count() FROM metrics FINAL WHERE name = '{name}'")).await }
    };

    let mut plain = grpc(&collector.grpc).await;
    plain.export(send("grpc")).await.unwrap();
    assert_eq!(stored("grpc").await, 1);
    // Sent again, as after an answer that was lost.
    plain.export(send("grpc")).await.unwrap();
    assert_eq!(stored("grpc").await, 1);
    for (name, encoding) in [("grpc_gzip", CompressionEncoding::Gzip), ("grpc_zstd", CompressionEncoding::Zstd)] {
        grpc(&collector.grpc).await.send_compressed(encoding).export(send(name)).await.unwrap();
        assert_eq!(stored(name).await, 1);
    }

    assert_eq!(accepted(&collector.http, &send("http")).await.partial_success, None);
    assert_eq!(stored("http").await, 1);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&send("http_gzip").encode_to_vec()).unwrap();
    assert_eq!(post(&collector.http, gzip.finish().unwrap(), &[("content-encoding", "gzip")]).await.status(), 200);
    assert_eq!(stored("http_gzip").await, 1);
    let zstd = zstd::encode_all(send("http_zstd").encode_to_vec().as_slice(), 1).unwrap();
    assert_eq!(post(&collector.http, zstd, &[("content-encoding", "zstd")]).await.status(), 200);
    assert_eq!(stored("http_zstd").await, 1);

    let row: (String, String, f64) = client
        .query("SELECT node, attributes['queue'], assumeNotNull(value) FROM metrics WHERE name = 'http'")
        .fetch_one()
        .await
        .unwrap();
    assert_eq!(row, ("node-1".to_owned(), "a".to_owned(), 0.5));
    assert!(collector.metric("contador_ingest_rows_total{table=\"metrics\"}").await.unwrap() >= 7.0);
}

#[tokio::test]
async fn what_cannot_be_stored_is_told_with_its_reason() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let time = now() * SECOND;
    let metrics = vec![gauge("good", 1.0, time, &[]), gauge("bad", f64::NAN, time, &[]), gauge("old", 1.0, 0, &[])];
    let answer = accepted(&collector.http, &request(&API, metrics)).await.partial_success.unwrap();
    assert_eq!(answer.rejected_data_points, 2);
    assert_eq!(
        answer.error_message,
        "time 1 (such as \"old\"): expected a time that is given, at most 10 minutes ahead of the collector's clock, and no start after it; \
         not_a_number 1 (such as \"bad\"): expected a number, got NaN or infinity"
    );
    assert_eq!(collector.metric("contador_ingest_rejected_points_total{reason=\"time\"}").await.unwrap(), 1.0);
    let client = engine.client().with_database("contador");
    assert_eq!(count(&client, "SELECT count() FROM metrics FINAL").await, 1);

    // What is no OTLP at all is a permanent error with a protobuf status.
    let answer = post(&collector.http, b"{}".to_vec(), &[]).await;
    assert_eq!(answer.status(), 400);
    let status = tonic_types::Status::decode(answer.bytes().await.unwrap()).unwrap();
    assert_eq!(status.code, tonic::Code::InvalidArgument as i32);
    let answer = post(&collector.http, Vec::new(), &[("content-encoding", "br")]).await;
    assert_eq!(answer.status(), 415);
    let text = reqwest::Client::new().post(&collector.http).header("content-type", "text/plain").body("{}");
    let answer = text.send().await.unwrap();
    assert_eq!(answer.status(), 415);
    let status = tonic_types::Status::decode(answer.bytes().await.unwrap()).unwrap();
    assert_eq!(status.message, "content-type \"text/plain\", expected application/x-protobuf or application/json");
}

#[tokio::test]
async fn a_time_that_cannot_be_kept_is_told() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let time = now() * SECOND;
    let client = engine.client().with_database("contador");
    // Milliseconds and microseconds in place of nanoseconds, older than the table keeps, and a day ahead.
    let times = [time / 1_000_000, time / 1_000, time - 15 * 86_400 * SECOND, time + 86_400 * SECOND];
    let metrics = times.iter().map(|time| gauge("g", 1.0, *time, &[])).collect();
    let told = accepted(&collector.http, &request(&API, metrics)).await.partial_success.unwrap();
    assert_eq!(told.rejected_data_points, 4);
    assert!(told.error_message.contains("too_old 3 ") && told.error_message.contains("time 1 "), "{told:?}");
    assert_eq!(collector.metric("contador_ingest_rejected_points_total{reason=\"too_old\"}").await.unwrap(), 3.0);

    // A histogram from a clock that is ahead doesn't hide what comes after it.
    let total = |time, count| {
        request(&API, vec![histogram(AggregationTemporality::Cumulative, (0, time), &[0.1], &[count, 0])])
    };
    assert_eq!(accepted(&collector.http, &total(time - 3 * SECOND, 10)).await.partial_success, None);
    let ahead = accepted(&collector.http, &total(time + 86_400 * SECOND, 20)).await.partial_success.unwrap();
    assert_eq!(ahead.rejected_data_points, 1);
    assert_eq!(accepted(&collector.http, &total(time - 2 * SECOND, 30)).await.partial_success, None);
    assert_eq!(count(&client, "SELECT sum(count) FROM latency FINAL").await, 20);
    assert_eq!(collector.metric("contador_ingest_cumulative_base_lines_total").await.unwrap(), 1.0);
}

#[tokio::test]
async fn c8_running_totals_are_stored_as_increases() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let begin = (now() - 100) * SECOND;
    let cumulative = AggregationTemporality::Cumulative;
    let mut client = grpc(&collector.grpc).await;
    for (index, total) in (1..).zip([10, 20, 5, 15]) {
        let time = begin + index * 10 * SECOND;
        let metrics = || vec![histogram(cumulative, (0, time), &[0.1], &[total, 0])];
        client.export(request(&API, metrics())).await.unwrap();
        client.export(request(&API, metrics())).await.unwrap();
    }
    let stored = engine.client().with_database("contador");
    let rows: Vec<(u64, bool)> =
        stored.query("SELECT count, reset FROM latency FINAL ORDER BY ts").fetch_all().await.unwrap();
    assert_eq!(rows, [(10, false), (5, true), (10, false)]);
}

#[tokio::test]
async fn histograms_of_all_layouts_keep_the_true_quantile_inside_of_the_answer() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let time = now() * SECOND;
    // Latencies in microseconds, some of them long: a linear congruential generator, cubed to have a tail.
    let mut state = 7_u64;
    let mut values: Vec<u64> = (0..20_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let part = state >> 50;
            1 + part * part * part / 1_000_000
        })
        .collect();

    let mut hdr = Hdr::<u64>::new(3).unwrap();
    values.iter().for_each(|value| hdr.record(*value).unwrap());
    let (mut bounds, mut counts, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for cell in hdr.iter_recorded() {
        let hi = cell.value_iterated_to();
        let lo = hdr.lowest_equivalent(hi);
        cells.push((lo as f64, hi as f64, cell.count_at_value()));
        if bounds.last() != Some(&(lo as f64).next_down()) {
            bounds.push((lo as f64).next_down());
            counts.push(0);
        }
        bounds.push(hi as f64);
        counts.push(cell.count_at_value());
    }
    counts.push(0);
    let mut metric = histogram(AggregationTemporality::Delta, (time - SECOND, time), &bounds, &counts);
    "contador.latency".clone_into(&mut metric.name);
    "us".clone_into(&mut metric.unit);
    let Some(Data::Histogram(data)) = &mut metric.data else { panic!("a histogram") };
    data.data_points[0].attributes = attributes(&[("contador.latency.metric", "queue_time")]);

    let exponential = exponential(&values, time);
    assert_eq!(accepted(&collector.http, &request(&API, vec![metric, exponential])).await.partial_success, None);

    let store = collector_support::store(engine.url(), "contador");
    let stored: Vec<(f64, f64, u64)> = store
        .client
        .query("SELECT lo, hi, n FROM latency FINAL ARRAY JOIN lo, hi, n WHERE metric = 'queue_time' ORDER BY lo")
        .fetch_all()
        .await
        .unwrap();
    assert_eq!(stored, cells);

    values.sort_unstable();
    let seconds = u32::try_from(now()).unwrap();
    for metric in ["queue_time", "request_duration"] {
        let asked = Ask::p99("api", metric, seconds - 600, seconds + 600);
        for (q, rank) in [(Quantile::P50, 10_000), (Quantile::P99, 19_800), (Quantile::P999, 19_980)] {
            let answer = quantile(&store, &Ask { quantiles: vec![q], ..asked.clone() }).await.unwrap();
            let truth = values[rank - 1] as f64;
            let (low, high) = (answer.low.unwrap(), answer.high.unwrap());
            assert!(low <= truth && truth <= high, "{metric}: {truth} in [{low}, {high}]");
            assert_eq!((answer.n, answer.state), (20_000, State::Ok));
        }
    }
    let nobody = Ask::p99("nobody", "", 0, u32::MAX);
    assert_eq!(quantile(&store, &nobody).await.unwrap().state, State::NoTraffic);
}

/// An exponential histogram of scale 5 of `values`, whose unit is a microsecond.
fn exponential(values: &[u64], time: u64) -> Metric {
    // Bucket i holds (2^(i/32), 2^((i+1)/32)].
    let bounds: Vec<f64> = (1..=1_024).map(|index| (f64::from(index) / 32.0).exp2()).collect();
    let ones = values.iter().filter(|value| **value == 1).count() as u64;
    let mut bucket_counts = vec![0; bounds.len()];
    for value in values.iter().filter(|value| **value > 1) {
        bucket_counts[bounds.partition_point(|bound| *bound < *value as f64)] += 1;
    }
    let point = ExponentialHistogramDataPoint {
        time_unix_nano: time,
        start_time_unix_nano: time - SECOND,
        count: values.len() as u64,
        scale: 5,
        // The value 1 is the upper edge of bucket -1; here it goes into the zero bucket.
        zero_count: ones,
        zero_threshold: 1.0,
        positive: Some(Buckets { offset: 0, bucket_counts }),
        ..ExponentialHistogramDataPoint::default()
    };
    let temporality = AggregationTemporality::Delta as i32;
    let data = ExponentialHistogram { data_points: vec![point], aggregation_temporality: temporality };
    Metric {
        name: "gen_ai.server.request.duration".to_owned(),
        unit: "us".to_owned(),
        data: Some(Data::ExponentialHistogram(data)),
        ..Metric::default()
    }
}

#[tokio::test]
async fn two_clients_of_two_collectors_write_each_row_once() {
    let engine = Engine::start().unwrap();
    let config = "[ingest]\ninsert_interval_ms = 100\n";
    let collectors = [engine.url(); 2].map(|url| Collector::start(url, config).unwrap());
    for collector in &collectors {
        collector.ready().await.unwrap();
    }
    let time = now() * SECOND;
    let send_all = |collector: &Collector| {
        let url = collector.grpc.clone();
        async move {
            let mut client = grpc(&url).await;
            for nanosecond in 0..20 {
                let metrics = (0..50).map(|n| gauge("n", 1.0, time + nanosecond, &[("n", &n.to_string())])).collect();
                client.export(request(&API, metrics)).await.unwrap();
            }
        }
    };
    let [one, other] = &collectors;
    tokio::join!(send_all(one), send_all(other), send_all(one));
    let client = engine.client().with_database("contador");
    assert_eq!(count(&client, "SELECT count() FROM metrics FINAL").await, 1_000);
}

#[tokio::test]
async fn own_metrics_go_where_they_are_told() {
    let engine = Engine::start().unwrap();
    let receiver = Collector::start(engine.url(), "").unwrap();
    receiver.ready().await.unwrap();
    let config = format!("[telemetry]\notlp_endpoint = \"{}\"\n", receiver.grpc);
    let mut sender = Collector::start(engine.url(), &config).unwrap();
    sender.ready().await.unwrap();
    accepted(&sender.http, &request(&API, vec![gauge("g", 1.0, now() * SECOND, &[])])).await;
    // What is left is sent at the end.
    let ended = tokio::task::spawn_blocking(move || sender.terminate()).await.unwrap().unwrap();
    assert!(ended.success());
    let client = engine.client().with_database("contador");
    let told = "SELECT toUInt64(assumeNotNull(max(value))) FROM metrics FINAL WHERE name = 'contador.ingest.points' \
                AND service = 'contador' AND attributes['protocol'] = 'http'";
    assert_eq!(count(&client, told).await, 1);
}
