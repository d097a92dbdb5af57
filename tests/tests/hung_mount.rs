//! A file system that hangs for ever takes nothing with it: every other sensor gives a sample at every tick, and nothing
//! grows. One test alone in its process, since it counts the process's threads and files.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod storage_support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contador_agent::config::{Config, Overrides};
use contador_agent::crew::Crew;
use contador_agent::http::Health;
use contador_agent::outbox::pack::plain;
use contador_agent::outbox::{Keeper, Kind};
use contador_agent::run::Options;
use contador_agent::run::kernel::{KernelSensor, kernel_sensors};
use contador_agent::run::node::Node;
use contador_agent::sensors::mounts::probe::{Ask, statvfs};
use contador_agent::sensors::{Answer, KernelSample, Mounts, NvmlLibrary, SensorTask};
use contador_agent::telemetry::Telemetry;
use contador_schemas::names;
use contador_tests::hung_mount::HungMount;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use storage_support::{Machine, mounts_seen};

const TICKS: i64 = 10_000;

/// Ticks before anything is counted: buffers have found their sizes by then.
const WARM_UP: i64 = 500;

/// What the process may grow by, in bytes: what the allocator keeps, and not a sample's worth for each tick.
const GROWTH: u64 = 2 << 20;

/// A point in time that only a sensor that hangs would reach.
fn far() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(120)
}

#[derive(Debug)]
struct Process {
    threads: usize,
    files: usize,
    resident: u64,
}

impl Process {
    fn now() -> Self {
        let entries = |dir: &str| fs::read_dir(dir).unwrap().count();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        Self { threads: entries("/proc/self/task"), files: entries("/proc/self/fd"), resident: kib * 1024 }
    }
}

/// This machine's kernel with two mounts: the one that hangs, as mountinfo has it, and that of the working directory.
/// Where the latter is, too.
fn machine(hangs: &str) -> (Machine, String) {
    let machine = Machine::new();
    machine.dir("proc/self");
    for name in ["stat", "meminfo", "loadavg", "diskstats", "pressure", "net", "self/mountstats", "cpuinfo"] {
        symlink(Path::new("/proc").join(name), machine.path("proc").join(name)).unwrap();
    }
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let here = std::env::current_dir().unwrap();
    let below = table.lines().filter(|line| here.starts_with(point_of(line)));
    let home = below.max_by_key(|line| point_of(line).len()).unwrap();
    machine.write("proc/self/mountinfo", &format!("{home}\n{hangs}\n"));
    (machine, point_of(home).to_owned())
}

fn point_of(line: &str) -> &str {
    line.split(' ').nth(4).unwrap()
}

fn config(machine: &Machine, state: &Path) -> Config {
    let text = format!("[sensors]\nproc = {:?}\n", machine.path("proc"));
    let overrides = Overrides { state_dir: Some(state.to_owned()), node: Some("n1".into()), ..Overrides::default() };
    Config::parse(&text, Path::new("agent.toml"), &overrides).unwrap()
}

#[tokio::test]
async fn with_a_hung_mount_every_other_sensor_goes_on_and_nothing_grows() {
    let state = tempfile::tempdir().unwrap();
    match HungMount::new() {
        Ok(hung) => {
            let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
            let hangs = table.lines().find(|line| Path::new(point_of(line)) == hung.point()).unwrap();
            let (machine, home) = machine(hangs);
            let config = config(&machine, state.path());
            let point = hung.point().to_str().unwrap();
            flat(&config, point, &home, Arc::new(statvfs)).await;
            whole(&config, point, state.path()).await;
        }
        Err(error) => {
            println!("this machine does not let the test mount FUSE ({error}): with an injected call instead");
            let point = "/contador-dead";
            let (machine, home) = machine(&format!("1 0 0:4000 / {point} rw - nfs4 fs:/dead rw"));
            // Comes back when the test has ended.
            let (_end, ended) = std::sync::mpsc::channel::<()>();
            let ended = Mutex::new(ended);
            let ask = move |asked: &Path| {
                if asked == Path::new(point) {
                    let _ = ended.lock().unwrap().recv();
                }
                statvfs(asked)
            };
            flat(&config(&machine, state.path()), point, &home, Arc::new(ask)).await;
        }
    }
}

