//! ClickHouse that is not there, goes away and comes back; a collector that is asked to end.

use std::io::Write as _;

use contador_tests::{Collector, Engine};
use prost::Message as _;
use tonic::Code;
use tonic_types::StatusExt as _;

mod collector_support;
use collector_support::{accepted, count, gauge, grpc, now, post, request};

const SECOND: u64 = 1_000_000_000;

#[tokio::test]
async fn a_store_that_is_down_is_waited_for_and_gets_what_the_sender_kept() {
    let mut engine = Engine::start().unwrap();
    let address = engine.url().trim_start_matches("http://").to_owned();
    engine.kill().unwrap();
    let url = format!("http://someone:secret@{address}");
    let collector = Collector::start(&url, "").unwrap();

    let (status, body) = collector.readiness_is(503).await.unwrap();
    assert_eq!(status, 503);
    assert!(body.contains(&format!("http://{address}/contador")) && !body.contains("secret"), "{body}");
    assert!(!collector.log().contains("secret"), "{}", collector.log());
    assert_eq!(reqwest::get(format!("{}/healthz", collector.web)).await.unwrap().status(), 200);

    let kept = request(&[], vec![gauge("kept", 1.0, now() * SECOND, &[])]);
    let refused = grpc(&collector.grpc).await.export(kept.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.get_details_retry_info().unwrap().retry_delay.is_some());
    let answer = post(&collector.http, kept.encode_to_vec(), &[]).await;
    assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].to_str().unwrap()), (503, "1"));

    // Up, on the same address: the tables are made and what the sender kept is taken.
    engine.restart_at(&address).unwrap();
    collector.ready().await.unwrap();
    accepted(&collector.http, &kept).await;
    let client = engine.client().with_database("contador");
    assert_eq!(count(&client, "SELECT count() FROM metrics FINAL WHERE name = 'kept'").await, 1);
}

#[tokio::test]
async fn a_store_that_goes_away_is_told_and_nothing_is_acknowledged_meanwhile() {
    let mut engine = Engine::start().unwrap();
    let mut collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    engine.kill().unwrap();
    let (status, body) = collector.readiness_is(503).await.unwrap();
    assert!(status == 503 && body.contains("\"down\""), "{body}");
    let answer = post(&collector.http, request(&[], vec![gauge("g", 1.0, now() * SECOND, &[])]).encode_to_vec(), &[]);
    assert_eq!(answer.await.status(), 503);
    assert!(collector.terminate().unwrap().success());
}

#[tokio::test]
async fn a_request_that_was_taken_before_sigterm_is_answered_and_stored() {
    let engine = Engine::start().unwrap();
    let mut collector = Collector::start(engine.url(), "[ingest]\ninsert_interval_ms = 2000\n").unwrap();
    collector.ready().await.unwrap();
    let send = |name| request(&[], vec![gauge(name, 1.0, now() * SECOND, &[])]);
    let mut sender = grpc(&collector.grpc).await;
    sender.export(send("first")).await.unwrap();
    // This one waits for the interval; the signal comes while it does.
    let waiting = tokio::spawn(async move { sender.export(send("last")).await });
    let queued = "contador_ingest_state{what=\"requests\"}";
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while collector.metric(queued).await.unwrap() < 1.0 && !waiting.is_finished() {
        assert!(std::time::Instant::now() < deadline, "the request was not taken");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let status = tokio::task::spawn_blocking(move || collector.terminate()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
    waiting.await.unwrap().unwrap();
    let client = engine.client().with_database("contador");
    assert_eq!(count(&client, "SELECT count() FROM metrics FINAL").await, 2);
}

#[tokio::test]
async fn half_of_a_request_holds_up_no_shutdown() {
    let engine = Engine::start().unwrap();
    let mut collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    let address = |url: &str| url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let send = |url: &str, bytes: &[u8]| {
        let mut socket = std::net::TcpStream::connect(address(url)).unwrap();
        socket.write_all(bytes).unwrap();
        socket
    };
    let head =
        b"POST /v1/metrics HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 99\r\n";
    let sockets = [
        send(&collector.http, &[head, b"\r\nhalf".as_slice()].concat()),
        send(&collector.http, head),
        send(&collector.grpc, b"PRI * HTTP/2.0"),
        send(&collector.web, b"GET /readyz HT"),
    ];
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let begun = std::time::Instant::now();
    let status = tokio::task::spawn_blocking(move || collector.terminate()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(sockets);
}

#[tokio::test]
async fn an_insert_that_fails_is_not_acknowledged_and_a_retry_is_counted_once() {
    let mut engine = Engine::start().unwrap();
    let address = engine.url().trim_start_matches("http://").to_owned();
    let collector = Collector::start(engine.url(), "[ingest]\ninsert_interval_ms = 100\n").unwrap();
    collector.ready().await.unwrap();
    let time = now() * SECOND;
    let mut sender = grpc(&collector.grpc).await;
    // Killed in the middle of a stream of requests: each is tried until it is acknowledged.
    for sent in 0..30 {
        if sent == 10 {
            engine.kill().unwrap();
            engine.restart_at(&address).unwrap();
        }
        let point = || request(&[], vec![gauge("n", 1.0, time + sent, &[])]);
        while sender.export(point()).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    let client = engine.client().with_database("contador");
    assert_eq!(count(&client, "SELECT count() FROM metrics FINAL").await, 30);
}
