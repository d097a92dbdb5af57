//! A day of the agent in minutes: the real loop, one tick after the other, with the clocks a second further each time.
//!
//! The node is the library's own ([`contador_agent::run::node::Node`]) with every sensor on its thread, the simulator's GPUs,
//! the ledger, its checkpoint, the spool and the sender; a receiver that throws everything away runs in a process of its own.
//! What is left out is the waiting between ticks. The result is one JSON document on standard output: resident memory,
//! threads and file descriptors at every twentieth of the day, and the CPU time of a tick, the simulator's part included.
//!
//! `cargo bench -p contador-tests --bench agent_day -- [--ticks 86400] [--gpus 8]`
#![allow(clippy::unwrap_used, reason = "a benchmark ends at what it does not expect")]

#[path = "../../tests/nvml_support/mod.rs"]
mod nvml_support;
#[path = "../agent_cost/process.rs"]
mod process;
#[path = "../agent_cost/sink.rs"]
mod sink;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use contador_agent::config::{Config, Overrides};
use contador_agent::http::Health;
use contador_agent::outbox::Keeper;
use contador_agent::outbox::send::{self, Destination};
use contador_agent::run::clock::now_ms;
use contador_agent::run::node::Node;
use contador_agent::run::{CancellationToken, Options};
use contador_agent::sensors::NvmlLibrary;
use contador_agent::telemetry::Telemetry;
use serde_json::{Value, json};

use self::nvml_support::Simulator;
use self::process::Tree;

/// How often the process is looked at in a day.
const LOOKS: u64 = 20;

fn main() {
    if !process::is_benchmark() && !std::env::args().any(|word| word == "--sink") {
        return;
    }
    let (mut ticks, mut gpus) = (86_400_u64, 8_u32);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().and_then(|text| text.parse::<u64>().ok()).expect("expected a whole number");
        match word.as_str() {
            "--ticks" => ticks = value(),
            "--gpus" => gpus = u32::try_from(value()).unwrap(),
            "--bench" => {}
            "--sink" => return serve(),
            other => panic!("{other}: expected --ticks or --gpus"),
        }
    }
    let (sink, address) = receiver();
    let looks = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(day(ticks, gpus, &address));
    drop(sink);
    println!("{looks:#}");
}

/// One day, as JSON.
async fn day(ticks: u64, gpus: u32, endpoint: &str) -> Value {
    let simulator = Simulator::new(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\ncount = {gpus}\nmemory_mib = 40960\n\
         utilization = {{ wave = {{ min = 10, max = 90, period = \"10m\" }} }}\n\
         [[gpu.process]]\npid = {}\nmemory_mib = 40960\nsm_util = 50\n",
        std::process::id()
    ));
    let folder = tempfile::tempdir().unwrap();
    let overrides = Overrides {
        node: Some("bench".into()),
        endpoint: Some(endpoint.to_owned()),
        state_dir: Some(folder.path().to_owned()),
        ..Overrides::default()
    };
    let config = Config::load(None, &overrides).unwrap();
    let telemetry = Telemetry::new().unwrap();
    let keeper = Keeper::open(&config.spool_dir, config.spool, telemetry.clone()).unwrap();
    let options = Options { library: NvmlLibrary::at(simulator.path()), ..Options::default() };
    let mut node = Node::start(&config, &options, keeper.clone(), telemetry.clone(), Health::default()).unwrap();
    let endpoint = tonic::transport::Endpoint::from_shared(config.endpoint.clone()).unwrap();
    let destination = Destination { endpoint, compression: config.compression };
    let closing = CancellationToken::new();
    let sender = tokio::spawn(send::run(keeper, destination, telemetry.clone(), closing.clone()));

    let start_ms = now_ms();
    let own = || Tree::one(std::process::id());
    let (mut looks, began, cpu) = (Vec::new(), Instant::now(), own().cpu_seconds());
    for tick in 1..=ticks {
        simulator.hold_clock(tick * 1_000);
        node.tick(start_ms + i64::try_from(tick).unwrap() * 1_000).await;
        if tick % (ticks / LOOKS).max(1) == 0 {
            let now = own();
            looks.push(json!({
                "hour": (tick as f64 / 360.0).round() / 10.0,
                "rss_mib": (now.rss_bytes() as f64 / 1_048_576.0 * 100.0).round() / 100.0,
                "threads": now.threads(),
                "fds": now.fds(),
            }));
        }
    }
    let cpu_ms = (own().cpu_seconds() - cpu) * 1e3 / ticks as f64;
    closing.cancel();
    sender.await.unwrap();
    json!({
        "gpus": gpus,
        "ticks": ticks,
        "wall_seconds": began.elapsed().as_secs(),
        "cpu_ms_per_tick": (cpu_ms * 1e3).round() / 1e3,
        "looks": looks,
        "dropped": counter(&telemetry, "contador_agent_dropped_records_total"),
        "sent": counter(&telemetry, "contador_agent_sent_records_total"),
    })
}

/// A counter of the agent's own, by its labels.
fn counter(telemetry: &Telemetry, name: &str) -> Value {
    let families = telemetry.gather();
    let of_name = families.iter().filter(|family| family.name() == name).flat_map(|family| family.get_metric());
    let values = of_name.map(|metric| {
        let labels: Vec<&str> = metric.get_label().iter().map(|label| label.value()).collect();
        (labels.join(" "), json!(metric.get_counter().get_value()))
    });
    Value::Object(values.collect())
}

/// Starts this program once more, as the receiver.
fn receiver() -> (Receiver, String) {
    let mut child =
        Command::new(std::env::current_exe().unwrap()).arg("--sink").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Receiver(child), line.trim().to_owned())
}

/// Prints where it listens, and receives until it is ended.
fn serve() {
    println!("http://{}", sink::start().address);
    loop {
        std::thread::park();
    }
}

struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
