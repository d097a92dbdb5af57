//! Asks Slurm's controller, by `scontrol`.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::gres::Gres;
use super::told::{self, Told};
use crate::owners::label::shown;

/// Most that an answer may have, in bytes.
const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// How often it is looked whether the program has ended.
const POLL: Duration = Duration::from_millis(5);

/// The program.
#[derive(Debug)]
pub struct Scontrol {
    program: PathBuf,
    timeout: Duration,
    /// Whether it may know `--json`; found out at the first question.
    json: bool,
}

struct Answer {
    success: bool,
    out: String,
    err: String,
}

impl Scontrol {
    /// The program, a file or a name that `PATH` has; it may take as long as `timeout` for one answer.
    pub fn new(program: PathBuf, timeout: Duration) -> Self {
        Self { program, timeout, json: true }
    }

    /// What is known of the job of this number.
    ///
    /// # Errors
    /// When the program can't be run, takes too long, or does not tell, with what it said.
    pub fn job(&mut self, number: &str) -> Result<Told, String> {
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("{} is no job, expected a number", shown(number)));
        }
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

    /// The resources that the node of this name has.
    ///
    /// # Errors
    /// As [`Scontrol::job`].
    pub fn node(&mut self, name: &str) -> Result<Vec<Gres>, String> {
        let is_fit = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
        if name.is_empty() || name.starts_with('-') || !name.chars().all(is_fit) {
            return Err(format!("{} is no node, expected its name", shown(name)));
        }
        let answer = self.ask(&["-o", "show", "node", name])?;
        if !answer.success {
            return Err(self.refused(&answer));
        }
        told::node_from_text(&answer.out, name)
    }

    fn refused(&self, answer: &Answer) -> String {
        let said = if answer.err.trim().is_empty() { &answer.out } else { &answer.err };
        format!("{} failed: {}", self.program.display(), shown(said.trim()))
    }

    fn ask(&self, arguments: &[&str]) -> Result<Answer, String> {
        let failed = |what: &str| format!("{} {}: {what}", self.program.display(), arguments.join(" "));
        // A group of its own, so that what it starts ends with it.
        let mut child = Command::new(&self.program)
            .args(arguments)
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
    use std::path::Path;

    use super::*;

    fn program(dir: &Path, script: &str) -> Scontrol {
        let path = dir.join("scontrol");
        fs::write(&path, format!("#!/bin/sh\necho \"$@\" >> {}/asked\n{script}\n", dir.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Scontrol::new(path, Duration::from_secs(20))
    }

    fn asked(dir: &Path) -> String {
        fs::read_to_string(dir.join("asked")).unwrap()
    }

    #[test]
    fn json_is_asked_for_until_it_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut old = program(
            dir.path(),
            "case $1 in --json) echo \"scontrol: unrecognized option '--json'\" >&2; exit 1;; esac\n\
             echo JobId=7 JobName=x UserId=ana\\(1\\) Account=a JobState=RUNNING",
        );
        for _ in 0..2 {
            assert_eq!(old.job("7").unwrap().account, "a");
        }
        assert_eq!(asked(dir.path()), "--json show job 7\n-o -d show job 7\n-o -d show job 7\n");
        let dir = tempfile::tempdir().unwrap();
        let mut new = program(dir.path(), r#"echo '{"jobs":[{"job_id":7,"account":"b","job_state":["SUSPENDED"]}]}'"#);
        let told = new.job("7").unwrap();
        assert_eq!((told.account.as_str(), told.state.as_str()), ("b", "SUSPENDED"));
        assert_eq!(asked(dir.path()), "--json show job 7\n");
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
