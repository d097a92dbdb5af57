//! Whose GPUs are by the agent's ledger, against what a real Slurm's controller and the kernel say of the same jobs.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod node_support;
mod nvml_support;
mod slurm_support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use contador_agent::owners::slurm::{SlurmOptions, SlurmWatch};
use contador_schemas::names;
use slurm_support::account::{self, Change, Held, MINUTE_MS};
use slurm_support::metered::{Metered, Row, START, now_ms};
use slurm_support::{CGROUP, Slurm};

/// How long something may take to show.
const DEADLINE: Duration = Duration::from_secs(90);

/// How late the agent may use what it was told where the controller's word is all that there is: as fine as that is.
const WORD_MS: i64 = 1_000;

/// Looks on until there is something; what it is.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The first instant at which it was seen to be so, Unix milliseconds.
fn since(what: &str, is_so: impl Fn() -> bool) -> i64 {
    until(what, || is_so().then(now_ms))
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

/// A time of the controller's, Unix milliseconds.
fn seconds(job: &BTreeMap<String, String>, key: &str) -> i64 {
    job[key].parse::<i64>().unwrap_or_else(|_| panic!("{key}={}", job[key])) * 1_000
}

/// A job with a script, that writes down when it begins, and when it ends if it does by itself.
struct Job<'s> {
    slurm: &'s Slurm,
    number: String,
}

impl<'s> Job<'s> {
    fn start(slurm: &'s Slurm, options: &[&str], command: &str) -> Self {
        let stamp = |what: &str| {
            let file = slurm.path(what).display().to_string();
            format!("date +%s%3N >{file}.new.$SLURM_JOB_ID; mv {file}.new.$SLURM_JOB_ID {file}.$SLURM_JOB_ID")
        };
        // Its processes are on the devices that it got.
        let script = format!(
            "{}; for gpu in $(echo $SLURM_JOB_GPUS | tr , ' '); do export CONTADOR_TEST_GPU_$gpu=1; done; {command}; {}",
            stamp("began"),
            stamp("ended")
        );
        Self { slurm, number: slurm.submit(options, &script) }
    }

    fn written(&self, what: &str) -> Option<i64> {
        let text = fs::read_to_string(self.slurm.path(&format!("{what}.{}", self.number))).ok()?;
        Some(text.trim().parse().unwrap())
    }

    /// From when on it held its devices, as soon as it does.
    fn began(&self) -> Change {
        let began = until("the job begins", || self.written("began"));
        Change::of(self.told("StartTime"), began)
    }

    fn told(&self, key: &str) -> i64 {
        seconds(&self.slurm.job(&self.number), key)
    }

    fn devices(&self) -> BTreeSet<u32> {
        index(&self.slurm.job(&self.number)["GRES"])
    }

    /// Until when it held them: it is told to end, and the kernel has no process of it any more.
    fn cancel(&self) -> Change {
        self.slurm.run("scancel", &[&self.number]);
        let gone = since("the job is gone", || self.slurm.pids(&self.number).is_empty());
        Change::of(until("the controller knows", || self.ended()), gone)
    }

    fn ended(&self) -> Option<i64> {
        let job = self.slurm.job(&self.number);
        let has_ended = !matches!(job["JobState"].as_str(), "RUNNING" | "SUSPENDED" | "PENDING");
        has_ended.then(|| seconds(&job, "EndTime"))
    }
}

