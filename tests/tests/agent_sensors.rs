//! The agent's GPU sensor on the simulator: what NVML answers, and what the agent makes of it.

use std::path::Path;
use std::process::{Command, Stdio};

use contador_agent::sensors::{
    Answer, GpuSample, Gpus, Number, NvmlLibrary, ProcessKind, Reading, SensorError, SensorTask,
};

use contador_schemas::names;

mod nvml_support;
use nvml_support::Simulator;

const MIB: u64 = 1024 * 1024;

fn open(simulator: &Simulator) -> Gpus {
    Gpus::open(&NvmlLibrary::at(simulator.path()), Path::new("/proc")).expect("the simulator opens")
}

fn sample(scenario: &str) -> GpuSample {
    let simulator = Simulator::new(scenario);
    open(&simulator).sample(0, 1_000).expect("a GPU")
}

#[test]
fn an_identity_is_what_the_driver_says() {
    let simulator = Simulator::new("[[gpu]]\nmodel = \"h200-141gb\"\n[[gpu]]\nmodel = \"rtx-4090\"");
    let gpus = open(&simulator);
    assert!(gpus.simulated(), "known by its symbols, not by its name");
    assert!(gpus.unreadable().is_empty());
    let [h200, rtx] = gpus.identities() else { panic!("two GPUs: {:?}", gpus.identities()) };
    assert_eq!((h200.name.as_str(), h200.index, h200.minor), ("NVIDIA H200", 0, Some(0)));
    assert_eq!(h200.memory_total_bytes, Reading::Value(143_771 * MIB));
    assert_eq!(h200.power_limit_mw, Reading::Value(700_000));
    assert_eq!((h200.driver_version.as_str(), h200.cuda_version.as_deref()), ("570.133.20", Some("12.8")));
    assert_eq!(h200.architecture.as_deref(), Some("Hopper"));
    assert_eq!(h200.pci_bus_id.as_deref(), Some("00000000:01:00.0"));
    assert!(h200.simulated && h200.serial.is_some() && h200.uuid.starts_with("GPU-"));
    assert_eq!((rtx.serial.as_deref(), rtx.architecture.as_deref()), (None, Some("Ada")));
}

#[test]
fn a_sample_has_every_value() {
    let simulator = Simulator::new("[[gpu]]\nmodel = \"h100-80gb\"\nutilization = 50\nmemory_mib = 1000");
    let mut gpus = open(&simulator);
    simulator.hold_clock(10_000);
    let samples = gpus.sample_all(77);
    assert_eq!(samples.len(), 1);
    let s = &samples[0];
    assert_eq!((s.ts_ms, s.uuid.as_str()), (77, gpus.identities()[0].uuid.as_str()));
    assert_eq!(
        (s.measures.f64(names::GPU_UTILIZATION), s.measures.f64(names::GPU_MEMORY_UTILIZATION)),
        (Some(0.5), Some(0.3))
    );
    assert_eq!(s.measures.count(names::GPU_MEMORY_USAGE), Some(1_000 * MIB));
    let part = |metric: &str| s.measures.count(metric).expect("a value");
    let parts = [names::GPU_MEMORY_FREE, names::GPU_MEMORY_USAGE, names::GPU_MEMORY_RESERVED].map(part);
    assert_eq!(parts.iter().sum::<u64>(), part(names::GPU_MEMORY_LIMIT));
    assert_eq!(parts[2], 551 * MIB, "the driver's reserved part");
    for power in [names::POWER, names::GPU_POWER_AVERAGE, names::GPU_POWER_INSTANT] {
        assert_eq!(s.measures.reading(power), Some(&Reading::Value(Number::Thousandths(385_000))));
    }
    assert_eq!(s.measures.count(names::ENERGY), Some(3_850_000));
    let values = [names::TEMPERATURE, names::GPU_CLOCK_SM, names::GPU_CLOCK_MEMORY, names::GPU_CLOCK_GRAPHICS];
    assert_eq!(values.map(|metric| s.measures.count(metric)), [Some(51), Some(1_980), Some(2_619), Some(1_980)]);
    assert_eq!((&s.processes, s.rejected), (&Reading::Value(vec![]), 0));
    assert_eq!(gpus.sample(1, 0), None);
}

