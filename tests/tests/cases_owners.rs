//! Who owns a device, in cases that went wrong elsewhere: who was given a device, and the processes that hold it.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::time::Duration;

use contador_agent::config::Config;
use contador_agent::ledger::{Account, Ledger};
use contador_agent::owners::claim::Part;
use contador_agent::owners::kubernetes::messages::{ContainerDevices, ContainerResources, PodResources};
use contador_agent::owners::kubernetes::{Kubernetes, Options};
use contador_agent::owners::slurm::jobs::{Jobs, Question};
use contador_agent::owners::{DeviceId, Identified, ProcessOwners};
use contador_agent::run::attribute::{self, Claims, Known};
use contador_agent::sensors::{Gpus, NvmlLibrary};
use contador_schemas::names;
use contador_schemas::owner::{Owner, OwnerKind};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;

mod kube_support;
mod node_support;
mod nvml_support;
use kube_support::{Cluster, Manner, held, holders, until};
use node_support::{Agent, Kernel, attribute, points, whole};
use nvml_support::Simulator;

/// The start of a minute.
const START: i64 = 1_790_000_040_000;
const MINUTE_MS: u64 = 60_000;
const DEVICE: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";

/// What each owner has of one minute, by what it is called: share, busy time and energy.
fn minute(requests: &[ExportMetricsServiceRequest], start_ms: i64) -> BTreeMap<String, [u64; 3]> {
    let of_project: BTreeMap<String, String> = points(requests, names::OWNER_INFO)
        .iter()
        .map(|point| {
            let called = [names::PROJECT, names::OWNER_KIND].map(|name| attribute(point, name).to_owned());
            let [project, kind] = called;
            (attribute(point, names::OWNER_ID).to_owned(), if project.is_empty() { kind } else { project })
        })
        .collect();
    let mut minute = BTreeMap::<String, [u64; 3]>::new();
    for (place, name) in [names::LEDGER_SHARE, names::LEDGER_BUSY, names::LEDGER_ENERGY].into_iter().enumerate() {
        for point in points(requests, name) {
            if point.start_time_unix_nano / 1_000_000 == u64::try_from(start_ms).unwrap() {
                let owner = of_project[attribute(&point, names::OWNER_ID)].clone();
                minute.entry(owner).or_default()[place] += whole(&point);
            }
        }
    }
    minute
}

/// How many seconds before the minute a node begins: what it has to open takes its time.
const BEFORE: i64 = 5;

/// A busy machine has more time for a tick than there is between two.
fn patient(config: &mut Config) {
    config.interval = Duration::from_secs(10);
}

fn project(name: &str) -> String {
    format!("CONTADOR_OWNER_PROJECT={name}")
}

