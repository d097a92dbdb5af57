//! Starts `contador serve` for a test, on free ports.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::process::{DEADLINE, terminate};

use crate::engine::binary;

/// A running collector; it is killed when this is dropped.
pub struct Collector {
    child: Child,
    folder: TempDir,
    /// URL for OTLP by gRPC, such as `http://127.0.0.1:40123`.
    pub grpc: String,
    /// URL for OTLP by HTTP, with its path.
    pub http: String,
    /// URL of the pages, without a path.
    pub web: String,
}

impl Collector {
    /// Starts a collector for the ClickHouse at `url`, which need not be there, with this configuration file.
    ///
    /// # Errors
    /// The binary was not built, or the collector ends; the message has what it wrote.
    pub fn start(url: &str, config: &str) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("contador-serve-").tempdir().context("a temporary folder")?;
        let file = folder.path().join("contador.toml");
        std::fs::write(&file, config).context("the collector's configuration")?;
        let log = folder.path().join("stderr");
        let mut child = Command::new(binary("contador")?)
            .args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--web", "127.0.0.1:0", "--config"])
            .arg(&file)
            .args(["--clickhouse", url])
            .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).context("the collector's log")?)
            .spawn()
            .context("start contador serve")?;
        let output = child.stdout.take().context("the collector's output")?;
        let lines: Vec<String> = BufReader::new(output).lines().take(3).collect::<Result<_, _>>()?;
        let urls: Vec<String> = lines
            .iter()
            .filter_map(|line| line.split_once("http://"))
            .map(|(_, rest)| format!("http://{rest}"))
            .collect();
        let [grpc, http, web] = urls.as_slice() else {
            let status = child.wait()?;
            bail!("contador serve did not start ({status}); it said: {}", std::fs::read_to_string(&log)?)
        };
        let (grpc, http, web) = (grpc.clone(), http.clone(), web.clone());
        Ok(Self { child, folder, grpc, http, web })
    }

    /// Waits until `/readyz` answers 200.
    ///
    /// # Errors
    /// It does not in time; the message has its last answer and the log.
    pub async fn ready(&self) -> anyhow::Result<()> {
        let (status, body) = self.readiness_is(200).await?;
        if status == 200 { Ok(()) } else { bail!("/readyz answers {status}: {body}\n{}", self.log()) }
    }

    /// Waits until `/readyz` answers `status`; its last status and body.
    ///
    /// # Errors
    /// It can't be asked.
    pub async fn readiness_is(&self, status: u16) -> anyhow::Result<(u16, String)> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let answer = reqwest::get(format!("{}/readyz", self.web)).await.context("ask /readyz")?;
            let told = (answer.status().as_u16(), answer.text().await.context("read /readyz")?);
            if told.0 == status || Instant::now() > deadline {
                return Ok(told);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The value of a line of `/metrics`, such as `contador_ingest_rows_total{table="latency"}`; 0 when there is none.
    ///
    /// # Errors
    /// It can't be asked.
    pub async fn metric(&self, line: &str) -> anyhow::Result<f64> {
        let text = reqwest::get(format!("{}/metrics", self.web)).await?.text().await?;
        let value = text.lines().find_map(|told| told.strip_prefix(line)).unwrap_or(" 0");
        value.trim().parse().with_context(|| format!("the value of {line}: {value:?}"))
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

impl Drop for Collector {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
