//! The NVML simulator, loaded and asked through `nvml-wrapper` exactly as the driver's library is.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nvml_wrapper::FieldIdScheme;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Brand, Clock, EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor};
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::enums::device::{DeviceArchitecture, SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use proptest::prelude::*;

mod nvml_support;
use nvml_support::Simulator;

const MIB: u64 = 1024 * 1024;

#[test]
fn devices_have_the_identity_of_real_ones() {
    let simulator = Simulator::new("[[gpu]]\nmodel = \"h100-80gb\"\ncount = 17\n[[gpu]]\nmodel = \"rtx-4090\"");
    let nvml = simulator.nvml();
    assert_eq!(nvml.device_count().expect("a count"), 18);
    assert_eq!(nvml.sys_driver_version().expect("a version"), "570.133.20");
    assert_eq!(nvml.sys_nvml_version().expect("a version"), "12.570.133.20");
    assert_eq!(nvml.sys_cuda_driver_version().expect("a version"), 12_080);
    let h100 = nvml.device_by_index(16).expect("the last H100");
    assert_eq!(h100.name().expect("a name"), "NVIDIA H100 80GB HBM3");
    assert_eq!(h100.index().expect("an index"), 16);
    assert_eq!(h100.minor_number().expect("a minor number"), 16);
    assert_eq!(h100.architecture().expect("an architecture"), DeviceArchitecture::Hopper);
    assert_eq!(h100.cuda_compute_capability().expect("a capability").major, 9);
    assert!(h100.serial().expect("a serial number").len() >= 10);
    assert_eq!(h100.enforced_power_limit().expect("a limit"), 700_000);
    assert_eq!(h100.max_clock_info(Clock::SM).expect("a clock"), 1_980);
    assert_eq!(h100.mig_mode().expect("a mode").current, 0);
    let pci = h100.pci_info().expect("an address");
    assert_eq!((pci.bus_id.as_str(), pci.domain, pci.bus), ("00000001:01:00.0", 1, 1));
    let uuid = h100.uuid().expect("a uuid");
    assert_eq!(nvml.device_by_uuid(uuid.as_str()).expect("by uuid").index().expect("an index"), 16);
    assert_eq!(nvml.device_by_pci_bus_id(pci.bus_id.as_str()).expect("by address").uuid().expect("a uuid"), uuid);
    let rtx = nvml.device_by_index(17).expect("the RTX");
    assert_eq!(rtx.brand().expect("a brand"), Brand::GeForce);
    assert!(matches!(rtx.serial(), Err(NvmlError::NotSupported)));
    assert!(matches!(rtx.mig_mode(), Err(NvmlError::NotSupported)));
    assert!(matches!(nvml.device_by_index(18), Err(NvmlError::InvalidArg)));
    assert!(matches!(nvml.device_by_uuid("GPU-none"), Err(NvmlError::NotFound)));
}

#[test]
fn gauges_follow_the_time_line() {
    let simulator = Simulator::new(
        "[[gpu]]\nmodel = \"h100-80gb\"\nmemory_mib = [{ at = \"0s\", value = 1000 }, { at = \"10s\", value = 3000 }]\n\
         utilization = [{ at = \"0s\", value = 20 }, { at = \"30s\", value = 90 }]",
    );
    let nvml = simulator.nvml();
    let gpu = nvml.device_by_index(0).expect("a GPU");
    let utilization = |at| {
        simulator.hold_clock(at);
        gpu.utilization_rates().expect("rates").gpu
    };
    assert_eq!([0, 15_000, 30_000, 99_000].map(utilization), [20, 55, 90, 90]);
    let simulator = Simulator::new("[[gpu]]\nmodel = \"h100-80gb\"\nutilization = 50\nmemory_mib = 1000");
    let nvml = simulator.nvml();
    let gpu = nvml.device_by_index(0).expect("a GPU");
    assert_eq!(gpu.power_usage().expect("power"), 385_000);
    assert_eq!(gpu.temperature(TemperatureSensor::Gpu).expect("a temperature"), 51);
    assert_eq!(gpu.clock_info(Clock::SM).expect("a clock"), 1_980);
    let memory = gpu.memory_info().expect("memory");
    assert_eq!(memory.used, 1_000 * MIB, "what the driver keeps is not used");
    assert_eq!(memory.free + memory.used + memory.reserved, memory.total);
    assert_eq!(memory.total, 81_559 * MIB);
}

#[test]
fn energy_is_the_integral_of_power() {
    let simulator = Simulator::new(
        "[[gpu]]\nmodel = \"h100-80gb\"\nutilization = [{ at = \"0s\", value = 20 }, { at = \"30s\", value = 90 }]",
    );
    let nvml = simulator.nvml();
    let gpu = nvml.device_by_index(0).expect("a GPU");
    assert_eq!(gpu.total_energy_consumption().expect("energy"), 0);
    // Trapezes over the power that was answered each 250 ms: exact for straight lines, but that each answer on the
    // slope is rounded down, to a thousandth of a percent (6.3 mW) and to a milliwatt. So at most 7.3 mW for 30 s, and
    // one millijoule for the rounding of the energy itself.
    let mut power = f64::from(gpu.power_usage().expect("power"));
    let (mut sum_mj, mut before) = (0.0, 0);
    for at in (250..=60_000).step_by(250) {
        simulator.hold_clock(at);
        let now = f64::from(gpu.power_usage().expect("power"));
        sum_mj += (power + now) / 2.0 * 0.25;
        power = now;
        let energy = gpu.total_energy_consumption().expect("energy");
        assert!(energy >= before, "{energy} after {before}");
        before = energy;
    }
    assert!((before as f64 - sum_mj).abs() <= 7.3 * 30.0 + 1.0, "{before} against {sum_mj}");
    // By hand: 70 W for 60 s, and 630 W times 55 % for 30 s and 90 % for 30 s.
    assert_eq!(before, 70 * 60_000 + 630 * (550 * 30 + 900 * 30));
    let fields = gpu.field_values_for(&[FieldId(83), FieldId(186), FieldId(138)]).expect("fields");
    let value = |position: usize| fields[position].as_ref().expect("a field").value.as_ref();
    assert!(matches!(value(0), Ok(SampleValue::U64(energy)) if *energy == before));
    assert!(matches!(value(1), Ok(SampleValue::U32(637_000))));
    assert!(matches!(value(2), Ok(SampleValue::U64(_))), "scope 0 is link 0");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn energy_never_falls_and_memory_always_adds_up(
        min in 0u32..50, max in 50u32..=100, period in 1u32..90, steps in proptest::collection::vec(0u64..30_000, 1..30),
    ) {
        let simulator = Simulator::new(&format!(
            "[[gpu]]\nmodel = \"a100-80gb\"\nutilization = {{ wave = {{ min = {min}, max = {max}, period = \"{period}s\" }} }}\n\
             memory_mib = {{ wave = {{ min = 0, max = 80000, period = \"{period}s\" }} }}"
        ));
        let nvml = simulator.nvml();
        let gpu = nvml.device_by_index(0).expect("a GPU");
        let (mut at, mut before) = (0, 0);
        for step in steps {
            at += step;
            simulator.hold_clock(at);
            let energy = gpu.total_energy_consumption().expect("energy");
            prop_assert!(energy >= before);
            before = energy;
            let memory = gpu.memory_info().expect("memory");
            prop_assert_eq!(memory.free + memory.used + memory.reserved, memory.total);
            let percent = gpu.utilization_rates().expect("rates").gpu;
            prop_assert!((min..=max).contains(&percent));
        }
    }
}

#[test]
fn what_is_unsupported_is_not_zero_and_every_symbol_is_there() {
    let simulator = Simulator::new(
        "[[gpu]]\nmodel = \"l4\"\nunsupported = [\"power_usage\", \"utilization_rates\", \"power_average\"]\n\
         errors = { temperature = \"gpu_is_lost\" }",
    );
    let nvml = simulator.nvml();
    let gpu = nvml.device_by_index(0).expect("a GPU");
    assert!(matches!(gpu.power_usage(), Err(NvmlError::NotSupported)));
    assert!(matches!(gpu.utilization_rates(), Err(NvmlError::NotSupported)));
    assert!(matches!(gpu.temperature(TemperatureSensor::Gpu), Err(NvmlError::GpuLost)));
    let fields = gpu.field_values_for(&[FieldId(185), FieldId(186)]).expect("fields");
    assert!(matches!(fields[0].as_ref().expect("a field").value, Err(NvmlError::NotSupported)));
    assert!(fields[1].as_ref().expect("a field").value.is_ok());
    // Not simulated at all, and still there: no FailedToLoadSymbol.
    assert!(matches!(gpu.pcie_throughput(PcieUtilCounter::Send), Err(NvmlError::NotSupported)));
    assert!(matches!(gpu.is_display_active(), Err(NvmlError::NotSupported)));
    assert!(matches!(nvml.unit_count(), Err(NvmlError::NotSupported)));
    drop(nvml.create_event_set().expect("an event set"));
}

#[test]
fn processes_share_a_gpu_and_an_idle_one_has_no_samples() {
    let simulator = Simulator::new(
        "[[gpu]]\nmodel = \"h100-80gb\"\n[[gpu.process]]\npid = 100\nmemory_mib = 1024\nsm_util = 60\n\
         [[gpu.process]]\npid = 200\nmemory_mib = 10\nsm_util = 0\ngraphics = true\n[[gpu]]\nmodel = \"h100-80gb\"",
    );
    let nvml = simulator.nvml();
    let busy = nvml.device_by_index(0).expect("a GPU");
    let compute = busy.running_compute_processes().expect("a list");
    assert_eq!(compute.len(), 1);
    assert_eq!((compute[0].pid, compute[0].gpu_instance_id), (100, None));
    assert!(matches!(compute[0].used_gpu_memory, UsedGpuMemory::Used(bytes) if bytes == 1_024 * MIB));
    assert_eq!(busy.running_graphics_processes().expect("a list")[0].pid, 200);
    let samples = busy.process_utilization_stats(None).expect("samples");
    assert_eq!(samples.iter().map(|s| (s.pid, s.sm_util)).collect::<Vec<_>>(), [(100, 60)]);
    let cursor = samples[0].timestamp;
    assert!(matches!(busy.process_utilization_stats(cursor), Err(NvmlError::NotFound)), "nothing new at this instant");
    simulator.hold_clock(1_000);
    assert_eq!(busy.process_utilization_stats(cursor).expect("samples").len(), 1);
    let idle = nvml.device_by_index(1).expect("a GPU");
    assert!(matches!(idle.process_utilization_stats(None), Err(NvmlError::NotFound)));
    assert_eq!(idle.running_compute_processes().expect("a list").len(), 0);
    assert_eq!(idle.memory_info().expect("memory").used, 0);
}

/// A process with an environment entry, which lives until it is dropped.
struct Process(Child);

impl Process {
    fn with(variable: &str, value: &str) -> Self {
        let child =
            Command::new("cat").env(variable, value).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
        // spawn() returns as soon as the child has its own memory, which may be before its environment is in it.
        let environ = format!("/proc/{}/environ", child.id());
        let deadline = Instant::now() + Duration::from_secs(30);
        while std::fs::read(&environ).is_ok_and(|environ| environ.is_empty()) {
            assert!(Instant::now() < deadline, "{environ} stays empty");
            std::thread::yield_now();
        }
        Self(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("its end");
    }
}

#[test]
fn a_gpu_works_while_processes_with_its_environment_entry_live() {
    let value = format!("nvml-simulator-test-{}", std::process::id());
    let simulator = Simulator::new(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nutilization = 80\nmemory_mib = 5000\nidle_without_processes = true\n\
         [[gpu.process]]\nenviron = \"CONTADOR_SIM_GPU={value}\"\nmemory_mib = 4001"
    ));
    let nvml = simulator.nvml();
    let gpu = nvml.device_by_index(0).expect("a GPU");
    let state = |at| {
        simulator.hold_clock(at);
        let mut pids: Vec<_> = gpu.running_compute_processes().expect("a list").iter().map(|p| p.pid).collect();
        pids.sort_unstable();
        (gpu.utilization_rates().expect("rates").gpu, gpu.memory_info().expect("memory").used / MIB, pids)
    };
    assert_eq!(state(0), (0, 0, vec![]));
    let one = Process::with("CONTADOR_SIM_GPU", &value);
    assert_eq!(state(1_000), (80, 5_000, vec![one.0.id()]));
    let other = Process::with("CONTADOR_SIM_GPU", &value);
    let _stranger = Process::with("CONTADOR_SIM_GPU", &format!("{value}-stranger"));
    let mut both = vec![one.0.id(), other.0.id()];
    both.sort_unstable();
    assert_eq!(state(2_000), (80, 5_000, both));
    let memory: u64 = gpu
        .running_compute_processes()
        .expect("a list")
        .iter()
        .map(|process| match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => bytes,
            UsedGpuMemory::Unavailable => 0,
        })
        .sum();
    assert_eq!(memory, 4_001 * MIB, "split without loss");
    drop((one, other));
    assert_eq!(state(3_000), (0, 0, vec![]));
    // 70 W idle for 1 s, 574 W for 2 s, seen to be idle again at 3 s.
    assert_eq!(gpu.total_energy_consumption().expect("energy"), 70_000 + 2 * 574_000);
}