/// Jobs that run side by side, are suspended, resumed and cancelled, end by themselves, have steps, share a device, or only
/// allocate one: minute by minute the ledger has of each device what the controller and the kernel say.
#[test]
fn the_ledger_has_what_the_controller_says() {
    let Some(slurm) = Slurm::start() else { return };
    let metered = Metered::start(&slurm);
    let mut all = Vec::new();
    let mut add = |job: &str, devices: BTreeSet<u32>, ppm: i64, spans: Vec<(Change, Change)>| {
        all.push(Held { job: job.to_owned(), devices, ppm, spans });
    };

    let two = Job::start(
        &slurm,
        &["--gres=gpu:2", "--account=physics", "--comment=team=a b", "--job-name=x Account=rich"],
        "srun --overlap sleep 1000 & sleep 1000",
    );
    let cancelled = Job::start(&slurm, &["--gres=gpu:1", "--account=biology"], "sleep 1000");
    let ending = Job::start(&slurm, &["--gres=gpu:1", "--account=biology"], "sleep 6");
    let [two_began, cancelled_began, ending_began] = [&two, &cancelled, &ending].map(Job::began);
    let devices = [&two, &cancelled, &ending].map(Job::devices);
    assert_eq!(devices.iter().map(BTreeSet::len).collect::<Vec<_>>(), [2, 1, 1]);
    assert_eq!(devices.iter().flatten().collect::<BTreeSet<_>>().len(), 4, "{devices:?}");
    let [of_two, of_cancelled, of_ending] = devices;

    has_its_labels(&slurm, &two.number);
    std::thread::sleep(Duration::from_secs(2));
    slurm.run("scontrol", &["suspend", &two.number]);
    // Slurm stops the processes, and freezes them some seconds later. Stopped ones are suspended by the controller's word.
    let frozen = since("it is suspended", || slurm.is_frozen(&two.number));
    let word = slurm.told(&two.number, |state| state == "SUSPENDED").map_or(frozen, |told| told + WORD_MS);
    let suspended = Change::of(two.told("SuspendTime"), frozen.min(word));
    std::thread::sleep(Duration::from_secs(2));
    slurm.run("scontrol", &["resume", &two.number]);
    let thawed = since("it goes on", || slurm.is_going_on(&two.number));
    let resumed = Change::of(two.told("SuspendTime"), thawed);
    add(&cancelled.number, of_cancelled, 1_000_000, vec![(cancelled_began, cancelled.cancel())]);
    let ended = until("it ends by itself", || ending.ended());
    let ended = Change::known(ending.written("ended").unwrap(), ended);
    add(&ending.number, of_ending, 1_000_000, vec![(ending_began, ended)]);

    // Three and four of the eight shards that a GPU has, side by side.
    let sharing = [("--gres=shard:3", 375_000), ("--gres=shard:4", 500_000)]
        .map(|(shards, ppm)| (Job::start(&slurm, &[shards, "--account=biology"], "sleep 1000"), ppm));
    let began = sharing.each_ref().map(|(job, _)| job.began());
    std::thread::sleep(Duration::from_secs(2));
    for ((job, ppm), began) in sharing.iter().zip(began) {
        add(&job.number, job.devices(), *ppm, vec![(began, job.cancel())]);
    }
    // An allocation that nothing runs in, and then a step for a moment.
    let alone = slurm.allocate("alone", &["--gres=gpu:1", "--account=chemistry"]);
    let told = until("the agent is told", || slurm.told(&alone, |state| state == "RUNNING"));
    let alone_began = Change::of(seconds(&slurm.job(&alone), "StartTime"), told + WORD_MS);
    let of_alone = index(&slurm.job(&alone)["GRES"]);
    std::thread::sleep(Duration::from_secs(2));
    slurm.run("srun", &[&format!("--jobid={alone}"), "--mem=0", "sleep", "1"]);
    std::thread::sleep(Duration::from_secs(2));
    let other = another(&slurm);
    until("another agent knows", || other.look().works.contains_key(&alone).then_some(()));
    slurm.run("scancel", &[&alone]);
    ends_when_the_controller_says(&slurm, &other, &alone, &of_alone);
    let told = until("the agent is told", || slurm.told(&alone, |state| state != "RUNNING"));
    let alone_ended = Change::of(seconds(&slurm.job(&alone), "EndTime"), told + WORD_MS);
    add(&alone, of_alone, 1_000_000, vec![(alone_began, alone_ended)]);
    add(&two.number, of_two, 1_000_000, vec![(two_began, suspended), (resumed, two.cancel())]);

    // The last tick is after the last change.
    let last = all.iter().flat_map(|held| &held.spans).map(|span| span.1.latest).max().unwrap();
    since("time passes", || now_ms() > last);
    std::thread::sleep(Duration::from_secs(1));
    let ledger = metered.end();
    for Held { job, devices, spans, .. } in &all {
        let seconds = |change: &Change| (change.earliest, change.latest - change.earliest);
        println!(
            "job {job} on {devices:?}: {:?}",
            spans.iter().map(|(from, until)| (seconds(from), seconds(until))).collect::<Vec<_>>()
        );
    }
    let expected = account::account(&all, &ledger.ticks, ledger.offset_ms);
    compare(&ledger.rows, expected);
    for (job, account) in [(&two, "physics"), (&cancelled, "biology"), (&ending, "biology"), (&sharing[0].0, "biology")]
    {
        is_named(&ledger.rows, &job.number, account);
    }
    is_named(&ledger.rows, &alone, "chemistry");
}

