//! What Kubernetes says: which container was given which GPU, and whose pod it is of.
//!
//! The kubelet is asked over its socket ([`kubelet`], in the [`messages`] of its API) which container has which device:
//! [`allocation`]s, made anew when one of its [`lists`] says something else. The API server is asked ([`api`]) to tell the
//! [`pods`] of this node and their changes ([`mod@watch`]), of each [`pod`] what says whose it is and whether it has ended.
//! [`join`] makes claims of both: a pod that has ended holds nothing, also when the kubelet still lists it. Each source has a
//! task of its own and keeps what it was told last with its [`outage`]; a third one publishes the [`Snapshot`], which is read
//! without waiting.
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
pub mod join;
pub mod kubelet;
pub mod lists;
pub mod messages;
pub mod outage;
pub mod pod;
pub mod pods;
pub mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch::{Receiver, Sender};
use tokio::task::JoinSet;

pub use self::api::ApiOptions;

use self::allocation::{Allocation, Resources};
use self::api::Api;
use self::join::Join;
use self::kubelet::Listing;
use self::pods::Pods;
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
    snapshot: Receiver<Arc<Snapshot>>,
    _tasks: JoinSet<()>,
}

impl Kubernetes {
    /// Begins to ask. Within a tokio runtime.
    pub fn start(options: Options) -> Self {
        let Options { socket, resources, node, api, interval, keep_for } = options;
        let mut tasks = JoinSet::new();
        let (listing, pods) = (Sender::new(Listing::default()), Sender::new(Pods::default()));
        let publisher = Publisher {
            listing: listing.subscribe(),
            pods: pods.subscribe(),
            node: api.is_some().then(|| node.clone()),
            keep_for,
            join: Join::default(),
            joined: None,
            version: None,
        };
        let (sender, snapshot) =
            tokio::sync::watch::channel(Arc::new(Snapshot { waiting: true, ..Snapshot::default() }));
        let resources = Resources::new(&resources);
        tasks.spawn(async move { kubelet::follow(&socket, resources, interval, listing).await });
        if let Some(api) = api {
            tasks.spawn(async move { watch::follow(Api::new(api), &node, pods).await });
        }
        tasks.spawn(publisher.run(interval, sender));
        Self { snapshot, _tasks: tasks }
    }

    /// What was told last.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    /// What is told from now on.
    pub fn subscribe(&self) -> Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }
}

/// Makes a snapshot of what both sources have told.
#[derive(Debug)]
struct Publisher {
    listing: Receiver<Listing>,
    pods: Receiver<Pods>,
    /// The node's name, when there is an API server to know it.
    node: Option<String>,
    keep_for: Duration,
    join: Join,
    /// What the last claims were made of.
    joined: Option<Inputs>,
    /// Of the pods that the last snapshot was made of.
    version: Option<u64>,
}

/// What claims are made of, but for time.
#[derive(Clone, Debug)]
struct Inputs {
    allocations: Arc<Vec<Allocation>>,
    pods: u64,
    /// Whether the API server has told of its pods, and answers.
    server: (bool, bool),
    counts: bool,
}

impl Inputs {
    fn are(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.allocations, &other.allocations)
            && (self.pods, self.server, self.counts) == (other.pods, other.server, other.counts)
    }
}

impl Publisher {
    /// Publishes whenever something was told, and every `interval`, since time alone ends claims, too.
    async fn run(mut self, interval: Duration, snapshot: Sender<Arc<Snapshot>>) {
        loop {
            snapshot.send_modify(|snapshot| self.publish(Arc::make_mut(snapshot), Instant::now()));
            let sleep = tokio::time::sleep(interval);
            tokio::select! {
                () = sleep => {}
                Ok(()) = self.listing.changed() => {}
                Ok(()) = self.pods.changed() => {}
            }
        }
    }