/// Three pods on one GPU that is busy for 71 % have 71 % between them, and not each: shares, busy time and energy of the
/// owners are the device's, to the last millisecond and millijoule.
#[tokio::test]
async fn d8_shares_of_a_shared_device_sum_to_the_device() {
    let process = |pid: u32| format!("[[gpu.process]]\npid = {pid}\nmemory_mib = 100\nsm_util = {}\n", 10 + pid % 7);
    let processes: String = (501..504).map(process).collect();
    let simulator =
        Simulator::new(&format!("[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{DEVICE}\"\nutilization = 71\n{processes}"));
    let (kernel, state) = (Kernel::new(), tempfile::tempdir().unwrap());
    for (pid, name) in [(501, "a"), (502, "b"), (503, "c")] {
        kernel.process(pid, &[&project(name)]);
    }
    let mut agent = Agent::start(state.path(), &simulator.path(), &kernel, patient).await;
    for second in -BEFORE..70 {
        simulator.hold_clock(u64::try_from(BEFORE + second).unwrap() * 1_000);
        agent.node.tick(START + second * 1_000).await;
    }
    let minute = minute(&agent.handed_on().await, START);
    assert_eq!(minute.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    let sum = |place: usize| minute.values().map(|parts| parts[place]).sum::<u64>();
    assert_eq!(sum(0), MINUTE_MS);
    assert_eq!(sum(1), MINUTE_MS * 71 / 100);
    // 70 W and 71 % of the 630 W above, for a minute.
    assert_eq!(sum(2), (70_000 + 630_000 * 71 / 100) * 60);
    assert!(minute.values().all(|parts| parts[0] == MINUTE_MS / 3), "{minute:?}");
}

/// The same of pods that a scheduler gave the device to: whether or not their processes are there, or can be seen, they have
/// it between them; and a process of somebody else has no part of it.
#[test]
fn d8_pods_that_share_a_device_have_it_between_them() {
    let process = |pid: u32| format!("[[gpu.process]]\npid = {pid}\nmemory_mib = 100\nsm_util = 20\n");
    let processes: String = (501..504).map(process).collect();
    let simulator =
        Simulator::new(&format!("[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{DEVICE}\"\nutilization = 71\n{processes}"));
    let kernel = Kernel::new();
    (501..504).for_each(|pid| kernel.process(pid, &[]));
    let pod = |name: &str| Identified::from(Owner { namespace: "ml".into(), pod: name.into(), ..Owner::default() });
    let third = Part::Ppm(333_333);
    let cases = [[Part::Even; 3], [third; 3], [Part::Ppm(714_000); 3], [third, third, Part::Even]];
    for (parts, case) in cases.into_iter().zip(0_u64..) {
        let given = parts.into_iter().zip(["a", "b", "c"]).map(|(part, name)| (part, pod(name))).collect();
        let claims = Claims::from([(DEVICE.to_owned(), given)]);
        let stranger = Identified::from(Owner { user: "root".into(), command: "top".into(), ..Owner::default() });
        let owners = HashMap::from([(501, pod("a")), (502, pod("b")), (503, stranger.clone())]);
        let known = Known { owners: &owners, claims: &claims, fresh: true };
        let mut gpus = Gpus::open(&NvmlLibrary::at(simulator.path()), &kernel.path()).unwrap();
        let mut ledger = Ledger::default();
        for second in 0..=60 {
            simulator.hold_clock((case * 61 + second) * 1_000);
            let sample = gpus.sample_all(START + i64::try_from(second).unwrap() * 1_000).remove(0);
            ledger.tick(attribute::tick(&sample, &[], true, known, false).unwrap(), Duration::from_secs(1));
        }
        let [minute] = ledger.pending() else { panic!("one minute, not {:?}", ledger.pending()) };
        let accounts: BTreeMap<_, _> = minute.accounts.iter().map(|account| (account.owner.label(), account)).collect();
        let sum = |part: fn(&Account) -> u64| minute.accounts.iter().map(part).sum::<u64>();
        assert_eq!(sum(|account| account.share_ms), MINUTE_MS);
        assert_eq!(sum(|account| account.busy_ms), MINUTE_MS * 71 / 100);
        for name in ["a", "b", "c"] {
            let share = accounts[name].share_ms;
            assert!(share.abs_diff(MINUTE_MS / 3) <= 1, "{parts:?} {name}: {share}");
        }
        let other = accounts[&stranger.label()];
        assert_eq!((other.share_ms, other.busy_ms), (0, MINUTE_MS * 71 / 300), "a third of the work, and no time");
        assert_eq!((accounts["c"].busy_ms, accounts["c"].memory_mib_ms), (0, 0), "nothing of it runs");
    }
}

/// A name that a device plugin made of a device by cutting it into replicas is the device's own id, so that it joins with
/// samples and the ledger.
#[test]
fn d9_a_replica_joins_with_its_device() {
    let uuid = DEVICE.strip_prefix("GPU-").unwrap();
    let mig = format!("MIG-{uuid}");
    for (name, id) in [
        (format!("{DEVICE}::2"), DEVICE),
        (format!("{DEVICE}-0"), DEVICE),
        (format!("{uuid}-0"), DEVICE),
        (format!("{mig}::1"), mig.as_str()),
        (mig.clone(), mig.as_str()),
    ] {
        assert_eq!(DeviceId::parse(&name).unwrap().to_string(), id, "{name}");
    }
    // The driver's own id is what it is.
    let simulator = Simulator::new(&format!("[[gpu]]\nmodel = \"l4\"\nuuid = \"{DEVICE}\""));
    let own = simulator.nvml().device_by_index(0).unwrap().uuid().unwrap();
    assert_eq!(DeviceId::parse(&format!("{own}::7")), DeviceId::parse(&own));
}

/// The same as the kubelet lists it: each replica is a claim on the device that the driver knows.
#[tokio::test]
async fn d9_a_replica_that_the_kubelet_lists_is_its_device() {
    let cluster = Cluster::replay("shared", "running").await;
    let kubernetes = Kubernetes::start(cluster.options());
    let snapshot = until(&kubernetes, |snapshot| snapshot.claims.len() == 3).await;
    let simulator = Simulator::new(&format!("[[gpu]]\nmodel = \"l4\"\nuuid = \"{DEVICE}\""));
    let own = simulator.nvml().device_by_index(0).unwrap().uuid().unwrap();
    assert_eq!(holders(&snapshot)[&own], ["vision/train-0/main 666667"]);
}

/// A MIG instance has one name, that of the driver, however a device plugin writes it; a GKE path is its GPU's minor number
/// and instance, never a place in a table.
#[tokio::test]
async fn d10_a_mig_instance_has_one_key() {
    let mig = DEVICE.replace("GPU-", "MIG-");
    let pod = |name: &str, id: &str| PodResources {
        name: name.to_owned(),
        namespace: "lab".to_owned(),
        containers: vec![ContainerResources {
            name: "main".to_owned(),
            devices: vec![ContainerDevices {
                resource_name: "nvidia.com/mig-2g.20gb".to_owned(),
                device_ids: vec![id.to_owned()],
            }],
            dynamic_resources: Vec::new(),
        }],
    };
    let cluster = Cluster::replay("forms", "all").await;
    let upper = format!("MIG-{}", mig[4..].to_uppercase());
    let ids = [mig.clone(), format!("{mig}::1"), format!("{mig}-0"), upper, "nvidia2/gi2".into()];
    cluster.kubelet.list_messages(ids.iter().enumerate().map(|(n, id)| pod(&format!("p{n}"), id)).collect());
    let kubernetes = Kubernetes::start(cluster.without_api());
    let snapshot = until(&kubernetes, |snapshot| snapshot.claims.len() == 5).await;
    let whole = ["lab/p0/main even", "lab/p1/main even", "lab/p2/main even", "lab/p3/main even"];
    assert_eq!(holders(&snapshot), held(&[(&mig, &whole), ("nvidia2/gi2", &["lab/p4/main even"])]));
}

/// A pod whose process has ended owns its GPU until then: at the next tick the GPU is nobody's, whatever the driver and a
/// scheduler still list.
#[tokio::test]
async fn d11_owning_ends_with_the_process() {
    let simulator = Simulator::new(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{DEVICE}\"\nutilization = 0\n\
         [[gpu.process]]\npid = 501\nmemory_mib = 100\nsm_util = 0\n"
    ));
    let (kernel, state) = (Kernel::new(), tempfile::tempdir().unwrap());
    kernel.process(501, &[&project("a")]);
    let mut agent = Agent::start(state.path(), &simulator.path(), &kernel, patient).await;
    for second in -BEFORE..70 {
        if second == 21 {
            kernel.end(501);
        }
        agent.node.tick(START + second * 1_000).await;
    }
    let minute = minute(&agent.handed_on().await, START);
    assert_eq!((minute["a"][0], minute["idle"][0]), (21_000, 39_000), "{minute:?}");
}

