//! What it costs to know whose 200 processes and 8 GPUs are, with 100 pods: CPU time of the thread that works, for a tick.
//!
//! The processes are children of this program, two of each pod; they are looked at in a folder that has their real files of
//! `/proc`, and control groups as a kubelet makes them; one in four says by its environment which experiment it is. A pod was
//! given a replica of a GPU, or one in four of two, by a kubelet on a socket, and an API server tells of the pods, what memory
//! they ask for, and that ten more have ended; both are of this program, on threads of their own. Measured are, each by itself:
//!
//! - `owners`: whose each process is, who was given what, and who pays by 20 rules;
//! - `join`: the samples of the GPUs joined with that, with who has ended, and with what environments have said;
//! - `ledger`: and booked; `all of these`: the three together, which a tick takes;
//! - `kubernetes`: the kubelet asked over its socket, each time in another order, once a tick or ten times, and its answer joined
//!   with the pods (on a task of its own, of which it is all that its thread does here);
//! - `slurm`: the same processes as eight jobs of Slurm, looked at (on the thread of `owners`, where there is a Slurm);
//! - `floor`: `/proc/PID/stat` of each process opened, read and closed, which does nothing yet.
//!
//! A tick is a second of the clock that owners go by; the program waits for so long between them, or not at all. The result is
//! one JSON document on standard output, in microseconds.
//!
//! `cargo bench -p contador-tests --bench owners_cost -- [--ticks 120]`
#![allow(clippy::unwrap_used, reason = "a benchmark ends at what it does not expect")]

#[path = "../tests/kube_support/mod.rs"]
mod kube_support;
#[path = "agent_cost/process.rs"]
mod process;

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use contador_agent::ledger::Ledger;
use contador_agent::owners::claim::{Ended, Snapshot};
use contador_agent::owners::kubernetes::messages::{ContainerDevices, ContainerResources, PodResources};
use contador_agent::owners::kubernetes::{ApiOptions, Kubernetes, Options};
use contador_agent::owners::slurm::jobs::Jobs;
use contador_agent::owners::{DeviceId, NodeDevice, ProcessOwners};
use contador_agent::run::attribute::{self, Known};
use contador_agent::run::ownership::{Given, Ownership};
use contador_agent::run::said::Said;
use contador_agent::run::schedulers::{self, End};
use contador_agent::sensors::{GpuProcess, GpuSample, Measures, Number, ProcessKind, Reading};
use contador_schemas::mapping::Rules;
use contador_schemas::names;
use contador_schemas::owner::Owner;
use kube_support::{Api, Kubelet};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

const PROCESSES: usize = 200;
const PODS: usize = 100;
const GPUS: usize = 8;
const JOBS: usize = 8;
/// One pod in four has replicas of two GPUs.
const CLAIMS: usize = PODS + PODS / 4;
const ENDED: usize = 10;
const START_MS: i64 = 1_790_000_040_000;

fn main() {
    if !process::is_benchmark() {
        return;
    }
    let mut ticks = 120;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--ticks" => ticks = words.next().and_then(|text| text.parse().ok()).expect("expected a whole number"),
            "--bench" => {}
            other => panic!("{other}: expected --ticks"),
        }
    }
    let children = Children::start();
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), &children.pids());
    let series: Vec<Value> =
        [Duration::ZERO, Duration::from_secs(1)].into_iter().map(|every| node.series(every, ticks)).collect();
    let report = json!({
        "build": if cfg!(debug_assertions) { "debug" } else { "optimised" },
        "processes": PROCESSES, "pods": PODS, "gpus": GPUS, "slurm_jobs": JOBS,
        "series": series,
    });
    println!("{report:#}");
}

/// Ends the processes, also when something fails.
struct Children(Vec<Child>);

impl Children {
    fn start() -> Self {
        let mut children = Self(Vec::new());
        for place in 0..PROCESSES {
            let job = (place / (PROCESSES / JOBS)).to_string();
            let mut command = Command::new("sleep");
            command.arg("3600").env("SLURM_JOB_ID", job);
            if place % 4 == 0 {
                command.env("CONTADOR_OWNER_EXPERIMENT", format!("run-{}", place % PODS));
            }
            children.0.push(command.spawn().unwrap());
        }
        children
    }

