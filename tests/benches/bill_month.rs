//! How long the bill of a month takes, and how much memory: 1,000 GPUs, a row of the ledger for each minute of each, 20,000 owners.
//!
//! Rows are made inside of the engine, a day at once. The bill is asked for by `contador report`, from the rows (`rows`), and when hours
//! have been summed by the real pass (`hours`); of the fleet, and of one department; each the median of `--rounds` with least and
//! most. `first` is the first one after the engine was started again.
//!
//! `cargo bench -p contador-tests --bench bill_month -- [--gpus 1000] [--days 31] [--rounds 5]`
#![allow(clippy::unwrap_used, reason = "a benchmark ends at what it does not expect")]

#[path = "agent_cost/process.rs"]
mod process;

use std::process::{Command, Stdio};
use std::time::Instant;

use contador::bill::hours::pass::pass;
use contador::store::{Store, migrate};
use contador_tests::{Engine, binary};
use serde_json::{Value, json};

/// 2026-10-01T00:00:00Z, Unix seconds.
const OCTOBER: u32 = 1_790_812_800;

fn main() {
    if !process::is_benchmark() {
        return;
    }
    let (mut gpus, mut days, mut rounds) = (1_000_u32, 31_u32, 5_u32);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().and_then(|text| text.parse::<u32>().ok()).expect("expected a whole number");
        match word.as_str() {
            "--gpus" => gpus = value(),
            "--days" => days = value(),
            "--rounds" => rounds = value(),
            "--bench" => {}
            other => panic!("{other}: expected --gpus, --days or --rounds"),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("{:#}", runtime.block_on(measure(gpus, days, rounds)));
}

async fn measure(gpus: u32, days: u32, rounds: u32) -> Value {
    let mut engine = Engine::start().unwrap();
    let store = open(&engine);
    migrate::up(&store).await.unwrap();
    let begun = Instant::now();
    fill(&store, gpus, days).await;
    let filled = begun.elapsed().as_secs_f64();
    let rows: u64 = store.client.query("SELECT count() FROM ledger").fetch_one().await.unwrap();
    assert_eq!(rows, u64::from(gpus) * u64::from(days) * 1_440);
    let mut told = json!({ "gpus": gpus, "days": days, "rounds": rounds, "rows": rows, "filled_s": filled });
    for from in ["rows", "hours"] {
        if from == "hours" {
            let begun = Instant::now();
            let hours = pass(&open(&engine)).await.unwrap();
            told["pass"] = json!({ "hours": hours, "s": begun.elapsed().as_secs_f64() });
        }
        engine.kill().unwrap();
        engine.restart().unwrap();
        told[from] = json!({
            "first": report(&engine, &[]),
            "fleet": asked(&engine, rounds, &[]),
            "department": asked(&engine, rounds, &["--department", "department-3", "--by", "project"]),
            "engine_peak_mib": peak_mib(&std::fs::read_to_string(format!("/proc/{}/status", engine.pid())).unwrap()),
        });
    }
    told["tables"] = sizes(&open(&engine)).await;
    told
}

fn open(engine: &Engine) -> Store {
    let client = engine.client().with_database("contador");
    Store { client, url: engine.url().to_owned(), database: "contador".to_owned() }
}

/// A fifth of the time idle, else owners that change every six hours.
async fn fill(store: &Store, gpus: u32, days: u32) {
    let run = async |sql: String| store.client.query_raw(&sql).execute().await.unwrap();
    run(format!(
        "INSERT INTO devices (id, node, vendor, model, first_seen, last_seen) \
         SELECT concat('GPU-', leftPad(toString(number), 36, '0')), concat('node-', toString(intDiv(number, 8))), 'nvidia', \
             if(number % 4 = 0, 'NVIDIA H100 80GB HBM3', 'NVIDIA A100-SXM4-80GB'), now64(3), now64(3) FROM numbers({gpus})"
    ))
    .await;
    run("INSERT INTO owners (id, kind, department, project, user, job) \
         SELECT toUUID(concat('00000000-0000-4000-8000-', leftPad(toString(number), 12, '0'))), 'workload', \
             concat('department-', toString(number % 10)), concat('project-', toString(number % 200)), \
             concat('user-', toString(number % 400)), concat('job-', toString(number)) FROM numbers(20000)"
        .to_owned())
    .await;
    for day in 0..days {
        run(format!(
            "INSERT INTO ledger (minute, device, owner, kind, node, held_ms, share_ms, busy_ms, memory_mib_ms, energy_mj, stored) \
             SELECT toDateTime({OCTOBER} + at * 60, 'UTC'), concat('GPU-', leftPad(toString(gpu), 36, '0')), \
                 if(idle, toUUID('c0b7a8a6-3fb1-5d0e-8e5e-0d2c4d6f3a11'), \
                     toUUID(concat('00000000-0000-4000-8000-', leftPad(toString(cityHash64(gpu, block) % 20000), 12, '0')))), \
                 if(idle, 'idle', 'workload'), concat('node-', toString(intDiv(gpu, 8))), 60000, 60000, \
                 if(idle, 0, cityHash64(gpu, at, 1) % 60000), if(idle, 0, 2400000000), 6000000 + cityHash64(gpu, at, 2) % 30000000, \
                 now64(3) - INTERVAL 1 HOUR \
             FROM (SELECT intDiv(number, 1440) AS gpu, {day} * 1440 + number % 1440 AS at, intDiv(at, 360) AS block, \
                 cityHash64(gpu, block, 7) % 5 = 0 AS idle FROM numbers({gpus} * 1440))"
        ))
        .await;
    }
}

/// Seconds that a report takes, with the program's start.
fn report(engine: &Engine, more: &[&str]) -> f64 {
    let begun = Instant::now();
    let output = Command::new(binary("contador").unwrap())
        .args(["report", "--month", "2026-10", "--flat-rate", "1.00", "--format", "json"])
        .args(more)
        .env("CONTADOR_CLICKHOUSE_URL", engine.url())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let taken = begun.elapsed().as_secs_f64();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    taken
}

fn asked(engine: &Engine, rounds: u32, more: &[&str]) -> Value {
    let mut taken: Vec<f64> = (0..rounds).map(|_| report(engine, more)).collect();
    taken.sort_by(f64::total_cmp);
    json!({ "median_s": taken.get(taken.len() / 2), "least_s": taken.first(), "most_s": taken.last() })
}

/// Greatest resident set so far.
fn peak_mib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1_024)
}

/// Rows and bytes of each table.
async fn sizes(store: &Store) -> Value {
    let mut sizes = serde_json::Map::new();
    for table in ["ledger", "ledger_hours"] {
        let sql = "SELECT toUInt64(sum(rows)), toUInt64(sum(bytes_on_disk)) FROM system.parts \
                   WHERE active AND database = currentDatabase() AND table = ?";
        let (rows, bytes): (u64, u64) = store.client.query(sql).bind(table).fetch_one().await.unwrap();
        sizes.insert(table.to_owned(), json!({ "rows": rows, "bytes": bytes }));
    }
    Value::Object(sizes)
}