#[test]
fn energy_goes_on_over_shutdown_and_init_as_the_driver_stays_loaded() {
    let simulator = Simulator::new("[[gpu]]\nmodel = \"l4\"");
    let nvml = simulator.nvml();
    simulator.hold_clock(10_000);
    let energy = |nvml: &Nvml| nvml.device_by_index(0).expect("a GPU").total_energy_consumption().expect("energy");
    assert_eq!(energy(&nvml), 160_000);
    nvml.shutdown().expect("a shutdown");
    let nvml = simulator.nvml();
    simulator.hold_clock(20_000);
    assert_eq!(energy(&nvml), 320_000);
}

#[test]
fn a_wrong_scenario_is_refused_in_words_and_the_last_one_stays() {
    let simulator = Simulator::new("[[gpu]]\nmodel = \"l4\"");
    let path = simulator.path().with_file_name("scenario.toml");
    assert_eq!(
        simulator.load("[[gpu]]\nmodel = \"l4\"\nutilization = 101").expect_err("a fault"),
        format!("{}: gpu[0].utilization: 101 percent: expected a number from 0 to 100", path.display())
    );
    assert_eq!(simulator.nvml().device_count().expect("a count"), 1);
}

#[test]
fn a_trace_is_a_time_line_and_faults_name_file_line_and_value() {
    let simulator = Simulator::without_scenario();
    let scenario = |more: &str| {
        format!(
            "[[gpu]]\nmodel = \"h100-80gb\"\nutilization = {{ csv = \"load.csv\", time = \"at\", value = \"busy\"{more} }}"
        )
    };
    simulator.file("load.csv", "host,at,busy\na,1700000000,0.2\na,1700000010,0.8\na,1700000020.5,0.1\n");
    simulator.load(&scenario(", scale = 100")).expect("a scenario");
    simulator.hold_clock(0);
    let nvml = simulator.nvml();
    let gpu = nvml.device_by_index(0).expect("a GPU");
    let utilization = |at| {
        simulator.hold_clock(at);
        gpu.utilization_rates().expect("rates").gpu
    };
    assert_eq!([0, 5_000, 10_000, 20_500, 99_000].map(utilization), [20, 50, 80, 10, 10]);
    let fault = |text: &str, more: &str| {
        simulator.file("load.csv", text);
        let fault = simulator.load(&scenario(more)).expect_err("a fault");
        let folder = format!("{}/", simulator.path().parent().expect("a folder").display());
        fault.replace(&folder, "")
    };
    let at = "scenario.toml: gpu[0].utilization.csv: load.csv: ";
    assert_eq!(
        fault("at,busy\n0,10\n1,120\n", ""),
        format!("{at}line 3: busy: 120 percent: expected a number from 0 to 100")
    );
    assert_eq!(fault("at,busy\n0,much\n", ""), format!("{at}line 2: busy: \"much\": expected a number"));
    assert_eq!(
        fault("at,busy\n0,1\n5,1\n5,1\n", ""),
        format!("{at}line 4: at: 5: expected a later time than the line before")
    );
    assert_eq!(fault("at,load\n0,1\n", ""), format!("{at}line 1: no column \"busy\": expected one of at, load"));
    assert_eq!(
        fault("at,busy\n", ""),
        "scenario.toml: gpu[0].utilization: the time line is empty: expected at least one { at, value }"
    );
    assert_eq!(
        fault("at,busy\n0,1\n", ", time_unit = \"weeks\""),
        "scenario.toml: gpu[0].utilization.time_unit: \"weeks\": expected ms, s, m or h"
    );
}

