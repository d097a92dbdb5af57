//! What the agent costs: CPU and memory with simulated GPUs, beside the exporters that others run.
//!
//! For each load a program is started ([`programs`]), left alone until it has settled, and then watched for a while through
//! `/proc` ([`process`]): CPU time of its whole tree, resident memory at the end and at most, threads and file descriptors. The
//! agent sends to a receiver that throws everything away ([`sink`]); exporters are scraped as often as the agent samples.
//! What the machine takes of any program of that size is measured beside it: the [`floor`] touches as many pages as the agent did
//! with the same load, and does nothing else. With `--rounds`, each is measured so often, in turns, since machines are not the
//! same from minute to minute.
//!
//! With `--servers`, the agent scrapes so many inference servers meanwhile ([`servers`]).
//!
//! With `--awake`, no processor sleeps meanwhile, as on a node that has work to do.
//!
//! The result is one JSON document on standard output. Peers that are not installed are named in `left_out`.
//!
//! `cargo bench -p contador-tests --bench agent_cost -- [--awake] [--seconds 60] [--rounds 1] [--servers 0] [--agent PATH]
//! [--only TEXT]`
#![allow(clippy::unwrap_used, reason = "a benchmark ends at what it does not expect")]

mod floor;
mod process;
mod programs;
mod servers;
mod sink;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::process::Tree;
use self::programs::{Load, Program};

/// How long a program may take to settle before it is watched.
const SETTLE: Duration = Duration::from_secs(5);

/// Keeps every processor from going to sleep, at the lowest priority: as on a node that works. A virtual processor that sleeps
/// may find nothing of what it had when it is woken, and what that takes counts as the program's.
fn keep_awake() {
    for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
        std::thread::spawn(|| {
            rustix::process::nice(19).expect("a lower priority");
            loop {
                std::hint::spin_loop();
            }
        });
    }
}

struct Arguments {
    awake: bool,
    seconds: u64,
    agent: Option<PathBuf>,
    only: Vec<String>,
    rounds: u32,
    servers: usize,
}

fn main() {
    floor::run_if_asked();
    if !process::is_benchmark() {
        return;
    }
    let arguments = arguments();
    if arguments.awake {
        keep_awake();
    }
    let sink = sink::start();
    let programs = programs::all(arguments.agent.as_deref(), sink.address, &servers::start(arguments.servers));
    let mut left_out = Vec::new();
    let mut runs = Vec::new();
    let programs: Vec<Program> =
        programs.into_iter().filter_map(|program| program.map_err(|reason| left_out.push(reason)).ok()).collect();
    // What the agent touched last, by load.
    let mut touched: HashMap<(u32, Duration), u64> = HashMap::new();
    for _ in 0..arguments.rounds {
        for (program, load) in
            programs.iter().flat_map(|program| program.loads().into_iter().map(move |load| (program, load)))
        {
            let is_wanted = arguments.only.iter().any(|only| format!("{} {load:?}", program.name()).contains(only));
            if !is_wanted && !arguments.only.is_empty() {
                continue;
            }
            let key = (load.gpus, load.interval);
            let pages = touched.get(&key).map_or(0, |bytes| bytes / rustix::param::page_size() as u64);
            if program.is_floor() && pages == 0 {
                continue;
            }
            eprintln!("{} {load:?} …", program.name());
            let before = sink.points();
            let mut run = watch(program, load, pages, Duration::from_secs(arguments.seconds));
            let points = sink.points() - before;
            if points > 0 {
                run["points_received"] = json!(points);
            }
            if program.is_agent() {
                touched.insert(key, run["touched_bytes"].as_u64().unwrap_or(0));
            }
            runs.push(run);
        }
    }
    let machine = json!({
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    });
    let report = json!({
        "machine": machine,
        "kept_awake": arguments.awake,
        "seconds": arguments.seconds,
        "scraped_servers": arguments.servers,
        "medians": medians(&runs),
        "runs": runs,
        "left_out": left_out,
    });
    println!("{report:#}");
}

/// The median of what each program took with each load.
fn medians(runs: &[Value]) -> Vec<Value> {
    let mut taken: BTreeMap<(String, u64, u64), Vec<f64>> = BTreeMap::new();
    for run in runs {
        let number = |name: &str| run[name].as_u64().unwrap();
        let key = (run["program"].as_str().unwrap().to_owned(), number("gpus"), number("interval_ms"));
        taken.entry(key).or_default().push(run["cpu_percent_of_a_core"].as_f64().unwrap());
    }
    let median = |((program, gpus, interval_ms), mut taken): ((String, u64, u64), Vec<f64>)| {
        taken.sort_by(f64::total_cmp);
        json!({
            "program": program,
            "gpus": gpus,
            "interval_ms": interval_ms,
            "cpu_percent_of_a_core": taken[taken.len() / 2],
            "least": taken[0],
            "most": taken[taken.len() - 1],
            "rounds": taken.len(),
        })
    };
    taken.into_iter().map(median).collect()
}

fn watch(program: &Program, load: Load, pages: u64, length: Duration) -> Value {
    let running = program.start(load, pages);
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
    // After the measurement, since it makes every page of the process new to the processor.
    let touched = if program.is_agent() { tree.touched_bytes(load.interval) } else { 0 };
    json!({
        "program": program.name(),
        "gpus": load.gpus,
        "interval_ms": u64::try_from(load.interval.as_millis()).unwrap(),
        "cpu_percent_of_a_core": percent,
        "touched_bytes": touched,
        "rss_mib": mib(tree.rss_bytes()),
        "rss_max_mib": mib(rss),
        "threads_max": threads,
        "fds_max": fds,
    })
}

fn arguments() -> Arguments {
    let mut found = Arguments { awake: false, seconds: 60, agent: None, only: Vec::new(), rounds: 1, servers: 0 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word}: expected a value"));
        match word.as_str() {
            "--seconds" => found.seconds = value().parse().expect("--seconds: expected a whole number"),
            "--agent" => found.agent = Some(value().into()),
            "--only" => found.only.push(value()),
            "--rounds" => found.rounds = value().parse().expect("--rounds: expected a whole number"),
            "--servers" => found.servers = value().parse().expect("--servers: expected a whole number"),
            "--awake" => found.awake = true,
            // Cargo adds it.
            "--bench" => {}
            other => panic!("{other}: expected --awake, --seconds, --rounds, --servers, --agent or --only"),
        }
    }
    found
}
