//! A node on the simulator, whose rounds and clock a test drives by hand: one second each.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses its part, and ends at what it does not expect")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use contador_agent::config::{Config, Overrides};
use contador_agent::http::Health;
use contador_agent::outbox::Keeper;
use contador_agent::outbox::pack::plain;
use contador_agent::run::Options;
use contador_agent::run::gpus::Release;
use contador_agent::run::node::Node;
use contador_agent::sensors::NvmlLibrary;
use contador_agent::telemetry::Telemetry;
use contador_schemas::names;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use prost::Message as _;
use tempfile::TempDir;

use crate::collector::{attribute, points};
use crate::nvml_support::Simulator;

/// The start of a minute.
pub const START: i64 = 1_790_000_040_000;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(120);

/// An event as it was handed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    pub id: String,
    pub kind: String,
    pub device: String,
    pub message: String,
    pub attributes: BTreeMap<String, String>,
}

/// A node on a simulator.
pub struct Agent {
    pub node: Node,
    pub health: Health,
    pub telemetry: Telemetry,
    pub release: Release,
    pub simulator: Simulator,
    /// The instant of the last round, Unix milliseconds.
    pub instant_ms: i64,
    /// What was handed on.
    pub received: Vec<ExportMetricsServiceRequest>,
    clock_ms: u64,
    keeper: Keeper,
    _state: TempDir,
}

impl Agent {
    /// A node with the GPUs of this scenario, before its first round.
    pub fn start(scenario: &str) -> Self {
        Self::with(Simulator::new(scenario))
    }

    /// A node on this simulator, before its first round.
    pub fn with(simulator: Simulator) -> Self {
        Self::with_patience(simulator, "1s")
    }

    /// A node on this simulator that waits for sensors as if its interval was `interval`; its rounds are a second apart still.
    pub fn with_patience(simulator: Simulator, interval: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        let config = Self::config(state.path(), interval);
        let (telemetry, health, release) = (Telemetry::new().unwrap(), Health::default(), Release::default());
        let keeper = Keeper::open(&config.spool_dir, config.spool, telemetry.clone()).unwrap();
        let library = NvmlLibrary::at(simulator.path());
        let options = Options { library, release: release.clone(), ..Options::default() };
        let node = Node::start(&config, &options, keeper.clone(), telemetry.clone(), health.clone()).unwrap();
        let (instant_ms, clock_ms) = (START - 1_000, 0);
        Self {
            node,
            health,
            telemetry,
            release,
            simulator,
            instant_ms,
            received: Vec::new(),
            clock_ms,
            keeper,
            _state: state,
        }
    }

    fn config(state: &Path, interval: &str) -> Config {
        let overrides = Overrides {
            state_dir: Some(state.to_owned()),
            node: Some("n1".into()),
            interval: Some(interval.into()),
            ..Overrides::default()
        };
        Config::load(None, &overrides).unwrap()
    }

    /// One round, a second later.
    pub async fn tick(&mut self) {
        self.clock_ms += 1_000;
        self.simulator.hold_clock(self.clock_ms);
        self.instant_ms += 1_000;
        self.node.tick(self.instant_ms).await;
        while let Some((lane, batch)) = self.keeper.peek(1_000, 1 << 24).await.unwrap() {
            let records = batch.records.iter();
            self.received.extend(
                records.map(|record| ExportMetricsServiceRequest::decode(&*plain(&record.payload).unwrap()).unwrap()),
            );
            self.keeper.acknowledge(lane, *batch.ends.last().unwrap()).await.unwrap();
        }
    }

    /// So many rounds.
    pub async fn ticks(&mut self, count: usize) {
        for _ in 0..count {
            self.tick().await;
        }
    }

    /// Rounds until it is so; how many it took.
    pub async fn until(&mut self, mut is_so: impl FnMut(&Self) -> bool) -> usize {
        let begun = Instant::now();
        for rounds in 1.. {
            self.tick().await;
            if is_so(self) {
                return rounds;
            }
            assert!(begun.elapsed() < PATIENCE, "it never comes; events: {:#?}", self.events());
            tokio::task::yield_now().await;
        }
        unreachable!()
    }