#[test]
fn a_newer_driver_numbers_some_fields_anew() {
    for (driver_version, scheme) in [("580.65.06", FieldIdScheme::V12), ("580.82.07", FieldIdScheme::V13Update1)] {
        let simulator = Simulator::new(&format!(
            "driver_version = \"{driver_version}\"\n[[gpu]]\nmodel = \"h100-80gb\"\nthrottle = [\"sw_thermal\"]"
        ));
        simulator.hold_clock(2_000);
        let nvml = simulator.nvml();
        assert_eq!(nvml.field_id_scheme(), scheme);
        let gpu = nvml.device_by_index(0).expect("a GPU");
        // 251 is for how long software has slowed clocks down for heat, 186 the power at this instant.
        let fields = gpu.field_values_for(&[FieldId(251), FieldId(186)]).expect("fields");
        let [thermal, power] = [0, 1].map(|place: usize| fields[place].as_ref().expect("a field"));
        assert!(matches!(thermal.value, Ok(SampleValue::U64(2_000_000_000))), "{thermal:?}");
        assert!(matches!(power.value, Ok(SampleValue::U32(70_000))), "{power:?}");
        let moved = scheme == FieldIdScheme::V13Update1;
        assert_eq!((thermal.field.0, power.field.0), (if moved { 269 } else { 251 }, 186));
    }
}

