//! What the ledger's minutes are of what Kubernetes says: a whole node on a simulated driver, a kubelet and an API server that
//! replay files, and rounds that the test drives.
//!
//! Each expected number is worked out from instants: a round sees a state, which holds until the next round, and an end that
//! is told counts from its own instant on.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]
#![allow(clippy::large_futures, reason = "a whole node is in each")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use contador_agent::config::{Config, Overrides};
use contador_agent::owners::claim::Snapshot;
use contador_agent::owners::kubernetes::messages::{ContainerDevices, ContainerResources, PodResources};
use contador_agent::sensors::{GpuIdentity, Gpus, NvmlLibrary};
use contador_schemas::names;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;

mod kube_support;
mod node_support;
mod nvml_support;
use kube_support::{Cluster, Kubelet, Manner};
use node_support::{Agent, Kernel, attribute, points, whole};
use nvml_support::Simulator;

const A: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";
const B: &str = "GPU-77777777-d33d-2b2c-524d-9e3d8d2b8a77";
const C: &str = "GPU-88888888-d33d-2b2c-524d-9e3d8d2b8a77";

/// The start of the first minute: 2026-09-21 14:14:00 UTC.
const START: i64 = 1_790_000_040_000;

/// How long before it the node is started, in milliseconds.
const BEFORE: i64 = 60_000;

/// From round to round, in seconds.
const EVERY: i64 = 5;

/// How long is waited for what must come.
const PATIENCE: Duration = Duration::from_secs(90);

/// What an owner has of a device's minute, in milliseconds: its share; how long it held any part; and of that, how long there
/// was no work.
type Row = [u64; 3];

/// The rows of one minute, by device, and by `namespace/pod/container` with an experiment that is known, or the owner's kind.
type Rows = BTreeMap<String, BTreeMap<String, Row>>;

fn rows(of: &[(&str, &[(&str, Row)])]) -> Rows {
    let owners = |rows: &[(&str, Row)]| rows.iter().map(|(owner, row)| ((*owner).to_owned(), *row)).collect();
    of.iter().map(|(device, rows)| ((*device).to_owned(), owners(rows))).collect()
}

/// A node of Kubernetes that is metered.
struct Metered {
    agent: Agent,
    cluster: Cluster,
    simulator: Simulator,
    kernel: Kernel,
    _state: tempfile::TempDir,
    /// The sensors that say who holds what.
    sensors: Vec<String>,
    /// The machine was too slow for some round: it booked what was known before.
    is_late: bool,
    handed_on: Vec<ExportMetricsServiceRequest>,
}

