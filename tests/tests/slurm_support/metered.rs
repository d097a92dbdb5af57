//! A node of the agent's beside a real Slurm: it ticks all the time, on a clock that is the real one and an offset.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contador_agent::config::{Config, Overrides};
use contador_schemas::names;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;

use super::account::MINUTE_MS;
use super::{CGROUP, Slurm};
use crate::node_support::{Agent, Kernel, attribute, points, whole};
use crate::nvml_support::Simulator;

/// The minute in which the clock of the node begins.
pub const START: i64 = 1_790_000_040_000;

/// Where in that minute the jobs begin: soon enough before its end that they run across it.
const BEGIN_MS: i64 = 52_000;

/// Time between ticks.
const TICK: Duration = Duration::from_millis(200);

/// Who pays, by what Slurm says of a job.
const RULES: &str = "[[owners.rule]]\nname = \"Slurm\"\nmatch.job = \"*\"\n\
    set = { department = \"{slurm.account}\", project = \"{slurm.partition}\" }\n";

/// The UUID of the device with this minor number.
pub fn uuid(minor: u32) -> String {
    format!("GPU-5d5ba0d6-d33d-2b2c-524d-00000000000{minor}")
}

/// The real clock, Unix milliseconds.
pub fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The node, on a thread of its own.
pub struct Metered {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Ledger>,
}

/// What came of it.
pub struct Ledger {
    /// When each tick began and ended, by the real clock.
    pub ticks: Vec<(i64, i64)>,
    /// How much more the node's clock shows than the real one.
    pub offset_ms: i64,
    /// Its rows from the first minute on.
    pub rows: Vec<Row>,
}

/// A row of the ledger.
#[derive(Debug)]
pub struct Row {
    pub minute: i64,
    pub minor: u32,
    pub owner: BTreeMap<String, String>,
    pub held_ms: i64,
    pub share_ms: i64,
    /// Of the time held, that without work.
    pub idle_ms: i64,
}

impl Row {
    /// What the owner has under this name.
    pub fn of(&self, name: &str) -> &str {
        self.owner.get(name).map_or("", String::as_str)
    }
}

impl Metered {
    /// Starts it; it ticks when this returns.
    pub fn start(slurm: &Slurm) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (node, scontrol, until) = (slurm.node.clone(), slurm.path("scontrol"), Arc::clone(&stop));
        let (told, begun) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(drive(&node, &scontrol, &until, &told))
        });
        begun.recv().expect("the node ticks");
        Self { stop, thread }
    }

    /// Ends it, and its last minute.
    pub fn end(self) -> Ledger {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

async fn drive(node: &str, scontrol: &Path, stop: &AtomicBool, begun: &mpsc::Sender<()>) -> Ledger {
    // A process is on a device when its environment says so; no device has work.
    let gpu = |minor: u32| {
        format!(
            "[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{}\"\nutilization = 0\n\
             [[gpu.process]]\nenviron = \"CONTADOR_TEST_GPU_{minor}=1\"\nmemory_mib = 1000\n",
            uuid(minor)
        )
    };
    let simulator = Simulator::new(&(0..4).map(gpu).collect::<String>());
    let (kernel, state) = (Kernel::new(), tempfile::tempdir().unwrap());
    let rules = Config::parse(RULES, Path::new("agent.toml"), &Overrides::default()).unwrap().rules;
    let mut agent = Agent::start(state.path(), &simulator.path(), &kernel, |config| {
        (config.roots.proc, config.roots.cgroup) = ("/proc".into(), CGROUP.into());
        node.clone_into(&mut config.node);
        config.rules = rules;
        scontrol.clone_into(&mut config.slurm.scontrol);
        (config.slurm.poll, config.slurm.timeout) = (Duration::from_secs(1), Duration::from_secs(20));
        // The rounds are much shorter; only so the node has the patience that a busy machine needs.
        config.interval = Duration::from_secs(60);
    })
    .await;
    // The devices are known before the first minute, and Slurm has said the first word.
    let mut known = BTreeSet::new();
    let is_silent = |agent: &Agent| agent.node.schedulers().snapshots().iter().any(|told| told.is_silent());
    let mut was_silent = true;
    for instant_ms in (START - MINUTE_MS..START).step_by(100) {
        agent.node.tick(instant_ms).await;
        let handed_on = agent.handed_on().await;
        let memory = points(&handed_on, names::GPU_MEMORY_USAGE);
        known.extend(memory.iter().map(|point| attribute(point, names::HW_ID).to_owned()));
        if known.len() == 4 && !was_silent {
            break;
        }
        was_silent = is_silent(&agent);
        if was_silent {
            tokio::time::sleep(TICK).await;
        }
    }
    assert!(known.len() == 4 && !was_silent, "{known:?}");
    agent.node.tick(START).await;
    let (first_ms, mut ticks) = (now_ms(), Vec::new());
    let offset_ms = START + BEGIN_MS - first_ms;
    while !stop.load(Ordering::Relaxed) {
        let began = now_ms();
        simulator.hold_clock(u64::try_from(began - first_ms).unwrap());
        agent.node.tick(began + offset_ms).await;
        ticks.push((began, now_ms()));
        _ = begun.send(());
        tokio::time::sleep(TICK).await;
    }
    let last = ticks.last().unwrap().0 + offset_ms;
    agent.node.tick(last - last.rem_euclid(MINUTE_MS) + MINUTE_MS).await;
    Ledger { ticks, offset_ms, rows: rows(&agent.handed_on().await) }
}

/// The rows of the ledger, with who their owners are.
fn rows(handed_on: &[ExportMetricsServiceRequest]) -> Vec<Row> {
    let owners: BTreeMap<String, BTreeMap<String, String>> = points(handed_on, names::OWNER_INFO)
        .iter()
        .map(|point| {
            let named = point.attributes.iter().map(|own| (own.key.clone(), attribute(point, &own.key).to_owned()));
            (attribute(point, names::OWNER_ID).to_owned(), named.collect())
        })
        .collect();
    let mut found: BTreeMap<(u64, String, String), [i64; 3]> = BTreeMap::new();
    for (place, name) in [names::LEDGER_HELD, names::LEDGER_SHARE, names::LEDGER_IDLE].into_iter().enumerate() {
        for point in points(handed_on, name) {
            let [device, owner] = [names::HW_ID, names::OWNER_ID].map(|name| attribute(&point, name).to_owned());
            let row = found.entry((point.start_time_unix_nano, device, owner)).or_default();
            row[place] = i64::try_from(whole(&point)).unwrap();
        }
    }
    let row = |((start, device, owner), [held_ms, share_ms, idle_ms]): ((u64, String, String), [i64; 3])| Row {
        minute: i64::try_from(start / 1_000_000).unwrap(),
        minor: (0..4).find(|minor| uuid(*minor) == device).unwrap(),
        owner: owners[&owner].clone(),
        held_ms,
        share_ms,
        idle_ms,
    };
    found.into_iter().map(row).filter(|row| row.minute >= START).collect()
}
