//! Asks Slurm's controller, by `scontrol`, and by `squeue` for the jobs of a node.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::places::Order;
use super::told::{self, NodeTold, Told};
use crate::owners::label::shown;

/// Most that an answer may have, in bytes.
const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// How often it is looked whether the program has ended.
const POLL: Duration = Duration::from_millis(5);

/// The program.
#[derive(Debug)]
pub struct Scontrol {
    program: PathBuf,
    squeue: PathBuf,
    timeout: Duration,
    /// Whether it may know `--json`; found out at the first question.
    json: bool,
    /// What Slurm's configuration says, once it was needed.
    config: Option<Config>,
    /// The order that `gres.conf` told last.
    order: Option<Order>,
}

/// What Slurm's configuration says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Config {
    /// The cluster's name.
    cluster: String,
    /// The file that it was read from.
    file: PathBuf,
}

struct Answer {
    success: bool,
    out: String,
    err: String,
}

impl Scontrol {
    /// The program, a file or a name that `PATH` has; it may take as long as `timeout` for one answer. `squeue` is in the same
    /// folder.
    pub fn new(program: PathBuf, timeout: Duration) -> Self {
        let squeue = program.with_file_name("squeue");
        Self { program, squeue, timeout, json: true, config: None, order: None }
    }

    /// What is known of the job of this number.
    ///
    /// # Errors
    /// When the program can't be run, takes too long, or does not tell, with what it said.
    pub fn job(&mut self, number: &str) -> Result<Told, String> {
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("{} is no job, expected a number", shown(number)));
        }
        let mut told = self.told(number)?;
        if told.cluster.is_empty() {
            told.cluster = self.config().cluster;
        }
        Ok(told)
    }

    fn told(&mut self, number: &str) -> Result<Told, String> {
        if self.json {
            let answer = self.ask(&["--json", "show", "job", number])?;
            if answer.success {
                return told::from_json(&answer.out, number);
            }
            // Older releases don't know the option, and builds may lack the plugin for it.
            if !answer.err.to_ascii_lowercase().contains("json") {
                return Err(self.refused(&answer));
            }
            self.json = false;
        }
        let answer = self.ask(&["-o", "-d", "show", "job", number])?;
        if !answer.success {
            return Err(self.refused(&answer));
        }
        told::from_text(&answer.out, number)
    }

    /// What the controller's configuration says; nothing where it does not tell. The cluster's name is what a job's processes know
    /// it by, too.
    fn config(&mut self) -> Config {
        if self.config.is_none() {
            let answer = self.ask(&["show", "config"]).ok().filter(|answer| answer.success);
            self.config = answer.map(|answer| {
                let one = |key: &str| {
                    let named =
                        |line: &str| Some(line.strip_prefix(key)?.trim_start().strip_prefix('=')?.trim().to_owned());
                    answer.out.lines().find_map(named).unwrap_or_default()
                };
                Config { cluster: one("ClusterName"), file: one("SLURM_CONF").into() }
            });
        }
        self.config.clone().unwrap_or_default()
    }

    /// The resources of the node of this name, and how they are ordered by the `gres.conf` beside the configuration's file: as it was
    /// when that could be read last.
    ///
    /// # Errors
    /// As [`Scontrol::job`].
    pub fn node(&mut self, name: &str) -> Result<NodeTold, String> {
        let answer = self.ask(&["-o", "-d", "show", "node", node_name(name)?])?;
        if !answer.success {
            return Err(self.refused(&answer));
        }
        let told = told::node_from_text(&answer.out, name)?;
        if let Some(text) = read(&self.config().file.with_file_name("gres.conf")) {
            self.order = Order::parse(&text, name);
        }
        Ok(NodeTold { order: self.order.clone(), ..told })
    }

    /// The numbers of the jobs that run on the node of this name.
    ///
    /// # Errors
    /// As [`Scontrol::job`].
    pub fn running(&self, name: &str) -> Result<Vec<String>, String> {
        let node = format!("--nodelist={}", node_name(name)?);
        let answer = self.run(&self.squeue, &["--noheader", "--states=RUNNING", "--format=%A", &node])?;
        if !answer.success {
            return Err(refused(&self.squeue, &answer));
        }
        told::numbers_from_text(&answer.out)
    }

    fn refused(&self, answer: &Answer) -> String {
        refused(&self.program, answer)
    }

    fn ask(&self, arguments: &[&str]) -> Result<Answer, String> {
        self.run(&self.program, arguments)
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Result<Answer, String> {
        let failed = |what: &str| format!("{} {}: {what}", program.display(), arguments.join(" "));
        // A group of its own, so that what it starts ends with it.
        let mut child = Command::new(program)
            .args(arguments)
            // Unix seconds, and not the local time.
            .env("SLURM_TIME_FORMAT", "%s")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| failed(&format!("cannot be run: {error}")))?;
        let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let start = Instant::now();
        let ended = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Ok(None) if start.elapsed() < self.timeout => std::thread::sleep(POLL),
                Ok(None) => break Err(failed(&format!("no answer within {:?}", self.timeout))),
                Err(error) => break Err(failed(&error.to_string())),
            }
        };
        if ended.is_err() {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                _ = kill_process_group(group, Signal::KILL);
            }
            _ = child.wait();
        }
        let success = ended?.success();
        let text = |from: Receiver<Vec<u8>>| {
            let bytes = from.recv_timeout(self.timeout).map_err(|_| failed("its output did not end"))?;
            if bytes.len() as u64 >= MAX_ANSWER_BYTES {
                return Err(failed(&format!("the answer is longer than {MAX_ANSWER_BYTES} bytes")));
            }
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Answer { success, out: text(out)?, err: text(err)? })
    }
}

