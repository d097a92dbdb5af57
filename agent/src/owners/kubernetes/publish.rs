//! Makes a [`Snapshot`] of what both sources have told, whenever one of them tells something new.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch::{Receiver, Sender};

use super::allocation::Allocation;
use super::join::Join;
use super::kubelet::Listing;
use super::pods::Pods;
use super::request::Requests;
use super::reserved::Sharers;
use super::{assigned, parts};
use crate::owners::claim::{Claim, Snapshot};
use crate::owners::{DeviceId, NodeDevice};

/// For how long a device that the node does not know may be a new one.
const NEW_DEVICE: Duration = Duration::from_secs(30);

/// Most things that are said to be unclear.
const MAX_UNCLEAR: usize = 32;

/// What was published last, and what makes it.
#[derive(Debug)]
pub struct Published {
    publisher: Mutex<Publisher>,
    snapshot: Sender<Arc<Snapshot>>,
}

impl Published {
    /// Nothing was told yet.
    pub fn new(publisher: Publisher) -> Self {
        let nothing = Snapshot { waiting: true, ..Snapshot::default() };
        Self { publisher: Mutex::new(publisher), snapshot: Sender::new(Arc::new(nothing)) }
    }

    /// What is published, now and from now on.
    pub fn subscribe(&self) -> Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }

    /// Publishes by these devices of the node, from now on: what is published when this returns is by them.
    pub fn set_devices(&self, devices: Arc<[NodeDevice]>) {
        let mut publisher = self.publisher.lock().unwrap_or_else(PoisonError::into_inner);
        publisher.devices = devices;
        self.publish(&mut publisher);
    }

    fn publish(&self, publisher: &mut Publisher) {
        self.snapshot.send_modify(|snapshot| publisher.publish(Arc::make_mut(snapshot), Instant::now()));
    }
}

/// Publishes whenever something was told, and every `interval`, since time alone ends claims, too.
pub async fn run(
    published: Arc<Published>,
    mut listing: Receiver<Listing>,
    mut pods: Receiver<Pods>,
    interval: Duration,
) {
    loop {
        published.publish(&mut published.publisher.lock().unwrap_or_else(PoisonError::into_inner));
        let sleep = tokio::time::sleep(interval);
        tokio::select! {
            () = sleep => {}
            Ok(()) = listing.changed() => {}
            Ok(()) = pods.changed() => {}
        }
    }
}

/// What claims are made of, but for time.
#[derive(Clone, Debug)]
struct Inputs {
    allocations: Arc<Vec<Allocation>>,
    pods: u64,
    /// Whether the API server has told of its pods, and answers.
    server: (bool, bool),
    devices: Arc<[NodeDevice]>,
    counts: bool,
}

impl Inputs {
    fn are(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.allocations, &other.allocations)
            && Arc::ptr_eq(&self.devices, &other.devices)
            && (self.pods, self.server, self.counts) == (other.pods, other.server, other.counts)
    }
}

/// Makes a snapshot of what both sources have told.
#[derive(Debug)]
pub struct Publisher {
    listing: Receiver<Listing>,
    pods: Receiver<Pods>,
    /// The node's name, when there is an API server to know it.
    pub node: Option<String>,
    keep_for: Duration,
    /// The words in which pods ask for a part of a device.
    pub requests: Requests,
    /// The devices of the node; none, until they are said.
    devices: Arc<[NodeDevice]>,
    join: Join,
    sharers: Sharers,
    /// What the last claims were made of.
    joined: Option<Inputs>,
    /// Of the pods that the last snapshot was made of.
    version: Option<u64>,
    /// Devices that were given and that the node does not have: since when.
    unknown: BTreeMap<DeviceId, Instant>,
}

impl Publisher {
    /// By these sources; nothing is known of the devices yet.
    pub fn new(listing: Receiver<Listing>, pods: Receiver<Pods>, keep_for: Duration) -> Self {
        Self {
            listing,
            pods,
            node: None,
            keep_for,
            requests: Requests::new(&[]),
            devices: Arc::default(),
            join: Join::default(),
            sharers: Sharers::default(),
            joined: None,
            version: None,
            unknown: BTreeMap::new(),
        }
    }

