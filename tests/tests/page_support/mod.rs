//! A server whose page is what a test says, scraped by a real agent, asked for by the command for people.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it, and a fault here fails the test")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use contador_tests::{Collector, Engine, binary};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::scrape_support::{Agent, DEADLINE};

/// Engine, collector, and an agent that scrapes one server each second.
pub struct Fleet {
    pub engine: Engine,
    pub collector: Collector,
    pub agent: Agent,
    pub page: Page,
    _dir: tempfile::TempDir,
}

/// What the server shows.
#[derive(Clone)]
pub struct Page {
    address: SocketAddr,
    shown: Arc<Mutex<(String, usize)>>,
}

impl Page {
    async fn start(text: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shown = Arc::new(Mutex::new((text.to_owned(), 0)));
        let answer = async |State(shown): State<Arc<Mutex<(String, usize)>>>| {
            let mut shown = shown.lock().unwrap();
            shown.1 += 1;
            shown.0.clone()
        };
        let router = Router::new().route("/metrics", get(answer)).with_state(Arc::clone(&shown));
        tokio::spawn(axum::serve(listener, router).into_future());
        Self { address, shown }
    }

    /// Shows `text` from now on, and returns when it was read, and what came of the first time must have been kept.
    pub async fn show(&self, text: &str) {
        let before = {
            let mut shown = self.shown.lock().unwrap();
            text.clone_into(&mut shown.0);
            shown.1
        };
        self.is_read(before + 2).await;
    }

    async fn is_read(&self, times: usize) {
        let deadline = Instant::now() + DEADLINE;
        while self.shown.lock().unwrap().1 < times {
            assert!(Instant::now() < deadline, "the page is not read");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Fleet {
    /// A server that shows `text`, which was read at least once; `target` is more of its configuration.
    pub async fn start(text: &str, target: &str) -> Self {
        let engine = Engine::start().unwrap();
        let collector = Collector::start(engine.url(), "").unwrap();
        collector.ready().await.unwrap();
        let page = Page::start(text).await;
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "[slurm]\nscontrol = \"/nonexistent/scontrol\"\n[scrape]\ninterval = \"1s\"\n\
             [[scrape.target]]\nurl = \"http://{}/metrics\"\nservice = \"chat\"\n{target}\n",
            page.address
        );
        let agent = Agent::start(dir.path(), &collector.grpc, &config);
        page.is_read(2).await;
        Self { engine, collector, agent, page, _dir: dir }
    }

    /// What `contador p99 --json` says of the last hour, with these flags.
    pub fn p99(&self, metric: &str, more: &[&str]) -> Value {
        let output = asked(self.engine.url(), metric, more);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The same, once it is made of `n` values.
    pub async fn p99_of(&self, metric: &str, n: u64) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let output = asked(self.engine.url(), metric, &[]);
            let told: Option<Value> = serde_json::from_slice(&output.stdout).ok();
            match told {
                Some(told) if told["n"] == n => return told,
                told => {
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    let few = told.as_ref().is_none_or(|told| told["n"].as_u64() < Some(n));
                    assert!(
                        few && Instant::now() < deadline,
                        "{told:?} {said}, expected {n} values\n{}",
                        self.agent.log()
                    );
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// How many values the agent has left out for this reason.
    pub async fn dropped(&self, reason: &str) -> u64 {
        let text = self.agent.get("/metrics").await;
        let line = |line: &&str| {
            line.starts_with("contador_agent_scrape_dropped_total") && line.contains(&format!("\"{reason}\""))
        };
        text.lines().filter(line).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }
}

fn asked(clickhouse: &str, metric: &str, more: &[&str]) -> Output {
    let mut command = Command::new(binary("contador").unwrap());
    command.args([
        "p99",
        "--service",
        "chat",
        "--metric",
        metric,
        "--last",
        "1h",
        "--json",
        "--clickhouse",
        clickhouse,
    ]);
    command.args(more).output().unwrap()
}

/// A histogram as a server shows it, with the counts of its buckets, the last one above all bounds.
pub fn histogram(name: &str, labels: &str, bounds: &[f64], counts: &[u64], sum: f64) -> String {
    let mut text = format!("# TYPE {name} histogram\n");
    let mut count = 0;
    for (index, more) in counts.iter().enumerate() {
        count += more;
        let bound = bounds.get(index).map_or("+Inf".to_owned(), |bound| format!("{bound:?}"));
        text += &format!("{name}_bucket{{{labels}le=\"{bound}\"}} {count}\n");
    }
    let labels = labels.trim_end_matches(',');
    text + &format!("{name}_count{{{labels}}} {count}\n{name}_sum{{{labels}}} {sum:?}\n")
}

/// Whether both are one number, up to the rounding of a unit.
pub fn is_about(told: &Value, expected: f64) -> bool {
    told.as_f64().is_some_and(|told| (told - expected).abs() <= expected.abs() * 1e-9 + 1e-6)
}

/// The folder of the tests' own data.
pub fn data(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}