impl Metered {
    /// Starts a node with GPUs of these UUIDs, each with more keys of a scenario, and waits until they are known.
    async fn start(cluster: Cluster, gpus: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> Self {
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
        let sensors = gpus.iter().map(|(uuid, _)| *uuid).chain(["owners"]).map(str::to_owned).collect();
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
        node.knows(|told| told.told_ms > 0).await;
        node.is_late = false;
        node
    }

    /// A round, so many milliseconds after the start.
    async fn round(&mut self, at_ms: i64) {
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
    async fn rounds(&mut self, from: i64, to: i64) {
        for second in (from..=to).step_by(usize::try_from(EVERY).unwrap()) {
            self.round(second * 1_000).await;
        }
    }

    /// What Kubernetes has told last.
    fn told(&self) -> Arc<Snapshot> {
        self.agent.node.schedulers().snapshots().remove(0)
    }

    /// Waits until what Kubernetes has told is so.
    async fn knows(&self, is_so: impl Fn(&Snapshot) -> bool) {
        let began = Instant::now();
        while !is_so(&self.told()) {
            assert!(began.elapsed() < PATIENCE, "it did not come to be so: {:#?}", self.told());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Goes on to this step, and waits until so many claims are known of pods that the API server knows.
    async fn step(&self, step: &str, claims: usize) {
        self.cluster.step(step);
        let is_told =
            |told: &Snapshot| told.claims.iter().all(|claim| claim.holder.labels.contains_key("k8s.label.team"));
        self.knows(|told| told.claims.len() == claims && is_told(told)).await;
    }

    /// The minutes from the first one on; `None` when some round was late.
    fn minutes<const COUNT: usize>(&self) -> Option<[Rows; COUNT]> {
        (!self.is_late).then(|| std::array::from_fn(|minute| self.minute(i64::try_from(minute).unwrap())))
    }

    fn minute(&self, minute: i64) -> Rows {
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
    fn said(&self) -> Vec<(i64, String, String)> {
        let events = points(&self.handed_on, names::EVENT);
        let said = events.iter().map(|event| {
            let at_ms = i64::try_from(event.time_unix_nano / 1_000_000).unwrap() - START;
            (at_ms, attribute(event, names::EVENT_KIND).to_owned(), attribute(event, names::EVENT_MESSAGE).to_owned())
        });
        said.filter(|(_, kind, _)| kind.starts_with("scheduler_")).collect()
    }
}

/// What a scenario comes to: again, when the machine was too slow for one of its rounds.
async fn on_time<T>(scenario: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..8 {
        if let Some(result) = scenario().await {
            return result;
        }
    }
    panic!("some round was late each time");
}

/// A pod that starts, completes while the kubelet goes on listing it, and comes again under its name.
async fn two_pods_of_a_name(rules: &str) -> [Rows; 2] {
    on_time(async || {
        let rules = Config::parse(rules, Path::new("agent.toml"), &Overrides::default()).unwrap().rules;
        let cluster = Cluster::replay("ledger", "empty").await;
        let mut node = Metered::start(cluster, &[(A, "")], |config| config.rules = rules).await;
        node.rounds(0, 15).await;
        node.step("started", 1).await;
        node.rounds(20, 40).await;
        node.step("completed", 0).await;
        node.rounds(45, 70).await;
        node.step("rescheduled", 1).await;
        node.rounds(75, 120).await;
        node.minutes()
    })
    .await
}

/// Since 1.34 a kubelet lists no pod that has ended.
#[tokio::test]
async fn a_pod_holds_to_its_end_also_when_it_is_not_listed_any_more() {
    let [minute] = on_time(async || {
        let cluster = Cluster::replay("ledger", "started").await;
        let mut node = Metered::start(cluster, &[(A, "")], |_| {}).await;
        node.step("started", 1).await;
        node.rounds(0, 40).await;
        node.cluster.kubelet.list(&[]);
        node.knows(|told| told.claims.is_empty()).await;
        node.cluster.step("completed");
        node.cluster.kubelet.list(&[]);
        node.knows(|told| !told.ended.is_empty()).await;
        node.rounds(45, 60).await;
        node.minutes()
    })
    .await;
    // It ended at 43 s.
    assert_eq!(minute, rows(&[(A, &[("ml/train/main", [43_000; 3]), ("idle", [17_000, 17_000, 0])])]));
}

/// An instance that is made while the node is metered is held from the round on that sees it.
#[tokio::test]
async fn an_instance_is_held_as_soon_as_it_is_there() {
    let minute = on_time(async || {
        let cluster = Cluster::replay("ledger", "started").await;
        // 20 s after the start.
        let split = "mig = [{ at = \"0s\", layout = [\"1g.10gb\"] }, { at = \"80s\", layout = [\"3g.40gb\"] }]";
        let mut node = Metered::start(cluster, &[(A, split)], |_| {}).await;
        let devices =
            ContainerDevices { resource_name: "nvidia.com/mig-3g.40gb".into(), device_ids: vec!["nvidia0/gi1".into()] };
        let container = ContainerResources { name: "main".into(), devices: vec![devices], dynamic_resources: vec![] };
        let pod = PodResources { name: "train".into(), namespace: "ml".into(), containers: vec![container] };
        node.cluster.kubelet.list_messages(vec![pod]);
        let device = |told: &Snapshot| told.claims.iter().map(|claim| claim.device.to_string()).collect::<Vec<_>>();
        node.knows(|told| device(told) == ["nvidia0/gi1"]).await;
        node.rounds(0, 60).await;
        node.minutes().map(|[minute]| minute)
    })
    .await;
    let held: Vec<_> = minute.values().filter_map(|rows| rows.get("ml/train/main")).collect();
    // Half of the GPU for 40 s. How much an instance does is known from its second sample on.
    assert_eq!(held, [&[20_000, 40_000, 35_000]], "{minute:?}");
}

#[tokio::test]
async fn a_pod_holds_from_its_start_to_its_end_and_not_as_long_as_it_is_listed() {
    let rules = "[[owners.rule]]\nname = \"experiments\"\nmatch = { \"k8s.annotation.experiment\" = \"*\" }\n\
                 set = { experiment = \"{k8s.annotation.experiment}\" }\n";
    // It is seen at 20 s, and has ended at 43 s, between two rounds. The next one is seen at 75 s.
    let first = |owner| rows(&[(A, &[(owner, [23_000; 3]), ("idle", [37_000, 37_000, 0])])]);
    let second = |owner| rows(&[(A, &[(owner, [45_000; 3]), ("idle", [15_000, 15_000, 0])])]);
    let told = two_pods_of_a_name(rules).await;
    assert_eq!(
        told,
        [first("ml/train/main resnet-7"), second("ml/train/main resnet-8")],
        "two experiments are two owners"
    );
    let told = two_pods_of_a_name("").await;
    assert_eq!(told, [first("ml/train/main"), second("ml/train/main")], "a name is an owner, whatever its UID");
}

#[tokio::test]
async fn replicas_are_shares_and_two_containers_on_a_gpu_have_half_each() {
    let [minute] = on_time(async || {
        let cluster = Cluster::replay("ledger", "empty").await;
        let busy = "utilization = 50";
        let mut node = Metered::start(cluster, &[(A, ""), (B, busy), (C, "")], |_| {}).await;
        node.step("shared", 4).await;
        node.rounds(0, 60).await;
        node.minutes()
    })
    .await;
    // One replica of four, and two; nobody has the fourth. B has work all the time, and C none.
    let replicas: &[(&str, Row)] = &[
        ("web/serve/server", [15_000, 60_000, 0]),
        ("web/serve/draft", [30_000, 60_000, 0]),
        ("idle", [15_000, 60_000, 0]),
    ];
    let halves: &[(&str, Row)] =
        &[("lab/pair/left", [30_000, 60_000, 60_000]), ("lab/pair/right", [30_000, 60_000, 60_000])];
    assert_eq!(minute, rows(&[(A, &[("idle", [60_000, 60_000, 0])]), (B, replicas), (C, halves)]));
}

/// Instances of 3g.40gb and 1g.10gb: half of the GPU (4 of 8 memory slices) and a seventh; the rest is stranded.
/// `called`: how the kubelet calls an instance.
async fn a_mig_pod_has_its_instances_part(called: impl Fn(&GpuIdentity) -> String) {
    let (minute, [large, small]) = on_time(async || {
        let cluster = Cluster::replay("ledger", "empty").await;
        let split = "mig = [\"3g.40gb\", \"1g.10gb\"]";
        let mut node = Metered::start(cluster, &[(A, split)], |_| {}).await;
        let driver = Gpus::open(&NvmlLibrary::at(node.simulator.path()), &node.kernel.path()).unwrap();
        let by = |profile: &str| -> GpuIdentity {
            let is_it = |gpu: &&GpuIdentity| gpu.mig.as_ref().is_some_and(|mig| mig.profile == profile);
            driver.identities().iter().find(is_it).unwrap().clone()
        };
        let [large, small] = ["3g.40gb", "1g.10gb"].map(by);
        let id = called(&large);
        let devices = ContainerDevices { resource_name: "nvidia.com/mig-3g.40gb".into(), device_ids: vec![id.clone()] };
        let container = ContainerResources { name: "main".into(), devices: vec![devices], dynamic_resources: vec![] };
        let list = |kubelet: &Kubelet| {
            let pod =
                PodResources { name: "train".into(), namespace: "ml".into(), containers: vec![container.clone()] };
            kubelet.list_messages(vec![pod]);
        };
        node.cluster.step("started");
        list(&node.cluster.kubelet);
        let is_told = |told: &Snapshot| told.claims.iter().all(|claim| !claim.holder.labels.is_empty());
        node.knows(|told| told.claims.iter().any(|claim| claim.device.to_string() == id) && is_told(told)).await;
        node.rounds(0, 40).await;
        node.cluster.step("completed");
        list(&node.cluster.kubelet);
        node.knows(|told| told.claims.is_empty()).await;
        node.rounds(45, 60).await;
        node.minutes().map(|[minute]| (minute, [large.uuid, small.uuid]))
    })
    .await;
    // A seventh of a minute is 8,571 3/7 ms.
    let small_ms = minute[&small]["idle"][0];
    assert!((8_571..=8_572).contains(&small_ms), "{minute:?}");
    let stranded_ms = 60_000 - 30_000 - small_ms;
    let pod: &[(&str, Row)] = &[("ml/train/main", [21_500, 43_000, 43_000]), ("idle", [8_500, 17_000, 0])];
    let expected = [
        (A, &[("stranded", [stranded_ms, 60_000, 0])][..]),
        (&large, pod),
        (&small, &[("idle", [small_ms, 60_000, 0])]),
    ];
    assert_eq!(minute, rows(&expected));
}

#[tokio::test]
async fn a_mig_pod_has_its_instances_part_until_its_end() {
    a_mig_pod_has_its_instances_part(|instance| instance.uuid.clone()).await;
}

/// GKE names an instance by its GPU's device node.
#[tokio::test]
async fn a_mig_pod_has_its_instances_part_on_gke_too() {
    let node = |instance: &GpuIdentity| format!("nvidia0/gi{}", instance.mig.as_ref().unwrap().gpu_instance);
    a_mig_pod_has_its_instances_part(node).await;
}

/// A kubelet that gives no answer is believed for a while. Then nobody was given anything: a GPU without work is idle, one
/// whose work can't be seen is nobody's, and one with a pod's process is the pod's. All of that is said.
async fn a_kubelet_fails(manner: Option<Manner>, why: &str) {
    let (minute, said, remarks) = on_time(async || {
        let cluster = Cluster::replay("ledger", "silent").await;
        let seen = "utilization = 50\n[[gpu.process]]\npid = 501\nmemory_mib = 100\n";
        let gpus = [(A, ""), (B, "utilization = 50"), (C, seen)];
        let keep_for = Duration::from_secs(10);
        let mut node = Metered::start(cluster, &gpus, |config| config.kubernetes.keep_for = keep_for).await;
        let id = "7be92808767a667f35c8505cbf40d14e931ef6db5b0210329cf193b15ba9d605";
        node.kernel.process(501, &[]);
        node.kernel.group(501, &format!("/kubepods/burstable/pod3a6f0f0e-1c61-4d5c-9f6b-1f1c3e0d7a55/{id}"));
        node.step("silent", 3).await;
        node.rounds(0, 20).await;
        match manner {
            Some(manner) => node.cluster.kubelet.answer(manner),
            None => node.cluster.kubelet.down(),
        }
        node.knows(|told| told.fault.is_some()).await;
        node.rounds(25, 30).await;
        let counted = !node.told().expired;
        let remarks = node.agent.health.remarks();
        node.knows(|told| told.expired).await;
        node.rounds(35, 45).await;
        match manner {
            Some(_) => node.cluster.kubelet.answer(Manner::Well),
            None => node.cluster.kubelet.up(),
        }
        node.knows(|told| told.fault.is_none() && told.claims.len() == 3).await;
        node.rounds(50, 60).await;
        // Where it took longer than the last word counts, there was no such round.
        node.minutes().filter(|_| counted).map(|[minute]| (minute, node.said(), remarks))
    })
    .await;
    // The last word is counted at 30 s, no longer at 35 s, and at 50 s there is another.
    let (held, gone) = (60_000 - 15_000, 15_000);
    let expected = rows(&[
        (A, &[("ml/train/main", [held, held, held]), ("idle", [gone, gone, 0])]),
        (B, &[("ml/blind/main", [held, held, 0]), ("unattributed", [gone, gone, 0])]),
        (C, &[("ml/seen/main", [60_000, 60_000, 0])]),
    ]);
    assert_eq!(minute, expected);
    let kinds: Vec<_> = said.iter().map(|(at_ms, kind, _)| (*at_ms, kind.as_str())).collect();
    assert_eq!(kinds, [(25_000, "scheduler_silent"), (35_000, "scheduler_expired"), (50_000, "scheduler_answers")]);
    for message in [&said[0].2, &said[1].2, &remarks[0]] {
        assert!(message.starts_with("kubelet at /") && message.contains(why), "{message}");
    }
}

#[tokio::test]
async fn a_kubelet_that_is_down_is_believed_for_a_while() {
    a_kubelet_fails(None, "No such file").await;
}

#[tokio::test]
async fn a_kubelet_that_is_slow_is_believed_for_a_while() {
    a_kubelet_fails(Some(Manner::Never), "no answer within 2 s").await;
}

#[tokio::test]
async fn a_kubelet_that_answers_garbage_is_believed_for_a_while() {
    a_kubelet_fails(Some(Manner::Garbage), "decode").await;
}

/// Without the API server a pod is known by the kubelet's word, and by what the server told before it went. An end that is told
/// late is one at the last round before: what is booked stays.
#[tokio::test]
async fn pods_are_metered_while_the_api_server_is_away() {
    let rules = "[[owners.rule]]\nname = \"experiments\"\nmatch = { \"k8s.annotation.experiment\" = \"*\" }\n\
                 set = { experiment = \"{k8s.annotation.experiment}\" }\n";
    let ([minute], said) = on_time(async || {
        let rules = Config::parse(rules, Path::new("agent.toml"), &Overrides::default()).unwrap().rules;
        let cluster = Cluster::replay("ledger", "started").await;
        cluster.api.fail(Some(StatusCode::SERVICE_UNAVAILABLE));
        let mut node = Metered::start(cluster, &[(A, "")], |config| config.rules = rules).await;
        node.knows(|told| told.claims.len() == 1 && told.fault.is_some()).await;
        node.rounds(0, 20).await;
        node.cluster.api.fail(None);
        node.step("started", 1).await;
        node.rounds(25, 40).await;
        node.cluster.api.fail(Some(StatusCode::INTERNAL_SERVER_ERROR));
        node.cluster.step("completed");
        node.knows(|told| told.fault.is_some()).await;
        node.rounds(45, 50).await;
        node.cluster.api.fail(None);
        node.knows(|told| told.claims.is_empty()).await;
        node.rounds(55, 60).await;
        node.minutes().map(|minutes| (minutes, node.said()))
    })
    .await;
    let expected = rows(&[(
        A,
        &[
            ("ml/train/main", [25_000; 3]),
            ("ml/train/main resnet-7", [25_000; 3]),
            // It ended at 43 s, which is told after 50 s: from the last round on it has nothing.
            ("idle", [10_000, 10_000, 0]),
        ],
    )]);
    assert_eq!(minute, expected);
    let after: Vec<_> =
        said.iter().filter(|(at_ms, ..)| *at_ms > 0).map(|(at_ms, kind, _)| (*at_ms, kind.as_str())).collect();
    assert_eq!(after, [(25_000, "scheduler_answers"), (45_000, "scheduler_silent"), (55_000, "scheduler_answers")]);
    assert!(said.iter().all(|(.., message)| !message.contains("nobody holds")), "{said:?}");
}
