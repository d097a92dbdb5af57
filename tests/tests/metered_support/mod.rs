//! A node of Kubernetes that is metered, on a simulated driver: rounds that the test drives, and the rows of the minutes that they
//! make.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it, and a fault here fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contador_agent::config::Config;
use contador_agent::owners::claim::Snapshot;
use contador_schemas::names;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;

use crate::kube_support::Cluster;
use crate::node_support::{Agent, Kernel, attribute, points, whole};
use crate::nvml_support::Simulator;

/// The start of the first minute: 2026-09-21 14:14:00 UTC.
pub const START: i64 = 1_790_000_040_000;

/// How long before it the node is started, in milliseconds.
pub const BEFORE: i64 = 60_000;

/// From round to round, in seconds.
pub const EVERY: i64 = 5;

/// How long is waited for what must come.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// What an owner has of a device's minute, in milliseconds: its share; how long it held any part; and of that, how long there
/// was no work.
pub type Row = [u64; 3];

/// The rows of one minute, by device, and by `namespace/pod/container` with an experiment that is known, or the owner's kind.
pub type Rows = BTreeMap<String, BTreeMap<String, Row>>;

pub fn rows(of: &[(&str, &[(&str, Row)])]) -> Rows {
    let owners = |rows: &[(&str, Row)]| rows.iter().map(|(owner, row)| ((*owner).to_owned(), *row)).collect();
    of.iter().map(|(device, rows)| ((*device).to_owned(), owners(rows))).collect()
}

/// A node of Kubernetes that is metered.
pub struct Metered {
    pub agent: Agent,
    pub cluster: Cluster,
    pub simulator: Simulator,
    pub kernel: Kernel,
    _state: tempfile::TempDir,
    /// The sensors that say who holds what.
    pub sensors: Vec<String>,
    /// The machine was too slow for some round: it booked what was known before.
    pub is_late: bool,
    pub handed_on: Vec<ExportMetricsServiceRequest>,
}

