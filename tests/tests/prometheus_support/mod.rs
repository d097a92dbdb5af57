//! A real Prometheus that scrapes what a test shows, and is asked as Grafana asks it.
#![allow(dead_code, clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use contador_agent::exposition::Exposition;
use contador_agent::telemetry::Telemetry;
use serde_json::Value;
use tempfile::TempDir;

/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(90);

/// A program that ends with its owner.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Prometheus with a database of its own.
pub struct Prometheus {
    address: SocketAddr,
    client: reqwest::Client,
    _dir: TempDir,
    _process: Running,
}

/// Labels and value of each series of an answer.
pub type Series = Vec<(BTreeMap<String, String>, f64)>;

impl Prometheus {
    /// One that scrapes `/metrics` of this target every second.
    pub fn scraping(target: SocketAddr) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("prometheus.yml");
        std::fs::write(
            &config,
            format!(
                "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\n\
                 scrape_configs: [{{ job_name: agent, static_configs: [{{ targets: [\"{target}\"] }}] }}]\n"
            ),
        )
        .unwrap();
        let address = free_address();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("prometheus, which tests/setup.sh installs");
        Self { address, client: reqwest::Client::new(), _dir: dir, _process: Running(process) }
    }

    /// The answer to an instant query; none while it does not answer.
    pub async fn ask(&self, query: &str) -> Option<Series> {
        let answer = self.get("/api/v1/query", &[("query", query)]).await?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let series = answer["data"]["result"].as_array().expect("a vector");
        Some(series.iter().map(|series| (labels(&series["metric"]), number(&series["value"][1]))).collect())
    }

    /// The values of a label that series of this name have, as Grafana asks for a variable.
    pub async fn label_values(&self, series: &str, label: &str) -> Vec<String> {
        let answer =
            self.get(&format!("/api/v1/label/{label}/values"), &[("match[]", series)]).await.expect("an answer");
        answer["data"].as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Option<Value> {
        let request = self.client.get(format!("http://{}{path}", self.address)).query(query);
        let answer = request.send().await.ok()?;
        // While it starts, it says so in words.
        serde_json::from_slice(&answer.bytes().await.ok()?).ok()
    }

    /// Asks until the answer is as wanted.
    pub async fn until(&self, query: &str, is_wanted: impl Fn(&Series) -> bool) -> Series {
        let deadline = Instant::now() + PATIENCE;
        let mut last = None;
        while Instant::now() < deadline {
            last = self.ask(query).await;
            if let Some(series) = last.as_ref().filter(|series| is_wanted(series)) {
                return series.clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{query}: {last:?}")
    }

    /// Values by one label, as soon as there is any.
    pub async fn by(&self, label: &str, query: &str) -> BTreeMap<String, f64> {
        let series = self.until(query, |series| !series.is_empty()).await;
        series.into_iter().map(|(labels, value)| (labels.get(label).cloned().unwrap_or_default(), value)).collect()
    }

    /// The only value, as soon as there is one.
    pub async fn value(&self, query: &str) -> f64 {
        let series = self.until(query, |series| series.len() == 1).await;
        series[0].1
    }
}

fn labels(metric: &Value) -> BTreeMap<String, String> {
    let labels = metric.as_object().unwrap().iter();
    labels.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

fn number(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

/// An address on which nobody listens.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Answers every request with what the exposition shows then, for as long as the test runs.
pub fn serve(exposition: Exposition) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let telemetry = Telemetry::new().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), text) = (stream, exposition.text(&telemetry, Instant::now()).unwrap()) else {
                continue;
            };
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                text.len()
            );
            let _ = stream.write_all(&[head.as_bytes(), &text].concat());
        }
    });
    address
}

/// What promtool finds in Prometheus text; it must be able to read it.
pub fn promtool(text: &[u8], dir: &Path) -> Vec<String> {
    let file = dir.join("metrics");
    std::fs::write(&file, text).unwrap();
    let output = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .expect("promtool, which tests/setup.sh installs");
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<String> = said.lines().map(str::to_owned).collect();
    // 3 is a text that could be read, and whose names it does not like.
    let expected = if lines.is_empty() { 0 } else { 3 };
    assert_eq!(output.status.code(), Some(expected), "{said}");
    lines
}
