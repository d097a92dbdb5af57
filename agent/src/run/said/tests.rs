use contador_schemas::names;

use super::*;
use crate::owners::claim::{Named, Part};
use crate::owners::slurm::{STATE, SUSPENDED};
use crate::run::attribute;
use crate::sensors::{GpuProcess, Measures, Number, ProcessKind, Reading};

/// A GPU with these processes, each on this instance.
fn sample(device: &str, pids: &[(u32, Option<u32>)]) -> GpuSample {
    let mut measures = Measures::default();
    measures.add(names::GPU_UTILIZATION, Reading::Value(Number::Real(0.0)));
    let process = |&(pid, gpu_instance): &(u32, Option<u32>)| GpuProcess {
        pid,
        kind: ProcessKind::Compute,
        memory_bytes: Reading::Value(0),
        sm_util: None,
        gpu_instance,
        compute_instance: None,
    };
    let processes = Reading::Value(pids.iter().map(process).collect());
    GpuSample { ts_ms: 1_000, uuid: device.into(), parent: None, measures, processes, faults: Vec::new(), rejected: 0 }
}

fn job(number: &str) -> Owner {
    Owner { job: number.into(), user: "ana".into(), department: "unassigned".into(), ..Owner::default() }
}

fn saying(number: &str, fields: &[(&str, &str)]) -> Owner {
    let mut owner = job(number);
    fields.iter().for_each(|(name, value)| assert!(owner.set(name, value)));
    owner
}

/// What is remembered, and the round's claims and owners.
struct Node {
    said: Said,
    claims: Arc<Claims>,
    owners: HashMap<u32, Identified>,
}

impl Node {
    /// Each device, and the jobs that it was given to.
    fn new(claims: &[(&str, &[&str])], owners: &[(u32, Owner)]) -> Self {
        Self {
            said: Said::default(),
            claims: given(claims),
            owners: owners.iter().map(|(pid, owner)| (*pid, owner.clone().into())).collect(),
        }
    }

    /// Who holds the device with these processes on it: department, project, experiment of each job.
    fn held(&mut self, device: &str, pids: &[u32]) -> Vec<String> {
        let pids: Vec<_> = pids.iter().map(|pid| (*pid, None)).collect();
        let sample = sample(device, &pids);
        let known = Known { owners: &self.owners, claims: &self.claims, fresh: true };
        let mut tick = attribute::tick(&sample, &[], false, known, true).unwrap();
        self.said.keep(&mut tick, &sample, &[], known);
        assert!(tick.holders.is_sorted_by_key(|holder| holder.owner.id()));
        told(&tick.holders)
    }

    fn round(&mut self, claims: &[(&str, &[&str])], suspended: &[&str]) {
        self.claims = given(claims);
        let labels = BTreeMap::from([(STATE.to_owned(), SUSPENDED.to_owned())]);
        let work = |number: &&str| ((*number).to_owned(), Named { owner: job(number), labels: labels.clone() });
        let works = suspended.iter().map(work).collect::<HashMap<_, _>>().into();
        self.said.forget(&self.claims, &[Arc::new(Snapshot { works, ..Snapshot::default() })]);
    }
}

fn given(claims: &[(&str, &[&str])]) -> Arc<Claims> {
    let of = |(device, jobs): &(&str, &[&str])| {
        ((*device).to_owned(), jobs.iter().map(|number| (Part::Even, job(number).into())).collect())
    };
    Arc::new(claims.iter().map(of).collect())
}

fn told(holders: &[Holder]) -> Vec<String> {
    let say = |Holder { owner, .. }: &Holder| {
        let fields = [&owner.job, &owner.department, &owner.project, &owner.experiment];
        fields.into_iter().filter(|field| !field.is_empty()).cloned().collect::<Vec<_>>().join(" ")
    };
    let mut told: Vec<String> = holders.iter().map(say).collect();
    told.sort();
    told
}

