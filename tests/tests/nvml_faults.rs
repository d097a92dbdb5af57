//! What goes wrong in the NVML simulator while it runs, seen through `nvml-wrapper` as the driver's faults would be.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::event::EventData;

mod nvml_support;
use nvml_support::Simulator;

const TWO: &str = "[[gpu]]\nmodel = \"h100-80gb\"\ncount = 2\n";

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

fn energy(nvml: &Nvml, index: u32) -> Result<u64, NvmlError> {
    nvml.device_by_index(index)?.total_energy_consumption()
}

#[test]
fn xids_come_to_the_sets_that_their_gpu_is_registered_in() {
    let simulator = Simulator::new(TWO);
    let nvml = simulator.nvml();
    let (first, second) = (nvml.device_by_index(0).expect("a GPU"), nvml.device_by_index(1).expect("a GPU"));
    assert_eq!(first.supported_event_types().expect("types"), EventTypes::CRITICAL_XID_ERROR);
    // Before anybody is registered they are lost.
    simulator.faults("[[fault]]\nkind = \"xid\"\ncode = 13\n");
    let set = nvml.create_event_set().expect("a set");
    let set = first.register_events(EventTypes::CRITICAL_XID_ERROR, set).expect("registered");
    let other = nvml.create_event_set().expect("a set");
    let other = second.register_events(EventTypes::CRITICAL_XID_ERROR, other).expect("registered");
    assert!(matches!(set.wait(0), Err(NvmlError::Timeout)));
    simulator.faults(
        "[[fault]]\nkind = \"xid\"\ngpu = 0\ncode = 48\ncount = 2\n[[fault]]\nkind = \"xid\"\ngpu = 0\ncode = 79\n",
    );
    let code = |data: EventData<'_>| match data.event_data {
        Some(XidError::Value(code)) => code,
        other => panic!("an XID, not {other:?}"),
    };
    let next = || set.wait(0).map(|data| (data.device.index().expect("an index"), code(data)));
    assert_eq!([next().expect("one"), next().expect("two"), next().expect("three")], [(0, 48), (0, 48), (0, 79)]);
    assert!(matches!(next(), Err(NvmlError::Timeout)));
    assert!(matches!(other.wait(0), Err(NvmlError::Timeout)), "it is another GPU's");
    // Who waits is woken.
    let (woken, wakes) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || woken.send(other.wait(60_000).map(code)).expect("the test waits"));
        simulator.faults("[[fault]]\nkind = \"xid\"\ngpu = 1\ncode = 94\n");
        let code = wakes.recv_timeout(PATIENCE).expect("it returns").expect("an event");
        assert_eq!(code, 94);
    });
}

#[test]
fn a_gpu_can_be_lost_off_the_bus_or_absent_for_a_while() {
    let timed = "[[fault]]\nkind = \"lost\"\ngpu = 0\nfrom = \"5s\"\nuntil = \"9s\"\n";
    let simulator = Simulator::new(&format!("{TWO}{timed}"));
    let nvml = simulator.nvml();
    let uuid = |index| nvml.device_by_index(index).and_then(|gpu| gpu.uuid());
    let (first, second) = (uuid(0).expect("a GPU"), uuid(1).expect("a GPU"));
    for (at, lost) in [(4_999, false), (5_000, true), (8_999, true), (9_000, false)] {
        simulator.hold_clock(at);
        assert!(nvml.device_by_index(0).is_ok());
        assert_eq!(matches!(uuid(0), Err(NvmlError::GpuLost)), lost, "at {at}");
        assert!(uuid(1).is_ok());
    }
    simulator.faults("[[fault]]\nkind = \"off_the_bus\"\ngpu = 0\n");
    assert!(matches!(nvml.device_by_index(0), Err(NvmlError::GpuLost)));
    assert_eq!(nvml.device_count().expect("a count"), 2);
    simulator.faults("[[fault]]\nkind = \"absent\"\ngpu = 0\n");
    assert_eq!(nvml.device_count().expect("a count"), 1);
    let gpu = nvml.device_by_index(0).expect("the only one");
    assert_eq!((gpu.uuid().expect("a uuid"), gpu.index().expect("an index")), (second, 0));
    assert_eq!(gpu.minor_number().expect("a number"), 1, "its file stays the same");
    assert!(matches!(nvml.device_by_uuid(first.as_str()), Err(NvmlError::NotFound)));
    simulator.faults("");
    assert_eq!((nvml.device_count().expect("a count"), uuid(0).expect("a GPU")), (2, first));
}