impl Metered {
    /// Starts a node with GPUs of these UUIDs, each with more keys of a scenario, and waits until they are known, and what
    /// Kubernetes says.
    pub async fn start(cluster: Cluster, gpus: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> Self {
        let mut node = Self::begin(cluster, gpus, change).await;
        node.knows(|told| told.told_ms > 0 && !told.waiting).await;
        node.is_late = false;
        node
    }

    /// The same, and waits for the GPUs alone.
    pub async fn begin(cluster: Cluster, gpus: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> Self {
        let scenario: String = gpus
            .iter()
            .map(|(uuid, keys)| format!("[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{uuid}\"\n{keys}\n"))
            .collect();
        let (simulator, kernel, state) = (Simulator::new(&scenario), Kernel::new(), tempfile::tempdir().unwrap());
        let (socket, api) = (cluster.kubelet.socket(), cluster.api.url());
        let library = simulator.path();
        let agent = Agent::start(state.path(), &library, &kernel, |config| {
            // A round may take its time.
            config.interval = Duration::from_secs(60);
            (config.kubernetes.socket, config.kubernetes.api) = (socket, Some(api));
            config.slurm.scontrol = "/nonexistent/scontrol".into();
            change(config);
        });
        let agent = agent.await;
        let sensors = gpus.iter().map(|(uuid, _)| *uuid).chain(["schedulers", "owners"]).map(str::to_owned).collect();
        let handed_on = Vec::new();
        let mut node = Self { agent, cluster, simulator, kernel, _state: state, sensors, is_late: false, handed_on };
        let began = Instant::now();
        for passed_ms in 0.. {
            node.round(passed_ms - BEFORE).await;
            if node.agent.health.get().is_ok() {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{:?}", node.agent.health.get());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        node.is_late = false;
        node
    }

    /// A process of the pod `ml/seen` of this PID.
    pub fn seen(&self, pid: u32) {
        let id = "7be92808767a667f35c8505cbf40d14e931ef6db5b0210329cf193b15ba9d605";
        self.kernel.process(pid, &[]);
        self.kernel.group(pid, &format!("/kubepods/burstable/pod3a6f0f0e-1c61-4d5c-9f6b-1f1c3e0d7a55/{id}"));
    }

    /// A round, so many milliseconds after the start.
    pub async fn round(&mut self, at_ms: i64) {
        self.simulator.hold_clock(u64::try_from(at_ms + BEFORE).unwrap());
        self.agent.node.tick(START + at_ms).await;
        let answered_ms = |sensor: &str| {
            let seconds = self.agent.telemetry.sensor_answered.with_label_values(&[sensor]).get();
            (seconds * 1e3).round()
        };
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of these years are exact")]
        let now_ms = (START + at_ms) as f64;
        self.is_late |= self.sensors.iter().any(|sensor| answered_ms(sensor) != now_ms);
        self.handed_on.extend(self.agent.handed_on().await);
    }

    /// The rounds from this second to that one.
    pub async fn rounds(&mut self, from: i64, to: i64) {
        for second in (from..=to).step_by(usize::try_from(EVERY).unwrap()) {
            self.round(second * 1_000).await;
        }
    }

    /// What Kubernetes has told last.
    pub fn told(&self) -> Arc<Snapshot> {
        self.agent.node.schedulers().snapshots().remove(0)
    }

    /// Waits until what Kubernetes has told is so.
    pub async fn knows(&self, is_so: impl Fn(&Snapshot) -> bool) {
        let began = Instant::now();
        while !is_so(&self.told()) {
            assert!(began.elapsed() < PATIENCE, "it did not come to be so: {:#?}", self.told());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Goes on to this step, and waits until so many claims are known of pods that the API server knows.
    pub async fn step(&self, step: &str, claims: usize) {
        self.cluster.step(step);
        let is_told =
            |told: &Snapshot| told.claims.iter().all(|claim| claim.holder.labels.contains_key("k8s.label.team"));
        self.knows(|told| told.claims.len() == claims && is_told(told)).await;
    }

    /// The minutes from the first one on; `None` when some round was late.
    pub fn minutes<const COUNT: usize>(&self) -> Option<[Rows; COUNT]> {
        (!self.is_late).then(|| std::array::from_fn(|minute| self.minute(i64::try_from(minute).unwrap())))
    }

    pub fn minute(&self, minute: i64) -> Rows {
        let infos = points(&self.handed_on, names::OWNER_INFO);
        let called: BTreeMap<&str, String> = infos
            .iter()
            .map(|info| {
                let [namespace, pod, container, experiment] =
                    [names::NAMESPACE, names::POD, names::CONTAINER, names::EXPERIMENT]
                        .map(|name| attribute(info, name));
                let name = match pod {
                    "" => attribute(info, names::OWNER_KIND).to_owned(),
                    _ => format!("{namespace}/{pod}/{container} {experiment}").trim_end().to_owned(),
                };
                (attribute(info, names::OWNER_ID), name)
            })
            .collect();
        let start = u64::try_from(START + minute * 60_000).unwrap() * 1_000_000;
        let mut rows = Rows::new();
        for (place, name) in [names::LEDGER_SHARE, names::LEDGER_HELD, names::LEDGER_IDLE].into_iter().enumerate() {
            for point in points(&self.handed_on, name).iter().filter(|point| point.start_time_unix_nano == start) {
                let owner = called[attribute(point, names::OWNER_ID)].clone();
                let device = rows.entry(attribute(point, names::HW_ID).to_owned()).or_default();
                device.entry(owner).or_default()[place] += whole(point);
            }
        }
        rows
    }

    /// What was said of schedulers, in order: when, in milliseconds from the start, the kind, and the message.
    pub fn said(&self) -> Vec<(i64, String, String)> {
        let events = points(&self.handed_on, names::EVENT);
        let said = events.iter().map(|event| {
            let at_ms = i64::try_from(event.time_unix_nano / 1_000_000).unwrap() - START;
            (at_ms, attribute(event, names::EVENT_KIND).to_owned(), attribute(event, names::EVENT_MESSAGE).to_owned())
        });
        said.filter(|(_, kind, _)| kind.starts_with("scheduler_")).collect()
    }
}

/// What a scenario comes to: again, when the machine was too slow for one of its rounds.
pub async fn on_time<T>(scenario: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..8 {
        if let Some(result) = scenario().await {
            return result;
        }
    }
    panic!("some round was late each time");
}