#[test]
fn what_was_said_goes_on_until_something_else_is() {
    let vision = saying("1", &[("department", "research"), ("project", "vision")]);
    let language = saying("1", &[("project", "language")]);
    let owners = [(10, job("1")), (11, vision), (12, language), (20, job("2"))];
    let mut node = Node::new(&[("A", &["1", "2"])], &owners);
    assert_eq!(node.held("A", &[]), ["1 unassigned", "2 unassigned"]);
    assert_eq!(node.held("A", &[11]), ["1 research vision", "2 unassigned"]);
    // Nothing is there, what says nothing is, and somebody else's.
    for pids in [&[][..], &[10], &[20], &[10, 20]] {
        assert_eq!(node.held("A", pids), ["1 research vision", "2 unassigned"], "{pids:?}");
    }
    // One says something else, and not of all.
    assert_eq!(node.held("A", &[12]), ["1 research language", "2 unassigned"]);
    assert_eq!(node.held("A", &[10]), ["1 research language", "2 unassigned"]);
    // They contradict each other: that is not known any more.
    assert_eq!(node.held("A", &[11, 12]), ["1 research", "2 unassigned"]);
    assert_eq!(node.held("A", &[]), ["1 research", "2 unassigned"]);
}

#[test]
fn what_was_said_on_one_device_is_said_of_the_others() {
    let sweep = |pid, run: &str| (pid, saying("1", &[("experiment", run)]));
    let mut node =
        Node::new(&[("A", &["1"]), ("B", &["1"]), ("C", &["1"])], &[sweep(11, "a"), sweep(12, "b"), (10, job("1"))]);
    assert_eq!(node.held("A", &[11]), ["1 unassigned a"]);
    assert_eq!(node.held("B", &[]), ["1 unassigned a"]);
    // Two runs of one job, each on a device of its own.
    assert_eq!(node.held("B", &[12]), ["1 unassigned b"]);
    assert_eq!(
        (node.held("A", &[10]), node.held("B", &[])),
        (vec!["1 unassigned a".into()], vec!["1 unassigned b".into()])
    );
    assert_eq!(node.held("C", &[]), ["1 unassigned"]);
}

#[test]
fn what_was_said_is_forgotten_with_the_last_claim() {
    let vision = (11, saying("1", &[("project", "vision")]));
    let of = [("A", &["1"][..]), ("B", &["1"])];
    let mut node = Node::new(&of, &[vision]);
    let mut after = |claims: &[&[(&str, &[&str])]], suspended: &[&str]| {
        assert_eq!(node.held("A", &[11]), ["1 unassigned vision"]);
        claims.iter().for_each(|claims| node.round(claims, suspended));
        node.held("A", &[]).concat()
    };
    assert_eq!(after(&[&of], &[]), "1 unassigned vision");
    assert_eq!(after(&[&of[1..], &of], &[]), "1 unassigned vision", "it had another one meanwhile");
    assert_eq!(after(&[&[("A", &["2"])], &of], &["1"]), "1 unassigned vision", "it was suspended");
    assert_eq!(after(&[&[("A", &["2"])], &of], &[]), "1 unassigned");
    assert_eq!(after(&[&[("A", &["2"])], &of], &["3"]), "1 unassigned");
    node.round(&[], &[]);
    assert!(node.said.works.is_empty());
}

#[test]
fn instances_and_what_is_beside_them_have_their_own() {
    let owners = HashMap::from([
        (11, saying("1", &[("project", "vision")]).into()),
        (12, saying("1", &[("project", "b")]).into()),
    ]);
    let claims = given(&[("GPU-1", &["1"])]);
    let known = Known { owners: &owners, claims: &claims, fresh: true };
    let mut said = Said::default();
    let mut held = |on: &[(u32, Option<u32>)]| {
        let board = sample("GPU-1", on);
        let instances = [1, 2].map(|id| {
            let here: Vec<_> = on.iter().copied().filter(|(_, instance)| *instance == Some(id)).collect();
            GpuSample { parent: Some("GPU-1".into()), ..sample(&format!("MIG-{id}"), &here) }
        });
        let parts = [(&instances[0], 4), (&instances[1], 3)];
        let mut tick = attribute::tick(&board, &parts, false, known, true).unwrap();
        said.keep(&mut tick, &board, &parts, known);
        let all = [&tick.holders].into_iter().chain(tick.split.iter().flatten().map(|part| &part.holders));
        all.map(|holders| told(holders).concat()).collect::<Vec<_>>()
    };
    let (none, vision, b) = ("1 unassigned", "1 unassigned vision", "1 unassigned b");
    assert_eq!(held(&[]), [none, none, none]);
    // What is said on an instance does not contradict what is said beside it.
    assert_eq!(held(&[(11, None), (12, Some(1))]), [vision, b, none]);
    assert_eq!(held(&[(12, Some(1))]), [vision, b, none]);
    assert_eq!(held(&[]), [vision, b, none]);
}