/// One that the controller tells too, without writing down what it tells.
fn another(slurm: &Slurm) -> SlurmWatch {
    let folder = slurm.path("another");
    fs::create_dir(&folder).unwrap();
    for name in ["scontrol", "squeue"] {
        let conf = slurm.path("slurm.conf").display().to_string();
        fs::write(folder.join(name), format!("#!/bin/sh\nSLURM_CONF={conf} exec {name} \"$@\"\n")).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let options = SlurmOptions { poll: Duration::from_secs(1), ..watched(slurm) };
    SlurmWatch::start(SlurmOptions { scontrol: folder.join("scontrol"), ..options }).unwrap()
}

/// The end of an allocation that only the controller knows of is told to the second, whenever it is heard of.
fn ends_when_the_controller_says(slurm: &Slurm, watch: &SlurmWatch, job: &str, devices: &BTreeSet<u32>) {
    let ended = until("the end is told", || Some(watch.look().ended.clone()).filter(|ended| !ended.is_empty()));
    let told: BTreeSet<_> =
        ended.iter().map(|end| (end.owner.job.clone(), end.device.to_string(), end.at_ms)).collect();
    let at_ms = seconds(&slurm.job(job), "EndTime");
    let expected = devices.iter().map(|device| (job.to_owned(), format!("nvidia{device}"), at_ms));
    assert_eq!(told, expected.collect::<BTreeSet<_>>());
}

/// What the controller alone knows of a job, for the rules that say who pays.
fn has_its_labels(slurm: &Slurm, job: &str) {
    let watch = SlurmWatch::start(watched(slurm)).unwrap();
    let labels = until("labels", || {
        let labels = watch.look().works.get(job)?.labels.clone();
        labels.contains_key("slurm.comment").then_some(labels)
    });
    let told = ["slurm.account", "slurm.partition", "slurm.comment"].map(|name| labels[name].as_str());
    assert_eq!(told, ["physics", "long", "team=a b"], "the account is not what the job's name says");
}

fn watched(slurm: &Slurm) -> SlurmOptions {
    SlurmOptions {
        proc: "/proc".into(),
        cgroup: CGROUP.into(),
        passwd: "/etc/passwd".into(),
        host: slurm.node.clone(),
        scontrol: slurm.path("scontrol"),
        timeout: Duration::from_secs(20),
        poll: Duration::from_secs(3_600),
    }
}

/// Each row of the ledger against the least and the most that it may have.
fn compare(rows: &[Row], mut expected: BTreeMap<(i64, u32, String), (i64, i64)>) {
    let mut sums: BTreeMap<(i64, u32), i64> = BTreeMap::new();
    let mut held: BTreeMap<(i64, u32, String), i64> = BTreeMap::new();
    for row in rows {
        *sums.entry((row.minute, row.minor)).or_default() += row.share_ms;
        match row.of(names::OWNER_KIND) {
            "workload" => {
                *held.entry((row.minute, row.minor, row.of(names::JOB).to_owned())).or_default() += row.share_ms;
                assert_eq!(row.idle_ms, row.held_ms, "no device has work: {row:?}");
            }
            kind => assert_eq!(kind, "idle", "{row:?}"),
        }
    }
    let minutes: BTreeSet<i64> = rows.iter().map(|row| row.minute).collect();
    assert!(minutes.len() >= 2 && minutes.first() == Some(&START), "{minutes:?}");
    for minute in &minutes {
        for minor in 0..4 {
            assert_eq!(sums.get(&(*minute, minor)), Some(&MINUTE_MS), "device {minor} in {minute}");
        }
    }
    for (key, share_ms) in held {
        let (least, most) = expected.remove(&key).unwrap_or_else(|| panic!("{key:?} has {share_ms}, expected nothing"));
        println!(
            "minute {} device {} job {}: {share_ms} ms of {least} to {most}",
            (key.0 - START) / MINUTE_MS,
            key.1,
            key.2
        );
        assert!((least..=most).contains(&share_ms), "{key:?} has {share_ms}, expected {least} to {most}");
    }
    assert!(expected.values().all(|(least, _)| *least == 0), "the ledger lacks {expected:?}");
}

/// All rows of a job have one owner, of whom Slurm's word is known.
fn is_named(rows: &[Row], job: &str, account: &str) {
    let of_job: Vec<&Row> = rows.iter().filter(|row| row.of(names::JOB) == job).collect();
    let owners: BTreeSet<_> = of_job.iter().map(|row| &row.owner).collect();
    assert_eq!(owners.len(), 1, "job {job}: {owners:?}");
    let names = [names::USER, names::CLUSTER, names::DEPARTMENT, names::PROJECT];
    assert_eq!(names.map(|name| of_job[0].of(name)), ["root", "contador", account, "long"], "job {job}");
}
