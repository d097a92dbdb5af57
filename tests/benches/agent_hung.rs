//! The running agent with a GPU whose calls never return and a file system that never answers, for a minute at 1 Hz.
//!
//! Counted are ticks that were made and missed, the greatest age of every other sensor's last answer as `/metrics` has it each
//! second, and threads, open files and resident memory at the beginning and at the end. The result is one JSON document on
//! standard output. Mounting takes root; without, only the GPU hangs, and the document says so.
//!
//! `cargo bench -p contador-tests --bench agent_hung -- [--seconds 60]`
#![allow(clippy::unwrap_used, reason = "a benchmark ends at what it does not expect")]

#[path = "agent_cost/process.rs"]
mod process;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use contador_tests::hung_mount::HungMount;
use serde_json::json;

use self::process::Tree;

fn main() {
    if !process::is_benchmark() {
        return;
    }
    let mut seconds = 60;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => seconds = words.next().and_then(|text| text.parse().ok()).expect("expected a whole number"),
            "--bench" => {}
            other => panic!("{other}: expected --seconds"),
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("scenario.toml");
    std::fs::write(&scenario, "[[gpu]]\nmodel = \"h100-80gb\"\ncount = 8\nutilization = 50\n").unwrap();
    let faults = folder.path().join("faults.toml");
    std::fs::write(&faults, "").unwrap();
    let hung = HungMount::new();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut agent = Command::new(contador_tests::binary("contador-agent").unwrap())
        .args(["run", "--node", "bench", "--endpoint", "http://127.0.0.1:9", "--listen", &address.to_string()])
        .arg("--state-dir")
        .arg(folder.path().join("state"))
        .arg("--simulate")
        .arg(&scenario)
        .env("CONTADOR_NVML_SIMULATOR", contador_nvml_simulator::library::find().unwrap())
        .env("CONTADOR_NVML_FAULTS", &faults)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(5));
    std::fs::write(&faults, "[[fault]]\nkind = \"hang\"\ngpu = 3\n").unwrap();
    std::thread::sleep(Duration::from_secs(15));
    let look = || {
        let tree = Tree::one(agent.id());
        json!({ "threads": tree.threads(), "fds": tree.fds(), "rss_mib": (tree.rss_bytes() as f64 / 10_485.76).round() / 100.0 })
    };
    let (first, before) = (look(), metrics(address));
    let mut oldest: BTreeMap<String, f64> = BTreeMap::new();
    let mut stuck: BTreeMap<String, f64> = BTreeMap::new();
    let mut last = before.clone();
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        last = metrics(address);
        for (name, value) in &last {
            let greatest = match () {
                () if name.contains("sensor_age_seconds") => &mut oldest,
                () if name.contains("sensor_stuck_seconds") && *value > 0.0 => &mut stuck,
                () => continue,
            };
            let known = greatest.entry(name.clone()).or_default();
            *known = known.max(*value);
        }
    }
    let counted = |result: &str| {
        let name = format!("contador_agent_ticks_total{{result=\"{result}\"}}");
        last.get(&name).copied().unwrap_or(0.0) - before.get(&name).copied().unwrap_or(0.0)
    };
    let report = json!({
        "seconds": seconds,
        "mount": hung.as_ref().map_or_else(|reason| format!("does not hang here: {reason}"), |_| "hangs".to_owned()),
        "ticks_done": counted("done"),
        "ticks_missed": counted("missed"),
        "stuck_seconds_max": stuck,
        "age_seconds_max": oldest,
        "first": first,
        "last": look(),
    });
    agent.kill().unwrap();
    agent.wait().unwrap();
    println!("{report:#}");
}

/// Every sample of `/metrics`, by name with labels.
fn metrics(address: SocketAddr) -> BTreeMap<String, f64> {
    let mut text = String::new();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_string(&mut text).unwrap();
    let samples = text.lines().filter_map(|line| line.rsplit_once(' '));
    samples.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}