/// A pod that has completed holds nothing, however long the kubelet lists it: not while it is there as completed, and not
/// when it has been deleted.
#[tokio::test]
async fn d11_holding_ends_with_the_pod_that_the_kubelet_lists_on() {
    let cluster = Cluster::replay("shared", "running").await;
    let kubernetes = Kubernetes::start(cluster.options());
    until(&kubernetes, |snapshot| snapshot.claims.len() == 3 && snapshot.works.contains_key("train-a")).await;
    cluster.step("completed");
    until(&kubernetes, |snapshot| snapshot.claims.is_empty()).await;
    // It stays so through many lists that have it, for an agent that starts only now, too.
    let again = Kubernetes::start(cluster.options());
    until(&again, |snapshot| snapshot.claims.is_empty() && snapshot.works.contains_key("agent-1")).await;
    let calls = cluster.kubelet.calls();
    for kubernetes in [&kubernetes, &again] {
        let mut told = kubernetes.subscribe();
        while cluster.kubelet.calls() < calls + 20 {
            told.changed().await.unwrap();
            let snapshot = told.borrow_and_update().clone();
            assert!(snapshot.claims.is_empty(), "{snapshot:?}");
        }
    }
}

/// Thirty pods whose owners can't be found cost one look each and half minute, as those do whose owners are known not to be
/// told: what failed is remembered like what was found.
#[test]
fn d12_a_lookup_that_failed_is_remembered() {
    let kernel = Kernel::new();
    let passwd = kernel.path().join("passwd");
    fs::write(&passwd, "").unwrap();
    let pids: Vec<u32> = (501..531).collect();
    for pid in &pids {
        kernel.process(*pid, &[]);
        fs::remove_file(kernel.path().join(pid.to_string()).join("environ")).unwrap();
    }
    let mut owners = ProcessOwners::new(kernel.path(), passwd);
    for second in 0..60 {
        let found = owners.resolve(&pids, START + second * 1_000, &[]);
        assert_eq!(found.len(), 30);
        assert!(found.values().all(|named| named.owner == Owner::of_kind(OwnerKind::Unattributed)));
    }
    assert_eq!(owners.looks(), 60, "two half minutes");
    // Those who are told are looked up once.
    pids.iter().for_each(|pid| kernel.process(*pid, &[&project("a")]));
    (60..600).for_each(|second| _ = owners.resolve(&pids, START + second * 1_000, &[]));
    assert_eq!(owners.looks(), 90);
}

