//! Ends the processes that a test started.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to be ready, and to end.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Sends SIGTERM and waits until the process has ended.
pub(crate) fn terminate(child: &mut Child) -> anyhow::Result<ExitStatus> {
    let pid = Pid::from_raw(i32::try_from(child.id())?).context("a process id")?;
    kill_process(pid, Signal::TERM).context("SIGTERM")?;
    let deadline = Instant::now() + DEADLINE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("process {} did not end within {} s after SIGTERM", child.id(), DEADLINE.as_secs())
}
