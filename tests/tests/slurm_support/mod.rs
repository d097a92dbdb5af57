//! A real Slurm of one node with four GPUs, for one test: its own key, ports, files and control groups; all of it ends with
//! the test.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub mod account;
pub mod metered;

/// How long a daemon may take to be ready, and to end.
const DEADLINE: Duration = Duration::from_secs(60);

/// Where control groups are mounted.
pub const CGROUP: &str = "/sys/fs/cgroup";

/// Shards of the node, of which a quarter is each GPU's.
pub const SHARDS: u32 = 32;

pub struct Slurm {
    dir: TempDir,
    /// The node's name.
    pub node: String,
    daemons: Vec<Child>,
    devices: Vec<PathBuf>,
}

impl Slurm {
    /// Starts it; `None`, with the reason on the screen, where this machine can't run it.
    pub fn start() -> Option<Self> {
        if let Some(reason) = obstacle() {
            println!("\nLEFT OUT: no real Slurm here: {reason}. Its jobs are tested on recorded files only.\n");
            return None;
        }
        let node = format!("contador{}", std::process::id());
        let mut slurm = Self { dir: tempfile::tempdir().unwrap(), node, daemons: Vec::new(), devices: Vec::new() };
        for minor in 0..4 {
            let path = PathBuf::from(format!("/dev/nvidia{minor}"));
            if !path.exists() {
                let numbers = ["c".to_owned(), "195".to_owned(), minor.to_string()];
                if !Command::new("mknod").arg(&path).args(numbers).status().unwrap().success() {
                    println!("\nLEFT OUT: no real Slurm here: {} can't be made\n", path.display());
                    return None;
                }
                slurm.devices.push(path);
            }
        }
        slurm.configure();
        let key = format!("--keyfile={}", slurm.path("munge.key").display());
        assert!(Command::new("mungekey").args(["--create", &key]).status().unwrap().success());
        let at = |option: &str, name: &str| format!("--{option}={}", slurm.path(name).display());
        let munge = [
            at("socket", "munge.sock"),
            at("key-file", "munge.key"),
            at("pid-file", "munge.pid"),
            at("log-file", "munge.log"),
            at("seed-file", "munge.seed"),
        ];
        let munge: Vec<&str> =
            ["--force", "--foreground"].into_iter().chain(munge.iter().map(String::as_str)).collect();
        slurm.daemon("munged", &munge);
        let socket = slurm.path("munge.sock");
        slurm.wait("munged", || socket.exists());
        let conf = slurm.path("slurm.conf");
        let conf = conf.to_str().unwrap();
        slurm.daemon("slurmctld", &["-D", "-f", conf]);
        let node = slurm.node.clone();
        slurm.daemon("slurmd", &["-D", "-N", &node, "-f", conf]);
        slurm.wait("the node", || slurm.run("sinfo", &["-h", "-o", "%T"]).trim() == "idle");
        Some(slurm)
    }

