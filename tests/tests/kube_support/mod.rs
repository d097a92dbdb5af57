//! A node of Kubernetes that replays a file: the kubelet's pod-resources API on a socket, and an API server.
//!
//! A file has what can be given (`allocatable`), and named steps, each with what the kubelet lists and the pods that the API
//! server has. From step to step the API server tells a watch what has changed.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    reason = "each test uses a part of it, and a fault here fails the test"
)]

mod api;
mod kubelet;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use contador_agent::owners::claim::{Part, Snapshot};
use contador_agent::owners::kubernetes::{ApiOptions, Kubernetes, Options};
use serde::Deserialize;
use serde_json::Value;

pub use api::{Api, Tls};
pub use kubelet::{Kubelet, Manner};

/// A file to replay.
#[derive(Deserialize)]
struct Scenario {
    #[serde(default)]
    allocatable: BTreeMap<String, Vec<String>>,
    steps: BTreeMap<String, Step>,
}

#[derive(Clone, Deserialize)]
struct Step {
    kubelet: Vec<kubelet::ListedPod>,
    pods: Vec<Value>,
}

/// The fakes of one node.
pub struct Cluster {
    scenario: Scenario,
    pub kubelet: Kubelet,
    pub api: Api,
}

impl Cluster {
    /// Replays `tests/data/kubernetes/<name>.json`, from this step on.
    pub async fn replay(name: &str, step: &str) -> Self {
        Self::start(name, step, None).await
    }

    /// The same with an API server that is reached by TLS.
    pub async fn replay_secure(name: &str, step: &str, tls: &Tls) -> Self {
        Self::start(name, step, Some(tls)).await
    }

    async fn start(name: &str, step: &str, tls: Option<&Tls>) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("data/kubernetes/{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap();
        let scenario: Scenario = serde_json::from_str(&text).unwrap();
        let kubelet = Kubelet::start(&scenario.allocatable);
        let cluster = Self { scenario, kubelet, api: Api::start(tls).await };
        cluster.step(step);
        cluster
    }

    /// The kubelet and the API server go on to this step.
    pub fn step(&self, step: &str) {
        let Step { kubelet, pods } = self.scenario.steps[step].clone();
        self.kubelet.list(&kubelet);
        self.api.have(&pods);
    }

    /// How an agent asks them, often.
    pub fn options(&self) -> Options {
        Options {
            socket: self.kubelet.socket(),
            resources: vec!["example.com/vgpu-*".to_owned()],
            api: Some(ApiOptions { url: self.api.url(), token: None, ca: None }),
            interval: Duration::from_millis(20),
            ..Options::new("n1")
        }
    }

    /// The same without an API server.
    pub fn without_api(&self) -> Options {
        Options { api: None, ..self.options() }
    }
}

/// Waits until what Kubernetes says is so.
pub async fn until(kubernetes: &Kubernetes, is_so: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut told = kubernetes.subscribe();
    let waiting = tokio::time::timeout(Duration::from_secs(30), told.wait_for(|snapshot| is_so(snapshot))).await;
    match waiting {
        Ok(snapshot) => Arc::clone(&snapshot.unwrap()),
        Err(_) => panic!("it did not come to be so: {:#?}", kubernetes.snapshot()),
    }
}

/// Each claim as `namespace/pod/container part`, by device.
pub fn holders(snapshot: &Snapshot) -> BTreeMap<String, Vec<String>> {
    let mut holders = BTreeMap::<String, Vec<String>>::new();
    for claim in snapshot.claims.iter() {
        let owner = &claim.holder.owner;
        let part = match claim.part {
            Part::Even => "even".to_owned(),
            Part::Ppm(ppm) => ppm.to_string(),
        };
        let holder = format!("{}/{}/{} {part}", owner.namespace, owner.pod, owner.container);
        holders.entry(claim.device.to_string()).or_default().push(holder);
    }
    holders
}

/// As [`holders`] makes it.
pub fn held(by: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    let list = |holders: &[&str]| holders.iter().map(|holder| (*holder).to_owned()).collect();
    by.iter().map(|(device, holders)| ((*device).to_owned(), list(holders))).collect()
}

/// A folder for a socket, which must have a short path.
fn socket_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("kube").tempdir_in(PathBuf::from("/tmp")).unwrap()
}