    /// Brings `snapshot` up to date. What pods work is only told again when it has changed.
    fn publish(&mut self, snapshot: &mut Snapshot, now: Instant) {
        let (listing, pods) = (self.listing.borrow_and_update(), self.pods.borrow_and_update());
        let told = listing.told.map(|(told, _)| told);
        let age = told.map(|told| now.saturating_duration_since(told));
        let counts = listing.outage.is_none() || age.is_some_and(|age| age < self.keep_for);
        snapshot.told_ms = listing.told.map_or(0, |(_, told_ms)| told_ms);
        let inputs = Inputs {
            allocations: Arc::clone(&listing.allocations),
            pods: pods.version(),
            server: (pods.told, pods.outage.is_none()),
            devices: Arc::clone(&self.devices),
            counts,
        };
        // The same is joined again when time may make something else of it.
        let is_settled = self.join.is_settled() && self.sharers.is_settled() && self.unknown.is_empty();
        if !(is_settled && self.joined.as_ref().is_some_and(|joined| joined.are(&inputs))) {
            let given = assigned::apply(&listing.allocations, &pods);
            // Also of a list that does not count is kept whose entries are, and what is unclear: the kubelet goes on with them.
            let mut claims = self.join.claims(&given, told, &pods, now);
            claims = self.sharers.share(claims, &pods, now);
            let mut unclear = BTreeSet::new();
            parts::ask(&mut claims, &given, &pods, &self.requests, &self.devices, &mut unclear);
            note_unknown(&mut self.unknown, &claims, &self.devices, now, &mut unclear);
            if !counts {
                claims.clear();
            }
            if *snapshot.claims != claims {
                snapshot.claims = claims.into();
            }
            snapshot.ended = self.join.ended().iter().chain(self.sharers.ended()).cloned().collect();
            snapshot.unclear = unclear.into_iter().take(MAX_UNCLEAR).collect();
            self.joined = Some(inputs);
        }
        snapshot.expired = !counts;
        let kubelet = listing.told.is_some() || listing.outage.is_some();
        let server = self.node.is_none() || pods.told || pods.outage.is_some();
        snapshot.waiting = !(kubelet && server);
        if self.version != Some(pods.version()) {
            self.version = Some(pods.version());
            snapshot.works = pods.works().into();
            let servers = pods.servers();
            if *snapshot.servers != servers {
                snapshot.servers = servers.into();
            }
        }
        let is_listed = counts && !listing.allocations.is_empty();
        let stranger = self.node.as_deref().filter(|_| is_listed && pods.told && pods.is_empty());
        let stranger = stranger.map(|node| {
            format!("the API server has no pod on the node {node:?}, expected those that the kubelet lists")
        });
        let faults = listing.outage.iter().chain(&pods.outage).map(|outage| outage.say(now));
        let faults: Vec<String> = faults.chain(stranger).collect();
        snapshot.fault = (!faults.is_empty()).then(|| faults.join("; "));
    }
}