/// A lookup that never comes back holds up no sample: GPUs are sampled at every tick, and booked to whom they were before.
#[tokio::test]
async fn d12_lookups_are_off_the_sampling_path() {
    let simulator = Simulator::new(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{DEVICE}\"\nutilization = 40\n\
         [[gpu.process]]\npid = 501\nmemory_mib = 100\nsm_util = 40\n"
    ));
    let (kernel, state) = (Kernel::new(), tempfile::tempdir().unwrap());
    kernel.process(501, &[]);
    hang(&kernel.path().join("501/environ"));
    let mut agent = Agent::start(state.path(), &simulator.path(), &kernel, patient).await;
    for tick in 0..20 {
        agent.node.tick(START + tick * 100).await;
    }
    let sampled = points(&agent.handed_on().await, names::GPU_MEMORY_UTILIZATION);
    let instants: Vec<i64> =
        sampled.iter().map(|point| i64::try_from(point.time_unix_nano / 1_000_000).unwrap()).collect();
    assert_eq!(instants, (0..20).map(|tick| START + tick * 100).collect::<Vec<_>>());
}

/// Thirty pods with a MIG instance each are one question to the kubelet and one to the API server, not thirty; a kubelet that
/// fails is asked less and less often; and one that never answers holds up no sample.
#[tokio::test]
async fn d12_thirty_mig_pods_are_one_question_off_the_sampling_path() {
    let pod = |n: u32| PodResources {
        name: format!("p{n}"),
        namespace: "lab".to_owned(),
        containers: vec![ContainerResources {
            name: "main".to_owned(),
            devices: vec![ContainerDevices {
                resource_name: "nvidia.com/mig-1g.10gb".to_owned(),
                device_ids: vec![format!("MIG-{n:08x}-d33d-2b2c-524d-9e3d8d2b8a77")],
            }],
            dynamic_resources: Vec::new(),
        }],
    };
    let cluster = Cluster::replay("forms", "all").await;
    cluster.kubelet.list_messages((0..30).map(pod).collect());
    // An interval that does not end in this test.
    let slow = Options { interval: Duration::from_secs(3_600), ..cluster.options() };
    let kubernetes = Kubernetes::start(slow);
    until(&kubernetes, |snapshot| snapshot.claims.len() == 30).await;
    assert_eq!(cluster.kubelet.calls(), 2, "the list, and what replicas there are");
    assert_eq!(cluster.api.counts().0, 1);
    drop(kubernetes);

    cluster.kubelet.answer(Manner::Failing);
    let kubernetes = Kubernetes::start(cluster.options());
    let failing = tokio::time::Instant::now();
    let before = cluster.kubelet.calls();
    while failing.elapsed() < Duration::from_secs(2) {
        kubernetes.subscribe().changed().await.unwrap();
    }
    // Waits of 20 ms, 40 ms and so on, each at least half of it: nine are over 5 s.
    let calls = cluster.kubelet.calls() - before;
    assert!((2..=9).contains(&calls), "{calls} calls in 2 s");

    cluster.kubelet.answer(Manner::Never);
    let simulator = Simulator::new(&format!("[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{DEVICE}\"\nutilization = 40\n"));
    let (kernel, state) = (Kernel::new(), tempfile::tempdir().unwrap());
    let mut agent = Agent::start(state.path(), &simulator.path(), &kernel, patient).await;
    for tick in 0..20 {
        agent.node.tick(START + tick * 100).await;
        assert!(kubernetes.snapshot().fault.is_some());
    }
    let sampled = points(&agent.handed_on().await, names::GPU_MEMORY_UTILIZATION);
    assert_eq!(sampled.len(), 20);
}