    fn configure(&self) {
        fs::set_permissions(self.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // Both are free now, and are bound in a moment.
        let [control, node] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [control, node] = [control, node].map(|listener| listener.local_addr().unwrap().port());
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let dir = self.dir.path().display();
        let name = &self.node;
        self.write(
            "slurm.conf",
            &format!(
                "ClusterName=contador\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={control}\nSlurmdPort={node}\n\
                 SlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nAuthInfo=socket={dir}/munge.sock\n\
                 StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool\nSlurmctldPidFile={dir}/ctld.pid\n\
                 SlurmdPidFile={dir}/d.pid\nProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\n\
                 SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nGresTypes=gpu,shard\n\
                 AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
                 ReturnToService=2\nMailProg=/bin/true\nMpiDefault=none\nSlurmdParameters=config_overrides\n\
                 NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 CPUs=8 Gres=gpu:4,shard:{SHARDS}\n\
                 PartitionName=long Nodes={name} Default=YES OverSubscribe=YES:4\n"
            ),
        );
        self.write("cgroup.conf", &format!("CgroupPlugin=cgroup/v1\nCgroupMountpoint={CGROUP}\nConstrainDevices=no\n"));
        self.write("gres.conf", &format!("Name=gpu File=/dev/nvidia[0-3]\nName=shard Count={SHARDS}\n"));
        // What the agent asks: it has this configuration, and not the machine's, and what it says is written down.
        for name in ["scontrol", "squeue"] {
            let script = format!(
                "#!/bin/sh\nsaid=$(mktemp {dir}/said.XXXXXX)\nSLURM_CONF={dir}/slurm.conf {name} \"$@\" >$said\ncode=$?\n\
                 cat $said\nstate=$(tr '\\n' ' ' <$said | sed -n 's/.*\\(JobState=\\|\"job_state\": *\\[* *\"\\)\\([A-Z]*\\).*/\\2/p')\nrm $said\n\
                 echo \"$(date +%s%3N) $* $state\" >>{dir}/asked\nexit $code\n"
            );
            self.write(name, &script);
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir(self.path("state")).unwrap();
        fs::create_dir(self.path("spool")).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn daemon(&mut self, program: &str, arguments: &[&str]) {
        let log = fs::File::create(self.path(&format!("{program}.out"))).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .env("SLURM_CONF", self.path("slurm.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.daemons.push(child);
    }

    fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            if start.elapsed() > DEADLINE {
                let logs = ["munged", "slurmctld", "slurmd"]
                    .map(|name| fs::read_to_string(self.path(&format!("{name}.out"))).unwrap_or_default());
                panic!("{what} is not ready:\n{}", logs.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// What a program of Slurm's prints, with times as Unix seconds.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program)
            .args(arguments)
            .env("SLURM_CONF", self.path("slurm.conf"))
            .env("SLURM_TIME_FORMAT", "%s")
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts a job with these options, which does `command`; its number.
    pub fn submit(&self, options: &[&str], command: &str) -> String {
        let always = ["--parsable", "--output=/dev/null", "--mem=0", "--wrap", command];
        let said = self.run("sbatch", &[options, &always].concat());
        let number = said.trim().to_owned();
        assert!(number.parse::<u32>().is_ok(), "{said}");
        number
    }

    /// The keys and values that the controller has of a job, where neither has blanks.
    pub fn job(&self, number: &str) -> BTreeMap<String, String> {
        let line = self.run("scontrol", &["-o", "-d", "show", "job", number]);
        let pairs = line.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Starts an allocation that nothing runs in; its number.
    pub fn allocate(&self, name: &str, options: &[&str]) -> String {
        let name = format!("--job-name={name}");
        self.run("salloc", &[&["--no-shell", "--mem=0", &name], options].concat());
        let number = self.run("squeue", &["--noheader", "--format=%A", &name.replace("--job-name", "--name")]);
        assert!(number.trim().parse::<u32>().is_ok(), "{number}");
        number.trim().to_owned()
    }

    /// When the agent was first told of this job that it is in such a state, Unix milliseconds.
    pub fn told(&self, job: &str, is_it: impl Fn(&str) -> bool) -> Option<i64> {
        let asked = fs::read_to_string(self.path("asked")).unwrap_or_default();
        let mut lines = asked.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        lines.find_map(|words| match words[..] {
            [time, .., "show", "job", number, state] if number == job && is_it(state) => time.parse().ok(),
            _ => None,
        })
    }

    /// The processes of a job's steps, without their managers, as the kernel has them.
    pub fn pids(&self, job: &str) -> Vec<u32> {
        let text = self.steps(job).into_iter().map(|step| fs::read_to_string(step.join("cgroup.procs")));
        text.flatten().flat_map(|text| text.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
    }

    /// Whether the kernel has frozen all of a job's steps.
    pub fn is_frozen(&self, job: &str) -> bool {
        let is_frozen =
            |step: &PathBuf| fs::read_to_string(step.join("freezer.state")).is_ok_and(|state| state.trim() == "FROZEN");
        !self.pids(job).is_empty() && self.steps(job).iter().all(is_frozen)
    }

    /// Whether all of a job's processes may run.
    pub fn is_going_on(&self, job: &str) -> bool {
        let is_thawed =
            |step: &PathBuf| fs::read_to_string(step.join("freezer.state")).is_ok_and(|state| state.trim() == "THAWED");
        let is_stopped =
            |pid: &u32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "));
        self.steps(job).iter().all(is_thawed) && !self.pids(job).iter().any(is_stopped)
    }

    fn steps(&self, job: &str) -> Vec<PathBuf> {
        let group = Path::new(CGROUP).join(format!("freezer/slurm_{}/uid_0/job_{job}", self.node));
        let entries = fs::read_dir(group).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("step_"))
            .map(|entry| entry.path())
            .collect()
    }

    /// Every group of this Slurm's, the inner ones first.
    fn groups(&self) -> Vec<PathBuf> {
        fn inner(path: &Path, found: &mut Vec<PathBuf>) {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                inner(&entry.path(), found);
            }
            found.push(path.to_owned());
        }
        let mut found = Vec::new();
        for hierarchy in fs::read_dir(CGROUP).into_iter().flatten().flatten() {
            let tree = hierarchy.path().join(format!("slurm_{}", self.node));
            if tree.is_dir() {
                inner(&tree, &mut found);
            }
        }
        found
    }

    fn processes(&self) -> Vec<i32> {
        let listed = self.groups().into_iter().map(|group| fs::read_to_string(group.join("cgroup.procs")));
        listed.flatten().flat_map(|text| text.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
    }
}

/// Jobs end, then the daemons, whatever became of the test; then the groups and the devices go.
impl Drop for Slurm {
    fn drop(&mut self) {
        let has_run = self.daemons.len() == 3;
        if has_run {
            self.run("scancel", &["--signal=KILL", "--full", "--state=RUNNING"]);
            self.run("scancel", &["--user=root"]);
        }
        let start = Instant::now();
        // A step's manager tells the controller that it has ended, and the node waits for that.
        let is_busy = || !self.processes().is_empty() || !self.run("squeue", &["-h"]).trim().is_empty();
        while has_run && is_busy() && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(100));
        }
        for daemon in self.daemons.iter_mut().rev() {
            if let Some(pid) = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
            let start = Instant::now();
            while matches!(daemon.try_wait(), Ok(None)) && start.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let start = Instant::now();
        while !self.groups().is_empty() && start.elapsed() < Duration::from_secs(10) {
            for pid in self.processes().into_iter().filter_map(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
            for group in self.groups() {
                let _ = fs::remove_dir(group);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        for device in &self.devices {
            let _ = fs::remove_file(device);
        }
    }
}

/// Why this machine can't run Slurm, if so.
fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root".into());
    }
    let is_there = |name: &str| {
        let mut places = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
        places.push("/usr/sbin".into());
        places.iter().any(|place| place.join(name).is_file())
    };
    let programs = ["munged", "mungekey", "slurmctld", "slurmd", "scontrol", "sbatch", "salloc", "mknod"];
    if let Some(missing) = programs.into_iter().find(|name| !is_there(name)) {
        return Some(format!("{missing} is missing (tests/setup.sh installs slurm-wlm and munge)"));
    }
    let probe = Path::new(CGROUP).join("freezer").join(format!("contador-probe-{}", std::process::id()));
    match fs::create_dir(&probe) {
        Ok(()) => {
            let _ = fs::remove_dir(&probe);
            None
        }
        Err(error) => Some(format!("cannot make a group at {}: {error}", probe.display())),
    }
}