/// Says of devices that the node does not have, for longer than a new one may be unknown, who was given them: they are taken for
/// no other device.
fn note_unknown(
    unknown: &mut BTreeMap<DeviceId, Instant>,
    claims: &[Claim],
    devices: &[NodeDevice],
    now: Instant,
    unclear: &mut BTreeSet<String>,
) {
    // Without any, none is sampled: that is said elsewhere.
    let is_unknown = |device: &DeviceId| !devices.is_empty() && device.on(devices).is_none();
    unknown.retain(|device, _| is_unknown(device) && claims.iter().any(|claim| claim.device == *device));
    for Claim { device, holder, .. } in claims.iter().filter(|claim| is_unknown(&claim.device)) {
        let since = *unknown.entry(device.clone()).or_insert(now);
        if now.saturating_duration_since(since) >= NEW_DEVICE {
            let owner = &holder.owner;
            unclear.insert(format!(
                "pod {}/{}: container {} was given {device}, expected one device of this node: only its processes say what it holds",
                owner.namespace, owner.pod, owner.container
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::allocation::Allocation;
    use super::super::assigned::Containers;
    use super::super::outage::Outage;
    use super::super::pod::{ANNOTATION, Pod};
    use super::*;
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
            node: node.map(str::to_owned),
            ..Publisher::new(listing.subscribe(), pods.subscribe(), Duration::from_secs(60))
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

    #[test]
    fn what_a_pod_has_asked_for_counts_as_soon_as_its_device_is_known() {
        let (publisher, listings, pods) = publisher(None);
        let mut shared = listing(Instant::now());
        Arc::make_mut(&mut shared.allocations)[0].ids = vec!["nvidia0/vgpu1".into()];
        listings.send_replace(shared);
        let labels = [(format!("{ANNOTATION}gpu-memory"), "20480".to_owned())].into();
        pods.send_modify(|pods| pods.replace(vec![Pod { labels, started: true, ..pod("1", "a") }]));
        let published = Published::new(publisher);
        let parts = |published: &Published| {
            published.subscribe().borrow().claims.iter().map(|claim| claim.part).collect::<Vec<_>>()
        };
        published.set_devices(Arc::default());
        assert_eq!(parts(&published), [Part::Even]);
        let gpu =
            NodeDevice { uuid: "GPU-1".into(), minor: Some(0), memory_bytes: Some(80 << 30), ..NodeDevice::default() };
        published.set_devices([gpu].into());
        assert_eq!(parts(&published), [Part::Ppm(250_000)]);
    }

    #[test]
    fn a_device_that_the_node_does_not_have_is_said_after_a_while() {
        let (mut publisher, listings, _pods) = publisher(None);
        let told = Instant::now();
        let mut given = listing(told);
        Arc::make_mut(&mut given.allocations)[0].device = DeviceId::claimed("gpu-0-mig-1g10gb-19-4").unwrap();
        listings.send_replace(given);
        let mut snapshot = Snapshot::default();
        let mut said = |publisher: &mut Publisher, after: Duration| {
            publisher.publish(&mut snapshot, told + after);
            assert_eq!(snapshot.claims.len(), 1);
            snapshot.unclear.clone()
        };
        let (none, moment) = (Vec::<String>::new(), Duration::from_millis(1));
        assert_eq!(said(&mut publisher, Duration::ZERO), none);
        assert_eq!(said(&mut publisher, NEW_DEVICE * 9), none, "no device is known");
        let gpu = NodeDevice { uuid: "GPU-1".into(), minor: Some(0), ..NodeDevice::default() };
        publisher.devices = [gpu.clone()].into();
        assert_eq!(said(&mut publisher, NEW_DEVICE * 10), none);
        assert_eq!(said(&mut publisher, NEW_DEVICE * 11 - moment), none);
        let expected = "pod lab/a: container main was given gpu-0-mig with profile 19 at 4, expected one device of this node: \
                        only its processes say what it holds";
        assert_eq!(said(&mut publisher, NEW_DEVICE * 11), [expected]);
        let instance = NodeDevice {
            uuid: "MIG-1".into(),
            placement: Some(crate::sensors::Placement { profile: 19, start: 4 }),
            ..gpu.clone()
        };
        publisher.devices = [gpu.clone(), instance].into();
        assert_eq!(said(&mut publisher, NEW_DEVICE * 12), none);
        // It is gone: that is another while.
        publisher.devices = [gpu].into();
        assert_eq!(said(&mut publisher, NEW_DEVICE * 13), none);
        assert_eq!(said(&mut publisher, NEW_DEVICE * 14), [expected]);
    }

    #[test]
    fn what_is_unclear_stays_so_while_the_kubelet_is_silent() {
        let (mut publisher, listings, pods) = publisher(None);
        let told = Instant::now();
        let mut given = listing(told);
        let mut one = given.allocations[0].clone();
        let replica = Allocation { ids: vec!["nvidia0/vgpu1".into()], ..one.clone() };
        (one.device, one.pod) = (DeviceId::Unknown("gpu-vfio-0".into()), "b".into());
        given.allocations = Arc::new(vec![replica, one]);
        listings.send_replace(given.clone());
        let labels = [(format!("{ANNOTATION}gpu-fraction"), "2".to_owned())].into();
        pods.send_modify(|pods| pods.replace(vec![Pod { labels, started: true, ..pod("1", "a") }, pod("2", "b")]));
        publisher.devices = [NodeDevice { uuid: "GPU-1".into(), minor: Some(0), ..NodeDevice::default() }].into();
        let mut snapshot = Snapshot::default();
        publisher.publish(&mut snapshot, told);
        publisher.publish(&mut snapshot, told + NEW_DEVICE);
        let said = snapshot.unclear.clone();
        assert_eq!((snapshot.claims.len(), said.len()), (2, 2), "{said:?}");
        let outage = Some(Outage { since: told, reason: "down".into() });
        listings.send_replace(Listing { outage, ..given.clone() });
        publisher.publish(&mut snapshot, told + NEW_DEVICE * 9);
        assert_eq!((snapshot.claims.len(), snapshot.expired, &snapshot.unclear), (0, true, &said));
        // It answers: that is not said anew, and a device that is unknown has not been so since now.
        listings.send_replace(Listing { told: Some((told + NEW_DEVICE * 9, 6)), ..given });
        publisher.publish(&mut snapshot, told + NEW_DEVICE * 9);
        assert_eq!((snapshot.claims.len(), snapshot.expired, &snapshot.unclear), (2, false, &said));
    }

    #[test]
    fn a_pod_that_was_assigned_two_gpus_has_two_ends() {
        const A: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";
        const B: &str = "GPU-77777777-d33d-2b2c-524d-9e3d8d2b8a77";
        let (mut publisher, listings, pods) = publisher(None);
        let told = Instant::now();
        let mut given = listing(told);
        let one = given.allocations[0].clone();
        let of =
            |id: &str| Allocation { device: DeviceId::parse(id).unwrap(), ids: vec![format!("{id}-0")], ..one.clone() };
        given.allocations = Arc::new(vec![of(A), of(B)]);
        listings.send_replace(given);
        let text = format!("{A},NVIDIA,1000,0:{B},NVIDIA,1000,0:;");
        let annotations = [("hami.io/vgpu-devices-allocated".to_owned(), text)].into();
        let containers = Containers { init: &[], main: &["main".to_owned()] };
        let assigned = assigned::assigned(&annotations, containers, &BTreeMap::new()).unwrap();
        let living = Pod { started: true, assigned, ..pod("1", "a") };
        pods.send_modify(|pods| pods.replace(vec![living.clone()]));
        let mut snapshot = Snapshot::default();
        publisher.publish(&mut snapshot, told);
        assert_eq!(snapshot.claims.len(), 2);
        pods.send_modify(|pods| pods.replace(vec![Pod { ended: true, ended_ms: Some(7), ..living }]));
        publisher.publish(&mut snapshot, told);
        let mut ends: Vec<_> = snapshot.ended.iter().map(|end| end.device.to_string()).collect();
        ends.sort();
        assert_eq!((snapshot.claims.len(), ends), (0, vec![A.to_owned(), B.to_owned()]));
    }
}
