use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::owners::slurm::told;

mod controller;

/// A node with one job after the other.
struct Machine {
    dir: tempfile::TempDir,
    jobs: Jobs,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("passwd"), "ana:x:1000:0::/:/bin/sh\n").unwrap();
        let jobs = Jobs::new(at("proc"), at("cgroup"), at("passwd"), "host".into());
        Self { dir, jobs }
    }

    fn step(&self, job: u32) -> PathBuf {
        self.dir.path().join(format!("cgroup/freezer/slurm_n1/uid_1000/job_{job}/step_batch"))
    }

    /// A job with these processes, of which the first is its task.
    fn job(&self, job: u32, pids: &[u32], environ: &str) {
        fs::create_dir_all(self.step(job)).unwrap();
        let listed: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        fs::write(self.step(job).join("cgroup.procs"), listed).unwrap();
        for pid in pids {
            let parent = if *pid == pids[0] { 1 } else { pids[0] };
            self.process(*pid, parent, 'S', environ);
        }
    }

    fn process(&self, pid: u32, parent: u32, state: char, environ: &str) {
        let dir = self.dir.path().join(format!("proc/{pid}"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("stat"), format!("{pid} (a) b) {state} {parent} 1 1")).unwrap();
        fs::write(dir.join("environ"), environ.replace(' ', "\0")).unwrap();
    }

    /// What is asked of jobs.
    fn questions(&mut self, now_ms: u64) -> Vec<Question> {
        let is_of_job = |question: &Question| matches!(question, Question::Job(..));
        self.jobs.questions(now_ms).into_iter().filter(is_of_job).collect()
    }

    /// Takes what the controller says of a job.
    fn told(&mut self, job: &str, told: Told, now_ms: u64) {
        self.jobs.answer(Answer::Job(job.into(), Ok(Box::new(told))), now_ms);
    }

    /// Takes what is used of the node's four devices.
    fn used(&mut self, used: &str, now_ms: u64) {
        let text = format!("NodeName=n1 Gres=gpu:4,shard:32 GresUsed={used} X=");
        self.jobs.answer(Answer::Node(told::node_from_text(&text, "n1")), now_ms);
    }

    fn held(&mut self) -> Vec<(String, String, Part)> {
        let claims = self.jobs.look(1, &[]).claims;
        claims.iter().map(|claim| (claim.holder.owner.job.clone(), claim.device.to_string(), claim.part)).collect()
    }
}

fn even(job: &str, device: &str) -> (String, String, Part) {
    (job.into(), device.into(), Part::Even)
}

fn state(state: &str) -> Told {
    Told { state: state.into(), ..Told::default() }
}

/// A job of ana's that has these devices of the node, and no batch script.
fn allocated(job_state: &str, got: &str) -> Told {
    Told { user: "ana".into(), nodes: vec![(Some("n1".into()), gres::parse(got))], ..state(job_state) }
}

#[test]
fn jobs_hold_from_their_first_process_to_their_last() {
    let mut machine = Machine::new();
    assert_eq!(machine.held(), []);
    machine.job(
        1,
        &[10, 11],
        "SLURM_JOB_ID=1 SLURM_JOB_GPUS=0,1 SLURM_CLUSTER_NAME=c SLURM_JOB_ACCOUNT=a SLURMD_NODENAME=n1",
    );
    machine.job(2, &[20], "SLURM_JOB_ID=2 SLURM_STEP_GPUS=2");
    assert_eq!(machine.held(), [even("1", "nvidia0"), even("1", "nvidia1"), even("2", "nvidia2")]);
    let snapshot = machine.jobs.look(7, &[]);
    let owner = Owner { job: "1".into(), user: "ana".into(), cluster: "c".into(), ..Owner::default() };
    assert_eq!((snapshot.told_ms, &snapshot.works["1"].owner), (7, &owner));
    assert_eq!(snapshot.works["1"].labels, BTreeMap::from([("slurm.account".to_owned(), "a".to_owned())]));
    machine.job(1, &[], "");
    assert_eq!(machine.held(), [even("2", "nvidia2")]);
    // The same number anew is another job.
    machine.job(1, &[12], "SLURM_JOB_ID=1 SLURM_JOB_GPUS=3");
    assert_eq!(machine.held(), [even("1", "nvidia3"), even("2", "nvidia2")]);
}

