//! Looks at Slurm's jobs when it is asked to, and has the controller asked on a thread of its own.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::jobs::{Answer, Jobs, Question};
use super::scontrol::Scontrol;
use crate::config::{Config, Roots};
use crate::owners::NodeDevice;
use crate::owners::claim::{Scheduler, Snapshot};
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
    /// How often the controller is asked for allocations that have no process here.
    pub poll: Duration,
}

impl SlurmOptions {
    /// What this configuration says.
    pub fn new(config: &Config) -> Self {
        let Roots { proc, cgroup, passwd, .. } = config.roots.clone();
        // Slurm knows a node by its short name, unless it is told another.
        let host = config.node.split('.').next().unwrap_or_default().to_owned();
        let crate::config::Slurm { scontrol, timeout, poll } = config.slurm.clone();
        Self { proc, cgroup, passwd, host, scontrol, timeout, poll }
    }
}

/// The jobs, and a thread that asks of them. It ends when this is dropped; while `scontrol` hangs, after that.
#[derive(Debug)]
pub struct SlurmWatch {
    state: Mutex<State>,
    /// By itself: whoever says which there are does not wait for a look that hangs.
    devices: Mutex<Arc<[NodeDevice]>>,
    started: Instant,
}

#[derive(Debug)]
struct State {
    jobs: Jobs,
    questions: Sender<Question>,
    answers: Receiver<Answer>,
}

impl SlurmWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system refuses it.
    pub fn start(options: SlurmOptions) -> io::Result<Self> {
        let SlurmOptions { proc, cgroup, passwd, host, scontrol, timeout, poll } = options;
        let (questions, asked) = mpsc::channel();
        let (told, answers) = mpsc::channel();
        let mut scontrol = Scontrol::new(scontrol, timeout);
        Builder::new().name("slurm-ask".into()).spawn(move || ask(&mut scontrol, &asked, &told))?;
        let jobs = Jobs::new(proc, cgroup, passwd, host).polled_every(poll);
        let state = Mutex::new(State { jobs, questions, answers });
        Ok(Self { state, devices: Mutex::default(), started: Instant::now() })
    }

    /// Who holds what now. It reads control groups, and never waits for the controller: what that has answered since the last
    /// look counts, and what it is to be asked is on its way.
    pub fn look(&self) -> Arc<Snapshot> {
        let passed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { jobs, questions, answers } = &mut *state;
        let devices = Arc::clone(&self.devices.lock().unwrap_or_else(PoisonError::into_inner));
        answers.try_iter().for_each(|answer| jobs.answer(answer, passed_ms));
        let mut snapshot = jobs.look(now_ms(), &devices);
        for question in jobs.questions(passed_ms) {
            // Without the thread nothing is answered.
            _ = questions.send(question);
        }
        snapshot.waiting = jobs.is_waiting();
        snapshot.scheduler = Scheduler::Slurm;
        Arc::new(snapshot)
    }

    /// Says which devices the node has, from the next look on. It does not wait.
    pub fn set_devices(&self, devices: Arc<[NodeDevice]>) {
        *self.devices.lock().unwrap_or_else(PoisonError::into_inner) = devices;
    }
}

