//! Starts `contador clickhouse` for a test, on a free port and in a folder of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::process::terminate;

/// Any free port of this machine.
const ANY_PORT: &str = "127.0.0.1:0";

/// A running engine; it is killed and its data removed when this is dropped.
pub struct Engine {
    child: Child,
    folder: TempDir,
    arguments: Vec<String>,
    password: Option<String>,
    url: String,
}

/// The path of a binary of this workspace: beside the test's executable's folder, where cargo puts both.
///
/// # Errors
/// It was not built.
pub fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe().context("the test's own path")?;
    let folder = test.parent().and_then(Path::parent).context("the folder of the build")?;
    let path = folder.join(name);
    if !path.is_file() {
        bail!("{} is missing; run `cargo build --workspace --bins` first", path.display());
    }
    Ok(path)
}

impl Engine {
    /// Starts an engine with the default user, who has no password.
    ///
    /// # Errors
    /// The binary was not built, or the engine does not get ready; the message has what it wrote.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&[], None)
    }

    /// Starts an engine with more arguments of `contador clickhouse`, and with a password.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_with(arguments: &[&str], password: Option<&str>) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("contador-engine-").tempdir().context("a temporary folder")?;
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let password = password.map(str::to_owned);
        let (child, url) = spawn(folder.path(), ANY_PORT, &arguments, password.as_deref())?;
        Ok(Self { child, folder, arguments, password, url })
    }

    /// The URL of its HTTP interface, such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The port of its HTTP interface.
    pub fn port(&self) -> u16 {
        self.url.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default()
    }

    /// Its data folder.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A client of the `clickhouse` crate for it.
    pub fn client(&self) -> clickhouse::Client {
        let client = clickhouse::Client::default().with_url(&self.url);
        match &self.password {
            Some(password) => client.with_user("default").with_password(password),
            None => client,
        }
    }

    /// Kills it with SIGKILL and waits for its end.
    ///
    /// # Errors
    /// The process cannot be waited for.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("kill the engine")?;
        self.child.wait().context("wait for the engine")?;
        Ok(())
    }

    /// Starts it again on the same data, after [`Engine::kill`] or [`Engine::terminate`]; the port is another one.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.restart_at(ANY_PORT)
    }

    /// As [`Engine::restart`], on this address and port.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn restart_at(&mut self, address: &str) -> anyhow::Result<()> {
        (self.child, self.url) = spawn(self.folder.path(), address, &self.arguments, self.password.as_deref())?;
        Ok(())
    }

    /// Asks it to end with SIGTERM, and waits until it has.
    ///
    /// # Errors
    /// It does not end in time.
    pub fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        terminate(&mut self.child)
    }

    /// What it wrote on its standard error output.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path, listen: &str, arguments: &[String], password: Option<&str>) -> anyhow::Result<(Child, String)> {
    let log = folder.join("stderr");
    let mut command = Command::new(binary("contador")?);
    command
        .args(["clickhouse", "--listen", listen, "--path"])
        .arg(folder.join("data"))
        .args(arguments)
        .env_remove("CONTADOR_ENGINE_PASSWORD")
        .env_remove("CONTADOR_ENGINE_PASSWORD_FILE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).context("the engine's log")?);
    if let Some(password) = password {
        command.env("CONTADOR_ENGINE_PASSWORD", password);
    }
    let mut child = command.spawn().context("start contador clickhouse")?;
    let output = child.stdout.take().context("the engine's output")?;
    let mut line = String::new();
    // The first start may have to fetch the library; the line comes when the engine is ready, the end when it failed.
    BufReader::new(output).read_line(&mut line).context("read the engine's output")?;
    match line.trim_end().rsplit_once(" on ") {
        Some((_, url)) if line.starts_with("ready") => Ok((child, url.to_owned())),
        _ => {
            let status = child.wait()?;
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            bail!("contador clickhouse did not get ready ({status}); it said: {line}{said}")
        }
    }
}