#[test]
fn the_name_of_a_jobs_user_may_come_late() {
    let mut machine = Machine::new();
    let (answer, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    machine.jobs.users = Users::beside(machine.dir.path().join("none"), move |uid| {
        held.lock().unwrap().recv().unwrap();
        Ok(Some(format!("user{uid}")))
    });
    machine.job(1, &[10], "SLURM_JOB_ID=1 SLURM_JOB_GPUS=0");
    machine.job(2, &[20], "SLURM_JOB_ID=2 SLURM_JOB_GPUS=1 SLURM_JOB_USER=eva");
    let users = |machine: &mut Machine| {
        let works = machine.jobs.look(1, &[]).works;
        ["1", "2"].map(|job| works[job].owner.user.clone())
    };
    assert_eq!(users(&mut machine), ["1000", "eva"]);
    answer.send(()).unwrap();
    let start = std::time::Instant::now();
    while users(&mut machine) != ["user1000", "eva"] {
        assert!(start.elapsed().as_secs() < 60);
        std::thread::yield_now();
    }
}

#[test]
fn a_task_that_was_only_just_made_is_asked_again() {
    let mut machine = Machine::new();
    // It is still its manager's copy.
    machine.job(1, &[10], "PATH=/bin");
    assert_eq!((machine.held(), machine.jobs.look(1, &[]).works.len()), (vec![], 0));
    machine.job(1, &[10], "SLURM_JOB_ID=1 SLURM_JOB_GPUS=0");
    assert_eq!(machine.held(), [even("1", "nvidia0")]);
    // One that never tells is known by its group and its user, and what the controller says it holds.
    machine.job(2, &[20], "");
    for _ in 0..MAX_TRIES {
        machine.held();
    }
    let owner = Owner { job: "2".into(), user: "ana".into(), ..Owner::default() };
    assert_eq!(machine.jobs.look(1, &[]).works["2"].owner, owner);
    let nodes = vec![(Some("n1".into()), gres::parse("gpu:1(IDX:3)"))];
    machine.jobs.answer(Answer::Job("2".into(), Ok(Box::new(Told { nodes, ..state("RUNNING") }))), 0);
    assert_eq!(machine.held(), [even("1", "nvidia0"), even("2", "nvidia3")]);
}

#[test]
fn a_suspended_job_holds_nothing() {
    let mut machine = Machine::new();
    machine.job(1, &[10, 11], "SLURM_JOB_ID=1 SLURM_JOB_GPUS=0");
    let holds = [even("1", "nvidia0")];
    assert_eq!(machine.held(), holds);
    // Frozen by the kernel.
    fs::write(machine.step(1).join("freezer.state"), "FROZEN\n").unwrap();
    assert_eq!(machine.held(), []);
    assert!(super::super::is_suspended(&machine.jobs.look(1, &[]).works["1"]), "its processes are still known");
    fs::write(machine.step(1).join("freezer.state"), "THAWED\n").unwrap();
    assert_eq!(machine.held(), holds);
    // Its task is stopped: that is a question, and no answer.
    assert_eq!(machine.questions(0), [Question::Job("1".into(), "1".into())]);
    machine.jobs.answer(Answer::Job("1".into(), Ok(Box::new(state("RUNNING")))), 0);
    machine.process(10, 1, 'T', "");
    assert_eq!(machine.held(), holds);
    assert_eq!(machine.questions(CHANGED_MS - 1), []);
    assert_eq!(machine.questions(CHANGED_MS).len(), 1);
    machine.jobs.answer(Answer::Job("1".into(), Ok(Box::new(state("RUNNING")))), CHANGED_MS);
    assert_eq!(machine.held(), holds, "it stopped itself");
    assert_eq!(machine.questions(CHANGED_MS + FAILED_MS - 1), []);
    assert_eq!(machine.questions(CHANGED_MS + FAILED_MS).len(), 1);
    machine.jobs.answer(Answer::Job("1".into(), Ok(Box::new(state(SUSPENDED)))), CHANGED_MS + FAILED_MS);
    assert_eq!(machine.held(), []);
    // It goes on, whatever was told before.
    machine.process(10, 1, 'R', "");
    assert_eq!(machine.held(), holds);
    assert_eq!(machine.jobs.look(1, &[]).works["1"].labels[STATE], "RUNNING");
}

#[test]
fn answers_are_kept_and_so_is_that_there_was_none() {
    let mut machine = Machine::new();
    machine.job(1, &[10], "SLURM_JOB_ID=1 SLURM_JOB_GPUS=0");
    machine.held();
    let question = [Question::Job("1".into(), "1".into())];
    assert_eq!(machine.questions(5), question);
    assert_eq!(machine.questions(AGAIN_MS * 9), [], "it is asked already");
    machine.jobs.answer(Answer::Job("1".into(), Err("down".into())), 10);
    assert_eq!((machine.questions(9 + FAILED_MS), machine.questions(10 + FAILED_MS)), (vec![], question.to_vec()));
    let told = Told { account: "physics".into(), comment: "team=a".into(), ..state("RUNNING") };
    machine.jobs.answer(Answer::Job("1".into(), Ok(Box::new(told))), 20);
    assert_eq!((machine.questions(19 + AGAIN_MS), machine.questions(20 + AGAIN_MS)), (vec![], question.to_vec()));
    machine.jobs.answer(Answer::Job("1".into(), Err("down".into())), 30);
    let labels = machine.jobs.look(1, &[]).works["1"].labels.clone();
    assert_eq!((labels["slurm.account"].as_str(), labels["slurm.comment"].as_str()), ("physics", "team=a"));
    assert_eq!(machine.held(), [even("1", "nvidia0")], "what it holds needs no controller");
    // Not more at once than one can answer, and none of a job that is gone.
    (100..200).for_each(|job| machine.job(job, &[job * 10], &format!("SLURM_JOB_ID={job}")));
    machine.held();
    assert_eq!(machine.questions(40).len(), MAX_PENDING);
    machine.jobs.answer(Answer::Job("9".into(), Ok(Box::default())), 50);
}

#[test]
fn shards_are_parts_of_a_device() {
    let mut machine = Machine::new();
    machine.job(1, &[10], "SLURM_JOB_ID=1 SLURM_JOB_GPUS=0 SLURM_SHARDS_ON_NODE=3");
    assert_eq!(machine.held(), [even("1", "nvidia0")], "how large a shard is is not known yet");
    let questions = [Question::Node("n1".into()), Question::Job("1".into(), "1".into())];
    assert_eq!(machine.jobs.questions(0), questions);
    let node = told::node_from_text("NodeName=n1 Gres=gpu:4,shard:32,mps:400 X=", "n1");
    machine.jobs.answer(Answer::Node(node), 0);
    // 3 of the 8 that each device has.
    assert_eq!(machine.held(), [("1".into(), "nvidia0".into(), Part::Ppm(375_000))]);
    let mut got = |text: &str| {
        let nodes = vec![(Some("n1".to_owned()), gres::parse(text))];
        machine.jobs.answer(Answer::Job("1".into(), Ok(Box::new(Told { nodes, ..state("RUNNING") }))), 0);
        machine.held()[0].2
    };
    assert_eq!(got("mps:50(IDX:0)"), Part::Ppm(500_000));
    assert_eq!(got("shard:8(IDX:0)"), Part::Ppm(1_000_000));
    assert_eq!(got("gpu:1(IDX:0)"), Part::Even);
    assert_eq!(got("gpu:1(IDX:0),shard:1(IDX:1)"), Part::Even);
}

#[test]
fn what_can_not_be_listed_is_what_it_was_for_five_minutes() {
    let mut machine = Machine::new();
    machine.job(1, &[10], "SLURM_JOB_ID=1 SLURM_JOB_GPUS=0");
    machine.held();
    let cgroup = machine.jobs.cgroup.clone();
    let away = Path::new(&"x".repeat(300)).to_owned();
    machine.jobs.cgroup.clone_from(&away);
    let mut look = |told_ms: i64| {
        let told = machine.jobs.look(told_ms, &[]);
        assert!(told.fault.as_ref().is_some_and(|fault| fault.starts_with("cannot list xxx")));
        assert_eq!((told.told_ms, told.works.len()), (1, 1), "whose its processes are is known");
        (told.claims.len(), told.expired)
    };
    for second in 1..300 {
        assert_eq!(look(1 + second * 1_000), (1, false), "after {second} s");
    }
    assert_eq!([look(300_001), look(301_001)], [(0, true); 2]);
    // It is back, and away again, while the clock is set.
    machine.jobs.cgroup = cgroup;
    let back = machine.jobs.look(302_001, &[]);
    assert_eq!((back.told_ms, back.claims.len(), back.fault, back.expired), (302_001, 1, None, false));
    machine.jobs.cgroup = away;
    for told_ms in [303_001, 90_000_000, 5, 1_005] {
        let told = machine.jobs.look(told_ms, &[]);
        assert_eq!((told.claims.len(), told.expired), (1, false), "at {told_ms}");
    }
}

#[test]
fn an_allocation_without_a_process_is_asked_for() {
    let mut machine = Machine::new();
    machine.job(1, &[10], "SLURM_JOB_ID=1 SLURM_JOB_GPUS=0 SLURMD_NODENAME=n1");
    machine.held();
    let node = Question::Node("n1".into());
    assert_eq!(machine.jobs.questions(0), [node.clone(), Question::Job("1".into(), "1".into())]);
    machine.told("1", allocated("RUNNING", "gpu:1(IDX:0)"), 0);
    machine.used("gpu:1,shard:0", 0);
    assert_eq!(machine.jobs.questions(POLL_MS - 1), [], "what is used is known");
    assert_eq!(machine.jobs.questions(POLL_MS), [node]);
    machine.used("gpu:3,shard:(null):0(IDX:N/A)", POLL_MS);
    assert_eq!(machine.jobs.questions(POLL_MS), [Question::Running("n1".into())]);
    machine.jobs.answer(Answer::Running(Ok(vec!["1".into(), "5".into()])), POLL_MS);
    assert_eq!(machine.held(), [even("1", "nvidia0")], "what it holds is not told yet");
    assert_eq!(machine.jobs.questions(POLL_MS), [Question::Job("5".into(), "5".into())]);
    machine.told(
        "5",
        Told { account: "a".into(), cluster: "c".into(), ..allocated("RUNNING", "gpu:2(IDX:2-3)") },
        POLL_MS,
    );
    let both = [even("1", "nvidia0"), even("5", "nvidia2"), even("5", "nvidia3")];
    assert_eq!(machine.held(), both);
    let owner = Owner { job: "5".into(), user: "ana".into(), cluster: "c".into(), ..Owner::default() };
    let named = machine.jobs.look(1, &[]).works["5"].clone();
    assert_eq!((named.owner, named.labels["slurm.account"].as_str()), (owner, "a"));
    // Whether it still is is asked after 1 s, 2 s and so on, up to the time between polls.
    let (mut now_ms, mut waits) = (POLL_MS, Vec::new());
    for _ in 0..7 {
        let asked_ms = now_ms;
        while machine.questions(now_ms).is_empty() {
            now_ms += 1_000;
        }
        waits.push((now_ms - asked_ms) / 1_000);
        machine.told("5", allocated("RUNNING", "gpu:2(IDX:2-3)"), now_ms);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
    machine.used("gpu:3", now_ms);
    assert!(!machine.jobs.questions(now_ms).contains(&Question::Running("n1".into())), "it is known by now");
    machine.told("5", allocated(SUSPENDED, "gpu:2(IDX:2-3)"), now_ms);
    assert_eq!(machine.held(), both[..1]);
    machine.told("5", allocated("RUNNING", "gpu:2(IDX:2-3)"), now_ms);
    assert_eq!(machine.held(), both);
    machine.told("5", allocated("COMPLETING", "gpu:2(IDX:2-3)"), now_ms);
    assert_eq!((machine.held(), machine.jobs.look(1, &[]).works.len()), (both[..1].to_vec(), 1));
}

#[test]
fn the_end_of_what_only_the_controller_knows_is_when_it_says() {
    let mut machine = Machine::new();
    machine.jobs.host = "n1".into();
    machine.jobs.answer(Answer::Running(Ok(vec!["5".into()])), 0);
    let mut at = |now_ms: i64, told: Told| {
        machine.told("5", told, 0);
        let snapshot = machine.jobs.look(now_ms, &[]);
        let owners: Vec<_> = snapshot.ended.iter().map(|end| end.owner.job.clone()).collect();
        assert!(owners.iter().all(|job| job == "5"));
        let ends = snapshot.ended.iter().map(|end| (end.device.to_string(), end.at_ms)).collect::<Vec<_>>();
        (snapshot.claims.len(), ends)
    };
    // As long as it runs, its end is that of its time limit.
    let running = |end_ms| Told { end_ms: Some(end_ms), ..allocated("RUNNING", "gpu:2(IDX:2-3)") };
    let suspended = |second: i64| {
        let suspend_ms = Some(second * 1_000);
        Told { suspend_ms, end_ms: Some(9_000), ..allocated(SUSPENDED, "gpu:2(IDX:2-3)") }
    };
    let ended = |second: i64| Told { state: "TIMEOUT".into(), end_ms: Some(second * 1_000), ..suspended(19) };
    let both = |second: i64| ["nvidia2", "nvidia3"].map(|device| (device.to_owned(), second * 1_000)).to_vec();
    assert_eq!(at(10_000, running(9_000)), (2, vec![]));
    assert_eq!(at(20_000, suspended(19)), (0, both(19)));
    assert_eq!(at(109_999, suspended(19)), (0, both(19)), "it is told for a while");
    // It goes on: that is no end any more, and neither is it one of the time that it holds from then on.
    assert_eq!(at(110_000, running(9_000)), (2, vec![]));
    assert_eq!(at(111_000, suspended(19)), (0, vec![]));
    assert_eq!(at(112_000, running(9_000)), (2, vec![]));
    assert_eq!(at(115_000, ended(114)), (0, both(114)));
    let later = |machine: &mut Machine, now_ms: i64| machine.jobs.look(now_ms, &[]).ended.len();
    assert_eq!((later(&mut machine, 204_999), later(&mut machine, 205_000)), (2, 0));
    // Also of a job whose user has no name yet.
    let (_answer, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    machine.jobs.users = Users::beside(machine.dir.path().join("none"), move |_| {
        _ = held.lock().unwrap().recv();
        Ok(None)
    });
    machine.job(8, &[80], "SLURM_JOB_ID=8 SLURM_STEP_GPUS=1 SLURMD_NODENAME=n1");
    assert_eq!(machine.jobs.look(206_000, &[]).works["8"].owner.user, "1000");
    assert!(machine.jobs.known["8"].owner.is_none(), "he is still asked for");
    let ended = Told { user: String::new(), state: "TIMEOUT".into(), end_ms: Some(207_000), ..Told::default() };
    machine.told("8", ended, 0);
    machine.job(8, &[], "");
    let ends = machine.jobs.look(208_000, &[]).ended;
    let found: Vec<_> = ends.iter().map(|end| (&*end.owner.job, end.device.to_string(), end.at_ms)).collect();
    assert_eq!(found, [("8", "nvidia1".to_owned(), 207_000)]);
    // The kernel shows the end of a job with a script.
    machine.job(6, &[60], "SLURM_JOB_ID=6 SLURM_JOB_GPUS=1 SLURMD_NODENAME=n1");
    machine.held();
    machine.told("6", Told { batch_host: "n1".into(), end_ms: Some(7_000), ..allocated("RUNNING", "gpu:1(IDX:1)") }, 0);
    machine.job(6, &[], "");
    let snapshot = machine.jobs.look(299_000, &[]);
    assert_eq!((snapshot.claims.len(), snapshot.ended), (0, vec![]));
}

#[test]
fn a_job_without_a_script_holds_between_its_steps() {
    let mut machine = Machine::new();
    for (job, batch_host) in [(1, ""), (2, "n1"), (3, "n9")] {
        machine.job(job, &[job * 10], &format!("SLURM_JOB_ID={job} SLURM_STEP_GPUS={job} SLURMD_NODENAME=n1"));
        machine.held();
        assert_eq!(machine.questions(0).len(), 1);
        let got = format!("gpu:1(IDX:{job})");
        machine.told(&job.to_string(), Told { batch_host: batch_host.into(), ..allocated("RUNNING", &got) }, 0);
    }
    assert_eq!(machine.held(), [even("1", "nvidia1"), even("2", "nvidia2"), even("3", "nvidia3")]);
    // The script of the second one has ended; that of the third one runs elsewhere.
    [1, 2, 3].iter().for_each(|job| machine.job(*job, &[], ""));
    assert_eq!(machine.held(), [even("1", "nvidia1"), even("3", "nvidia3")]);
    assert_eq!(machine.questions(10), [1, 3].map(|job| Question::Job(job.to_string(), job.to_string())));
    machine.told("1", allocated("COMPLETED", "gpu:1(IDX:1)"), 20);
    assert_eq!(machine.held(), [even("3", "nvidia3")]);
    // Another step of the same job is the same owner.
    let owner = machine.jobs.look(1, &[]).works["3"].owner.clone();
    machine.job(3, &[31], "SLURM_JOB_ID=3 SLURM_STEP_GPUS=3 SLURM_CLUSTER_NAME=c SLURMD_NODENAME=n1");
    assert_eq!((machine.held(), &machine.jobs.look(1, &[]).works["3"].owner), (vec![even("3", "nvidia3")], &owner));
    // Without a word of the controller's it does not hold for ever.
    machine.job(3, &[], "");
    machine.jobs.answer(Answer::Job("3".into(), Err("down".into())), AGAIN_MS - 1);
    assert_eq!(machine.held(), [even("3", "nvidia3")]);
    machine.jobs.answer(Answer::Job("3".into(), Err("down".into())), AGAIN_MS);
    assert_eq!(machine.held(), []);
}

/// `srun` hands the environment of the batch script on to the tasks on all nodes.
#[test]
fn the_devices_of_the_script_are_not_those_of_another_node() {
    let mut machine = Machine::new();
    // Slurm puts the step's own beside what the script had on its node.
    machine.job(1, &[10], "SLURM_JOB_ID=1 SLURM_JOB_GPUS=0,1 SLURM_STEP_GPUS=2,3 SLURMD_NODENAME=n1");
    assert_eq!(machine.held(), [even("1", "nvidia2"), even("1", "nvidia3")]);
    // Where the numbers alone don't show it, the controller does.
    machine.job(2, &[20], "SLURM_JOB_ID=2 SLURM_JOB_GPUS=0,1 SLURM_STEP_GPUS=1 SLURMD_NODENAME=n1");
    machine.held();
    let told = |script: &str| Told { batch_host: script.into(), ..allocated("RUNNING", "gpu:2(IDX:1,3)") };
    machine.told("2", told("n9"), 0);
    assert_eq!(machine.held()[2..], [even("2", "nvidia1"), even("2", "nvidia3")]);
    // On the script's node they are device files, and the controller counts places.
    machine.told("2", told("n1"), 0);
    assert_eq!(machine.held()[2..], [even("2", "nvidia0"), even("2", "nvidia1")]);
}

/// A job that is gone may still be asked of: all that wait are no more than may.
#[test]
fn jobs_that_come_and_go_are_not_asked_of_without_end() {
    let mut machine = Machine::new();
    let mut asked = 0;
    for job in 1..100 {
        machine.job(job, &[job * 10], &format!("SLURM_JOB_ID={job}"));
        machine.held();
        asked += machine.questions(0).len();
        fs::remove_dir_all(machine.step(job)).unwrap();
    }
    assert_eq!(asked, MAX_PENDING);
    machine.job(100, &[1_000], "SLURM_JOB_ID=100");
    machine.held();
    assert_eq!(machine.questions(0), []);
    machine.told("1", Told::default(), 0);
    assert_eq!(machine.questions(0), [Question::Job("100".into(), "100".into())]);
}

#[test]
fn of_a_node_that_is_not_told_nobody_is_asked() {
    let mut machine = Machine::new();
    machine.held();
    assert_eq!(machine.jobs.questions(0), [Question::Node("host".into())]);
    machine.jobs.answer(Answer::Node(Err("down".into())), 0);
    assert_eq!(machine.jobs.questions(FAILED_MS - 1), []);
    assert_eq!(machine.jobs.questions(FAILED_MS), [Question::Node("host".into())]);
    // Which devices shares explain is not told, so that it is asked who has them.
    machine.used("gpu:0,shard:(null):1(IDX:2)", FAILED_MS);
    assert_eq!(machine.jobs.questions(FAILED_MS), [Question::Running("host".into())]);
    machine.jobs.answer(Answer::Running(Err("down".into())), FAILED_MS);
    assert_eq!((machine.held(), machine.jobs.questions(FAILED_MS)), (vec![], vec![]));
}

proptest! {
    #[test]
    fn a_share_is_never_more_than_the_device(count in any::<u64>(), total in any::<u64>(), gpus in 0_u64..20, devices in 0_usize..20) {
        let job = Job::default();
        let one = |name: &str, count| Gres { name: name.into(), count, index: vec![] };
        match job.part(&[one("shard", count)], &[one("shard", total), one("gpu", gpus)], devices) {
            Part::Even => prop_assert!(count == 0 || total == 0 || gpus == 0 || devices == 0),
            Part::Ppm(ppm) => prop_assert!((1..=1_000_000).contains(&ppm)),
        }
    }
}
