//! Looks at Slurm's jobs once a second, on a thread of its own.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::gpus::NodeDevice;
use super::jobs::{Answer, Jobs, Question};
use super::scontrol::Scontrol;
use crate::config::{Config, Roots};
use crate::owners::claim::Snapshot;
use crate::run::clock::now_ms;

/// Where to look, and whom to ask.
#[derive(Clone, Debug)]
pub struct SlurmOptions {
    /// The kernel's proc file system.
    pub proc: PathBuf,
    /// Where control groups are mounted.
    pub cgroup: PathBuf,
    /// The file that maps user ids to names.
    pub passwd: PathBuf,
    /// The name of this node in Slurm, where Slurm itself does not tell it.
    pub host: String,
    /// `scontrol`: a file, or a name that `PATH` has.
    pub scontrol: PathBuf,
    /// How long it may take for one answer.
    pub timeout: Duration,
    /// Time between two looks.
    pub interval: Duration,
}

impl SlurmOptions {
    /// What this configuration says; a look a second.
    pub fn new(config: &Config) -> Self {
        let Roots { proc, cgroup, passwd, .. } = config.roots.clone();
        // Slurm knows a node by its short name, unless it is told another.
        let host = config.node.split('.').next().unwrap_or_default().to_owned();
        let (scontrol, timeout) = (config.slurm.scontrol.clone(), config.slurm.timeout);
        Self { proc, cgroup, passwd, host, scontrol, timeout, interval: Duration::from_secs(1) }
    }
}

/// What is shared with the threads.
#[derive(Debug, Default)]
struct Shared {
    snapshot: Mutex<Arc<Snapshot>>,
    devices: Mutex<Vec<NodeDevice>>,
}

/// The threads. They end when it is dropped; one that hangs in the kernel or in `scontrol` ends after that.
#[derive(Debug)]
pub struct SlurmWatch {
    shared: Arc<Shared>,
    events: Sender<Event>,
}

#[derive(Debug)]
enum Event {
    Answer(Answer),
    Stop,
}

impl SlurmWatch {
    /// Starts to look.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn start(options: SlurmOptions) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (events, received) = mpsc::channel();
        let (questions, asked) = mpsc::channel();
        let answers = events.clone();
        let mut scontrol = Scontrol::new(options.scontrol.clone(), options.timeout);
        Builder::new().name("slurm-ask".into()).spawn(move || ask(&mut scontrol, &asked, &answers))?;
        let seen = Arc::clone(&shared);
        Builder::new().name("slurm".into()).spawn(move || look(options, &seen, &questions, &received))?;
        Ok(Self { shared, events })
    }

    /// What was seen last; never waits for a look.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.snapshot.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says which devices the node has, from the next look on.
    pub fn set_devices(&self, devices: Vec<NodeDevice>) {
        *self.shared.devices.lock().unwrap_or_else(PoisonError::into_inner) = devices;
    }
}

impl Drop for SlurmWatch {
    fn drop(&mut self) {
        // A thread that has ended by itself needs no word.
        _ = self.events.send(Event::Stop);
    }
}

/// Looks once an interval, and again when the controller has answered.
fn look(options: SlurmOptions, shared: &Shared, questions: &Sender<Question>, events: &Receiver<Event>) {
    let SlurmOptions { proc, cgroup, passwd, host, interval, .. } = options;
    let (start, mut jobs) = (Instant::now(), Jobs::new(proc, cgroup, passwd, host));
    let passed_ms = || u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut next = Instant::now();
    loop {
        let devices = shared.devices.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let snapshot = Arc::new(jobs.look(now_ms(), &devices));
        *shared.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
        for question in jobs.questions(passed_ms()) {
            if questions.send(question).is_err() {
                return;
            }
        }
        if next <= Instant::now() {
            next = Instant::now() + interval;
        }
        match events.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Event::Answer(answer)) => {
                jobs.answer(answer, passed_ms());
                while let Ok(event) = events.try_recv() {
                    match event {
                        Event::Answer(answer) => jobs.answer(answer, passed_ms()),
                        Event::Stop => return,
                    }
                }
            }
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Asks one question after the other.
fn ask(scontrol: &mut Scontrol, questions: &Receiver<Question>, answers: &Sender<Event>) {
    while let Ok(question) = questions.recv() {
        let answer = match question {
            Question::Job(id, number) => Answer::Job(id, scontrol.job(&number).map(Box::new)),
            Question::Node(name) => Answer::Node(scontrol.node(&name)),
        };
        if answers.send(Event::Answer(answer)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn options(dir: &Path) -> SlurmOptions {
        SlurmOptions {
            proc: dir.join("proc"),
            cgroup: dir.join("cgroup"),
            passwd: dir.join("passwd"),
            host: "n1".into(),
            scontrol: dir.join("scontrol"),
            timeout: Duration::from_secs(20),
            interval: Duration::from_millis(20),
        }
    }

    fn until(watch: &SlurmWatch, is_fit: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let start = Instant::now();
        loop {
            let snapshot = watch.snapshot();
            if is_fit(&snapshot) {
                return snapshot;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "{snapshot:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn it_looks_and_asks_and_never_asks_without_slurm() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("scontrol");
        let text = format!(
            "#!/bin/sh\ntouch {}/asked\necho '{{\"jobs\":[{{\"job_id\":7,\"account\":\"physics\",\"job_state\":[\"RUNNING\"]}}]}}'\n",
            dir.path().display()
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let watch = SlurmWatch::start(options(dir.path())).unwrap();
        let first = until(&watch, |snapshot| snapshot.told_ms > 0);
        until(&watch, |snapshot| snapshot.told_ms > first.told_ms);
        assert!(!dir.path().join("asked").exists() && first.works.is_empty() && first.fault.is_none());

        let process = dir.path().join("proc/70");
        fs::create_dir_all(&process).unwrap();
        fs::write(process.join("stat"), "70 (python3) S 1").unwrap();
        fs::write(process.join("environ"), "SLURM_JOB_ID=7\0SLURM_JOB_GPUS=0").unwrap();
        let task = dir.path().join("cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/task_0");
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("cgroup.procs"), "70\n").unwrap();
        let told = until(&watch, |snapshot| {
            snapshot.works.get("7").is_some_and(|job| job.labels.contains_key("slurm.account"))
        });
        assert_eq!((told.works["7"].labels["slurm.account"].as_str(), told.claims.len()), ("physics", 1));
        assert_eq!(told.claims[0].device.to_string(), "nvidia0");
        let uuid = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";
        watch.set_devices(vec![NodeDevice { uuid: uuid.into(), minor: Some(0), pci: None }]);
        until(&watch, |snapshot| snapshot.claims.iter().any(|claim| claim.device.to_string() == uuid));
        // It ends with its last process.
        fs::write(task.join("cgroup.procs"), "").unwrap();
        until(&watch, |snapshot| snapshot.claims.is_empty() && snapshot.works.is_empty());
    }
}