    fn pids(&self) -> Vec<u32> {
        self.0.iter().map(Child::id).collect()
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What an agent would see of one.
struct Node<'f> {
    folder: &'f Path,
    pids: Vec<u32>,
    cluster: Cluster,
    devices: Arc<[NodeDevice]>,
}

impl<'f> Node<'f> {
    fn new(folder: &'f Path, pids: &[u32]) -> Self {
        let proc = folder.join("proc");
        fs::create_dir(&proc).unwrap();
        // By it the owners see that these PIDs are this program's own.
        symlink("/proc/self", proc.join("self")).unwrap();
        for (place, pid) in pids.iter().enumerate() {
            let dir = proc.join(pid.to_string());
            fs::create_dir(&dir).unwrap();
            for name in ["stat", "environ"] {
                symlink(format!("/proc/{pid}/{name}"), dir.join(name)).unwrap();
            }
            let (pod, container) = (uid(place % PODS), container(place % PODS));
            fs::write(dir.join("cgroup"), format!("0::/kubepods/burstable/pod{pod}/{container}\n")).unwrap();
        }
        for (job, pids) in pids.chunks(PROCESSES / JOBS).enumerate() {
            let step = folder.join(format!("cgroup/freezer/slurm/uid_0/job_{job}/step_0"));
            fs::create_dir_all(&step).unwrap();
            fs::write(step.join("cgroup.procs"), pids.iter().map(|pid| format!("{pid}\n")).collect::<String>())
                .unwrap();
        }
        Self { folder, pids: pids.to_vec(), cluster: Cluster::start(), devices: (0..GPUS).map(device).collect() }
    }

    /// The costs of a first tick and of `ticks` more, with so long between them.
    fn series(&self, every: Duration, ticks: i64) -> Value {
        let passwd = || "/etc/passwd".into();
        let processes = ProcessOwners::new(self.folder.join("proc"), passwd());
        let rules = Arc::new(rules());
        let (mut given_by, mut owners) = (Given::new(Arc::clone(&rules)), Ownership::new(processes, rules));
        let mut jobs = Jobs::new("/proc".into(), self.folder.join("cgroup"), passwd(), "n1".into());
        let (mut ledger, mut said) = (Ledger::default(), Said::default());
        let interval = if every.is_zero() { Duration::from_millis(100) } else { every };
        let asked = self.cluster.follow(interval);
        let told = asked.snapshot();
        assert_eq!((told.claims.len(), told.works.len()), (CLAIMS, 2 * PODS));
        let end = |place: usize| Ended {
            device: DeviceId::parse(&uuid(place % GPUS)).unwrap(),
            owner: Owner { namespace: "team-0".into(), pod: format!("over-{place}"), ..Owner::default() },
            at_ms: START_MS,
        };
        let snapshot = Arc::new(Snapshot { ended: (0..ENDED).map(end).collect(), ..Snapshot::clone(&told) });
        let intervals = usize::try_from(ticks).unwrap();
        let asked = std::thread::spawn(move || asked.costs(intervals));
        let mut costs = BTreeMap::<&str, Vec<u64>>::new();
        for tick in 0..=ticks {
            std::thread::sleep(every);
            let ts_ms = START_MS + tick * 1_000;
            let samples: Vec<GpuSample> = (0..GPUS).map(|gpu| self.sample(gpu, ts_ms)).collect();
            let mut cost = |what, us| costs.entry(what).or_default().push(us);

            let start = cpu_us();
            let given = given_by.at(ts_ms, vec![Arc::clone(&snapshot)], Arc::clone(&self.devices));
            let known = owners.at(ts_ms, self.pids.clone(), &given.snapshots);
            let resolved = cpu_us();
            let ends = schedulers::ends(&given.snapshots, &given.devices);
            let known_of = Known { owners: &known.owners, claims: &given.claims, fresh: true };
            let joined = |sample| {
                let mut tick = attribute::tick(sample, &[], true, known_of, false).unwrap();
                said.keep(&mut tick, sample, &[], known_of);
                tick
            };
            let ticks: Vec<_> = samples.iter().map(joined).collect();
            said.forget(&given.claims, &given.snapshots);
            let joined = cpu_us();
            for tick in ticks {
                for End { device, owner, at_ms } in ends.iter().filter(|end| end.device == tick.device) {
                    ledger.end(device, device, owner, *at_ms);
                }
                ledger.tick(tick, Duration::from_secs(1));
            }
            ledger.advance(ts_ms);
            ledger.handed_on(ledger.pending().len());
            let booked = cpu_us();
            cost("owners", resolved - start);
            cost("join", joined - resolved);
            cost("ledger", booked - joined);
            cost("all of these", booked - start);
            assert_eq!((known.owners.len(), given.claims.len()), (PROCESSES, GPUS));
            assert!(known.owners.values().all(|owner| owner.department.starts_with("department-")));

            let start = cpu_us();
            let snapshot = jobs.look(ts_ms, &[]);
            cost("slurm", cpu_us() - start);
            assert_eq!(snapshot.works.len(), JOBS);

            let start = cpu_us();
            for pid in &self.pids {
                black_box(fs::read(format!("/proc/{pid}/stat")).unwrap());
            }
            cost("floor", cpu_us() - start);
        }
        costs.insert("kubernetes", asked.join().unwrap());
        let costs: BTreeMap<_, _> = costs.into_iter().map(|(what, us)| (what, summary(us))).collect();
        json!({ "every_ms": every.as_millis(), "ticks": ticks, "cpu_us": costs })
    }

