//! What Kubernetes says: which container was given which GPU, and whose pod it is of.
//!
//! The kubelet is asked over its socket ([`kubelet`], in the [`messages`] of its API) which container has which device:
//! [`allocation`]s, made anew when one of its [`lists`] says something else. The API server is asked ([`api`]) to tell the
//! [`pods`] of this node and their changes ([`mod@watch`]), of each [`pod`] what says whose it is, whether it has ended, and
//! whether it is to be scraped ([`serving`]).
//! [`join`] makes claims of both: a pod that has ended holds nothing, also when the kubelet still lists it. How much of a
//! device a claim is, [`parts`] knows: by the kubelet's replicas, and by what the pod has asked for ([`request`]); which device
//! it is, a scheduler that shares them may know better ([`assigned`]), and a pod may hold one for others ([`reserved`]). Each
//! source has a task of its own and keeps what it was told last with its [`outage`]; a third one publishes the [`Snapshot`],
//! which is read without waiting.
//!
//! What holds when a source is away:
//!
//! - the kubelet does not answer, or not in time: its last word counts for [`Options::keep_for`], and then nobody
//!   holds anything by Kubernetes' word, which is said ([`Snapshot::expired`]). That a pod has ended is seen meanwhile.
//! - the API server does not answer: the pods that it told last stay as they were, without limit. Pods that it has not told
//!   are known by the kubelet's word: namespace, pod and container, without labels.
//! - there is no API server: the same, from the beginning.

pub mod allocation;
pub mod api;
pub mod assigned;
pub mod join;
pub mod kubelet;
pub mod lists;
pub mod messages;
pub mod outage;
pub mod parts;
pub mod pod;
pub mod pods;
mod publish;
pub mod request;
pub mod reserved;
pub mod serving;
pub mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::{Receiver, Sender};
use tokio::task::JoinSet;

pub use self::api::ApiOptions;

use self::allocation::Resources;
use self::api::Api;
use self::kubelet::Listing;
use self::pods::Pods;
use self::publish::{Published, Publisher};
use self::request::{Requests, Unit};
use super::NodeDevice;
use super::claim::Snapshot;
use crate::config::Kubernetes as Config;

/// Where the kubelet listens.
pub const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";

/// Where Kubernetes is asked, and for what.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// The kubelet's socket; [`SOCKET`].
    pub socket: PathBuf,
    /// Resources that are GPUs, besides those of NVIDIA's plugins: whole names, or beginnings that end with `*`.
    pub resources: Vec<String>,
    /// Words in which pods ask for a part of a GPU, besides those that are known, with their units.
    pub requests: Vec<(String, Unit)>,
    /// The node's name in Kubernetes.
    pub node: String,
    /// The API server; absent: the kubelet's word alone counts.
    pub api: Option<ApiOptions>,
    /// Time between two questions to the kubelet.
    pub interval: Duration,
    /// How long the kubelet's last word counts when it does not answer.
    pub keep_for: Duration,
}

impl Options {
    /// The defaults, for the node of this name.
    pub fn new(node: &str) -> Self {
        Self {
            socket: PathBuf::from(SOCKET),
            resources: Vec::new(),
            requests: Vec::new(),
            node: node.to_owned(),
            api: None,
            interval: Duration::from_secs(1),
            keep_for: Duration::from_secs(60),
        }
    }

    /// What this configuration says, in a process with these variables of the environment.
    pub fn configured(config: &Config, variable: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            socket: config.socket.clone(),
            resources: config.resources.clone(),
            requests: config.requests.clone(),
            api: ApiOptions::configured(config, variable),
            keep_for: config.keep_for,
            ..Self::new(&config.node)
        }
    }

    /// Whether a kubelet has ever run here: the folder of its socket is there, also while the kubelet is not.
    pub fn has_kubelet(&self) -> bool {
        self.socket.parent().is_some_and(Path::is_dir)
    }
}

/// Kubernetes, as it was told last. Nothing is asked any more when this is dropped.
#[derive(Debug)]
pub struct Kubernetes {
    published: Arc<Published>,
    _tasks: JoinSet<()>,
}

impl Kubernetes {
    /// Begins to ask. Within a tokio runtime.
    pub fn start(options: Options) -> Self {
        let Options { socket, resources, requests, node, api, interval, keep_for } = options;
        let mut tasks = JoinSet::new();
        let (listing, pods) = (Sender::new(Listing::default()), Sender::new(Pods::default()));
        let mut publisher = Publisher::new(listing.subscribe(), pods.subscribe(), keep_for);
        publisher.requests = Requests::new(&requests);
        publisher.node = api.is_some().then(|| node.clone());
        let published = Arc::new(Published::new(publisher));
        tasks.spawn(publish::run(Arc::clone(&published), listing.subscribe(), pods.subscribe(), interval));
        let resources = Resources::new(&resources);
        tasks.spawn(async move { kubelet::follow(&socket, resources, interval, listing).await });
        if let Some(api) = api {
            tasks.spawn(async move { watch::follow(Api::new(api), &node, pods).await });
        }
        Self { published, _tasks: tasks }
    }

    /// What was told last.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.published.subscribe().borrow())
    }

    /// What is told from now on.
    pub fn subscribe(&self) -> Receiver<Arc<Snapshot>> {
        self.published.subscribe()
    }

    /// Says which devices the node has: what was told last is told anew by them.
    pub fn set_devices(&self, devices: Arc<[NodeDevice]>) {
        self.published.set_devices(devices);
    }
}
