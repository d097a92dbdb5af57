//! What the ledger's minutes are of what Kubernetes says: a whole node on a simulated driver, a kubelet and an API server that
//! replay files, and rounds that the test drives.
//!
//! Each expected number is worked out from instants: a round sees a state, which holds until the next round, and an end that
//! is told counts from its own instant on.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]
#![allow(clippy::large_futures, reason = "a whole node is in each")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use contador_agent::config::{Config, Overrides};
use contador_agent::owners::claim::Snapshot;
use contador_agent::owners::kubernetes::messages::{
    ClaimResource, ContainerDevices, ContainerResources, DynamicResource, PodResources,
};
use contador_agent::sensors::{GpuIdentity, Gpus, NvmlLibrary, Placement};
use contador_schemas::names;

mod kube_support;
mod metered_support;
mod node_support;
mod nvml_support;
use kube_support::{Cluster, Kubelet, Manner};
use metered_support::{Metered, PATIENCE, Row, Rows, on_time, rows};
use node_support::{attribute, points};

const A: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";
const B: &str = "GPU-77777777-d33d-2b2c-524d-9e3d8d2b8a77";
const C: &str = "GPU-88888888-d33d-2b2c-524d-9e3d8d2b8a77";

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

/// What pods ask for, in an annotation and in limits, is what they have; what they don't is idle's.
#[tokio::test]
async fn parts_that_were_asked_for_are_shares() {
    let ([minute], said) = on_time(async || {
        let cluster = Cluster::replay("requested", "empty").await;
        let mut node = Metered::start(cluster, &[(A, ""), (B, "utilization = 50"), (C, "")], |_| {}).await;
        node.step("asked", 5).await;
        node.rounds(0, 60).await;
        node.minutes().map(|minutes| (minutes, node.said()))
    })
    .await;
    // A whole GPU is its pod's, whatever it asks for.
    let whole: &[(&str, Row)] = &[("ml/whole/main", [60_000; 3])];
    // 300 and 500 thousandths; each has a tenth of the replicas.
    let milli: &[(&str, Row)] = &[
        ("ml/first/main", [18_000, 60_000, 0]),
        ("ml/second/main", [30_000, 60_000, 0]),
        ("idle", [12_000, 60_000, 0]),
    ];
    // A quarter of the memory of an H100 with 81,559 MiB, and somebody who asks for what there can't be.
    let memory: &[(&str, Row)] =
        &[("web/chat/main", [15_000, 60_000, 60_000]), ("web/odd/main", [45_000, 60_000, 60_000])];
    assert_eq!(minute, rows(&[(A, whole), (B, milli), (C, memory)]));
    let message = "pod web/odd: nvidia.com/gpumem-percentage = \"120\" is no part of a GPU, \
                   expected more than 0 and at most 100";
    assert_eq!(said, [(0, "scheduler_unclear".to_owned(), message.to_owned())]);
}

/// Which GPU a pod has a part of, its scheduler says: HAMi, whatever replica the kubelet has picked, and KAI, which has a pod of its
/// own reserve it.
#[tokio::test]
async fn parts_are_of_the_gpu_that_the_scheduler_has_given() {
    let [minute] = on_time(async || {
        let cluster = Cluster::replay("requested", "empty").await;
        let mut node = Metered::start(cluster, &[(A, ""), (B, ""), (C, "utilization = 50")], |_| {}).await;
        node.step("assigned", 3).await;
        node.rounds(0, 60).await;
        node.minutes()
    })
    .await;
    let assigned: &[(&str, Row)] = &[("ml/first/main", [24_000, 60_000, 60_000]), ("idle", [36_000, 60_000, 0])];
    let shared: &[(&str, Row)] =
        &[("ml/left/", [15_000, 60_000, 0]), ("ml/right/", [30_000, 60_000, 0]), ("idle", [15_000, 60_000, 0])];
    assert_eq!(minute, rows(&[(A, &[("idle", [60_000, 60_000, 0])]), (B, assigned), (C, shared)]));
}