/// Asks one question after the other.
fn ask(scontrol: &mut Scontrol, questions: &Receiver<Question>, answers: &Sender<Answer>) {
    while let Ok(question) = questions.recv() {
        let answer = match question {
            Question::Job(id, number) => Answer::Job(id, scontrol.job(&number).map(Box::new)),
            Question::Node(name) => Answer::Node(scontrol.node(&name)),
            Question::Running(node) => Answer::Running(scontrol.running(&node)),
        };
        if answers.send(answer).is_err() {
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
    use crate::owners::slurm::fixture;

    fn options(dir: &Path) -> SlurmOptions {
        SlurmOptions {
            proc: dir.join("proc"),
            cgroup: dir.join("cgroup"),
            passwd: dir.join("passwd"),
            host: "n1".into(),
            scontrol: dir.join("scontrol"),
            timeout: Duration::from_secs(20),
            poll: Duration::from_secs(3_600),
        }
    }

    fn until(watch: &SlurmWatch, is_fit: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let start = Instant::now();
        loop {
            let snapshot = watch.look();
            if is_fit(&snapshot) {
                return snapshot;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "{snapshot:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn it_looks_at_once_and_asks_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("scontrol");
        let text =
            "#!/bin/sh\necho '{\"jobs\":[{\"job_id\":7,\"account\":\"physics\",\"job_state\":[\"RUNNING\"]}]}'\n";
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let watch = SlurmWatch::start(options(dir.path())).unwrap();
        let first = watch.look();
        assert!(first.told_ms > 0 && first.works.is_empty() && first.fault.is_none() && first.waiting);

        let task = fixture::job_on_first_device(dir.path());
        let device =
            |watch: &SlurmWatch| watch.look().claims.iter().map(|claim| claim.device.to_string()).collect::<Vec<_>>();
        assert_eq!(device(&watch), ["nvidia0"]);
        let uuid = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";
        watch.set_devices([NodeDevice { uuid: uuid.into(), minor: Some(0), ..NodeDevice::default() }].into());
        assert_eq!(device(&watch), [uuid]);
        let told = until(&watch, |snapshot| snapshot.works["7"].labels.contains_key("slurm.account"));
        assert_eq!(told.works["7"].labels["slurm.account"], "physics");
        // It ends with its last process, unless the controller knows of more, and this one does not.
        fs::write(task.join("cgroup.procs"), "").unwrap();
        until(&watch, |snapshot| snapshot.claims.is_empty() && snapshot.works.is_empty());
    }
    /// The kernel may keep whoever reads a process's environment waiting for as long as that process hangs. Those who sample
    /// GPUs say which ones there are, and go on.
    #[test]
    fn a_look_that_hangs_holds_up_nobody_who_says_which_devices_there_are() {
        let dir = tempfile::tempdir().unwrap();
        let process = dir.path().join("proc/70");
        fs::create_dir_all(&process).unwrap();
        fs::write(process.join("stat"), "70 (python3) S 1").unwrap();
        let environ = process.join("environ");
        assert!(std::process::Command::new("mkfifo").arg(&environ).status().unwrap().success());
        let task = dir.path().join("cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/task_0");
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("cgroup.procs"), "70\n").unwrap();
        let watch = Arc::new(SlurmWatch::start(options(dir.path())).unwrap());
        let looking = std::thread::spawn({
            let watch = Arc::clone(&watch);
            move || watch.look()
        });
        let start = Instant::now();
        while watch.state.try_lock().is_ok() {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
        let (done, said) = mpsc::channel();
        std::thread::spawn({
            let watch = Arc::clone(&watch);
            move || {
                watch.set_devices([NodeDevice::default()].into());
                done.send(())
            }
        });
        assert_eq!(said.recv_timeout(Duration::from_secs(30)), Ok(()));
        // A writer that says nothing ends the look.
        drop(fs::OpenOptions::new().write(true).open(&environ).unwrap());
        looking.join().unwrap();
    }
    /// Whoever looks once only must know until when: what the controller alone knows takes three questions, one after the other.
    #[test]
    fn it_says_as_long_as_it_waits_for_the_controller() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [
            (
                "scontrol",
                "case \"$*\" in *node*) echo 'NodeName=n1 Gres=gpu:4 GresUsed=gpu:1 X=';; \
                 *) echo '{\"jobs\":[{\"job_id\":5,\"job_state\":[\"RUNNING\"],\"batch_flag\":false,\"nodes\":\"n1\",\
                 \"cluster\":\"c\",\"gres_detail\":[\"gpu:1(IDX:2)\"]}]}';; esac",
            ),
            ("squeue", "echo 5"),
        ] {
            let path = dir.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let watch = SlurmWatch::start(options(dir.path())).unwrap();
        let told = until(&watch, |snapshot| !snapshot.waiting);
        let held: Vec<_> =
            told.claims.iter().map(|claim| (&*claim.holder.owner.job, claim.device.to_string())).collect();
        assert_eq!(held, [("5", "nvidia2".to_owned())]);
        // One that does not answer is not waited for again and again.
        fs::remove_file(dir.path().join("scontrol")).unwrap();
        let watch = SlurmWatch::start(options(dir.path())).unwrap();
        assert!(watch.look().waiting);
        until(&watch, |snapshot| !snapshot.waiting);
    }
}