/// The sensors' own threads.
async fn flat(config: &Config, point: &str, home: &str, ask: Ask) {
    let pids = Arc::new(Mutex::new(vec![std::process::id()]));
    let readers = kernel_sensors(config, &pids).into_iter().filter(|sensor| sensor.name != "mounts");
    // As in the loop, all of them on the threads of one crew.
    let crew = Crew::start().unwrap();
    let mut kernel: Vec<_> =
        readers.map(|KernelSensor { name, make, .. }| (name, SensorTask::on(&crew, name, move || make()))).collect();
    let mut mounts = Mounts::asking(config.roots.proc.clone(), config.mounts.clone(), ask);
    let mounts =
        SensorTask::on(&crew, "mounts", move || move |ts_ms| mounts.sample(ts_ms).map_err(|error| error.to_string()));
    kernel.push(("mounts", mounts));
    assert_eq!(kernel.len(), 8);
    let mut before = None;
    let (mut lost, mut home_up) = (0, 0);
    for tick in 0..TICKS {
        let ts_ms = tick * 1_000;
        assert!(kernel.iter_mut().all(|(_, thread)| thread.request(ts_ms)));
        for (name, thread) in &mut kernel {
            let Answer::Ready(sample) = thread.collect(far()).await else { panic!("{name} hangs at tick {tick}") };
            let sample: KernelSample = sample.unwrap();
            assert_eq!(sample.ts_ms, ts_ms);
            if *name == "mounts" {
                let seen = mounts_seen(&sample);
                assert!(!seen.contains(&(point, 1)), "tick {tick}");
                lost += u64::from(seen.contains(&(point, 0)));
                home_up += u64::from(seen.contains(&(home, 1)));
            }
        }
        if tick == WARM_UP {
            before = Some(Process::now());
        }
    }
    let (before, after) = (before.unwrap(), Process::now());
    // When all are slow at once, each has a thread for a while.
    assert!(after.threads <= before.threads + kernel.len(), "{before:?}, {after:?}");
    assert_eq!(after.files, before.files);
    assert!(after.resident < before.resident + GROWTH, "{before:?}, {after:?}");
    // Every 5 s it is said to be unreachable, from the second probe on.
    assert_eq!(lost, u64::try_from(TICKS).unwrap() / 5 - 1);
    // A container's root has no storage of its own.
    let table = fs::read_to_string(config.roots.proc.join("self/mountinfo")).unwrap();
    let is_layer = table.lines().any(|line| point_of(line) == home && line.contains(" - overlay "));
    assert!(home_up > 0 || is_layer, "{home}");
}

/// The whole agent: what it hands on.
async fn whole(config: &Config, point: &str, state: &Path) {
    let telemetry = Telemetry::new().unwrap();
    let keeper = Keeper::open(&config.spool_dir, config.spool, telemetry.clone()).unwrap();
    let options = Options { library: NvmlLibrary::at(state.join("no-driver.so")), ..Options::default() };
    let mut node = Node::start(config, &options, keeper.clone(), telemetry, Health::default()).unwrap();
    const START: i64 = 1_790_000_040_000;
    for second in 0..60 {
        node.tick(START + second * 1_000).await;
    }
    let mut requests = Vec::new();
    while let Some((lane, batch)) = keeper.peek(1_000, 1 << 24).await.unwrap() {
        requests.extend(batch.records.iter().map(|record| {
            (record.kind, ExportMetricsServiceRequest::decode(&*plain(&record.payload).unwrap()).unwrap())
        }));
        keeper.acknowledge(lane, *batch.ends.last().unwrap()).await.unwrap();
    }
    let metrics = |request: &ExportMetricsServiceRequest| -> Vec<String> {
        let scopes = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
        scopes.flat_map(|scope| &scope.metrics).map(|metric| metric.name.clone()).collect()
    };
    let samples: Vec<_> = requests.iter().filter(|(kind, _)| *kind == Kind::Samples).map(|(_, all)| all).collect();
    assert_eq!(samples.len(), 60);
    for name in [names::CPU_COUNT, names::MEMORY_LIMIT] {
        assert!(samples.iter().all(|sample| metrics(sample).contains(&name.to_owned())), "{name} at every tick");
    }
    // The events tell of the mount.
    let events = requests.iter().filter(|(kind, _)| *kind == Kind::Event).map(|(_, event)| format!("{event:?}"));
    // Other tests have mounts of their own.
    let lost: Vec<String> = events.filter(|event| event.contains("mount_lost") && event.contains(point)).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    // And so do samples.
    let reachable = samples.iter().filter(|sample| metrics(sample).contains(&names::MOUNT_REACHABLE.to_owned()));
    assert!(reachable.count() >= 11);
}