/// Instances of 3g.40gb and 1g.10gb: half of the GPU (4 of 8 memory slices) and a seventh; the rest is stranded.
/// `given`: how the kubelet says that a container has an instance, and how that device is called then.
async fn a_mig_pod_has_its_instances_part(given: impl Fn(&GpuIdentity) -> (ContainerResources, String)) {
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
        let (container, id) = given(&large);
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

/// A container that a device plugin gave the instance of this id.
fn plugged(id: String) -> (ContainerResources, String) {
    let devices = ContainerDevices { resource_name: "nvidia.com/mig-3g.40gb".into(), device_ids: vec![id.clone()] };
    (ContainerResources { name: "main".into(), devices: vec![devices], dynamic_resources: vec![] }, id)
}

#[tokio::test]
async fn a_mig_pod_has_its_instances_part_until_its_end() {
    a_mig_pod_has_its_instances_part(|instance| plugged(instance.uuid.clone())).await;
}

/// NVIDIA's driver for dynamic resource allocation says where on its GPU an instance is: in an older form, and in a newer one.
#[tokio::test]
async fn a_mig_pod_has_its_instances_part_when_it_claims_it() {
    for is_newer in [false, true] {
        let claimed = |instance: &GpuIdentity| {
            let Placement { profile, start } = instance.mig.as_ref().unwrap().placement.unwrap();
            let place = if is_newer { format!("3g40gb-{profile}-{start}") } else { format!("{profile}-{start}-4") };
            let claim = ClaimResource {
                driver_name: "gpu.nvidia.com".into(),
                pool_name: "n1".into(),
                device_name: format!("gpu-0-mig-{place}"),
                cdi_devices: vec![],
            };
            let claims = DynamicResource { claim_resources: vec![claim], ..DynamicResource::default() };
            let container =
                ContainerResources { name: "main".into(), devices: vec![], dynamic_resources: vec![claims] };
            (container, format!("gpu-0-mig with profile {profile} at {start}"))
        };
        a_mig_pod_has_its_instances_part(claimed).await;
    }
}

/// GKE names an instance by its GPU's device node.
#[tokio::test]
async fn a_mig_pod_has_its_instances_part_on_gke_too() {
    let node = |instance: &GpuIdentity| format!("nvidia0/gi{}", instance.mig.as_ref().unwrap().gpu_instance);
    a_mig_pod_has_its_instances_part(|instance| plugged(node(instance))).await;
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
        node.seen(501);
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

/// A GPU with a process of a pod, as a scenario has it.
const SEEN: &str = "utilization = 50\n[[gpu.process]]\npid = 501\nmemory_mib = 100\n";

/// Until Kubernetes has said the first word, a pod would be known by its UID alone, and one without a process not at all.
#[tokio::test]
async fn nothing_is_booked_before_kubernetes_has_said_the_first_word() {
    let [minute] = on_time(async || {
        let cluster = Cluster::replay("ledger", "silent").await;
        cluster.kubelet.answer(Manner::Never);
        let mut node = Metered::begin(cluster, &[(A, ""), (C, SEEN)], |_| {}).await;
        node.seen(501);
        node.rounds(0, 10).await;
        // It is given 2 s for an answer. A machine on which that has passed is too slow.
        let is_early = node.told().waiting;
        node.cluster.kubelet.answer(Manner::Well);
        node.knows(|told| told.claims.len() == 3 && told.fault.is_none()).await;
        node.rounds(15, 60).await;
        node.minutes().filter(|_| is_early)
    })
    .await;
    let unmetered = ("unmetered", [15_000, 15_000, 0]);
    let expected = [
        (A, &[("ml/train/main", [45_000; 3]), unmetered][..]),
        (C, &[("ml/seen/main", [45_000, 45_000, 0]), unmetered]),
    ];
    assert_eq!(minute, rows(&expected));
}

/// A scheduler that says nothing at all does not stop the metering.
#[tokio::test]
async fn the_first_word_is_not_waited_for_without_end() {
    // Whoever connects is not answered.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", deaf.local_addr().unwrap());
    let cluster = Cluster::replay("ledger", "silent").await;
    let mut node = Metered::begin(cluster, &[(C, SEEN)], |config| config.kubernetes.api = Some(url)).await;
    node.seen(501);
    let began = Instant::now();
    for second in 0.. {
        node.round(second * 1_000).await;
        let owners = points(&node.handed_on, names::OWNER_INFO);
        if owners.iter().any(|owner| attribute(owner, names::OWNER_KIND) == "workload") {
            break;
        }
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(node.told().waiting, "it has not answered");
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

/// A process of which nothing can be read for ever holds up who its owner is, and not what Kubernetes says of other GPUs.
#[tokio::test]
async fn a_pod_that_has_ended_holds_nothing_while_a_process_hangs() {
    let cluster = Cluster::replay("ledger", "empty").await;
    let mut node = Metered::start(cluster, &[(A, ""), (C, SEEN)], |_| {}).await;
    node.step("started", 1).await;
    node.rounds(0, 20).await;
    node.seen(501);
    let environ = node.kernel.path().join("501/environ");
    fs::remove_file(&environ).unwrap();
    assert!(Command::new("mkfifo").arg(&environ).status().unwrap().success());
    node.rounds(25, 30).await;
    node.step("completed", 0).await;
    node.rounds(45, 180).await;
    let held = [0, 1, 2].map(|minute| node.minute(minute)[A].get("ml/train/main").map_or(0, |row| row[0]));
    assert!(held[0] > 0, "{held:?}");
    assert_eq!(held[1..], [0, 0]);
}

/// Also where a round comes once a minute.
#[tokio::test]
async fn the_first_word_is_looked_for_between_rounds() {
    let [minute] = on_time(async || {
        let cluster = Cluster::replay("ledger", "silent").await;
        cluster.kubelet.answer(Manner::Never);
        let mut node = Metered::begin(cluster, &[(A, ""), (C, "")], |_| {}).await;
        node.round(0).await;
        // A machine on which its time has passed is too slow.
        let is_early = node.told().waiting;
        node.cluster.kubelet.answer(Manner::Well);
        node.knows(|told| told.claims.len() == 3 && told.fault.is_none()).await;
        let looks = async |node: &Metered| {
            let looks = node.agent.node.first_word();
            tokio::time::timeout(Duration::from_secs(2), looks).await.is_ok()
        };
        let is_looked_for = looks(&node).await;
        node.round(1_500).await;
        assert!(!looks(&node).await, "it is found");
        node.round(60_000).await;
        node.minutes().filter(|_| is_early && is_looked_for)
    })
    .await;
    assert_eq!(minute[A]["unmetered"][0], 1_500);
}
