//! What an agent keeps while the collector is away, and what it does with each answer.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod common;

use std::path::Path;
use std::time::Duration;

use common::{Collector, attribute, free_address, points};
use contador_agent::config::Compression;
use contador_agent::outbox::encode::infos::{self, Event};
use contador_agent::outbox::encode::{Identity, Points};
use contador_agent::outbox::queue::Queue;
use contador_agent::outbox::send::{self, Destination};
use contador_agent::outbox::{Keeper, Kind, SpoolLimits};
use contador_agent::telemetry::Telemetry;
use contador_schemas::names;
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceResponse};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding::{Gzip, Zstd};
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

const LIMITS: SpoolLimits = SpoolLimits { max_bytes: 1 << 24, segment_bytes: 1 << 12, rejected_bytes: 1 << 20 };

struct Outbox {
    keeper: Keeper,
    telemetry: Telemetry,
    closing: CancellationToken,
    task: JoinHandle<()>,
}

impl Outbox {
    fn open(dir: &Path, address: std::net::SocketAddr, compression: Compression) -> Self {
        let telemetry = Telemetry::new().unwrap();
        let keeper = Keeper::open(dir, LIMITS, telemetry.clone()).unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let closing = CancellationToken::new();
        let destination = Destination { endpoint, compression };
        let task = tokio::spawn(send::run(keeper.clone(), destination, telemetry.clone(), closing.clone()));
        Self { keeper, telemetry, closing, task }
    }

    /// Closes it as a shutdown does: once more everything that is there, or one failed attempt.
    async fn close(self) {
        self.closing.cancel();
        self.task.await.unwrap();
    }
}

/// A record that says `message`.
fn record(message: &str) -> Vec<u8> {
    let mut points = Points::default();
    infos::event(&mut points, &Event::new(1_790_000_000_000, "test", message));
    points.encode(&Identity::of_node("node"))
}

fn messages(
    requests: &[opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest],
) -> Vec<String> {
    let points = points(requests, names::EVENT);
    points.iter().map(|point| attribute(&point.attributes, names::EVENT_MESSAGE).to_owned()).collect()
}

#[tokio::test]
async fn everything_kept_while_the_collector_was_away_arrives_in_order_and_records_first() {
    let dir = tempfile::tempdir().unwrap();
    let address = free_address();
    let outbox = Outbox::open(dir.path(), address, Compression::Zstd);
    for number in 0..50 {
        outbox.keeper.keep(Kind::Samples, record(&format!("sample {number}"))).await.unwrap();
        outbox.keeper.keep(Kind::Ledger, record(&format!("ledger {number}"))).await.unwrap();
    }
    // The agent is restarted meanwhile.
    outbox.close().await;
    let outbox = Outbox::open(dir.path(), address, Compression::Zstd);
    assert!(!outbox.keeper.is_empty().await.unwrap());

    let collector = Collector::default();
    let running = collector.start(address, &[Zstd]).await;
    let received = collector.wait(|received| messages(received).len() == 100).await;
    let expected = ["ledger", "sample"].iter().flat_map(|kind| (0..50).map(move |number| format!("{kind} {number}")));
    assert_eq!(messages(&received), expected.collect::<Vec<_>>());
    outbox.close().await;

    // It is gone: another start sends nothing again.
    let outbox = Outbox::open(dir.path(), address, Compression::Zstd);
    assert!(outbox.keeper.is_empty().await.unwrap());
    outbox.keeper.keep(Kind::Samples, record("last")).await.unwrap();
    let received = collector.wait(|received| messages(received).len() > 100).await;
    assert_eq!(messages(&received).split_off(100), ["last"]);
    outbox.close().await;
    running.stop().await;
}

#[tokio::test]
async fn only_the_record_that_is_refused_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let address = free_address();
    let outbox = Outbox::open(dir.path(), address, Compression::Gzip);
    for number in 0..5 {
        outbox.keeper.keep(Kind::Ledger, record(&number.to_string())).await.unwrap();
    }
    let mut poison = Points::default();
    poison.push(names::DEVICE_INFO, (0, 1), Vec::new(), contador_agent::outbox::encode::points::int(1));
    let poison = poison.encode(&Identity::of_node("node"));
    outbox.keeper.keep(Kind::Ledger, poison.clone()).await.unwrap();
    for number in 5..9 {
        outbox.keeper.keep(Kind::Ledger, record(&number.to_string())).await.unwrap();
    }
    // And one that is no request at all.
    outbox.keeper.keep(Kind::Ledger, b"\xff\xff\xff".to_vec()).await.unwrap();
    outbox.keeper.keep(Kind::Ledger, record("9")).await.unwrap();

    let collector = Collector::default();
    collector.refuse(names::DEVICE_INFO);
    let running = collector.start(address, &[Gzip]).await;
    let received = collector.wait(|received| messages(received).len() == 10).await;
    assert_eq!(messages(&received), (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    let telemetry = outbox.telemetry.clone();
    outbox.close().await;
    running.stop().await;
    assert_eq!(telemetry.dropped.with_label_values(&["ledger", "refused"]).get(), 2);
    let mut rejected = Queue::open(&dir.path().join("rejected"), 1 << 12).unwrap();
    let payloads: Vec<_> =
        rejected.peek(9, 1 << 20).unwrap().records.into_iter().map(|record| record.payload).collect();
    assert_eq!(payloads, [poison, b"\xff\xff\xff".to_vec()]);
}

#[tokio::test]
async fn overload_is_waited_for_as_asked_and_refused_points_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let collector = Collector::default();
    let delay = ErrorDetails::with_retry_info(Some(Duration::from_millis(5)));
    collector.answer(Err(Status::with_error_details(Code::ResourceExhausted, "busy", delay)));
    collector.answer(Err(Status::unavailable("no ClickHouse")));
    let partial = ExportMetricsPartialSuccess { rejected_data_points: 3, error_message: "3 odd points".into() };
    collector.answer(Ok(ExportMetricsServiceResponse { partial_success: Some(partial) }));
    let running = collector.start(free_address(), &[Zstd]).await;
    let outbox = Outbox::open(dir.path(), running.address, Compression::Zstd);
    outbox.keeper.keep(Kind::Ledger, record("kept")).await.unwrap();
    let received = collector.wait(|received| !received.is_empty()).await;
    assert_eq!((messages(&received), collector.planned()), (vec!["kept".to_owned()], 0));
    let telemetry = outbox.telemetry.clone();
    outbox.close().await;
    running.stop().await;
    assert_eq!(telemetry.rejected_points.get(), 3);
    assert_eq!(telemetry.requests.with_label_values(&["later"]).get(), 2);
    assert_eq!(telemetry.requests.with_label_values(&["accepted"]).get(), 1);
}

#[tokio::test]
async fn a_collector_without_the_compression_gets_a_simpler_one() {
    for (compressions, requests) in [(vec![Gzip], 1), (vec![], 2)] {
        let dir = tempfile::tempdir().unwrap();
        let collector = Collector::default();
        let running = collector.start(free_address(), &compressions).await;
        let outbox = Outbox::open(dir.path(), running.address, Compression::Zstd);
        outbox.keeper.keep(Kind::Event, record("here")).await.unwrap();
        collector.wait(|received| !received.is_empty()).await;
        assert_eq!(outbox.telemetry.requests.with_label_values(&["later"]).get(), requests);
        outbox.close().await;
        running.stop().await;
    }
}
