//! Too much at once is refused in the way that makes a sender come back; too large, in the way that makes it stop.

use std::io::Write as _;

use contador_tests::{Collector, Engine};
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message as _;
use tonic::Code;
use tonic::codec::CompressionEncoding;
use tonic_types::StatusExt as _;

mod collector_support;
use collector_support::{count, gauge, grpc, now, post, request};

const SECOND: u64 = 1_000_000_000;

#[tokio::test]
async fn too_large_is_permanent() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let filling = "x".repeat((64 << 20) + 1);
    let large = request(&[("filling", &filling)], vec![gauge("g", 1.0, now() * SECOND, &[])]);

    let plain = grpc(&collector.grpc).await.export(large.clone()).await.unwrap_err();
    assert_eq!((plain.code(), plain.get_details_retry_info().is_some()), (Code::ResourceExhausted, false), "{plain:?}");
    let mut client = grpc(&collector.grpc).await.send_compressed(CompressionEncoding::Zstd);
    let packed = client.export(large.clone()).await.unwrap_err();
    assert_eq!(
        (packed.code(), packed.get_details_retry_info().is_some()),
        (Code::ResourceExhausted, false),
        "{packed:?}"
    );

    let body = large.encode_to_vec();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&body).unwrap();
    let answer = post(&collector.http, gzip.finish().unwrap(), &[("content-encoding", "gzip")]).await;
    assert_eq!((answer.status().as_u16(), answer.headers().get("retry-after")), (413, None));
    let status = tonic_types::Status::decode(answer.bytes().await.unwrap()).unwrap();
    assert_eq!(status.message, "the request has more than 67108864 bytes after decompression");
    let packed = zstd::encode_all(body.as_slice(), 1).unwrap();
    let answer = post(&collector.http, packed, &[("content-encoding", "zstd")]).await;
    assert_eq!(answer.status(), 413);
    assert_eq!(collector.metric("contador_ingest_requests_total{outcome=\"too_large\"}").await.unwrap(), 4.0);
}

#[tokio::test]
async fn small_bodies_that_become_large_are_refused_before_they_do() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "[ingest]\ninflight_mib = 256\n").unwrap();
    collector.ready().await.unwrap();
    let mut metric = gauge("g", 1.0, now() * SECOND, &[]);
    let Some(Data::Gauge(points)) = &mut metric.data else { panic!("a gauge") };
    points.data_points = vec![NumberDataPoint::default(); 1_000_000];
    let many = request(&[], vec![metric]);
    let mut client = grpc(&collector.grpc).await.send_compressed(CompressionEncoding::Gzip);
    let refused = client.export(many.clone()).await.unwrap_err();
    assert_eq!((refused.code(), refused.get_details_retry_info().is_some()), (Code::ResourceExhausted, false));
    let zstd = zstd::encode_all(many.encode_to_vec().as_slice(), 3).unwrap();
    assert!(zstd.len() < 64 << 10, "{} bytes", zstd.len());
    let answer = post(&collector.http, zstd, &[("content-encoding", "zstd")]).await;
    assert_eq!((answer.status().as_u16(), answer.headers().get("retry-after")), (413, None));
    let status = tonic_types::Status::decode(answer.bytes().await.unwrap()).unwrap();
    assert_eq!(status.message, "the request would take more memory than inflight_mib; split it");
    // One long text of a resource is in the row of each point.
    let points = (0..1_000).map(|n| gauge(&format!("g{n}"), 1.0, now() * SECOND, &[])).collect();
    let long = request(&[("filling", &"x".repeat(1 << 20))], points);
    assert_eq!(post(&collector.http, long.encode_to_vec(), &[]).await.status(), 413);
    // None of it is held any more.
    collector_support::accepted(&collector.http, &request(&[], vec![gauge("g", 1.0, now() * SECOND, &[])])).await;
    assert_eq!(collector.metric("contador_ingest_state{what=\"inflight_bytes\"}").await.unwrap(), 0.0);
}