    fn sample(&self, gpu: usize, ts_ms: i64) -> GpuSample {
        let mut measures = Measures::default();
        measures.add(names::GPU_UTILIZATION, Reading::Value(Number::Real(0.5)));
        measures.add(names::GPU_MEMORY_USAGE, Reading::Value(Number::Whole(40 << 30)));
        measures.add(names::ENERGY, Reading::Value(Number::Whole(ts_ms.unsigned_abs() / 2)));
        let process = |pid: &u32| GpuProcess {
            pid: *pid,
            kind: ProcessKind::Compute,
            memory_bytes: Reading::Value(1 << 30),
            sm_util: Some(2.0),
            gpu_instance: None,
            compute_instance: None,
        };
        // A pod's processes are on the GPU that it was given.
        let here = self.pids.iter().enumerate().filter(|(place, _)| place % PODS % GPUS == gpu);
        let processes = Reading::Value(here.map(|(_, pid)| process(pid)).collect());
        GpuSample { ts_ms, uuid: uuid(gpu), parent: None, measures, processes, faults: Vec::new(), rejected: 0 }
    }
}

/// A kubelet and an API server, on threads of their own.
struct Cluster {
    kubelet: Kubelet,
    api: Api,
    _runtime: Runtime,
}

impl Cluster {
    fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let kubelet = Kubelet::start(&[("nvidia.com/gpu".to_owned(), (0..PODS).flat_map(replicas).collect())].into());
        kubelet.list_messages((0..PODS).map(listed).collect());
        let api = runtime.block_on(Api::start(None));
        api.have(&(0..PODS).map(pod).collect::<Vec<_>>());
        Self { kubelet, api, _runtime: runtime }
    }

    /// Has an agent follow them on a thread that does nothing else, and asks the kubelet at this interval.
    fn follow(&self, interval: Duration) -> Followed {
        let options = Options {
            socket: self.kubelet.socket(),
            api: Some(ApiOptions { url: self.api.url(), token: None, ca: None }),
            interval,
            ..Options::new("n1")
        };
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let kubernetes = {
            let _inside = runtime.enter();
            Kubernetes::start(options)
        };
        kubernetes.set_devices((0..GPUS).map(device).collect());
        runtime.block_on(kube_support::until(&kubernetes, |told| !told.waiting && told.claims.len() == CLAIMS));
        Followed { runtime, kubernetes, interval }
    }
}