#[test]
fn unsupported_stays_unsupported_failed_is_failed_and_zero_is_zero() {
    let s = sample(
        "[[gpu]]\nmodel = \"l4\"\n\
         unsupported = [\"utilization_rates\", \"total_energy_consumption\", \"field_values\", \"memory_info\", \
         \"compute_processes\", \"graphics_processes\"]\nerrors = { temperature = \"gpu_is_lost\", clock_info = \"unknown\" }",
    );
    let unsupported = "unsupported (not offered by this device)";
    for missing in [
        names::GPU_UTILIZATION,
        names::GPU_MEMORY_UTILIZATION,
        names::ENERGY,
        names::GPU_POWER_AVERAGE,
        names::GPU_POWER_INSTANT,
        names::GPU_MEMORY_LIMIT,
        names::GPU_MEMORY_USAGE,
        names::GPU_MEMORY_RESERVED,
    ] {
        assert_eq!(s.measures.missing(missing).as_deref(), Some(unsupported), "{missing}");
    }
    assert_eq!(s.processes.missing().as_deref(), Some(unsupported));
    assert!(s.measures.reading(names::GPU_CLOCK_SM).expect("asked").is_failed());
    assert_eq!(
        s.measures.missing(names::TEMPERATURE).as_deref(),
        Some("failed (device fell off the bus or has otherwise become inacessible)")
    );
    assert_eq!(s.measures.f64(names::POWER), Some(16.0));
    let idle = sample("[[gpu]]\nmodel = \"l4\"");
    assert_eq!(idle.measures.f64(names::GPU_UTILIZATION), Some(0.0));
    assert_eq!(idle.measures.count(names::GPU_MEMORY_USAGE), Some(0));
}

#[test]
fn impossible_values_are_dropped_and_counted_and_blank_ones_are_absent() {
    let s = sample(
        "[[gpu]]\nmodel = \"h100-80gb\"\nutilization = 5\n[gpu.answers]\nutilization_gpu = 2619\n\
         utilization_memory = 4294967295\ntotal_energy_consumption = 9223372036854775794\npower_usage = 2147483632\n\
         memory_used = 99999999999999",
    );
    let missing = |metric: &str| s.measures.missing(metric).expect("no value");
    assert_eq!(missing(names::GPU_UTILIZATION), "failed (2619 percent: expected at most 100)");
    assert_eq!(missing(names::GPU_MEMORY_UTILIZATION), "failed (4294967295 percent: expected at most 100)");
    assert!(missing(names::GPU_MEMORY_USAGE).starts_with("failed"));
    assert!(missing(names::GPU_MEMORY_FREE).starts_with("failed"));
    assert_eq!(s.measures.count(names::GPU_MEMORY_LIMIT), Some(81_559 * MIB));
    assert_eq!(s.rejected, 3);
    assert_eq!(missing(names::ENERGY), "unsupported (the driver answered the blank value 9223372036854775794)");
    assert!(missing(names::POWER).starts_with("unsupported"));
    let s = sample("[[gpu]]\nmodel = \"l4\"\nanswers = { total_energy_consumption = -1 }");
    assert!(s.measures.missing(names::ENERGY).expect("no value").starts_with("unsupported"));
}

#[test]
fn processes_are_the_living_ones_with_what_the_driver_knows_of_them() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
    let (here, there) = (std::process::id(), child.id());
    let simulator = Simulator::new(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\n[[gpu.process]]\npid = {here}\nmemory_mib = 100\nsm_util = 30\n\
         [[gpu.process]]\npid = {there}\nmemory_mib = 200\nsm_util = 0\ngraphics = true\n\
         [[gpu.process]]\npid = 4194304\nmemory_mib = 300\nsm_util = 10\n"
    ));
    let mut gpus = open(&simulator);
    let processes = |gpus: &mut Gpus| {
        let mut list = gpus.sample(0, 0).expect("a GPU").processes.value().expect("a list").clone();
        list.sort_by_key(|process| process.pid != here);
        list
    };
    let first = processes(&mut gpus);
    assert_eq!(first.iter().map(|p| p.pid).collect::<Vec<_>>(), [here, there], "PIDs that do not exist are dropped");
    assert_eq!((first[0].kind, first[1].kind), (ProcessKind::Compute, ProcessKind::Graphics));
    assert_eq!((&first[0].memory_bytes, first[0].sm_util), (&Reading::Value(100 * MIB), Some(30.0)));
    assert_eq!((&first[1].memory_bytes, first[1].sm_util), (&Reading::Value(200 * MIB), None));
    assert_eq!(processes(&mut gpus)[0].sm_util, None, "no new sample from the driver at the same instant");
    simulator.hold_clock(1_000);
    assert_eq!(processes(&mut gpus)[0].sm_util, Some(30.0), "and a new one a second later");
    drop(child.stdin.take());
    child.wait().expect("its end");
    assert_eq!(processes(&mut gpus).len(), 1, "the dead do not hold a GPU");
}