#[tokio::test]
async fn memory_that_others_hold_is_waited_for_by_the_sender() {
    let engine = Engine::start().unwrap();
    let config = "[ingest]\ninflight_mib = 8\ninsert_interval_ms = 20000\n";
    let collector = Collector::start(engine.url(), config).unwrap();
    collector.ready().await.unwrap();
    let filling = "x".repeat(2 << 20);
    let send = |name| request(&[("filling", &filling)], vec![gauge(name, 1.0, now() * SECOND, &[])]);
    let client = grpc(&collector.grpc).await;
    client.clone().export(send("first")).await.unwrap();
    // Its rows wait for the table's next insert, and hold their memory until then.
    let (mut one, waiting) = (client.clone(), send("a"));
    let one = tokio::spawn(async move { one.export(waiting).await });
    while collector.metric("contador_ingest_state{what=\"inflight_bytes\"}").await.unwrap() < 4_000_000.0 {
        assert!(!one.is_finished(), "the first request was answered early");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let refused = client.clone().export(send("b")).await.unwrap_err();
    assert_eq!(refused.message(), "requests at work hold all of inflight_mib");
    assert!(refused.code() == Code::ResourceExhausted && refused.get_details_retry_info().is_some(), "{refused:?}");
    let answer = post(&collector.http, send("c").encode_to_vec(), &[]).await;
    assert_eq!(answer.status(), 429);
}

#[tokio::test]
async fn too_much_is_asked_to_come_back() {
    let engine = Engine::start().unwrap();
    // One request at a time; the first is written at once, the next waits for its interval.
    let config = "[ingest]\nrequests = 1\ninsert_interval_ms = 20000\nretry_after_s = 3\n";
    let collector = Collector::start(engine.url(), config).unwrap();
    collector.ready().await.unwrap();
    let send = |name| request(&[], vec![gauge(name, 1.0, now() * SECOND, &[])]);
    let mut client = grpc(&collector.grpc).await;
    client.export(send("first")).await.unwrap();
    let mut clients = [client.clone(), client.clone(), client];
    let [one, two, three] = &mut clients;
    let (one, two, three) = (one.export(send("a")), two.export(send("b")), three.export(send("c")));
    futures::pin_mut!(one, two, three);
    // Whichever takes the place waits; the first one that is answered is refused.
    let (refused, _, _) = futures::future::select_all([one, two, three]).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let delay = refused.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert_eq!(delay.as_secs(), 3);
    let answer = post(&collector.http, send("d").encode_to_vec(), &[]).await;
    assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].to_str().unwrap()), (429, "3"));
}

#[tokio::test]
async fn rows_that_find_no_room_in_their_table_are_asked_to_come_back_and_others_are_taken() {
    let engine = Engine::start().unwrap();
    let config = "[ingest]\nqueue_mib = 1\ninsert_interval_ms = 20000\n";
    let collector = Collector::start(engine.url(), config).unwrap();
    collector.ready().await.unwrap();
    let filling = "x".repeat(700 << 10);
    let send = |name| request(&[("filling", &filling)], vec![gauge(name, 1.0, now() * SECOND, &[])]);
    let client = grpc(&collector.grpc).await;
    client.clone().export(send("first")).await.unwrap();
    let mut clients = [client.clone(), client.clone()];
    let [one, two] = &mut clients;
    let (one, two) = (one.export(send("a")), two.export(send("b")));
    futures::pin_mut!(one, two);
    let (refused, _, _) = futures::future::select_all([one, two]).await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, "the queue of table metrics is full"));
    assert!(refused.get_details_retry_info().is_some());
    // Another table has room of its own.
    let time = now() * SECOND;
    let delta = opentelemetry_proto::tonic::metrics::v1::AggregationTemporality::Delta;
    let latency = request(&[], vec![collector_support::histogram(delta, (time - SECOND, time), &[0.1], &[1, 2])]);
    client.clone().export(latency).await.unwrap();
}

#[tokio::test]
async fn refused_rows_are_kept_and_the_others_of_the_same_insert_are_stored() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "[ingest]\ninsert_interval_ms = 1500\n").unwrap();
    collector.ready().await.unwrap();
    let client = engine.client().with_database("contador");
    client.query("ALTER TABLE metrics ADD CONSTRAINT small CHECK value < 100").execute().await.unwrap();
    let send = |name, value| request(&[], vec![gauge(name, value, now() * SECOND, &[])]);
    let mut sender = grpc(&collector.grpc).await;
    sender.export(send("first", 1.0)).await.unwrap();
    // These two wait for the same insert. Of 1,000 points of one request, two are refused.
    let many = (0..1_000).map(|n| {
        let value = if n == 300 || n == 700 { 100.0 } else { 1.0 };
        gauge(&format!("n{n}"), value, now() * SECOND, &[("queue", "a")])
    });
    let (mut other, bad, good) = (sender.clone(), request(&[], many.collect()), send("good", 1.0));
    let (bad, good) = tokio::join!(sender.export(bad), other.export(good));
    assert_eq!(good.unwrap().into_inner().partial_success, None);
    let told = bad.unwrap().into_inner().partial_success.unwrap();
    assert_eq!(told.rejected_data_points, 2);
    assert!(told.error_message.contains("2 rows kept in dead_letters: table metrics"), "{}", told.error_message);
    assert_eq!(count(&client, "SELECT count() FROM metrics FINAL").await, 1_000);
    let names: Vec<String> = client
        .query("SELECT row.name::String FROM (SELECT row::JSON AS row FROM dead_letters FINAL) ORDER BY 1")
        .fetch_all()
        .await
        .unwrap();
    assert_eq!(names, ["n300", "n700"]);
    assert_eq!(collector.metric("contador_ingest_dead_letters_total{table=\"metrics\"}").await.unwrap(), 2.0);
}