fn refused(program: &Path, answer: &Answer) -> String {
    let said = if answer.err.trim().is_empty() { &answer.out } else { &answer.err };
    format!("{} failed: {}", program.display(), shown(said.trim()))
}

/// A file of Slurm's configuration; `None` when it can't be read, or is too long.
fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = path.is_absolute().then(|| File::open(path).ok()).flatten()?;
    let length = file.take(MAX_ANSWER_BYTES).read_to_end(&mut bytes).ok()?;
    ((length as u64) < MAX_ANSWER_BYTES).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The name, if it may be one of a node.
fn node_name(name: &str) -> Result<&str, String> {
    let is_fit = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    if name.is_empty() || name.starts_with('-') || !name.chars().all(is_fit) {
        return Err(format!("{} is no node, expected its name", shown(name)));
    }
    Ok(name)
}

/// Reads a pipe to its end on a thread, so that the program never waits for a full one.
fn reader(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    if let Some(pipe) = pipe {
        let read = move || {
            let mut bytes = Vec::new();
            _ = pipe.take(MAX_ANSWER_BYTES).read_to_end(&mut bytes);
            _ = sender.send(bytes);
        };
        // Without a thread the sender is gone, and the receiver says so.
        _ = std::thread::Builder::new().name("scontrol".into()).spawn(read);
    }
    receiver
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn write(dir: &Path, name: &str, script: &str) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, format!("#!/bin/sh\necho \"$@\" >> {}/asked\n{script}\n", dir.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn program(dir: &Path, script: &str) -> Scontrol {
        Scontrol::new(write(dir, "scontrol", script), Duration::from_secs(20))
    }

    fn asked(dir: &Path) -> String {
        fs::read_to_string(dir.join("asked")).unwrap()
    }

    #[test]
    fn json_is_asked_for_until_it_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut old = program(
            dir.path(),
            "case \"$*\" in --json*) echo \"scontrol: unrecognized option '--json'\" >&2; exit 1;; \
             'show config') echo 'ClusterName             = contador'; exit 0;; esac\n\
             echo JobId=7 JobName=x UserId=ana\\(1\\) Account=a JobState=RUNNING",
        );
        for _ in 0..2 {
            let told = old.job("7").unwrap();
            assert_eq!((told.account.as_str(), told.cluster.as_str()), ("a", "contador"));
        }
        assert_eq!(asked(dir.path()), "--json show job 7\n-o -d show job 7\nshow config\n-o -d show job 7\n");
        let dir = tempfile::tempdir().unwrap();
        let mut new = program(
            dir.path(),
            r#"echo '{"jobs":[{"job_id":7,"account":"b","cluster":"c","job_state":["SUSPENDED"]}]}'"#,
        );
        let told = new.job("7").unwrap();
        assert_eq!((told.account.as_str(), told.state.as_str()), ("b", "SUSPENDED"));
        assert_eq!(asked(dir.path()), "--json show job 7\n");
    }

    #[test]
    fn the_order_of_a_node_is_that_of_gres_conf_beside_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let script = |conf: &str| {
            format!(
                "case \"$*\" in 'show config') echo 'ClusterName             = c'; echo 'SLURM_CONF              = {conf}';; \
                 *) echo 'NodeName=n1 Gres=gpu:2 GresUsed=gpu:0 X=';; esac"
            )
        };
        let mut scontrol = program(dir.path(), &script(&dir.path().join("slurm.conf").display().to_string()));
        let mut told = || scontrol.node("n1").unwrap();
        assert_eq!((told().order, told().has), (None, super::super::gres::parse("gpu:2")));
        let conf = |text: &str| fs::write(dir.path().join("gres.conf"), text).unwrap();
        conf("Name=gpu File=/dev/nvidia[1,0]\n");
        assert_eq!(told().order, Some(Order::Files(vec![Some(1), Some(0)])));
        conf("AutoDetect=nvml\n");
        assert_eq!(told().order, Some(Order::Detected(Vec::new())));
        fs::write(dir.path().join("gres.conf"), b"Name=gpu File=/dev/nvidia0 #\xff").unwrap();
        assert_eq!(told().order, Some(Order::Files(vec![Some(0)])), "whatever a comment has");
        assert_eq!(asked(dir.path()).matches("show config").count(), 1);
        // One that is away for a while, and one that tells nothing.
        fs::remove_file(dir.path().join("gres.conf")).unwrap();
        assert_eq!(told().order, Some(Order::Files(vec![Some(0)])));
        conf("Name=nic File=/dev/mlx0\n");
        assert_eq!(told().order, None);
        // A controller that does not say where it is.
        for nowhere in ["", "slurm.conf"] {
            conf("AutoDetect=nvml\n");
            let mut scontrol = program(dir.path(), &script(nowhere));
            assert_eq!(scontrol.node("n1").unwrap().order, None, "{nowhere}");
        }
    }

    #[test]
    fn the_jobs_of_a_node_are_told_by_squeue_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let scontrol = program(dir.path(), "exit 1");
        assert!(scontrol.running("n1").unwrap_err().contains("squeue --noheader"), "it is not there");
        write(dir.path(), "squeue", "echo 7; echo 12");
        assert_eq!(scontrol.running("n1").unwrap(), ["7", "12"]);
        assert_eq!(asked(dir.path()), "--noheader --states=RUNNING --format=%A --nodelist=n1\n");
        write(dir.path(), "squeue", "echo 'squeue: error: Invalid node name n1' >&2; exit 1");
        let fault = scontrol.running("n1").unwrap_err();
        assert!(fault.contains("squeue failed: \"squeue: error: Invalid node name n1"), "{fault}");
        assert!(scontrol.running("a b").unwrap_err().ends_with("is no node, expected its name"));
    }

    #[test]
    fn faults_say_what_was_asked_and_answered() {
        let dir = tempfile::tempdir().unwrap();
        let mut down =
            program(dir.path(), "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
        let fault = down.job("7").unwrap_err();
        assert!(fault.contains("scontrol failed") && fault.contains("Unable to contact"), "{fault}");
        let mut missing = Scontrol::new("/nonexistent/scontrol".into(), Duration::from_secs(1));
        assert!(missing.job("7").unwrap_err().contains("/nonexistent/scontrol --json show job 7: cannot be run"));
        for wrong in ["", "7;x", "--help", "7 8"] {
            assert!(missing.job(wrong).unwrap_err().ends_with("is no job, expected a number"));
        }
        assert!(missing.node("--help").unwrap_err().ends_with("is no node, expected its name"));
    }

    #[test]
    fn one_that_hangs_is_ended_with_what_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let mut hung = program(dir.path(), &format!("sleep 1000 & echo $! > {}/child; wait", dir.path().display()));
        hung.timeout = Duration::from_millis(500);
        assert!(hung.job("7").unwrap_err().contains("no answer within 500ms"));
        let child = fs::read_to_string(dir.path().join("child")).unwrap();
        let stat = format!("/proc/{}/stat", child.trim());
        let is_gone = || fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z "));
        let start = Instant::now();
        while !is_gone() && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(is_gone());
    }

    #[test]
    fn an_answer_without_end_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let fault = program(dir.path(), "exec yes").job("7").unwrap_err();
        assert!(fault.contains("failed") || fault.contains("longer than"), "{fault}");
    }
}