/// What an agent does to follow Kubernetes, as far as its thread is let.
struct Followed {
    runtime: Runtime,
    kubernetes: Kubernetes,
    interval: Duration,
}

impl Followed {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.kubernetes.snapshot()
    }

    /// CPU time of each of so many intervals, in microseconds.
    fn costs(self, intervals: usize) -> Vec<u64> {
        let mut told = self.kubernetes.subscribe();
        let mut cost = || {
            let start = cpu_us();
            self.runtime.block_on(async { tokio::time::sleep(self.interval).await });
            assert_eq!(told.borrow_and_update().claims.len(), CLAIMS);
            cpu_us() - start
        };
        (0..=intervals).map(|_| cost()).collect()
    }
}

/// The first, and of the others the median, the mean and the greatest.
fn summary(us: Vec<u64>) -> Value {
    let (first, rest) = us.split_first().unwrap();
    let mut rest = rest.to_vec();
    rest.sort_unstable();
    let mean = rest.iter().sum::<u64>() / rest.len() as u64;
    json!({ "first": first, "median": rest[rest.len() / 2], "mean": mean, "max": rest[rest.len() - 1] })
}

/// CPU time of this thread in microseconds.
fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec * 1_000_000 + time.tv_nsec / 1_000).unsigned_abs()
}

fn uid(pod: usize) -> String {
    format!("3a6f0f0e-1c61-4d5c-9f6b-{pod:012x}")
}

fn container(pod: usize) -> String {
    format!("{pod:064x}")
}

fn uuid(gpu: usize) -> String {
    format!("GPU-5d5ba0d6-d33d-2b2c-524d-{gpu:012x}")
}

/// Of its GPU, and of one in four, of the next one.
fn replicas(pod: usize) -> Vec<String> {
    let of = |gpu: usize, number: usize| format!("{}::{number}", uuid(gpu % GPUS));
    let more = pod.is_multiple_of(4).then(|| of(pod + 1, PODS + pod / GPUS));
    std::iter::once(of(pod, pod / GPUS)).chain(more).collect()
}

fn pod(pod: usize) -> Value {
    json!({
        "metadata": {
            "uid": uid(pod), "namespace": format!("team-{}", pod % 20), "name": format!("pod-{pod}"),
            "labels": {
                "team": format!("team-{}", pod % 20), "app": format!("app-{pod}"), "pod-template-hash": format!("{pod:x}"),
                "version": "3", "zone": "1"
            }
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{ "name": "main", "resources": { "limits": { "nvidia.com/gpumem": "4000" } } }]
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{
                "name": "main", "containerID": format!("containerd://{}", container(pod)),
                "state": { "running": { "startedAt": "2026-10-01T00:00:00Z" } }
            }]
        }
    })
}

fn listed(pod: usize) -> PodResources {
    let device = |id| ContainerDevices { resource_name: "nvidia.com/gpu".into(), device_ids: vec![id] };
    let devices = replicas(pod).into_iter().map(device).collect();
    let container = ContainerResources { name: "main".into(), devices, dynamic_resources: Vec::new() };
    PodResources { name: format!("pod-{pod}"), namespace: format!("team-{}", pod % 20), containers: vec![container] }
}

/// A rule for each team, by its label.
fn rules() -> Rules {
    let rule = |team: usize| {
        format!(
            "[[owners.rule]]\nname = \"team-{team}\"\nmatch.\"k8s.label.team\" = \"team-{team}\"\n\
             set.department = \"department-{}\"\nset.project = \"{{namespace}}\"\n",
            team % 5
        )
    };
    let text: String = (0..20).map(rule).collect();
    let config = contador_agent::config::Config::parse(&text, Path::new("agent.toml"), &Default::default()).unwrap();
    Rules::clone(&config.rules)
}

fn device(gpu: usize) -> NodeDevice {
    NodeDevice { uuid: uuid(gpu), memory_bytes: Some(80 << 30), ..NodeDevice::default() }
}