#[test]
fn every_scenario_of_64_gpus_has_64() {
    let simulator = Simulator::new("[[gpu]]\nmodel = \"b200-180gb\"\ncount = 64\nutilization = 100");
    let nvml = simulator.nvml();
    assert_eq!(nvml.device_count().expect("a count"), 64);
    let last = nvml.device_by_index(63).expect("the last");
    assert_eq!(last.architecture().expect("an architecture"), DeviceArchitecture::Blackwell);
    assert_eq!(last.power_usage().expect("power"), 1_000_000);
    let link = last.link_wrapper_for(17);
    assert!(link.is_active().expect("a state") && link.version().expect("a version") == 5);
    assert!(matches!(last.link_wrapper_for(18).is_active(), Err(NvmlError::InvalidArg)));
    assert!(matches!(link.error_counter(ErrorCounter::DlReplay), Err(NvmlError::NotSupported)));
    assert_eq!(link.remote_pci_info().expect("a switch").bus_id, "00000000:C2:00.0");
    assert_eq!(last.max_pcie_link_gen().expect("a generation"), 5);
    assert_eq!(last.total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile).expect("a count"), 0);
    assert!(last.is_ecc_enabled().expect("a mode").currently_enabled);
}

/// Run by the tests below in a process of its own, since it needs an environment of its own.
#[test]
#[ignore = "run by other tests, with an environment"]
fn child_prints_the_uuids() {
    let path = contador_nvml_simulator::library::find().expect("the simulator's library");
    let nvml = Nvml::builder().lib_path(path.as_os_str()).init().expect("nvmlInit");
    let mut out = std::io::stdout().lock();
    for index in 0..nvml.device_count().expect("a count") {
        let uuid = nvml.device_by_index(index).expect("a GPU").uuid().expect("a uuid");
        writeln!(out, "uuid {uuid}").expect("stdout");
    }
}

