//! What a node hands on, and when: its ticks are driven by hand, its spool is read by hand.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod common;

use std::path::Path;
use std::time::Duration;

use common::{attribute, points};
use contador_agent::config::{Config, Overrides};
use contador_agent::http::Health;
use contador_agent::ledger::checkpoint::{self, CheckpointFile};
use contador_agent::ledger::tick::holders;
use contador_agent::ledger::{CLOSE_AFTER_MS, Ledger, MINUTE_MS, Tick};
use contador_agent::outbox::pack::plain;
use contador_agent::outbox::{Keeper, Kind};
use contador_agent::run::Options;
use contador_agent::run::node::Node;
use contador_agent::sensors::NvmlLibrary;
use contador_agent::telemetry::Telemetry;
use contador_schemas::names;
use contador_schemas::owner::Owner;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use prost::Message as _;

/// The start of a minute.
const START: i64 = 1_790_000_040_000;

struct Agent {
    node: Node,
    keeper: Keeper,
    health: Health,
    telemetry: Telemetry,
}

impl Agent {
    async fn start(state: &Path) -> Self {
        let overrides =
            Overrides { state_dir: Some(state.to_owned()), node: Some("n1".into()), ..Overrides::default() };
        let config = Config::load(None, &overrides).unwrap();
        let (telemetry, health) = (Telemetry::new().unwrap(), Health::default());
        let keeper = Keeper::open(&config.spool_dir, config.spool, telemetry.clone()).unwrap();
        let library = NvmlLibrary::at("/nonexistent/libnvidia-ml.so.1");
        let options = Options { library, ..Options::default() };
        let mut node = Node::start(&config, &options, keeper.clone(), telemetry.clone(), health.clone()).unwrap();
        node.started().await;
        Self { node, keeper, health, telemetry }
    }

    /// Everything in the spool, which is empty then.
    async fn handed_on(&self) -> Vec<(Kind, ExportMetricsServiceRequest)> {
        let mut all = Vec::new();
        while let Some((lane, batch)) = self.keeper.peek(1_000, 1 << 24).await.unwrap() {
            all.extend(batch.records.iter().map(|record| {
                (record.kind, ExportMetricsServiceRequest::decode(&*plain(&record.payload).unwrap()).unwrap())
            }));
            self.keeper.acknowledge(lane, *batch.ends.last().unwrap()).await.unwrap();
        }
        all
    }
}

fn of_kind(all: &[(Kind, ExportMetricsServiceRequest)], kind: Kind) -> Vec<ExportMetricsServiceRequest> {
    all.iter().filter(|(of, _)| *of == kind).map(|(_, request)| request.clone()).collect()
}

/// Milliseconds of the samples of the machine.
fn instants(all: &[(Kind, ExportMetricsServiceRequest)]) -> Vec<i64> {
    let points = points(&of_kind(all, Kind::Samples), names::CPU_COUNT);
    points.iter().map(|point| i64::try_from(point.time_unix_nano / 1_000_000).unwrap()).collect()
}

/// A checkpoint of a device that was seen until `until`, and not since.
fn leave_device(state: &Path, until: i64) {
    let research = Owner { department: "research".into(), ..Owner::default() }.into();
    let mut ledger = Ledger::default();
    for instant_ms in [until - 2_000, until - 1_000, until] {
        let tick = Tick {
            device: "GPU-1".into(),
            simulated: false,
            instant_ms,
            holders: holders([], [(&research, 1 << 30, None)]),
            utilization_ppm: Some(1_000_000),
            energy_mj: Some(1_000),
            split: None,
        };
        ledger.tick(tick, Duration::from_secs(1));
    }
    CheckpointFile::new(state).store(&checkpoint::encode(&ledger, std::iter::empty()).unwrap(), true).unwrap();
}

#[tokio::test]
async fn without_a_checkpoint_nothing_is_handed_on() {
    let state = tempfile::tempdir().unwrap();
    leave_device(state.path(), START - CLOSE_AFTER_MS + 5_000);
    // Every write of a checkpoint finds a full disk.
    let full = state.path().join("ledger.new");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let mut agent = Agent::start(state.path()).await;
    // The device has not been seen for too long: its minutes close at the second tick, each another one.
    for instant_ms in [START, START + 6_000, START + 7_000] {
        agent.node.tick(instant_ms).await;
    }
    let handed_on = agent.handed_on().await;
    assert!(handed_on.iter().all(|(kind, _)| *kind == Kind::Event), "{handed_on:?}");
    let said = agent.health.get().unwrap_err();
    assert!(said.starts_with("nothing is handed on: cannot write") && said.contains("No space left"), "{said}");
    assert_eq!(agent.telemetry.checkpoint_failing.get(), 1);
    assert!(agent.telemetry.pending_minutes.get() >= 60);

    // It is killed, and the disk has room again. What was never handed on may come out otherwise, but once.
    drop(agent);
    std::fs::remove_file(&full).unwrap();
    let mut agent = Agent::start(state.path()).await;
    agent.node.tick(START + 2 * MINUTE_MS).await;
    let handed_on = agent.handed_on().await;
    let mut minutes = std::collections::BTreeMap::<u64, i64>::new();
    for point in points(&of_kind(&handed_on, Kind::Ledger), names::LEDGER_SHARE) {
        let Some(Value::AsInt(share)) = point.value else { panic!("no whole number: {point:?}") };
        assert_eq!(attribute(&point.attributes, names::HW_ID), "GPU-1");
        *minutes.entry(point.start_time_unix_nano).or_default() += share;
    }
    assert!(minutes.len() > 60 && minutes.values().all(|&share| share == 60_000), "{minutes:?}");
    assert_eq!(agent.telemetry.checkpoint_failing.get(), 0);
    assert_eq!(agent.telemetry.pending_minutes.get(), 0);
}

#[tokio::test]
async fn what_waited_for_the_checkpoint_is_handed_on_in_order() {
    let state = tempfile::tempdir().unwrap();
    let full = state.path().join("ledger.new");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let mut agent = Agent::start(state.path()).await;
    for second in 0..3 {
        agent.node.tick(START + second * 1_000).await;
    }
    assert_eq!(instants(&agent.handed_on().await), [0_i64; 0]);
    std::fs::remove_file(&full).unwrap();
    agent.node.tick(START + 3_000).await;
    assert_eq!(instants(&agent.handed_on().await), [0, 1, 2, 3].map(|second| START + second * 1_000));
    // They were in that checkpoint, for a kill right after it.
    drop(agent);
    let agent = Agent::start(state.path()).await;
    assert_eq!(instants(&agent.handed_on().await), [0, 1, 2, 3].map(|second| START + second * 1_000));
}

#[tokio::test]
async fn a_clock_that_is_set_back_sends_no_instant_twice() {
    let state = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(state.path()).await;
    for second in [1, 2, 3, -20, 2, 3] {
        agent.node.tick(START + second * 1_000).await;
    }
    let first = instants(&agent.handed_on().await);
    assert_eq!(first, [1, 2, 3].map(|second| START + second * 1_000));
    assert_eq!(agent.telemetry.samples_set_back.with_label_values(&["host"]).get(), 3);
    // Nor when it is started again meanwhile.
    drop(agent);
    let mut agent = Agent::start(state.path()).await;
    agent.handed_on().await;
    for second in [3, 4] {
        agent.node.tick(START + second * 1_000).await;
    }
    assert_eq!(instants(&agent.handed_on().await), [START + 4_000]);
}