#[tokio::test]
async fn a_dead_letter_is_sent_again_as_the_decision_says() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let client = engine.client().with_database("contador");
    client.query("ALTER TABLE latency ADD CONSTRAINT c CHECK service != 'poison'").execute().await.unwrap();
    client.query("ALTER TABLE metrics ADD CONSTRAINT c CHECK value < 100").execute().await.unwrap();
    let time = now() * SECOND + 123_456_789;
    let delta = opentelemetry_proto::tonic::metrics::v1::AggregationTemporality::Delta;
    // The last bucket has no upper edge.
    let metrics = vec![
        collector_support::histogram(delta, (time - SECOND, time), &[0.1], &[1, 2]),
        gauge("large", 100.0, time, &[("queue", "a")]),
    ];
    let poison = request(&[("service.name", "poison"), ("x", "y")], metrics);
    let told = collector_support::accepted(&collector.http, &poison).await.partial_success.unwrap();
    assert_eq!(told.rejected_data_points, 2);
    for table in ["latency", "metrics"] {
        assert_eq!(count(&client, &format!("SELECT count() FROM {table}")).await, 0);
        client.query(&format!("ALTER TABLE {table} DROP CONSTRAINT c")).execute().await.unwrap();
        // The statement of docs/decisions/0005.
        let decision = std::fs::read_to_string("../docs/decisions/0005-acknowledged-means-stored.md").unwrap();
        let statement = decision.lines().map(str::trim).find(|line| line.starts_with("SELECT row FROM")).unwrap();
        let rows = statement.replace("'latency'", &format!("'{table}'"));
        let http = reqwest::Client::new();
        let select = http.post(format!("{}/?database=contador", engine.url())).body(rows).send().await.unwrap();
        let lines = select.text().await.unwrap();
        let insert = http
            .post(format!("{}/", engine.url()))
            .query(&[("database", "contador"), ("query", &format!("INSERT INTO {table} FORMAT JSONEachRow"))])
            .body(lines)
            .send()
            .await
            .unwrap();
        assert!(insert.status().is_success(), "{}", insert.text().await.unwrap());
    }
    // What is stored is what would have been without the constraint.
    let replayed: contador_schemas::rows::Latency =
        client.query("SELECT ?fields FROM latency FINAL").fetch_one().await.unwrap();
    let metric: contador_schemas::rows::Metric =
        client.query("SELECT ?fields FROM metrics FINAL").fetch_one().await.unwrap();
    for table in ["latency", "metrics"] {
        client.query(&format!("TRUNCATE TABLE {table}")).execute().await.unwrap();
    }
    collector_support::accepted(&collector.http, &poison).await;
    assert_eq!(replayed.hi.last(), Some(&f64::INFINITY));
    assert_eq!(replayed, client.query("SELECT ?fields FROM latency FINAL").fetch_one().await.unwrap());
    assert_eq!(metric, client.query("SELECT ?fields FROM metrics FINAL").fetch_one().await.unwrap());
}

#[tokio::test]
async fn one_changed_table_is_told_buries_nothing_and_holds_up_no_other() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let client = engine.client().with_database("contador");
    let time = now() * SECOND;
    let delta = opentelemetry_proto::tonic::metrics::v1::AggregationTemporality::Delta;
    let slow = |time| request(&[], vec![collector_support::histogram(delta, (time - SECOND, time), &[0.1], &[1, 2])]);
    let mut sender = grpc(&collector.grpc).await;
    sender.export(slow(time - SECOND)).await.unwrap();
    client.query("ALTER TABLE latency RENAME COLUMN sum_us TO hidden").execute().await.unwrap();
    let failed = sender.export(slow(time)).await.unwrap_err();
    assert_eq!(failed.code(), Code::Unavailable, "{failed:?}");
    assert!(failed.get_details_retry_info().is_some());
    let (status, body) = collector.readiness_is(503).await.unwrap();
    assert!(status == 503 && body.contains("table latency has no column sum_us"), "{body}");
    sender.export(request(&[], vec![gauge("g", 1.0, time, &[])])).await.unwrap();
    assert_eq!(count(&client, "SELECT count() FROM metrics FINAL").await, 1);
    client.query("ALTER TABLE latency RENAME COLUMN hidden TO sum_us").execute().await.unwrap();
    collector.ready().await.unwrap();
    sender.export(slow(time)).await.unwrap();
    assert_eq!(count(&client, "SELECT sum(count) FROM latency FINAL").await, 6);
    assert_eq!(count(&client, "SELECT count() FROM dead_letters").await, 0);
}

#[tokio::test]
async fn a_missing_table_is_made_again() {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let client = engine.client().with_database("contador");
    let push = request(&[], vec![gauge("g", 1.0, now() * SECOND, &[])]);
    let mut sender = grpc(&collector.grpc).await;
    for drop in ["DROP TABLE metrics SYNC", "DROP DATABASE contador SYNC"] {
        sender.export(push.clone()).await.unwrap();
        client.query(drop).execute().await.unwrap();
        let failed = sender.export(push.clone()).await.unwrap_err();
        assert_eq!(failed.code(), Code::Unavailable, "{failed:?}");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while let Err(error) = sender.export(push.clone()).await {
            assert!(std::time::Instant::now() < deadline, "{drop}: {error:?}");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        collector.ready().await.unwrap();
    }
}
