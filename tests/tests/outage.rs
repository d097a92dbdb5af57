//! ClickHouse is away when everything starts, and dies later: what the agent took in the meantime arrives all the same.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clickhouse::Client;
use contador_tests::{Collector, Engine, binary};

/// How long anything may take that is waited for.
const DEADLINE: Duration = Duration::from_secs(60);

struct Agent(Child);

impl Agent {
    /// The real agent with one simulated GPU, five samples a second.
    fn start(endpoint: &str, state: &std::path::Path) -> Self {
        std::fs::create_dir_all(state).unwrap();
        let scenario = state.join("scenario.toml");
        std::fs::write(&scenario, "[[gpu]]\nmodel = \"l4\"\nutilization = 50\n").unwrap();
        let child = Command::new(binary("contador-agent").unwrap())
            .args(["run", "--node", "outage", "--interval", "200ms", "--listen", "127.0.0.1:0", "--endpoint", endpoint])
            .arg("--state-dir")
            .arg(state)
            .arg("--simulate")
            .arg(&scenario)
            .env("CONTADOR_NVML_SIMULATOR", contador_nvml_simulator::library::find().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(state.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Instants of the stored samples, once one of them is after `until`.
async fn samples_until(client: &Client, until: i64) -> BTreeSet<i64> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let sql = "SELECT toUnixTimestamp64Milli(ts) FROM contador.gpu_samples FINAL WHERE node = 'outage'";
        let stored: BTreeSet<i64> =
            client.query(sql).fetch_all::<i64>().await.unwrap_or_default().into_iter().collect();
        if stored.last().is_some_and(|last| *last > until) {
            return stored;
        }
        assert!(Instant::now() < deadline, "no sample after {until} was stored, only {} before", stored.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits for a number of whole intervals, each of which brings a sample: there is nothing else to ask while ClickHouse
/// is away.
async fn let_samples_be_taken(count: u32) {
    tokio::time::sleep(Duration::from_millis(200) * count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_kept_arrives_when_clickhouse_comes_up_and_when_it_comes_back() {
    // An address where nobody listens: the engine that will be there is started and stopped once.
    let mut engine = Engine::start().unwrap();
    let url = engine.url().to_owned();
    let address = url.trim_start_matches("http://").to_owned();
    engine.terminate().unwrap();

    let collector = Collector::start(&url, "").unwrap();
    let (status, body) = collector.readiness_is(503).await.unwrap();
    assert_eq!(status, 503, "{body}");
    assert!(body.contains(&address), "{body}");

    let state = tempfile::tempdir().unwrap();
    let started = now_ms();
    let agent = Agent::start(&collector.grpc, &state.path().join("agent"));
    let_samples_be_taken(15).await;
    let came_up = now_ms();
    engine.restart_at(&address).unwrap();
    collector.ready().await.unwrap();
    let client = engine.client();
    let stored = samples_until(&client, came_up).await;
    let kept = stored.iter().filter(|ts| **ts < came_up).count();
    assert!(kept >= 8, "{kept} samples from before ClickHouse came up, started {started}, up {came_up}: {stored:?}");

    engine.kill().unwrap();
    let killed = now_ms();
    let_samples_be_taken(10).await;
    let came_back = now_ms();
    engine.restart_at(&address).unwrap();
    let after = samples_until(&engine.client(), came_back).await;
    assert!(stored.is_subset(&after), "samples that were stored are gone");
    let kept = after.iter().filter(|ts| (killed..came_back).contains(*ts)).count();
    assert!(kept >= 6, "{kept} samples from while ClickHouse was dead: {after:?}");
    let steps: Vec<i64> = after.iter().zip(after.iter().skip(1)).map(|(one, next)| next - one).collect();
    assert!(steps.iter().all(|step| *step < 2_000), "a hole in the samples: {steps:?}");
    drop(agent);
}
