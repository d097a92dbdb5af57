//! A pod as the API server tells it, cut down to what says whose it is and whether it still holds what it was given.
//!
//! Source: the types `Pod`, `PodStatus` and `ContainerStatus` of the Kubernetes API, `v1`
//! (<https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/>).

use std::collections::BTreeMap;

use contador_schemas::owner::Owner;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::assigned::{Assigned, Containers, assigned};
use super::serving::{self, Reached, Serving};
use crate::owners::claim::Named;
use crate::targets::target::Pod as OfPod;

/// Longest value of a label or annotation that is kept, in bytes. Values of labels have at most 63; annotations may be whole
/// documents, which name nobody.
const MAX_VALUE_BYTES: usize = 1_024;

/// Most labels, and most annotations, of one pod.
const MAX_LABELS: usize = 128;

/// Most containers of one pod.
const MAX_CONTAINERS: usize = 256;

/// Most resources of one container that are kept.
const MAX_LIMITS: usize = 32;

/// What the names of annotations begin with among the labels.
pub const ANNOTATION: &str = "k8s.annotation.";

/// Where the kubelet writes the id of a pod that it runs from a file: the UID that such a pod has on the node.
const STATIC_UID: &str = "kubernetes.io/config.hash";

/// A container of a pod.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its id without the runtime's name; empty until it is made.
    pub id: String,
    /// When it ended, Unix milliseconds, if it has.
    pub ended_ms: Option<i64>,
}

/// A pod.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Pod {
    /// What tells it from every other pod that there was.
    pub uid: String,
    /// The UID that it has in the node's control groups, where that is another one.
    pub static_uid: Option<String>,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Labels and annotations, as `k8s.label.<key>` and `k8s.annotation.<key>`.
    pub labels: BTreeMap<String, String>,
    /// By container, what it has asked for of resources that have a domain: its limits, and of what has none its requests, as
    /// they are written.
    pub limits: BTreeMap<String, BTreeMap<String, String>>,
    /// By container, which devices a scheduler that shares them has assigned.
    pub assigned: BTreeMap<String, Vec<Assigned>>,
    /// What such a scheduler has written and can't be read.
    pub unclear: Option<String>,
    /// All containers that it has a status of: those that set it up and those for debugging, too.
    pub containers: Vec<Container>,
    /// Some container has started, so that it has its devices.
    pub started: bool,
    /// It has ended, and does not come back: it holds nothing.
    pub ended: bool,
    /// When the last container ended, Unix milliseconds; only of a pod that has ended, and when that is told.
    pub ended_ms: Option<i64>,
    /// Where it can be asked, if it is to be scraped.
    pub reached: Option<Reached>,
}

impl Pod {
    /// The server that it is, as long as it runs.
    pub fn serving(&self) -> Option<Serving> {
        let reached = self.reached.as_ref().filter(|_| !self.ended)?;
        let (uid, namespace, name) = (self.uid.clone(), self.namespace.clone(), self.name.clone());
        Serving::of(OfPod { uid, namespace, name, labels: self.labels.clone(), ..OfPod::default() }, reached)
    }

    /// Whose its containers are, or one of them.
    pub fn named(&self, container: &str) -> Named {
        let owner = Owner {
            namespace: self.namespace.clone(),
            pod: self.name.clone(),
            container: container.to_owned(),
            ..Owner::default()
        };
        Named { owner, labels: self.labels.clone() }
    }
}

/// A pod in JSON. What is absent or null is the default.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodJson {
    /// Name, labels and so on.
    pub metadata: MetadataJson,
    spec: SpecJson,
    status: StatusJson,
}

/// `metadata` of an object, or of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetadataJson {
    uid: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<String>,
    /// Where a watch goes on from.
    pub resource_version: Option<String>,
    /// What asks for the next page of a list.
    #[serde(rename = "continue")]
    pub next_page: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecJson {
    restart_policy: Option<String>,
    containers: Option<Vec<AskingJson>>,
    init_containers: Option<Vec<AskingJson>>,
}

/// A container, as it was asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AskingJson {
    name: Option<String>,
    resources: Option<ResourcesJson>,
    ports: Option<Vec<PortJson>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PortJson {
    name: Option<String>,
    container_port: i64,
    protocol: Option<String>,
}

