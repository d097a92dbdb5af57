//! Services that are instrumented with the stock SDKs (`clients/services/`), asked over HTTP and ended in the middle, and
//! what their own logs say that must be stored.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it, and a fault here fails the test")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clickhouse::Client;
use contador_tests::{Collector, binary};
use futures::StreamExt as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// What every service counts.
pub const METRICS: [&str; 3] =
    ["http.server.request.duration", "gen_ai.server.request.duration", "gen_ai.server.time_to_first_token"];

/// Longest wait for anything.
const DEADLINE: Duration = Duration::from_secs(60);

/// How a service sends.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// `python` or `node`.
    pub language: &'static str,
    /// As in `OTEL_EXPORTER_OTLP_PROTOCOL`.
    pub protocol: &'static str,
    pub temporality: &'static str,
    pub aggregation: &'static str,
    pub compression: &'static str,
    /// What `service.instance.id` is told to be; otherwise Python's SDK makes one up at each start, and Node's has none.
    pub instance: Option<&'static str>,
}

/// A running service; it is killed when this is dropped.
pub struct Service {
    child: Child,
    port: u16,
    pub log: PathBuf,
}

/// What `clients/setup.sh` installed.
pub fn installed(path: &str) -> PathBuf {
    let program = binary("contador").unwrap();
    let path = program.parent().and_then(Path::parent).unwrap().join("clients").join(path);
    assert!(path.exists(), "{} is missing; run `make test-deps` (tests/clients/setup.sh) first", path.display());
    path
}

impl Sender {
    /// Its `service.name`.
    pub fn name(&self) -> String {
        format!("{}-{}-{}-{}", self.language, self.protocol.replace('/', "-"), self.temporality, self.aggregation)
    }

    /// How many sources it is when it was started twice.
    pub fn sources(&self) -> u64 {
        if self.language == "python" && self.instance.is_none() { 2 } else { 1 }
    }

    /// Starts the service, whose log goes on where it ended. Returns when it listens.
    pub fn start(&self, collector: &Collector, folder: &Path, interval_ms: u32) -> Service {
        let services = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/services");
        let mut command = if self.language == "python" {
            let mut command = Command::new(installed("venv/bin/python"));
            command.arg(services.join("service.py"));
            command
        } else {
            let mut command = Command::new("node");
            command.env("NODE_PATH", installed("node/node_modules")).arg(services.join("service.cjs"));
            command
        };
        let log = folder.join(self.name());
        let config = json!({
            "protocol": self.protocol,
            "endpoint": if self.protocol == "grpc" { &collector.grpc } else { &collector.http },
            "temporality": self.temporality,
            "aggregation": self.aggregation,
            "compression": self.compression,
            "interval_ms": interval_ms,
            "service": self.name(),
            "log": log,
        });
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
            command.env_remove(name);
        }
        if let Some(instance) = self.instance {
            command.env("OTEL_RESOURCE_ATTRIBUTES", format!("service.instance.id={instance}"));
        }
        let mut child = command.arg(config.to_string()).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap_or_else(|_| panic!("{} did not start: {line:?}", self.name()));
        Service { child, port, log }
    }
}

impl Service {
    /// Sends a request for each of `durations`, four at a time and each by a connection of its own: one that the service
    /// closes for being idle would fail the next request. Why requests failed, if any did.
    pub async fn ask(&self, durations: &[f64]) -> Vec<String> {
        let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
        let requests = durations.iter().map(|duration| {
            let url = format!("http://127.0.0.1:{}/chat?duration={duration:?}&ttft={:?}", self.port, duration / 7.0);
            let request = client.get(url);
            async move {
                match request.send().await.and_then(reqwest::Response::error_for_status) {
                    Ok(_) => None,
                    Err(error) => Some(format!("{error:?}")),
                }
            }
        });
        futures::stream::iter(requests).buffer_unordered(4).filter_map(std::future::ready).collect().await
    }

