//! The whole agent on the simulator: a process holds a GPU, and what comes out at the collector adds up.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use contador_agent::config::{Config, Overrides};
use contador_agent::ledger::checkpoint::{self, CheckpointFile, Loaded};
use contador_agent::ledger::{Ledger, MINUTE_MS, Tick};
use contador_agent::run::clock::now_ms;
use contador_agent::run::{self, CancellationToken, Options};
use contador_agent::sensors::NvmlLibrary;
use contador_schemas::names;
use contador_schemas::owner::{Owner, OwnerKind};
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use tonic::codec::CompressionEncoding::Zstd;

#[path = "../../agent/tests/common/mod.rs"]
mod collector;
mod nvml_support;

use collector::{Collector, attribute, free_address, points};
use nvml_support::Simulator;

const DEVICE: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process of research/vision that the simulator shows on the GPU.
fn holder(mark: &str) -> Killed {
    let child = Command::new("sleep")
        .arg("1000")
        .env("CONTADOR_TEST_GPU", mark)
        .env("CONTADOR_OWNER_DEPARTMENT", "research")
        .env("CONTADOR_OWNER_PROJECT", "vision")
        .env("CONTADOR_OWNER_USER", "ana")
        .spawn()
        .unwrap();
    Killed(child)
}

fn scenario(mark: &str) -> String {
    format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{DEVICE}\"\nutilization = 40\nunsupported = [\"temperature\"]\n\
         [[gpu.process]]\nenviron = \"CONTADOR_TEST_GPU={mark}\"\nmemory_mib = 1000\nsm_util = 40\n"
    )
}

fn config(state: &Path, endpoint: &str) -> Config {
    let overrides = Overrides {
        node: Some("n1".into()),
        endpoint: Some(endpoint.to_owned()),
        state_dir: Some(state.to_owned()),
        listen: Some("127.0.0.1:0".into()),
        interval: Some("200ms".into()),
    };
    let mut config = Config::load(None, &overrides).unwrap();
    // Those of the machine that this runs on have nothing to do with it.
    (config.kubernetes.socket, config.slurm.scontrol) =
        ("/nonexistent/kubelet.sock".into(), "/nonexistent/scontrol".into());
    config
}

fn whole(point: &NumberDataPoint) -> u64 {
    match point.value {
        Some(Value::AsInt(value)) => u64::try_from(value).unwrap(),
        _ => panic!("a whole number, not {point:?}"),
    }
}

/// The counter of a point of energy, in millijoules.
#[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "a counter of this test")]
fn millijoules(point: &NumberDataPoint) -> u64 {
    match point.value {
        Some(Value::AsDouble(joules)) => (joules * 1e3).round() as u64,
        _ => panic!("joules, not {point:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_gpu_is_metered_and_the_minutes_that_were_missed_conserve() {
    let mark = std::process::id().to_string();
    let simulator = Simulator::new(&scenario(&mark));
    simulator.hold_clock(60_000);
    let _holder = holder(&mark);
    let state = tempfile::tempdir().unwrap();

    // An agent was killed two minutes ago; at its last tick the counter stood at 1 J.
    let (killed, counter) = (now_ms() - 2 * MINUTE_MS, 1_000);
    let mut ledger = Ledger::default();
    let last = Tick {
        device: DEVICE.into(),
        simulated: true,
        instant_ms: killed,
        holders: Vec::new(),
        utilization_ppm: None,
        energy_mj: Some(counter),
        split: None,
    };
    ledger.tick(last, Duration::from_secs(1));
    CheckpointFile::new(state.path()).store(&checkpoint::encode(&ledger, std::iter::empty()).unwrap(), true).unwrap();

    let collector = Collector::default();
    let running = collector.start(free_address(), &[Zstd]).await;
    let config = config(state.path(), &format!("http://{}", running.address));
    let options = Options { library: NvmlLibrary::at(simulator.path()), ..Options::default() };
    let shutdown = CancellationToken::new();
    let agent = tokio::spawn(run::run(config, options, shutdown.clone()));
    let received = collector
        .wait(|received| {
            points(received, names::GPU_PROCESSES).len() > 2 && !points(received, names::LEDGER_ENERGY).is_empty()
        })
        .await;
    shutdown.cancel();
    agent.await.unwrap().unwrap();
    running.stop().await;

    let of = |name: &str| points(&received, name);
    assert!(of(names::GPU_PROCESSES).iter().all(|point| whole(point) == 1));
    for point in of(names::GPU_UTILIZATION) {
        let of_an_engine = point.attributes.iter().any(|attribute| attribute.key == names::GPU_TASK);
        assert_eq!(point.value, Some(Value::AsDouble(if of_an_engine { 0.0 } else { 0.4 })));
    }
    let blank = &of(names::TEMPERATURE)[0];
    assert_eq!((blank.flags, blank.value), (1, None), "what the device can't tell is no number");
    assert!(blank.attributes.iter().any(|attribute| attribute.key == names::UNSUPPORTED));
    let device = &of(names::DEVICE_INFO)[0];
    assert_eq!(attribute(&device.attributes, names::HW_MODEL), "NVIDIA H100 80GB HBM3");

    // The formula that a checker applies to samples: E(B) = e1 + floor((e2 - e1) * (B - t1) / (t2 - t1)).
    let first = &of(names::ENERGY)[0];
    let (t1, e1) = (u64::try_from(killed).unwrap(), counter);
    let (t2, e2) = (first.time_unix_nano / 1_000_000, millijoules(first));
    let energy_at = |at: u64| e1 + (e2 - e1) * (at.clamp(t1, t2) - t1) / (t2 - t1);
    let mut minutes: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (share, energy) in of(names::LEDGER_SHARE).iter().zip(of(names::LEDGER_ENERGY)) {
        let minute = minutes.entry(share.start_time_unix_nano / 1_000_000).or_default();
        minute.0 += whole(share);
        minute.1 += whole(&energy);
    }
    assert!(minutes.len() >= 2, "{minutes:?}");
    let length = u64::try_from(MINUTE_MS).unwrap();
    for (start, (share, energy)) in minutes {
        assert_eq!(share, 60_000);
        assert_eq!(energy, energy_at(start + length) - energy_at(start), "minute {start}");
    }
    let unmetered = Owner::of_kind(OwnerKind::Unmetered).id().to_string();
    let owners = of(names::LEDGER_SHARE);
    assert!(owners.iter().any(|point| attribute(&point.attributes, names::OWNER_ID) == unmetered));

    // What is open is on disk, with its owner.
    let Loaded::Ledger(ledger, _) = CheckpointFile::new(state.path()).load().unwrap() else { panic!("no checkpoint") };
    let text = serde_json::to_string(&ledger).unwrap();
    assert!(text.contains("\"department\":\"research\"") && text.contains("\"user\":\"ana\""), "{text}");
}

#[test]
fn a_faulty_scenario_is_bad_usage() {
    let simulator = Simulator::without_scenario();
    let faulty = simulator.scenario_file("[[gpu]]\nmodel = \"gtx\"");
    let state = tempfile::tempdir().unwrap();
    for command in [&["probe"][..], &["run", "--once", "--listen", "127.0.0.1:0", "--state-dir", "state"]] {
        let output = Command::new(contador_tests::binary("contador-agent").unwrap())
            .args(command)
            .arg("--simulate")
            .arg(&faulty)
            .env("CONTADOR_NVML_SIMULATOR", simulator.path())
            .current_dir(state.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("gpu[0].model: \"gtx\" is unknown"), "{said}");
    }
}