#[test]
fn a_driver_is_reloaded_when_its_time_is_over_and_every_handle_is_gone() {
    let simulator = Simulator::new(TWO);
    let (nvml, other) = (simulator.nvml(), simulator.nvml());
    simulator.hold_clock(10_000);
    assert_eq!(energy(&nvml, 0).expect("energy"), 700_000);
    simulator.faults("[[fault]]\nkind = \"driver_reload\"\ndriver_version = \"575.57.08\"\n");
    assert!(matches!(energy(&nvml, 0), Err(NvmlError::Uninitialized)));
    assert!(matches!(nvml.device_count(), Err(NvmlError::Uninitialized)));
    let init = || Nvml::builder().lib_path(simulator.path().as_os_str()).init();
    assert!(matches!(init(), Err(NvmlError::DriverNotLoaded)));
    drop(nvml);
    simulator.faults("");
    assert!(matches!(init(), Err(NvmlError::DriverNotLoaded)), "a handle is open");
    assert_eq!(simulator.inits(), 1);
    drop(other);
    simulator.hold_clock(12_000);
    let nvml = simulator.nvml();
    assert_eq!(nvml.sys_driver_version().expect("a version"), "575.57.08");
    assert_eq!(energy(&nvml, 0).expect("energy"), 140_000, "2 s of 70 W since the last handle had gone");
}

#[test]
fn a_call_that_hangs_blocks_its_caller_alone_until_the_fault_has_ended() {
    let simulator = Simulator::new(TWO);
    let nvml = simulator.nvml();
    simulator.faults("[[fault]]\nkind = \"hang\"\ngpu = 0\ncall = \"power_usage\"\n");
    let (done, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        let nvml = &nvml;
        scope.spawn(move || {
            let power = nvml.device_by_index(0).and_then(|gpu| gpu.power_usage());
            done.send(power).expect("the test waits");
        });
        // Others of the same GPU, the same of others, and the clock go on.
        for at in 1..50 {
            simulator.hold_clock(at * 1_000);
            assert_eq!(energy(nvml, 0).expect("energy"), at * 70_000);
            assert_eq!(nvml.device_by_index(1).and_then(|gpu| gpu.power_usage()).expect("power"), 70_000);
        }
        assert!(matches!(answers.try_recv(), Err(mpsc::TryRecvError::Empty)));
        simulator.faults("");
        assert_eq!(answers.recv_timeout(PATIENCE).expect("it returns").expect("power"), 70_000);
    });
}

#[test]
fn answers_and_counters_can_be_falsified_while_it_runs() {
    let simulator = Simulator::new(TWO);
    let nvml = simulator.nvml();
    simulator.hold_clock(100_000);
    assert_eq!(energy(&nvml, 1).expect("energy"), 7_000_000);
    simulator.faults("[[fault]]\nkind = \"wrap\"\nbits = 16\n");
    assert_eq!(energy(&nvml, 1).expect("energy"), 7_000_000 % 65_536);
    simulator.faults("[[fault]]\nkind = \"restart\"\ngpu = 1\n");
    simulator.hold_clock(101_000);
    assert_eq!((energy(&nvml, 0).expect("energy"), energy(&nvml, 1).expect("energy")), (7_070_000, 70_000));
    simulator.faults(
        "[[fault]]\nkind = \"calls\"\ngpu = 0\nunsupported = [\"power_usage\"]\nerrors = { memory_info = \"timeout\" }\n\
         answers = { utilization_gpu = 2619 }\n",
    );
    let gpu = nvml.device_by_index(0).expect("a GPU");
    assert!(matches!(gpu.power_usage(), Err(NvmlError::NotSupported)));
    assert!(matches!(gpu.memory_info(), Err(NvmlError::Timeout)));
    assert_eq!(gpu.utilization_rates().expect("rates").gpu, 2_619);
    assert_eq!(nvml.device_by_index(1).and_then(|gpu| gpu.utilization_rates()).expect("rates").gpu, 0);
    simulator.faults("");
    assert_eq!(gpu.utilization_rates().expect("rates").gpu, 0);
}

#[test]
fn a_control_file_is_taken_up_while_it_runs_and_a_faulty_one_changes_nothing() {
    let simulator = Simulator::new(&format!("faults = \"faults.toml\"\n{TWO}"));
    let path = simulator.path().with_file_name("faults.toml");
    let write = |text: &str| {
        let new = path.with_extension("new");
        std::fs::write(&new, text).expect("a file");
        std::fs::rename(&new, &path).expect("in place");
    };
    let nvml = simulator.nvml();
    let count = |expected| {
        let begun = Instant::now();
        while nvml.device_count().expect("a count") != expected {
            assert!(begun.elapsed() < PATIENCE, "it is not taken up");
            std::thread::yield_now();
        }
    };
    count(2);
    write("[[fault]]\nkind = \"absent\"\ngpu = 1\n");
    count(1);
    // What is wrong is not taken up; that it was looked at is known by what comes after it.
    write("[[fault]]\nkind = \"absent\"\ngpu = 7\n");
    let begun = Instant::now();
    while begun.elapsed() < 3 * contador_nvml_simulator::faults::LOOK {
        assert_eq!(nvml.device_count().expect("a count"), 1);
    }
    write("[[fault]]\nkind = \"absent\"\n");
    count(0);
    std::fs::remove_file(&path).expect("no file");
    count(2);
}
