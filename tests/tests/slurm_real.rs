//! Whose GPUs are by the agent, against what a real Slurm's controller says of the same jobs.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod slurm_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use contador_agent::owners::ProcessOwners;
use contador_agent::owners::claim::{Part, Snapshot};
use contador_agent::owners::slurm::tree::jobs;
use contador_agent::owners::slurm::{NodeDevice, SlurmOptions, SlurmWatch};
use contador_schemas::owner::Owner;
use slurm_support::{CGROUP, Slurm};

/// How long something may take to show.
const DEADLINE: Duration = Duration::from_secs(60);

/// How much later than the controller says the agent may see it: the controller's times are whole seconds, and a second is
/// what the node takes to start or stop a job on a busy machine. Earlier it can't see it by more than the second's fraction.
const LATE_MS: i64 = 3_000;
const EARLY_MS: i64 = 1_000;

/// What was held from when on, by job: minor numbers.
type Held = BTreeMap<String, BTreeSet<u32>>;

/// The agent's account: who held what since when, in Unix milliseconds.
struct Account {
    watch: SlurmWatch,
    seen: Vec<(i64, Held)>,
}

fn uuid(minor: u32) -> String {
    format!("GPU-5d5ba0d6-d33d-2b2c-524d-00000000000{minor}")
}

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

impl Account {
    fn start(slurm: &Slurm) -> Self {
        let watch = SlurmWatch::start(SlurmOptions {
            proc: "/proc".into(),
            cgroup: CGROUP.into(),
            passwd: "/etc/passwd".into(),
            host: slurm.node.clone(),
            scontrol: slurm.path("scontrol"),
            timeout: Duration::from_secs(20),
            interval: Duration::from_millis(200),
        })
        .unwrap();
        // The driver's order, by PCI address, is not that of the files.
        let device = |minor: u32| NodeDevice { uuid: uuid(minor), minor: Some(minor), pci: None };
        watch.set_devices([2, 0, 3, 1].map(device).to_vec());
        Self { watch, seen: vec![(now_ms(), Held::new())] }
    }