/// A file that opens for nobody: reading it waits for a writer who never comes.
fn hang(path: &Path) {
    fs::remove_file(path).unwrap();
    let status = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(status.success());
}

/// PIDs that a driver lists, and that are dead, or that nobody has: only those that are there hold anything.
#[tokio::test]
async fn d20_a_pid_that_is_dead_or_not_there_holds_nothing() {
    let process = |pid: u32| format!("[[gpu.process]]\npid = {pid}\nmemory_mib = 100\nsm_util = 20\n");
    let processes: String = (501..504).map(process).collect();
    let simulator =
        Simulator::new(&format!("[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{DEVICE}\"\nutilization = 40\n{processes}"));
    let (kernel, state) = (Kernel::new(), tempfile::tempdir().unwrap());
    kernel.process(501, &[&project("a")]);
    kernel.process(502, &[&project("b")]);
    let stat = kernel.path().join("502/stat");
    let zombie = fs::read_to_string(&stat).unwrap().replace(") S ", ") Z ");
    fs::write(stat, zombie).unwrap();
    let mut agent = Agent::start(state.path(), &simulator.path(), &kernel, patient).await;
    for second in -BEFORE..70 {
        agent.node.tick(START + second * 1_000).await;
    }
    let minute = minute(&agent.handed_on().await, START);
    let shares: Vec<(&str, u64)> = minute.iter().map(|(owner, parts)| (owner.as_str(), parts[0])).collect();
    assert_eq!(shares, [("a", MINUTE_MS)]);
}

