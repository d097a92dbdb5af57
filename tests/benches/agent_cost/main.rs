//! What the agent costs: CPU and memory with simulated GPUs, beside the exporters that others run.
//!
//! For each load a program is started ([`programs`]), left alone until it has settled, and then watched for a while through
//! `/proc` ([`process`]): CPU time of its whole tree, resident memory at the end and at most, threads and file descriptors. The
//! agent sends to a receiver that throws everything away ([`sink`]); exporters are scraped as often as the agent samples.
//! The result is one JSON document on standard output. Peers that are not installed are named in `left_out`.
//!
//! `cargo bench -p contador-tests --bench agent_cost -- [--seconds 60] [--agent PATH] [--only TEXT]`
#![allow(clippy::unwrap_used, reason = "a benchmark ends at what it does not expect")]

mod process;
mod programs;
mod sink;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::process::Tree;
use self::programs::{Load, Program};

/// How long a program may take to settle before it is watched.
const SETTLE: Duration = Duration::from_secs(5);

struct Arguments {
    seconds: u64,
    agent: Option<PathBuf>,
    only: String,
}

fn main() {
    if !process::is_benchmark() {
        return;
    }
    let arguments = arguments();
    let sink = sink::start();
    let programs = programs::all(arguments.agent.as_deref(), sink.address);
    let mut left_out = Vec::new();
    let mut runs = Vec::new();
    for program in programs {
        let Ok(program) = program.map_err(|reason| left_out.push(reason)) else { continue };
        for load in program.loads() {
            if format!("{} {load:?}", program.name()).contains(&arguments.only) {
                eprintln!("{} {load:?} …", program.name());
                let before = sink.points();
                let mut run = watch(&program, load, Duration::from_secs(arguments.seconds));
                let points = sink.points() - before;
                if points > 0 {
                    run["points_received"] = json!(points);
                }
                runs.push(run);
            }
        }
    }
    let machine = json!({
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    });
    let report = json!({ "machine": machine, "seconds": arguments.seconds, "runs": runs, "left_out": left_out });
    println!("{report:#}");
}

fn watch(program: &Program, load: Load, length: Duration) -> Value {
    let running = program.start(load);
    let settled = Instant::now() + SETTLE;
    running.scrape_until(settled, load.interval);
    let tree = Tree::of(running.pid());
    let (start, from) = (tree.cpu_seconds(), Instant::now());
    let (mut rss, mut threads, mut fds) = (0, 0, 0);
    while from.elapsed() < length {
        running.scrape_until(Instant::now() + Duration::from_secs(1), load.interval);
        let now = Tree::of(running.pid());
        rss = rss.max(now.rss_bytes());
        threads = threads.max(now.threads());
        fds = fds.max(now.fds());
    }
    let tree = Tree::of(running.pid());
    let seconds = from.elapsed().as_secs_f64();
    let mib = |bytes: u64| (bytes as f64 / 1_048_576.0 * 100.0).round() / 100.0;
    let percent = ((tree.cpu_seconds() - start) / seconds * 1e4).round() / 100.0;
    json!({
        "program": program.name(),
        "gpus": load.gpus,
        "interval_ms": u64::try_from(load.interval.as_millis()).unwrap(),
        "cpu_percent_of_a_core": percent,
        "rss_mib": mib(tree.rss_bytes()),
        "rss_max_mib": mib(rss),
        "threads_max": threads,
        "fds_max": fds,
    })
}

fn arguments() -> Arguments {
    let mut found = Arguments { seconds: 60, agent: None, only: String::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word}: expected a value"));
        match word.as_str() {
            "--seconds" => found.seconds = value().parse().expect("--seconds: expected a whole number"),
            "--agent" => found.agent = Some(value().into()),
            "--only" => found.only = value(),
            // Cargo adds it.
            "--bench" => {}
            other => panic!("{other}: expected --seconds, --agent or --only"),
        }
    }
    found
}
