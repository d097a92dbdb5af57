//! The demo's agent, which is ended and started again.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::process::Command;

use super::processes::Process;
use super::restarts::How;
use super::visible::now_ms;

/// The running agent, and how it was started.
pub(super) struct Agent {
    pub(super) process: Process,
    http: reqwest::Client,
    program: PathBuf,
    arguments: Vec<OsString>,
    listen: SocketAddr,
    logs: PathBuf,
}

impl Agent {
    /// Starts it with these arguments, to listen at `listen`, and waits until it answers.
    pub(super) async fn start(
        http: reqwest::Client,
        program: PathBuf,
        arguments: Vec<OsString>,
        listen: SocketAddr,
        logs: PathBuf,
    ) -> anyhow::Result<Self> {
        let process = Process::start("agent", command(&program, &arguments, listen), &logs)?;
        let mut agent = Self { process, http, program, arguments, listen, logs };
        agent.ready().await?;
        Ok(agent)
    }

    /// Where it takes histograms.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// Ends it, starts it again and waits until it answers. An instant at which none ran, Unix milliseconds.
    pub(super) async fn restart(&mut self, how: How) -> anyhow::Result<i64> {
        match how {
            How::Stopped => self.process.stop().await?,
            How::Killed => self.process.kill().await,
        }
        let ended_ms = now_ms();
        self.process = Process::start("agent", command(&self.program, &self.arguments, self.listen), &self.logs)?;
        self.ready().await?;
        Ok(ended_ms)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let url = format!("{}/healthz", self.url());
        self.process.ready(&self.http, &url).await
    }
}

fn command(program: &PathBuf, arguments: &[OsString], listen: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).args(["--listen", &listen.to_string()]);
    command
}