    /// Waits until the log tells that points with `count` values of the last of [`METRICS`] are `kind`.
    pub async fn until(&self, kind: &str, count: u64) {
        let deadline = Instant::now() + DEADLINE;
        while Log::read(&self.log).total(kind, METRICS[2]) < count {
            assert!(Instant::now() < deadline, "{} never says that {count} values are {kind}", self.log.display());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends it in order.
    pub async fn terminate(mut self) {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
        assert!(self.ended().await.success());
    }

    /// Ends it with SIGKILL.
    pub async fn kill(mut self) {
        self.child.kill().unwrap();
        self.ended().await;
    }

    async fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "{} does not end", self.log.display());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a service wrote into its log.
pub struct Log(Vec<Value>);

impl Log {
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // A last line without an end is not written yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Self(whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn lines<'a>(&'a self, kind: &'a str, metric: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |line| line["kind"] == kind && line["metric"] == metric)
    }

    /// The recorded values of a metric in microseconds, in ascending order.
    pub fn values(&self, metric: &str) -> Vec<f64> {
        let mut values: Vec<f64> =
            self.lines("value", metric).map(|line| line["value"].as_f64().unwrap() * 1e6).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// How many values the points of this kind tell: of each run and end the count, of running totals only the last.
    pub fn total(&self, kind: &str, metric: &str) -> u64 {
        let mut runs: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        for line in self.lines(kind, metric) {
            let [start, time] = ["start", "time"].map(|name| line[name].as_str().unwrap());
            runs.entry(start).or_default().insert(time, line["count"].as_u64().unwrap());
        }
        // An increase has a start of its own.
        runs.values().filter_map(|ends| ends.values().last()).sum()
    }
}

/// What is stored of a service's metric.
#[derive(Debug, PartialEq)]
pub struct Stored {
    pub count: u64,
    pub sum_us: f64,
    pub rows: u64,
    pub resets: u64,
    pub series: u64,
    pub sources: u64,
}

pub async fn stored(client: &Client, service: &str, metric: &str) -> Stored {
    let sql = "SELECT sum(count), sum(assumeNotNull(sum_us)), count(), countIf(reset), uniqExact(series), \
               uniqExact(source) FROM latency FINAL WHERE service = ? AND attributes['otel.metric.name'] = ?";
    let told: (u64, f64, u64, u64, u64, u64) = client.query(sql).bind(service).bind(metric).fetch_one().await.unwrap();
    let (count, sum_us, rows, resets, series, sources) = told;
    Stored { count, sum_us, rows, resets, series, sources }
}

/// The cells of a service's metric: edges in microseconds, and counts.
pub async fn cells(client: &Client, service: &str, metric: &str) -> Vec<(f64, f64, u64)> {
    let sql = "SELECT l, h, sum(c) FROM latency FINAL ARRAY JOIN lo AS l, hi AS h, n AS c \
               WHERE service = ? AND attributes['otel.metric.name'] = ? GROUP BY l, h";
    client.query(sql).bind(service).bind(metric).fetch_all().await.unwrap()
}

/// Whether `values`, in ascending order, can be what `cells` hold: at each edge, as many values are certainly below it as
/// the cells that end there or before hold, and not more than those that begin below it.
pub fn hold(cells: &[(f64, f64, u64)], values: &[f64]) -> Result<(), String> {
    let edges = cells.iter().flat_map(|(lo, hi, _)| [*lo, *hi]).filter(|edge| edge.is_finite());
    for edge in edges {
        let at_most = values.partition_point(|value| *value <= edge) as u64;
        let below = values.partition_point(|value| *value < edge) as u64;
        let ended: u64 = cells.iter().filter(|(_, hi, _)| *hi <= edge).map(|(_, _, n)| n).sum();
        let begun: u64 = cells.iter().filter(|(lo, _, _)| *lo < edge).map(|(_, _, n)| n).sum();
        if ended > at_most || below > begun {
            return Err(format!(
                "{ended} values end and {begun} begin at {edge} us, of {below} below and {at_most} at most"
            ));
        }
    }
    let count: u64 = cells.iter().map(|(_, _, n)| n).sum();
    if count == values.len() as u64 { Ok(()) } else { Err(format!("{count} values of {}", values.len())) }
}

/// Durations in seconds, lognormal with a median of 1 s; the first are 0, a bound of a bucket, and above each bound.
pub fn durations(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    };
    let normal = (0..count).map(|_| (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos());
    let random: Vec<f64> = normal.map(|normal| (1.5 * normal).exp()).collect();
    [0.0, 0.64, 700.0].into_iter().chain(random).take(count).collect()
}