/// Whether the child succeeded, the UUIDs that it printed, and its standard error.
fn child(environment: &[(&str, &str)]) -> (bool, Vec<String>, String) {
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--exact", "--nocapture", "child_prints_the_uuids"])
        .env_remove("CONTADOR_NVML_SCENARIO")
        .env_remove("CONTADOR_NVML_SEED")
        .envs(environment.iter().copied())
        .output()
        .expect("this test runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let uuids = text.lines().filter_map(|line| line.split_once("uuid ")).map(|(_, uuid)| uuid.to_owned()).collect();
    (output.status.success(), uuids, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_environment_names_scenario_and_seed() {
    let (ok, built_in, _) = child(&[]);
    assert!(ok && built_in.len() == 2 && built_in.iter().all(|uuid| uuid.starts_with("GPU-") && uuid.len() == 40));
    assert_eq!(child(&[]).1, built_in, "the same on each run");
    let (ok, other, _) = child(&[("CONTADOR_NVML_SEED", "node-b")]);
    assert!(ok && other.iter().all(|uuid| !built_in.contains(uuid)), "{other:?}");
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("three.toml");
    std::fs::write(&path, "[[gpu]]\nmodel = \"l4\"\ncount = 3").expect("a scenario");
    let path = path.to_str().expect("a path");
    assert_eq!(child(&[("CONTADOR_NVML_SCENARIO", path)]).1.len(), 3);
    std::fs::write(path, "[[gpu]]\nmodel = \"l4\"\ncount = 0").expect("a scenario");
    let (ok, uuids, errors) = child(&[("CONTADOR_NVML_SCENARIO", path)]);
    assert!(!ok && uuids.is_empty());
    let expected = format!("contador's NVML simulator cannot start: {path}: gpu[0].count: 0 GPUs: expected 1 to 64");
    assert!(errors.contains(&expected), "{errors}");
}
