//! The demo's child processes: started with a log file each, watched, and stopped in order.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// How long a process may take to become ready, and to stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// Set for the processes that are started here, to this one's PID: they end when it is killed.
pub(crate) const END_WITH_PARENT: &str = "CONTADOR_END_WITH_PARENT";

/// Variables that would lead a child to another store, or lock the demo out of its own.
const STORE_VARIABLES: [&str; 7] = [
    "CONTADOR_CLICKHOUSE_URL",
    "CONTADOR_CLICKHOUSE_USER",
    "CONTADOR_CLICKHOUSE_PASSWORD",
    "CONTADOR_CLICKHOUSE_PASSWORD_FILE",
    "CONTADOR_CLICKHOUSE_DATABASE",
    "CONTADOR_ENGINE_PASSWORD",
    "CONTADOR_ENGINE_PASSWORD_FILE",
];

/// A running child.
#[derive(Debug)]
pub(super) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, its output going to the end of `<name>.log` under `logs`.
    pub(super) fn start(name: &'static str, mut command: Command, logs: &Path) -> anyhow::Result<Self> {
        let log = logs.join(format!("{name}.log"));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("create {}", log.display()))?;
        // What the user's shell says of her own ClickHouse is not meant for the demo's.
        for variable in STORE_VARIABLES {
            command.env_remove(variable);
        }
        let child = command
            .env(END_WITH_PARENT, std::process::id().to_string())
            // A Ctrl-C is for the demo, which ends its parts in order.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {name}: {:?}", command.as_std().get_program()))?;
        Ok(Self { name, child, log })
    }

    /// Waits until `url` answers with success.
    pub(super) async fn ready(&mut self, http: &reqwest::Client, url: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.check()?;
            if let Ok(answer) = http.get(url).send().await
                && answer.status().is_success()
            {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{}: {url} did not answer within {PATIENCE:?}\n{}", self.name, self.tail());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// An error when the process has ended by itself.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended: {status}\n{}", self.name, self.tail()),
            None => Ok(()),
        }
    }

    /// Asks it to end and waits; what does not end is killed, and that is an error.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended in between; wait() tells.
            let _ = kill_process(pid, Signal::TERM);
        }
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => {
                let status = status?;
                if !status.success() {
                    bail!("{} ended: {status}\n{}", self.name, self.tail());
                }
                Ok(())
            }
            Err(_) => {
                self.child.kill().await?;
                bail!("{} did not end within {PATIENCE:?} of a SIGTERM and was killed\n{}", self.name, self.tail());
            }
        }
    }

    /// Kills it, whatever it does.
    pub(super) async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }

    /// Its PID.
    pub(super) fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().with_context(|| format!("{} has ended", self.name))
    }

    fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(12)..].join("\n");
        format!("last lines of {}:\n{last}", self.log.display())
    }
}

/// The program of this name beside the running one.
pub(super) fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find the running program")?;
    let path = own.with_file_name(name);
    if !path.is_file() {
        bail!(
            "{}: not there, expected beside {} (build the whole workspace: make build)",
            path.display(),
            own.display()
        );
    }
    Ok(path)
}