/// A job's control group without processes, and that names a GPU, owns none: nobody holds what no process holds. As soon as it
/// has one, the job does.
#[tokio::test]
async fn d21_an_empty_cgroup_owns_nothing() {
    let simulator = Simulator::new(&format!("[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{DEVICE}\"\nutilization = 0"));
    let (kernel, state, sys) = (Kernel::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for job in
        ["fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", "fs/cgroup/freezer/slurm/uid_0/job_7"]
    {
        let job = sys.path().join(job);
        fs::create_dir_all(&job).unwrap();
        fs::write(job.join("cgroup.procs"), "").unwrap();
        fs::write(job.join("devices.list"), "c 195:0 rwm\n").unwrap();
    }
    let cgroup = sys.path().join("fs/cgroup");
    let task = cgroup.join("system.slice/slurmstepd.scope/job_7/step_0/user/task_0/cgroup.procs");
    kernel.process(501, &["SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0"]);
    let mut agent = Agent::start(state.path(), &simulator.path(), &kernel, |config| {
        patient(config);
        // Somebody who asks for jobs, and a controller that tells of none.
        (config.roots.cgroup, config.slurm.scontrol) = (cgroup, "/bin/false".into());
    })
    .await;
    for second in -BEFORE..70 {
        if second == 40 {
            fs::write(&task, "501\n").unwrap();
        }
        agent.node.tick(START + second * 1_000).await;
    }
    let minute = minute(&agent.handed_on().await, START);
    assert_eq!(
        minute.iter().map(|(owner, parts)| (owner.as_str(), parts[0])).collect::<Vec<_>>(),
        [("idle", 40_000), ("workload", 20_000)]
    );
}

/// What a job's process on the GPU says of who pays goes on when the job holds the GPU and has no process there, and also when
/// one is there that says nothing.
#[tokio::test]
async fn what_a_jobs_process_has_said_goes_on_while_the_job_holds() {
    let processes = [501, 502].map(|pid| format!("[[gpu.process]]\npid = {pid}\nmemory_mib = 100\n")).concat();
    let gpu = format!("[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{DEVICE}\"\nutilization = 0\n{processes}");
    let simulator = Simulator::new(&gpu);
    let (kernel, state, cgroup) = (Kernel::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let group = "system.slice/slurmstepd.scope/job_7/step_0/user/task_0";
    fs::create_dir_all(cgroup.path().join(group)).unwrap();
    let holds = |pids: &str| fs::write(cgroup.path().join(group).join("cgroup.procs"), pids).unwrap();
    let of_job = ["SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0"];
    let process = |pid: u32, more: &[&str]| {
        kernel.process(pid, &[&of_job[..], more].concat());
        kernel.group(pid, &format!("/{group}"));
    };
    process(500, &[]);
    holds("500\n");
    let mut agent = Agent::start(state.path(), &simulator.path(), &kernel, |config| {
        patient(config);
        (config.roots.cgroup, config.slurm.scontrol) = (cgroup.path().into(), "/bin/false".into());
    })
    .await;
    for second in -BEFORE..70 {
        match second {
            20 => process(501, &[&project("vision")]),
            30 => kernel.end(501),
            40 => process(502, &[]),
            45 => kernel.end(502),
            // Another job of the same number, as far as can be told.
            50 => holds(""),
            55 => holds("500\n"),
            _ => {}
        }
        agent.node.tick(START + second * 1_000).await;
    }
    let minute = minute(&agent.handed_on().await, START);
    assert_eq!(
        minute.iter().map(|(owner, parts)| (owner.as_str(), parts[0])).collect::<Vec<_>>(),
        [("idle", 5_000), ("vision", 30_000), ("workload", 25_000)]
    );
}

/// The same of what Slurm's jobs claim: groups of a job that has ended claim nothing, in neither version of control groups,
/// also while its step's manager is still there; one process of its steps makes it hold what it was given.
#[test]
fn d21_a_stale_job_claims_nothing() {
    let (kernel, cgroup) = (Kernel::new(), tempfile::tempdir().unwrap());
    let group = |path: &str, pids: &str| {
        let path = cgroup.path().join(path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("cgroup.procs"), pids).unwrap();
    };
    let (v1, v2) = ("freezer/slurm_n1/uid_0/job_7", "system.slice/slurmstepd.scope/job_8/step_0");
    group(v1, "70\n");
    group(&format!("{v1}/step_0"), "");
    group(&format!("{v2}/slurm"), "80\n");
    group(&format!("{v2}/user/task_0"), "");
    for (pid, job) in [(70, 7), (71, 7), (80, 8), (81, 8)] {
        kernel.process(pid, &[&format!("SLURM_JOB_ID={job}"), &format!("SLURM_JOB_GPUS={}", job - 7)]);
    }
    let mut jobs = Jobs::new(kernel.path(), cgroup.path().into(), kernel.path().join("passwd"), "n1".into());
    let snapshot = jobs.look(START, &[]);
    assert_eq!((snapshot.claims.len(), snapshot.works.len()), (0, 0));
    assert_eq!(jobs.questions(0), [Question::Node("n1".into())]);
    group(&format!("{v1}/step_0"), "71\n");
    group(&format!("{v2}/user/task_0"), "81\n");
    let claims = jobs.look(START, &[]).claims;
    let held: Vec<_> = claims.iter().map(|claim| (claim.holder.owner.job.as_str(), claim.device.to_string())).collect();
    assert_eq!(held, [("7", "nvidia0".to_owned()), ("8", "nvidia1".to_owned())]);
    // They end.
    group(&format!("{v1}/step_0"), "");
    group(&format!("{v2}/user/task_0"), "");
    assert!(jobs.look(START, &[]).claims.is_empty());
}