    /// Looks on until it is so.
    fn until(&mut self, what: &str, is_so: impl Fn(&Snapshot, &Held) -> bool) -> Arc<Snapshot> {
        let start = Instant::now();
        loop {
            let snapshot = self.watch.snapshot();
            let mut held = Held::new();
            for claim in &snapshot.claims {
                let minor = (0..4).find(|minor| claim.device.to_string() == uuid(*minor)).unwrap();
                assert!(held.entry(claim.holder.owner.job.clone()).or_default().insert(minor), "{snapshot:?}");
            }
            let is_it = is_so(&snapshot, &held);
            if self.seen.last().unwrap().1 != held {
                self.seen.push((now_ms(), held));
            }
            if is_it {
                return snapshot;
            }
            assert!(start.elapsed() < DEADLINE, "{what}: {snapshot:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn look_on_for(&mut self, time: Duration) {
        let start = Instant::now();
        self.until("time passes", |_, _| start.elapsed() >= time);
    }

    /// From when to when a job held something, and what.
    fn of(&self, job: &str) -> Vec<(i64, i64, BTreeSet<u32>)> {
        let mut spans: Vec<(i64, i64, BTreeSet<u32>)> = Vec::new();
        for (place, (from, held)) in self.seen.iter().enumerate() {
            let until = self.seen.get(place + 1).map_or(i64::MAX, |next| next.0);
            let Some(devices) = held.get(job) else { continue };
            match spans.last_mut() {
                Some(last) if last.1 == *from && last.2 == *devices => last.1 = until,
                _ => spans.push((*from, until, devices.clone())),
            }
        }
        spans
    }
}

/// The whole numbers of `gpu:2(IDX:0-1)`.
fn index(gres: &str) -> BTreeSet<u32> {
    let inside = gres.split_once("(IDX:").unwrap().1.trim_end_matches(')');
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u32>().unwrap()..=last.parse::<u32>().unwrap()
    };
    inside.split(',').flat_map(range).collect()
}

fn seconds(job: &BTreeMap<String, String>, key: &str) -> i64 {
    job[key].parse::<i64>().unwrap_or_else(|_| panic!("{key}={}", job[key])) * 1_000
}

/// Jobs that run side by side, are suspended, resumed and cancelled, and end: the agent's account of who held what is the
/// controller's.
#[test]
fn who_holds_what_is_what_the_controller_says() {
    let Some(slurm) = Slurm::start() else { return };
    let mut account = Account::start(&slurm);

    // Three of the eight shards that a GPU has.
    let shards = slurm.submit(&["--gres=shard:3"], "sleep 1000");
    let is_part = |snapshot: &Snapshot| snapshot.claims.iter().any(|claim| claim.part == Part::Ppm(375_000));
    let snapshot = account.until("shards", |snapshot, _| is_part(snapshot));
    assert_eq!(snapshot.claims.len(), 1);
    assert_eq!(snapshot.claims[0].holder.owner.job, shards);
    slurm.run("scancel", &[&shards]);
    account.until("nobody holds", |snapshot, held| held.is_empty() && snapshot.works.is_empty());

    let first = slurm.submit(
        &["--gres=gpu:2", "--account=physics", "--comment=team=a b", "--job-name=x Account=rich"],
        "srun --overlap sleep 1000 & sleep 1000",
    );
    let second = slurm.submit(&["--gres=gpu:1", "--account=biology"], "sleep 1000");
    let third = slurm.submit(&["--gres=gpu:1"], "sleep 8");
    account.until("all run", |_, held| [&first, &second, &third].iter().all(|job| held.contains_key(*job)));
    let devices: BTreeMap<&str, BTreeSet<u32>> =
        [&first, &second, &third].into_iter().map(|job| (job.as_str(), index(&slurm.job(job)["GRES"]))).collect();
    assert_eq!(devices.values().map(BTreeSet::len).sum::<usize>(), 4, "{devices:?}");

    // Whose processes are, and what the controller knows beyond.
    let told = account.until("labels", |snapshot, _| {
        [&first, &second].iter().all(|job| {
            snapshot
                .works
                .get(*job)
                .is_some_and(|job| job.labels.contains_key("slurm.comment") || job.labels.contains_key("slurm.state"))
        })
    });
    let job = &told.works[&first];
    assert_eq!(
        job.owner,
        Owner { job: first.clone(), user: "root".into(), cluster: "contador".into(), ..Owner::default() }
    );
    assert_eq!((job.labels["slurm.partition"].as_str(), job.labels["slurm.comment"].as_str()), ("long", "team=a b"));
    assert_eq!(job.labels["slurm.account"], "physics", "and not what its name says");
    let pids = jobs(Path::new(CGROUP)).unwrap().into_iter().find(|group| group.job == second).unwrap().pids;
    let named = ProcessOwners::new("/proc".into(), "/etc/passwd".into()).resolve(&pids, 0, &[Arc::clone(&told)]);
    assert_eq!(named.len(), pids.len());
    assert!(
        named.values().all(|named| named.owner.job == second && named.labels["slurm.account"] == "biology"),
        "{named:?}"
    );

    // The third one ends by itself meanwhile.
    account.look_on_for(Duration::from_secs(3));
    slurm.run("scontrol", &["suspend", &first]);
    let suspended = seconds(&slurm.job(&first), "SuspendTime");
    account.until("the first is suspended", |_, held| !held.contains_key(&first));
    account.look_on_for(Duration::from_secs(2));
    slurm.run("scontrol", &["resume", &first]);
    let resumed = seconds(&slurm.job(&first), "SuspendTime");
    account.until("the first goes on", |_, held| held.contains_key(&first));
    slurm.run("scancel", &[&second]);
    account.until("the second is cancelled", |_, held| !held.contains_key(&second));
    account.look_on_for(Duration::from_secs(1));
    slurm.run("scancel", &[&first]);
    account.until("nobody holds", |_, held| held.is_empty());

    let [of_first, of_second, of_third] = [&first, &second, &third].map(|job| {
        let job = slurm.job(job);
        (seconds(&job, "StartTime"), seconds(&job, "EndTime"))
    });
    let expected = [
        (&first, vec![(of_first.0, suspended), (resumed, of_first.1)]),
        (&second, vec![of_second]),
        (&third, vec![of_third]),
    ];
    for (job, spans) in expected {
        let seen = account.of(job);
        println!("job {job}: the controller says {spans:?}, the agent {seen:?}");
        assert_eq!(seen.len(), spans.len(), "job {job}: {seen:?}, expected {spans:?}");
        for ((from, until, held), (start, end)) in seen.into_iter().zip(spans) {
            for (what, own, told) in [("from", from, start), ("until", until, end)] {
                assert!((-EARLY_MS..=LATE_MS).contains(&(own - told)), "job {job} {what} {own}, expected {told}");
            }
            assert_eq!(&held, &devices[job.as_str()], "job {job}");
        }
    }
}