#[test]
fn an_idle_gpu_has_processes_without_utilisation_and_unknown_memory_is_absent() {
    let here = std::process::id();
    let s = sample(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nutilization = 0\nanswers = {{ process_memory = -1 }}\n\
         [[gpu.process]]\npid = {here}\nsm_util = 50"
    ));
    let processes = s.processes.value().expect("not found is not an error");
    assert_eq!((processes[0].pid, processes[0].sm_util), (here, None));
    assert!(matches!(processes[0].memory_bytes, Reading::Unsupported(_)));
    let s = sample(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nanswers = {{ process_sm_util = 101 }}\n[[gpu.process]]\npid = {here}"
    ));
    assert_eq!((s.processes.value().expect("a list")[0].sm_util, s.rejected), (None, 1));
}

#[test]
fn a_scenario_reaches_the_simulator_or_is_refused_in_its_words() {
    let simulator = Simulator::without_scenario();
    let scenario = simulator.scenario_file("[[gpu]]\nmodel = \"l4\"\ncount = 3");
    let library = NvmlLibrary { path: Some(simulator.path()), scenario: Some(scenario.clone()), seed: None };
    assert_eq!(Gpus::open(&library, Path::new("/proc")).expect("three GPUs").identities().len(), 3);
    std::fs::write(&scenario, "[[gpu]]\nmodel = \"gtx\"").expect("a scenario");
    let error = Gpus::open(&library, Path::new("/proc")).expect_err("a fault");
    assert!(matches!(error, SensorError::Scenario { .. }));
    let text = error.to_string();
    assert!(text.starts_with(&format!("{}: gpu[0].model: \"gtx\" is unknown: ", scenario.display())), "{text}");
}

#[test]
fn the_simulator_is_found_beside_the_program() {
    let library = NvmlLibrary::simulator(None).expect("built beside this test");
    assert!(library.path.expect("a path").is_file());
}

#[test]
fn a_gpu_sensor_runs_on_its_own_thread() {
    let simulator = Simulator::new("[[gpu]]\nmodel = \"l4\"\ncount = 2");
    let path = simulator.path();
    let mut sensor = SensorTask::spawn("nvml", move || {
        let mut gpus = Gpus::open(&NvmlLibrary::at(path), Path::new("/proc"));
        move |ts_ms| gpus.as_mut().map(|gpus| gpus.sample_all(ts_ms)).map_err(|error| error.to_string())
    })
    .expect("a thread");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        assert!(sensor.request(5));
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(600);
        match sensor.collect(deadline).await {
            Answer::Ready(Ok(samples)) => assert_eq!(samples.iter().map(|s| s.ts_ms).collect::<Vec<_>>(), [5, 5]),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn each_node_has_simulated_gpus_of_its_own() {
    let uuids = |node: &str, scenario: Option<&str>| {
        let simulator = Simulator::without_scenario();
        let scenario = scenario.map(|text| simulator.scenario_file(text));
        let library = NvmlLibrary { scenario, ..NvmlLibrary::at(simulator.path()) }.seeded(node);
        let gpus = Gpus::open(&library, Path::new("/proc")).expect("the simulator opens");
        gpus.identities().iter().map(|gpu| gpu.uuid.clone()).collect::<Vec<_>>()
    };
    // The built-in scenario, and one without a seed.
    for scenario in [None, Some("[[gpu]]\nmodel = \"l4\"")] {
        assert_eq!(uuids("n1", scenario), uuids("n1", scenario));
        assert!(uuids("n1", scenario).iter().all(|uuid| !uuids("n2", scenario).contains(uuid)));
    }
    let seeded = Some("seed = \"s\"\n[[gpu]]\nmodel = \"l4\"");
    assert_eq!(uuids("n1", seeded), uuids("n2", seeded), "who gives a seed gets it");
}
