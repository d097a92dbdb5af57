//! Starts `contador-agent run` for a test, on a free port, without a GPU.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::engine::binary;
use crate::process::terminate;

/// A running agent; it is killed and its state removed when this is dropped.
pub struct Agent {
    child: Child,
    folder: TempDir,
    endpoint: String,
    config: String,
    /// URL of its listener, without a path.
    pub url: String,
}

impl Agent {
    /// Starts an agent that sends to the collector at `endpoint`, which need not be there, with more of a configuration file.
    ///
    /// # Errors
    /// The binary was not built, or the agent ends; the message has what it wrote.
    pub fn start(endpoint: &str, config: &str) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("contador-agent-").tempdir().context("a temporary folder")?;
        let (endpoint, config) = (endpoint.to_owned(), config.to_owned());
        let (child, url) = spawn(&folder, &endpoint, &config)?;
        Ok(Self { child, folder, endpoint, config, url })
    }

    /// Kills it with SIGKILL, and starts it again with the same state; the port is another one.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("kill the agent")?;
        self.child.wait().context("wait for the agent")?;
        (self.child, self.url) = spawn(&self.folder, &self.endpoint, &self.config)?;
        Ok(())
    }

    /// Asks it to end with SIGTERM, and waits until it has.
    ///
    /// # Errors
    /// It does not end in time.
    pub fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        terminate(&mut self.child)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &TempDir, endpoint: &str, config: &str) -> anyhow::Result<(Child, String)> {
    let file = folder.path().join("agent.toml");
    let without = "[sensors]\nnvml = \"/nonexistent/libnvidia-ml.so.1\"\n";
    std::fs::write(&file, format!("{without}{config}")).context("the agent's configuration")?;
    let mut child = Command::new(binary("contador-agent")?)
        .args(["run", "--node", "test-node", "--listen", "127.0.0.1:0", "--log-format", "json", "--config"])
        .arg(&file)
        .args(["--endpoint", endpoint, "--state-dir"])
        .arg(folder.path().join("state"))
        .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("start contador-agent")?;
    let mut log = BufReader::new(child.stderr.take().context("the agent's log")?);
    let mut said = String::new();
    loop {
        let mut line = String::new();
        if log.read_line(&mut line).context("read the agent's log")? == 0 {
            bail!("contador-agent did not start ({}); it said: {said}", child.wait()?);
        }
        said.push_str(&line);
        let entry: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(address) = entry["fields"]["address"].as_str() {
            // The rest of the log goes nowhere, but has to be read.
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return Ok((child, format!("http://{address}")));
        }
    }
}
