//! Services in Python and Node with the stock OpenTelemetry SDKs, ended in the middle and started again: what they counted
//! is what is stored. Each pair of protocol, temporality and aggregation that an SDK has is here once.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::path::Path;

use contador::latency::{Ask, quantile};
use contador_schemas::quantile::Quantile;
use contador_tests::{Collector, Engine};
use futures::future::join_all;

mod collector_support;
mod sdk_support;
use collector_support::{now, store};
use sdk_support::{Log, METRICS, Sender, cells, durations, hold, stored};

const fn sender(
    language: &'static str,
    protocol: &'static str,
    temporality: &'static str,
    aggregation: &'static str,
) -> Sender {
    Sender { language, protocol, temporality, aggregation, compression: "none", instance: None }
}

const PYTHON: [Sender; 4] = [
    Sender { compression: "gzip", ..sender("python", "grpc", "delta", "exponential") },
    Sender { instance: Some("py-1"), ..sender("python", "grpc", "cumulative", "explicit") },
    Sender { instance: Some("py-2"), ..sender("python", "http/protobuf", "delta", "explicit") },
    Sender { compression: "gzip", ..sender("python", "http/protobuf", "cumulative", "exponential") },
];

const NODE: [Sender; 6] = [
    sender("node", "http/json", "cumulative", "explicit"),
    Sender { compression: "gzip", instance: Some("js-1"), ..sender("node", "http/json", "delta", "exponential") },
    Sender { compression: "gzip", ..sender("node", "http/protobuf", "delta", "explicit") },
    sender("node", "http/protobuf", "cumulative", "exponential"),
    Sender { instance: Some("js-2"), ..sender("node", "grpc", "cumulative", "exponential") },
    Sender { compression: "gzip", ..sender("node", "grpc", "delta", "explicit") },
];

const CONFIG: &str = "[ingest]\ninsert_interval_ms = 100\n";

const NO_FAULTS: [String; 0] = [];

/// How often services export. Node's SDK gives up an export that takes longer.
const INTERVAL_MS: u32 = 1_000;

/// Asks the service in three parts, of which each is exported before the next one comes, ends it in order, starts it
/// again, and asks the rest. Only the last part is exported by the end alone.
async fn restarted(sender: &Sender, collector: &Collector, folder: &Path) {
    let asked = durations(7, 500);
    let service = sender.start(collector, folder, INTERVAL_MS);
    for part in [0..100, 100..200] {
        let end = part.end;
        assert_eq!(service.ask(&asked[part]).await, NO_FAULTS);
        service.until("exported", end as u64).await;
    }
    assert_eq!(service.ask(&asked[200..300]).await, NO_FAULTS);
    service.terminate().await;
    let service = sender.start(collector, folder, INTERVAL_MS);
    assert_eq!(service.ask(&asked[300..]).await, NO_FAULTS);
    service.terminate().await;
}

