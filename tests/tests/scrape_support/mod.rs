//! Servers that show counters to Prometheus, and a real agent that scrapes them.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it, and a fault here fails the test")]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use clickhouse::Client;
use contador_tests::{Engine, binary};
use tokio::net::TcpListener;

/// How long anything may take that is waited for.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Bounds of the servers' histograms, in seconds: vLLM's first ones.
const BOUNDS: [f64; 6] = [0.3, 0.5, 0.8, 1.0, 1.5, 2.0];

/// How a server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Manner {
    /// As it should.
    #[default]
    Well,
    /// With a page of which the last bucket lags behind the others.
    Torn,
    /// Never.
    Never,
    /// With an end in the middle of the page.
    Cut,
    /// Without end.
    Endless,
    /// Somewhere else.
    Redirect,
}

#[derive(Debug, Default)]
struct Shown {
    /// Requests by the bucket that they are in, above the last bound at the end.
    counts: [u64; BOUNDS.len() + 1],
    sum: f64,
    tokens: u64,
    /// When it was started, Unix seconds.
    started: f64,
    manner: Manner,
    /// How often it was asked.
    asked: usize,
    token: Option<String>,
}

/// A server like vLLM. It ends with the test's runtime.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    shown: Arc<Mutex<Shown>>,
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

impl Server {
    /// A server that was started now.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shown = Arc::new(Mutex::new(Shown { started: now(), ..Shown::default() }));
        let router = Router::new().route("/metrics", get(page)).with_state(Arc::clone(&shown));
        tokio::spawn(axum::serve(listener, router).into_future());
        Self { address, shown }
    }

    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// So many requests come to their end, each after so many seconds.
    pub fn serve(&self, requests: u64, seconds: f64) {
        let mut shown = self.shown.lock().unwrap();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        shown.counts[bucket] += requests;
        #[expect(clippy::cast_precision_loss, reason = "few")]
        let sum = requests as f64 * seconds;
        shown.sum += sum;
        shown.tokens += 10 * requests;
    }

    /// It ends, and another one is started in its place.
    pub fn restart(&self) {
        let mut shown = self.shown.lock().unwrap();
        *shown = Shown { started: now(), manner: shown.manner, asked: shown.asked, ..Shown::default() };
    }

    pub fn answer(&self, manner: Manner) {
        self.shown.lock().unwrap().manner = manner;
    }

    /// It answers only who shows this token.
    pub fn expect(&self, token: &str) {
        self.shown.lock().unwrap().token = Some(token.to_owned());
    }

    pub fn asked(&self) -> usize {
        self.shown.lock().unwrap().asked
    }

    /// Returns when it was asked so many times more.
    pub async fn is_asked(&self, more: usize) {
        let wanted = self.asked() + more;
        let deadline = Instant::now() + DEADLINE;
        while self.asked() < wanted {
            assert!(Instant::now() < deadline, "it was asked {} times, expected {wanted}", self.asked());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn page(State(shown): State<Arc<Mutex<Shown>>>, headers: HeaderMap) -> Response {
    let (text, manner) = {
        let mut shown = shown.lock().unwrap();
        shown.asked += 1;
        let told = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if shown.token.as_ref().is_some_and(|token| told != Some(&format!("Bearer {token}"))) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        (shown.text(), shown.manner)
    };
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    match manner {
        Manner::Well | Manner::Torn => (kind, text).into_response(),
        Manner::Never => std::future::pending().await,
        Manner::Cut => (kind, text[..text.len() / 2].to_owned()).into_response(),
        Manner::Endless => {
            let lines = futures::stream::repeat_with(|| Ok::<_, std::io::Error>("# HELP a b\n".repeat(1_000)));
            (kind, Body::from_stream(lines)).into_response()
        }
        Manner::Redirect => (StatusCode::FOUND, [(header::LOCATION, "/other")]).into_response(),
    }
}

impl Shown {
    fn text(&self) -> String {
        let labels = "model_name=\"m\",engine=\"0\"";
        let mut text = String::from("# TYPE vllm:e2e_request_latency_seconds histogram\n");
        let name = "vllm:e2e_request_latency_seconds";
        let mut count = 0;
        for (bound, more) in BOUNDS.iter().map(|bound| format!("{bound:?}")).chain(["+Inf".to_owned()]).zip(self.counts)
        {
            count += more;
            let shown = if bound == "+Inf" && self.manner == Manner::Torn { 0 } else { count };
            writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {shown}").unwrap();
        }
        writeln!(text, "{name}_count{{{labels}}} {count}\n{name}_sum{{{labels}}} {}", self.sum).unwrap();
        for (family, value) in [("prompt_tokens", self.tokens), ("generation_tokens", 2 * self.tokens)] {
            writeln!(text, "# TYPE vllm:{family} counter\nvllm:{family}_total{{{labels}}} {value}").unwrap();
        }
        writeln!(text, "# TYPE vllm:request_success counter").unwrap();
        writeln!(text, "vllm:request_success_total{{{labels},finished_reason=\"stop\"}} {count}").unwrap();
        let started = self.started;
        writeln!(text, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {started}\n# EOF").unwrap();
        text
    }
}

/// A real agent with a simulated GPU.
pub struct Agent {
    child: Child,
    dir: PathBuf,
    /// Where it listens.
    pub listen: SocketAddr,
}

impl Agent {
    /// Starts it with its state in `dir`, and this in its configuration; it sends to `endpoint`.
    pub fn start(dir: &Path, endpoint: &str, config: &str) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let scenario = dir.join("scenario.toml");
        if !scenario.exists() {
            std::fs::write(&scenario, "[[gpu]]\nmodel = \"l4\"\nutilization = 50\n").unwrap();
        }
        let file = dir.join("agent.toml");
        std::fs::write(&file, config).unwrap();
        let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = std::fs::File::options().create(true).append(true).open(dir.join("stderr")).unwrap();
        let child = Command::new(binary("contador-agent").unwrap())
            .args(["run", "--node", "n1", "--interval", "200ms", "--endpoint", endpoint, "--listen"])
            .arg(listen.to_string())
            .arg("--state-dir")
            .arg(dir.join("state"))
            .arg("--config")
            .arg(&file)
            .arg("--simulate")
            .arg(&scenario)
            .env("CONTADOR_NVML_SIMULATOR", contador_nvml_simulator::library::find().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, dir: dir.to_owned(), listen }
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("stderr")).unwrap_or_default()
    }

    /// What it answers at this path.
    pub async fn get(&self, path: &str) -> String {
        match reqwest::get(format!("http://{}{path}", self.listen)).await {
            Ok(answer) => answer.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// Returns what it answers at this path when that is so.
    pub async fn shows(&self, path: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let text = self.get(path).await;
            if is_so(&text) {
                return text;
            }
            assert!(Instant::now() < deadline, "{path} says:\n{text}\nthe log:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer of a query with one number, of the database `contador`.
pub async fn number(engine: &Engine, sql: &str) -> u64 {
    let client: Client = engine.client().with_database("contador");
    client.query(sql).fetch_one::<u64>().await.unwrap()
}

/// Waits until the query's number is `expected`; more is a fault at once.
pub async fn comes_to(engine: &Engine, sql: &str, expected: u64, about: impl Fn() -> String) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let found = number(engine, sql).await;
        if found == expected {
            return;
        }
        assert!(found < expected && Instant::now() < deadline, "{sql}: {found}, expected {expected}\n{}", about());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