/// Quantities are texts; some servers may write numbers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourcesJson {
    limits: Option<BTreeMap<String, Value>>,
    requests: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusJson {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    container_statuses: Option<Vec<ContainerJson>>,
    init_container_statuses: Option<Vec<ContainerJson>>,
    ephemeral_container_statuses: Option<Vec<ContainerJson>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerJson {
    name: Option<String>,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    state: Option<StateJson>,
    last_state: Option<StateJson>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StateJson {
    running: Option<serde::de::IgnoredAny>,
    terminated: Option<TerminatedJson>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TerminatedJson {
    exit_code: i64,
    finished_at: Option<String>,
}

impl ContainerJson {
    fn terminated(&self) -> Option<&TerminatedJson> {
        self.state.as_ref()?.terminated.as_ref()
    }

    /// It runs, or has run.
    fn has_started(&self) -> bool {
        let ran = |state: &StateJson| state.running.is_some() || state.terminated.is_some();
        self.state.iter().chain(&self.last_state).any(ran)
    }

    fn to_container(&self) -> Container {
        // `containerd://0123…`
        let id = self.container_id.as_deref().unwrap_or_default();
        let id = id.split_once("://").map_or(id, |(_, id)| id);
        Container {
            name: self.name.clone().unwrap_or_default(),
            id: id.to_owned(),
            ended_ms: self.terminated().and_then(|end| instant_ms(end.finished_at.as_deref())),
        }
    }
}

impl AskingJson {
    fn name(&self) -> String {
        self.name.clone().unwrap_or_default()
    }

    /// The ports that it says it listens on, by TCP.
    fn ports(&self) -> Vec<(String, u16)> {
        let tcp = |port: &&PortJson| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
        let port = |port: &PortJson| {
            let number = u16::try_from(port.container_port).ok().filter(|number| *number > 0)?;
            Some((port.name.clone().unwrap_or_default(), number))
        };
        self.ports.iter().flatten().filter(tcp).filter_map(port).collect()
    }

    /// The container's name, and what it has asked for of resources that have a domain; `None` when that is nothing.
    fn into_limits(self) -> Option<(String, BTreeMap<String, String>)> {
        let ResourcesJson { limits, requests } = self.resources?;
        let quantity = |(name, value): (String, Value)| match value {
            Value::String(text) => Some((name, text)),
            Value::Number(number) => Some((name, number.to_string())),
            _ => None,
        };
        let is_kept = |(name, text): &(String, String)| {
            name.contains('/') && name.len() <= MAX_VALUE_BYTES && text.len() <= MAX_VALUE_BYTES
        };
        // The later one of a name stays.
        let all = requests.into_iter().flatten().chain(limits.into_iter().flatten());
        let kept: BTreeMap<_, _> = all.filter_map(quantity).filter(is_kept).collect();
        let kept: BTreeMap<_, _> = kept.into_iter().take(MAX_LIMITS).collect();
        (!kept.is_empty()).then_some((self.name?, kept))
    }
}

impl PodJson {
    /// The pod; `None` when it has no UID, namespace or name.
    pub fn into_pod(self) -> Option<Pod> {
        let MetadataJson { uid, namespace, name, labels, annotations, deletion_timestamp, .. } = self.metadata;
        let (uid, namespace, name) = (uid?, namespace?, name?);
        if [&uid, &namespace, &name].into_iter().any(|part| part.is_empty() || part.len() > MAX_VALUE_BYTES) {
            return None;
        }
        let static_uid = annotations.as_ref().and_then(|all| all.get(STATIC_UID)).cloned();
        let main = self.status.container_statuses.unwrap_or_default();
        let others = [self.status.init_container_statuses, self.status.ephemeral_container_statuses];
        let started = main.iter().any(ContainerJson::has_started);
        let ends: Vec<&TerminatedJson> = main.iter().filter_map(ContainerJson::terminated).collect();
        // Without a status of its containers, a pod is not over: it has yet to begin.
        let all_ended = !main.is_empty() && ends.len() == main.len();
        let comes_back = match self.spec.restart_policy.as_deref() {
            _ if deletion_timestamp.is_some() => false,
            Some("Never") => false,
            Some("OnFailure") => ends.iter().any(|end| end.exit_code != 0),
            _ => true,
        };
        let over = matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let ended = over || (all_ended && !comes_back);
        let ended_ms = ends.iter().filter_map(|end| instant_ms(end.finished_at.as_deref())).max().filter(|_| ended);
        let others: Vec<ContainerJson> = others.into_iter().flatten().flatten().collect();
        let containers = main.iter().chain(&others).take(MAX_CONTAINERS).map(ContainerJson::to_container).collect();
        let [asking, init] = [self.spec.containers, self.spec.init_containers].map(Option::unwrap_or_default);
        let [main, setup] = [&asking, &init].map(|of| of.iter().map(AskingJson::name).collect::<Vec<_>>());
        let ports = serving::ports(asking.iter().map(|of| (of.name.as_deref().unwrap_or_default(), of.ports())));
        let limits = asking.into_iter().chain(init).take(MAX_CONTAINERS).filter_map(AskingJson::into_limits).collect();
        let found = annotations.as_ref().map(|all| assigned(all, Containers { init: &setup, main: &main }, &limits));
        let (assigned, unclear) = match found.transpose() {
            Ok(found) => (found.unwrap_or_default(), None),
            Err(unclear) => (BTreeMap::new(), Some(unclear)),
        };
        let labels = kept("k8s.label.", labels).chain(kept(ANNOTATION, annotations)).collect();
        let ip = self.status.pod_ip.unwrap_or_default();
        let reached = serving::is_asked(&labels).then_some(Reached { ip, ports });
        let pod = Pod { uid, static_uid, namespace, name, labels, limits, assigned, unclear, ..Pod::default() };
        Some(Pod { containers, started, ended, ended_ms, reached, ..pod })
    }
}

fn kept(prefix: &str, labels: Option<BTreeMap<String, String>>) -> impl Iterator<Item = (String, String)> {
    let short = |(key, value): &(String, String)| key.len() <= MAX_VALUE_BYTES && value.len() <= MAX_VALUE_BYTES;
    let all = labels.unwrap_or_default().into_iter().filter(short).take(MAX_LABELS);
    all.map(move |(key, value)| (format!("{prefix}{key}"), value))
}

/// An instant as Kubernetes writes it (RFC 3339), in Unix milliseconds.
fn instant_ms(text: Option<&str>) -> Option<i64> {
    text?.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: Value, status: Value, metadata: Value) -> Pod {
        let mut all = json!({"uid": "1", "namespace": "lab", "name": "train"});
        all.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        let json = json!({"metadata": all, "spec": spec, "status": status});
        serde_json::from_value::<PodJson>(json).unwrap().into_pod().unwrap()
    }

    fn ended(policy: &str, containers: Value, metadata: Value) -> bool {
        let status = json!({"phase": "Running", "containerStatuses": containers});
        pod(json!({"restartPolicy": policy}), status, metadata).ended
    }

    #[test]
    fn a_pod_ends_when_nothing_of_it_comes_back() {
        let done = |code: i64| json!({"name": "a", "state": {"terminated": {"exitCode": code}}});
        let runs = || json!({"name": "b", "state": {"running": {}}});
        let waits = || json!({"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        for (policy, containers, expected) in [
            ("Never", json!([done(0), done(1)]), true),
            ("Never", json!([done(0), runs()]), false),
            ("OnFailure", json!([done(0)]), true),
            ("OnFailure", json!([done(0), done(1)]), false),
            // It is started again, on the devices that it keeps.
            ("Always", json!([done(0)]), false),
            ("Always", json!([waits()]), false),
            ("Never", json!([]), false),
        ] {
            assert_eq!(ended(policy, containers.clone(), json!({})), expected, "{policy} {containers}");
        }
        let deleted = || json!({"deletionTimestamp": "2026-11-30T12:00:00Z"});
        assert!(ended("Always", json!([done(0)]), deleted()));
        assert!(!ended("Always", json!([runs()]), deleted()), "it has its time to end");
        for phase in ["Succeeded", "Failed"] {
            assert!(pod(json!({}), json!({"phase": phase}), json!({})).ended, "{phase}");
        }
        for phase in ["Pending", "Running", "Unknown"] {
            assert!(!pod(json!({}), json!({"phase": phase}), json!({})).ended, "{phase}");
        }
    }

    #[test]
    fn it_is_kept_with_its_labels_containers_and_end() {
        let end = |at: &str| json!({"terminated": {"exitCode": 0, "finishedAt": at}});
        let status = json!({
            "phase": "Succeeded",
            "containerStatuses": [
                {"name": "main", "containerID": "containerd://ab12", "state": end("2026-11-30T12:00:02Z")},
                {"name": "side", "containerID": "cri-o://cd34", "state": end("2026-11-30T12:00:01Z")},
            ],
            "initContainerStatuses": [{"name": "setup", "containerID": "", "state": null}],
        });
        let metadata = json!({
            "labels": {"team": "vision"},
            "annotations": {"note": "x".repeat(MAX_VALUE_BYTES), "document": "x".repeat(MAX_VALUE_BYTES + 1)},
        });
        let pod = pod(json!({"restartPolicy": "Never"}), status, metadata);
        // 2026-11-30T12:00:00Z is 20,787 days and a half after 1970.
        let noon = (20_787 * 2 + 1) * 43_200_000;
        let container = |name: &str, id: &str, ended_ms| Container { name: name.into(), id: id.into(), ended_ms };
        assert_eq!(
            pod.containers,
            [
                container("main", "ab12", Some(noon + 2_000)),
                container("side", "cd34", Some(noon + 1_000)),
                container("setup", "", None)
            ]
        );
        assert_eq!((pod.ended, pod.ended_ms, pod.started), (true, Some(noon + 2_000), true));
        assert_eq!(pod.labels.keys().collect::<Vec<_>>(), ["k8s.annotation.note", "k8s.label.team"]);
        let named = pod.named("main");
        assert_eq!((named.owner.pod.as_str(), named.owner.container.as_str()), ("train", "main"));
    }

    #[test]
    fn what_a_container_has_asked_for_is_kept() {
        let container = |name: &str, resources: Value| json!({"name": name, "resources": resources});
        let spec = json!({
            "containers": [
                container("main", json!({
                    "limits": {"cpu": "4", "nvidia.com/gpu": 1, "nvidia.com/gpumem": "3k"},
                    "requests": {"nvidia.com/gpumem": "1k", "example.com/share": "0.5"},
                })),
                container("side", json!({"limits": {"memory": "1Gi"}, "requests": null})),
                container("odd", json!({"limits": {"nvidia.com/gpu": {}, "example.com/long": "x".repeat(MAX_VALUE_BYTES + 1)}})),
                container("none", Value::Null),
            ],
            "initContainers": [container("setup", json!({"requests": {"nvidia.com/gpu": "2"}}))],
        });
        let pod = pod(spec, json!({}), json!({}));
        let limits = |of: &[(&str, &str)]| -> BTreeMap<String, String> {
            of.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let main = [("nvidia.com/gpu", "1"), ("nvidia.com/gpumem", "3k"), ("example.com/share", "0.5")];
        let expected = [("main", limits(&main)), ("setup", limits(&[("nvidia.com/gpu", "2")]))];
        assert_eq!(pod.limits, expected.map(|(name, limits)| (name.to_owned(), limits)).into());
    }

    #[test]
    fn what_was_assigned_is_of_the_containers_in_order() {
        let (spec, uuid) = (
            json!({"containers": [{"name": "zeta"}, {"name": "alpha"}], "initContainers": [{"name": "setup"}]}),
            "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77",
        );
        let metadata = json!({"annotations": {"hami.io/vgpu-devices-allocated": format!(";{uuid},NVIDIA,3000,30:;")}});
        let of = |spec: &Value, metadata: Value| pod(spec.clone(), json!({}), metadata);
        let found = of(&spec, metadata);
        let devices: Vec<_> =
            found.assigned.iter().map(|(name, of)| (name.as_str(), of[0].device.to_string())).collect();
        assert_eq!((devices, found.unclear), (vec![("alpha", uuid.to_owned())], None));
        let annotated = |text: String| json!({"annotations": {"hami.io/vgpu-devices-allocated": text}});
        // In newer versions, with those that set it up before them.
        let found = of(&spec, annotated(format!(";{uuid},NVIDIA,3000,30:;;")));
        assert_eq!((found.assigned.keys().map(String::as_str).collect(), found.unclear), (vec!["zeta"], None));
        let found = of(&spec, annotated(format!("{uuid}[0-1],NVIDIA,3000,30:;;")));
        assert!(found.assigned.is_empty() && found.unclear.is_some_and(|reason| reason.contains("[0-1]")));
    }

    #[test]
    fn what_is_null_or_absent_is_nothing() {
        for text in [
            "{}",
            r#"{"metadata":{"uid":"1","namespace":"lab"}}"#,
            r#"{"metadata":{"uid":"","namespace":"","name":""}}"#,
        ] {
            assert_eq!(serde_json::from_str::<PodJson>(text).unwrap().into_pod(), None, "{text}");
        }
        let null = json!({"containerStatuses": null, "phase": null});
        let pod = pod(json!({"restartPolicy": null}), null, json!({"labels": null, "annotations": null}));
        assert!(!pod.ended && !pod.started && pod.labels.is_empty());
        assert!(serde_json::from_str::<PodJson>(r#"{"metadata":{"uid":7}}"#).is_err());
    }
}