async fn counted_exactly(senders: &[Sender]) {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), CONFIG).unwrap();
    collector.ready().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    join_all(senders.iter().map(|sender| restarted(sender, &collector, folder.path()))).await;

    let client = engine.client().with_database("contador");
    let store = store(engine.url(), "contador");
    let seconds = u32::try_from(now()).unwrap();
    for sender in senders {
        let service = sender.name();
        let log = Log::read(&folder.path().join(&service));
        for metric in METRICS {
            let values = log.values(metric);
            assert_eq!(values.len(), 500, "{service} {metric}");
            let told = stored(&client, &service, metric).await;
            assert_eq!(
                (told.count, told.series, told.sources),
                (500, 1, sender.sources()),
                "{service} {metric}: {told:?}"
            );
            // The start of another run of the same source is told.
            let resets = u64::from(sender.temporality == "cumulative" && sender.sources() == 1);
            assert_eq!(told.resets, resets, "{service} {metric}: {told:?}");
            let sum: f64 = values.iter().sum();
            assert!((told.sum_us - sum).abs() <= sum * 1e-9, "{service} {metric}: {} of {sum} us", told.sum_us);
            hold(&cells(&client, &service, metric).await, &values)
                .unwrap_or_else(|error| panic!("{service} {metric}: {error}"));
        }
        let mut both = [log.values(METRICS[0]), log.values(METRICS[1])].concat();
        both.sort_by(f64::total_cmp);
        for (metric, values) in [("time_to_first_token", log.values(METRICS[2])), ("request_duration", both)] {
            let asked = Ask::p99(&service, metric, seconds - 600, seconds + 600);
            for (q, percent) in [(Quantile::P50, 50), (Quantile::P99, 99)] {
                let answer = quantile(&store, &Ask { quantiles: vec![q], ..asked.clone() }).await.unwrap();
                let truth = values[(values.len() * percent).div_ceil(100) - 1];
                let (low, high) = (answer.low.unwrap(), answer.high.unwrap_or(f64::INFINITY));
                assert!(low <= truth && truth <= high, "{service} {metric}: {truth} in [{low}, {high}]");
                assert_eq!(answer.n, values.len() as u64, "{service} {metric}");
            }
        }
    }
    assert_eq!(collector.metric("contador_ingest_cumulative_base_lines_total").await.unwrap(), 0.0);
    let metrics = reqwest::get(format!("{}/metrics", collector.web)).await.unwrap().text().await.unwrap();
    let rejected: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("contador_ingest_rejected_points_total") && !line.ends_with(" 0"))
        .collect();
    assert!(rejected.is_empty(), "{rejected:?}");
}

#[tokio::test]
async fn a_python_service_is_counted_exactly_over_a_restart() {
    counted_exactly(&PYTHON).await;
}

#[tokio::test]
async fn a_node_service_is_counted_exactly_over_a_restart() {
    counted_exactly(&NODE).await;
}

/// Kills the service while it exports, and then ends it in order.
async fn killed(sender: &Sender, collector: &Collector, folder: &Path) {
    let asked = durations(9, 2_000);
    let service = sender.start(collector, folder, INTERVAL_MS);
    assert_eq!(service.ask(&asked[..200]).await, NO_FAULTS);
    service.until("exported", 200).await;
    // The last request is of those that are never answered.
    tokio::select! {
        _ = service.ask(&asked[200..]) => {}
        () = service.until("tried", 250) => {}
    }
    service.kill().await;
    let service = sender.start(collector, folder, INTERVAL_MS);
    assert_eq!(service.ask(&asked[..100]).await, NO_FAULTS);
    service.terminate().await;
}

async fn what_was_exported_is_stored(senders: &[Sender]) {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), CONFIG).unwrap();
    collector.ready().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    join_all(senders.iter().map(|sender| killed(sender, &collector, folder.path()))).await;
    let client = engine.client().with_database("contador");
    for sender in senders {
        let service = sender.name();
        let log = Log::read(&folder.path().join(&service));
        for metric in METRICS {
            let [exported, tried] = ["exported", "tried"].map(|kind| log.total(kind, metric));
            let told = stored(&client, &service, metric).await;
            let recorded = log.values(metric).len() as u64;
            assert!(exported >= 200 && tried <= recorded, "{service} {metric}: {exported}, {tried}, {recorded}");
            // Nobody knows of an export whose answer did not come any more: it is stored as a whole, or not at all.
            assert!(
                told.count == exported || told.count == tried,
                "{service} {metric}: {told:?}, {exported} exported and {tried} tried"
            );
        }
    }
}

#[tokio::test]
async fn of_a_killed_python_service_what_it_exported_is_stored() {
    what_was_exported_is_stored(&PYTHON).await;
}

#[tokio::test]
async fn of_a_killed_node_service_what_it_exported_is_stored() {
    what_was_exported_is_stored(&NODE).await;
}