    /// Brings `snapshot` up to date. What pods work is only told again when it has changed.
    fn publish(&mut self, snapshot: &mut Snapshot, now: Instant) {
        let (listing, pods) = (self.listing.borrow_and_update(), self.pods.borrow_and_update());
        let told = listing.told.map(|(told, _)| told);
        let age = told.map(|told| now.saturating_duration_since(told));
        let counts = listing.outage.is_none() || age.is_some_and(|age| age < self.keep_for);
        let allocations = listing.allocations.as_slice();
        snapshot.told_ms = listing.told.map_or(0, |(_, told_ms)| told_ms);
        let inputs = Inputs {
            allocations: Arc::clone(&listing.allocations),
            pods: pods.version(),
            server: (pods.told, pods.outage.is_none()),
            counts,
        };
        // The same is joined again when time may make something else of it.
        if !(self.join.is_settled() && self.joined.as_ref().is_some_and(|joined| joined.are(&inputs))) {
            // Also of a list that does not count is kept whose entries are: the kubelet goes on with them.
            let mut claims = self.join.claims(allocations, told, &pods, now);
            if !counts {
                claims.clear();
            }
            if *snapshot.claims != claims {
                snapshot.claims = claims.into();
            }
            snapshot.ended = self.join.ended().to_vec();
            self.joined = Some(inputs);
        }
        snapshot.expired = !counts;
        let kubelet = listing.told.is_some() || listing.outage.is_some();
        let server = self.node.is_none() || pods.told || pods.outage.is_some();
        snapshot.waiting = !(kubelet && server);
        if self.version != Some(pods.version()) {
            self.version = Some(pods.version());
            snapshot.works = pods.works().into();
        }
        let stranger =
            self.node.as_deref().filter(|_| counts && pods.told && pods.is_empty() && !allocations.is_empty());
        let stranger = stranger.map(|node| {
            format!("the API server has no pod on the node {node:?}, expected those that the kubelet lists")
        });
        let faults = listing.outage.iter().chain(&pods.outage).map(|outage| outage.say(now));
        let faults: Vec<String> = faults.chain(stranger).collect();
        snapshot.fault = (!faults.is_empty()).then(|| faults.join("; "));
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::outage::Outage;
    use super::pod::Pod;
    use super::*;
    use crate::owners::DeviceId;
    use crate::owners::claim::Part;

    fn listing(told: Instant) -> Listing {
        let allocation = Allocation {
            entry: 0,
            namespace: "lab".into(),
            pod: "a".into(),
            container: "main".into(),
            device: DeviceId::Node { minor: 0, gpu_instance: None },
            part: Part::Even,
            ids: vec!["nvidia0".into()],
        };
        Listing { allocations: Arc::new(vec![allocation]), told: Some((told, 5)), outage: None }
    }

    fn pod(uid: &str, name: &str) -> Pod {
        Pod { uid: uid.into(), namespace: "lab".into(), name: name.into(), ..Pod::default() }
    }

    fn publisher(node: Option<&str>) -> (Publisher, Sender<Listing>, Sender<Pods>) {
        let (listing, pods) = (Sender::new(Listing::default()), Sender::new(Pods::default()));
        let publisher = Publisher {
            listing: listing.subscribe(),
            pods: pods.subscribe(),
            node: node.map(str::to_owned),
            keep_for: Duration::from_secs(60),
            join: Join::default(),
            joined: None,
            version: None,
        };
        (publisher, listing, pods)
    }

    #[test]
    fn the_last_word_of_the_kubelet_counts_for_a_minute() {
        let (mut publisher, sender, pods) = publisher(None);
        let (told, second) = (Instant::now(), Duration::from_secs(1));
        let mut snapshot = Snapshot::default();
        publisher.publish(&mut snapshot, told);
        assert_eq!(snapshot, Snapshot { waiting: true, ..Snapshot::default() });
        let outage = Some(Outage { since: told + second, reason: "down".into() });
        sender.send_replace(Listing { outage, ..listing(told) });
        for (age, claims) in [(1, 1), (59, 1), (60, 0), (600, 0)] {
            publisher.publish(&mut snapshot, told + second * age);
            let fault = format!("down (for {} s)", age - 1);
            assert_eq!((snapshot.claims.len(), snapshot.told_ms, snapshot.fault.clone()), (claims, 5, Some(fault)));
            assert_eq!((snapshot.expired, snapshot.waiting), (claims == 0, false));
        }
        // It goes on with what it listed: that is not another pod's, or a new one's.
        pods.send_modify(|pods| pods.replace(vec![pod("1", "a")]));
        sender.send_replace(listing(told));
        publisher.publish(&mut snapshot, told + second * 600);
        assert_eq!(snapshot.claims.len(), 1);
        let down = Listing { outage: Some(Outage { since: told, reason: "down".into() }), ..listing(told) };
        sender.send_replace(down);
        publisher.publish(&mut snapshot, told + second * 700);
        pods.send_modify(|pods| pods.replace(vec![pod("2", "b")]));
        sender.send_replace(listing(told + second * 701));
        publisher.publish(&mut snapshot, told + second * 701);
        assert_eq!(*snapshot.claims, [], "its pod is gone");
        pods.send_modify(|pods| pods.replace(vec![pod("1", "a")]));
        // Nothing fails: the list of a slow interval counts.
        sender.send_replace(listing(told));
        publisher.publish(&mut snapshot, told + second * 61);
        assert_eq!((snapshot.claims.len(), &snapshot.fault, snapshot.expired), (1, &None, false));
    }

    proptest! {
        #[test]
        fn what_is_not_joined_again_is_what_it_would_be(
            steps in vec(
                (
                    0_u64..40,
                    vec((0_usize..2, 0_u32..2), 1..4),
                    vec((0_u8..2, 0_u8..4, prop::bool::weighted(0.8), prop::bool::weighted(0.2)), 1..4),
                    prop::sample::select(vec![0_u8, 1, 1, 1, 2, 3, 4, 5, 5]),
                ),
                1..60,
            ),
        ) {
            let (mut kept, listings, pods) = publisher(Some("n1"));
            let mut anew = Publisher { listing: listings.subscribe(), pods: pods.subscribe(), ..publisher(Some("n1")).0 };
            let (mut one, mut other) = (Snapshot::default(), Snapshot::default());
            let mut now = Instant::now();
            for (after, list, of, what) in steps {
                now += Duration::from_secs(after);
                let outage = || Some(Outage { since: now, reason: "down".into() });
                match what {
                    // Time goes on.
                    0 => {}
                    // The same list, and another one.
                    1 => listings.send_modify(|listing| listing.told = Some((now, 5))),
                    2 => {
                        let given = |(entry, minor): (usize, u32)| Allocation {
                            entry,
                            pod: entry.to_string(),
                            device: DeviceId::Node { minor, gpu_instance: None },
                            ids: vec![format!("nvidia{minor}")],
                            ..listing(now).allocations[0].clone()
                        };
                        let allocations = Arc::new(list.into_iter().map(given).collect());
                        listings.send_modify(|listing| {
                            *listing = Listing { allocations, told: Some((now, 5)), outage: None };
                        });
                    }
                    3 => listings.send_modify(|listing| listing.outage = outage()),
                    4 => pods.send_modify(|pods| pods.outage = outage()),
                    _ => {
                        let pod = |(name, uid, started, ended): (u8, u8, bool, bool)| {
                            Pod { started, ended, ended_ms: ended.then_some(7), ..pod(&uid.to_string(), &name.to_string()) }
                        };
                        pods.send_modify(|pods| {
                            pods.outage = None;
                            pods.replace(of.into_iter().map(pod).collect());
                        });
                    }
                }
                anew.joined = None;
                kept.publish(&mut one, now);
                anew.publish(&mut other, now);
                prop_assert_eq!(&one.claims, &other.claims);
                let sorted = |snapshot: &Snapshot| {
                    let mut ended = snapshot.ended.clone();
                    ended.sort_by_key(|end| format!("{end:?}"));
                    ended
                };
                prop_assert_eq!(sorted(&one), sorted(&other));
                prop_assert_eq!((&one.works, &one.fault, one.expired, one.waiting), (&other.works, &other.fault, other.expired, other.waiting));
            }
        }
    }

    #[test]
    fn a_node_that_the_server_does_not_know_is_said() {
        let (mut publisher, listings, pods) = publisher(Some("n1"));
        listings.send_replace(listing(Instant::now()));
        let mut early = Snapshot::default();
        publisher.publish(&mut early, Instant::now());
        assert!(early.waiting, "the server has said nothing");
        pods.send_modify(|pods| pods.replace(vec![]));
        let mut snapshot = Snapshot::default();
        publisher.publish(&mut snapshot, Instant::now());
        assert_eq!((snapshot.claims.len(), snapshot.waiting), (1, false));
        assert!(snapshot.fault.as_ref().is_some_and(|fault| fault.contains("\"n1\"")), "{snapshot:?}");
        pods.send_modify(|pods| pods.put(pod("1", "a")));
        publisher.publish(&mut snapshot, Instant::now());
        assert_eq!((snapshot.fault, snapshot.works.len()), (None, 1));
    }
}