    /// Waits, without a round, until nobody has the driver open.
    pub fn wait_for_release(&self) {
        let begun = Instant::now();
        while self.simulator.inits() > 0 {
            assert!(begun.elapsed() < PATIENCE, "{} handles are held", self.simulator.inits());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether it was told what GPUs reach each other by, and so nobody is asking for it.
    pub fn knows_the_topology(&self) -> bool {
        points(&self.received, names::DEVICE_INFO)
            .iter()
            .any(|point| !attribute(&point.attributes, names::DEVICE_TOPOLOGY).is_empty())
    }

    /// Every event so far.
    pub fn events(&self) -> Vec<Happened> {
        fn text(point: &NumberDataPoint, name: &str) -> String {
            attribute(&point.attributes, name).to_owned()
        }
        let event = |point: &NumberDataPoint| Happened {
            id: text(point, names::EVENT_ID),
            kind: text(point, names::EVENT_KIND),
            device: text(point, names::HW_ID),
            message: text(point, names::EVENT_MESSAGE),
            attributes: point.attributes.iter().map(|own| (own.key.clone(), text(point, &own.key))).collect(),
        };
        points(&self.received, names::EVENT).iter().map(event).collect()
    }

    /// The events of this kind.
    pub fn of_kind(&self, kind: &str) -> Vec<Happened> {
        self.events().into_iter().filter(|event| event.kind == kind).collect()
    }

    /// The kinds of the events about devices, the driver and sensors, in order.
    pub fn kinds(&self) -> Vec<String> {
        let all = self.events().into_iter().map(|event| event.kind);
        all.filter(|kind| ["gpu", "driver", "handles", "sensor"].iter().any(|what| kind.starts_with(what))).collect()
    }

    /// The points of a metric of a device, without other attributes, by second since the start.
    pub fn series(&self, metric: &str, device: &str) -> BTreeMap<i64, NumberDataPoint> {
        let found = points(&self.received, metric).into_iter().filter(|point| {
            attribute(&point.attributes, names::HW_ID) == device
                && point.attributes.iter().all(|own| [names::HW_ID, names::SIMULATED].contains(&own.key.as_str()))
                && point.value.is_some()
        });
        found.map(|point| (second(&point), point)).collect()
    }

    /// The seconds since the start at which a device was sampled.
    pub fn sampled(&self, device: &str) -> BTreeSet<i64> {
        self.series(names::GPU_MEMORY_LIMIT, device).into_keys().collect()
    }

    /// The seconds since the start at which the machine was sampled.
    pub fn host_sampled(&self) -> BTreeSet<i64> {
        points(&self.received, names::CPU_COUNT).iter().map(second).collect()
    }

    /// The second of the last round.
    pub fn now(&self) -> i64 {
        (self.instant_ms - START) / 1_000
    }

    /// A metric of a sensor, by second since the start.
    pub fn sensor(&self, metric: &str, sensor: &str) -> BTreeMap<i64, f64> {
        let all = points(&self.received, metric).into_iter();
        let of = all.filter(|point| attribute(&point.attributes, names::SENSOR) == sensor);
        of.map(|point| (second(&point), number(&point))).collect()
    }
}

/// The second of a point, since the start.
pub fn second(point: &NumberDataPoint) -> i64 {
    (i64::try_from(point.time_unix_nano / 1_000_000).unwrap() - START) / 1_000
}

/// The value of a point.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub fn number(point: &NumberDataPoint) -> f64 {
    match point.value {
        Some(Value::AsInt(value)) => value as f64,
        Some(Value::AsDouble(value)) => value,
        None => panic!("no value: {point:?}"),
    }
}

/// The UUID of a scenario's GPU: the last digits are its position.
pub fn uuid(position: usize) -> String {
    format!("GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a{position:02}")
}

/// A scenario of so many GPUs at work.
pub fn scenario(gpus: usize) -> String {
    let gpu = |position| format!("[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{}\"\nutilization = 40\n", uuid(position));
    (0..gpus).map(gpu).collect()
}
