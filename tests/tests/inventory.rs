//! What a node is made of: what the driver says of each board, what boards reach each other by, and every change of it.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::path::Path;
use std::time::{Duration, Instant};

use contador_agent::sensors::nvml::topology;
use contador_agent::sensors::{Facts, Gpus, NvmlLibrary};
use contador_schemas::names;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;

mod node_support;
mod nvml_support;
use node_support::{Agent, Kernel, attribute, points};
use nvml_support::Simulator;

/// A GPU that does not answer must not look like a change of all others' topology.
#[test]
fn nothing_is_said_of_the_topology_while_a_gpu_is_lost() {
    let simulator = Simulator::new("[[gpu]]\nmodel = \"l4\"\ncount = 3");
    let library = NvmlLibrary::at(simulator.path());
    assert_eq!(topology::read(&library).unwrap().len(), 3);
    simulator.faults("[[fault]]\nkind = \"lost\"\ngpu = 1\n");
    assert_eq!(topology::read(&library).unwrap().len(), 0);
    simulator.faults("");
    assert_eq!(topology::read(&library).unwrap().len(), 3);
}

/// The start of a minute.
const START: i64 = 1_790_000_040_000;

fn facts(scenario: &str, kernel: &Kernel) -> Vec<Facts> {
    let simulator = Simulator::new(scenario);
    let gpus = Gpus::open(&NvmlLibrary::at(simulator.path()), &kernel.path()).unwrap();
    gpus.identities().iter().map(|gpu| gpu.facts.clone()).collect()
}

#[test]
fn the_inventory_has_what_the_driver_says_of_a_board() {
    let kernel = Kernel::new();
    let scenario = "driver_version = \"570.133.20\"\n[[gpu]]\nmodel = \"h200-141gb\"\n[[gpu]]\nmodel = \"rtx-4090\"";
    let [h200, rtx] = facts(scenario, &kernel).try_into().unwrap();
    let expected = [
        (names::HW_DRIVER_VERSION, "570.133.20"),
        (names::NVML_VERSION, "12.570.133.20"),
        (names::CUDA_VERSION, "12.8"),
        (names::KERNEL_VERSION, "6.1.0-test"),
        (names::HW_FIRMWARE, "96.00.A5.00.05"),
        (names::GSP_FIRMWARE, "570.133.20"),
        (names::DEVICE_PART, "900-22335-0000-000"),
        (names::DEVICE_ARCHITECTURE, "Hopper"),
        (names::COMPUTE_CAPABILITY, "9.0"),
        (names::DEVICE_INDEX, "0"),
        (names::DEVICE_MINOR, "0"),
        (names::DEVICE_PCI, "00000000:01:00.0"),
        (names::POWER_LIMIT_DEFAULT, "700000"),
        (names::POWER_LIMIT_MIN, "175000"),
        (names::POWER_LIMIT_MAX, "700000"),
        (names::CLOCK_SM_MAX, "1980"),
        (names::CLOCK_MEMORY_MAX, "3201"),
        (names::PERSISTENCE_MODE, "enabled"),
        (names::COMPUTE_MODE, "default"),
        (names::MIG_MODE, "disabled"),
        (names::VIRTUALIZATION_MODE, "none"),
    ];
    for (fact, value) in expected {
        assert_eq!(h200.get(fact), Some(value), "{fact}");
    }
    assert!(h200.get(names::HW_SERIAL).is_some_and(|serial| serial.starts_with("165")));
    // What a board for gamers has not is known not to be there.
    for none in [names::HW_SERIAL, names::DEVICE_PART, names::MIG_MODE] {
        assert_eq!(rtx.known(none), Some(None), "{none}");
    }
    assert_eq!(rtx.get(names::POWER_LIMIT_MAX), Some("600000"));
}

#[test]
fn what_is_not_permitted_is_absent_and_what_failed_is_not_known() {
    let kernel = Kernel::new();
    let scenario = "[[gpu]]\nmodel = \"l4\"\nerrors = { serial = \"no_permission\", vbios_version = \"timeout\", \
                    board_part_number = \"not_supported\" }";
    let facts = facts(scenario, &kernel).remove(0);
    assert_eq!((facts.known(names::HW_SERIAL), facts.known(names::DEVICE_PART)), (Some(None), Some(None)));
    assert_eq!(facts.known(names::HW_FIRMWARE), None);
}

#[test]
fn each_gpu_says_what_it_reaches_the_others_by() {
    let uuid = |n: u32| format!("GPU-00000000-0000-0000-0000-00000000000{n}");
    let gpu = |n: u32, more: &str| format!("[[gpu]]\nmodel = \"l4\"\nuuid = \"{}\"\n{more}\n", uuid(n));
    let scenario: String = (0..5).map(|n| gpu(n, "")).collect();
    let read = |scenario: &str| topology::read(&NvmlLibrary::at(Simulator::new(scenario).path())).unwrap();
    // Two share a switch, four a NUMA node.
    let all = read(&scenario);
    let paths = |of: u32, to: &[(&str, u32)]| {
        let paths: Vec<String> = to.iter().map(|(path, n)| format!("{path}:{}", uuid(*n))).collect();
        assert_eq!(all[&uuid(of)], Some(paths.join(" ")));
    };
    paths(0, &[("PIX", 1), ("NODE", 2), ("NODE", 3), ("SYS", 4)]);
    paths(3, &[("NODE", 0), ("NODE", 1), ("PIX", 2), ("SYS", 4)]);
    paths(4, &[("SYS", 0), ("SYS", 1), ("SYS", 2), ("SYS", 3)]);
    assert_eq!(read(&gpu(0, ""))[&uuid(0)], None, "there is nobody else");
    // A GPU that can't tell is left out; with one that fails, a GPU's topology is not known.
    let some = read(&format!("{}{}{}", gpu(0, ""), gpu(1, ""), gpu(2, "unsupported = [\"topology\"]")));
    assert_eq!(some[&uuid(0)], Some(format!("PIX:{}", uuid(1))));
    assert_eq!(some[&uuid(2)], None);
    let failed = read(&format!("{}{}", gpu(0, ""), gpu(1, "errors = { topology = \"timeout\" }")));
    assert!(failed.is_empty(), "{failed:?}");
}

/// Ticks until what was handed on satisfies `enough`.
async fn until(
    agent: &mut Agent,
    enough: impl Fn(&[ExportMetricsServiceRequest]) -> bool,
) -> Vec<ExportMetricsServiceRequest> {
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut all = Vec::new();
    for tick in 0.. {
        agent.node.tick(START + tick * 1_000).await;
        all.extend(agent.handed_on().await);
        if enough(&all) {
            break;
        }
        assert!(Instant::now() < deadline, "{all:?}");
    }
    all
}

async fn events(scenario: &str, state: &Path, kernel: &Kernel, serials: bool) -> Vec<(String, String, String)> {
    let simulator = Simulator::new(scenario);
    let library = simulator.path();
    let started = Agent::start(state, &library, kernel, |config| config.serial_numbers = serials);
    let mut agent = Box::new(Box::pin(started).await);
    let described = |all: &[ExportMetricsServiceRequest]| {
        let told = points(all, names::DEVICE_INFO);
        told.iter().any(|point| !attribute(point, names::DEVICE_TOPOLOGY).is_empty())
    };
    // The last samples before the restart are handed on once more.
    let mut all = agent.handed_on().await;
    let fresh = until(&mut agent, described).await;
    let device = &points(&fresh, names::DEVICE_INFO)[0];
    assert_eq!(attribute(device, names::HW_SERIAL).is_empty(), !serials);
    assert_eq!(attribute(device, names::POWER_LIMIT_DEFAULT), "72000");
    all.extend(fresh);
    let events = points(&all, names::EVENT);
    let changes = events.iter().filter(|event| attribute(event, names::EVENT_KIND) != "agent_started");
    changes
        .map(|event| {
            let values = [names::INVENTORY_FIELD, names::INVENTORY_OLD, names::INVENTORY_NEW];
            let values = values.map(|name| attribute(event, name)).join(" ");
            let texts = [names::EVENT_KIND, names::HW_ID].map(|name| attribute(event, name).to_owned());
            let [kind, device] = texts;
            (kind, device, values.trim().to_owned())
        })
        .collect()
}

#[tokio::test]
async fn changes_across_restarts_are_events_and_nothing_else_is() {
    let (kernel, state) = (Kernel::new(), tempfile::tempdir().unwrap());
    let uuid = |n: u32| format!("GPU-00000000-0000-0000-0000-00000000000{n}");
    let gpus = |numbers: &[u32]| -> String {
        numbers.iter().map(|n| format!("[[gpu]]\nmodel = \"l4\"\nuuid = \"{}\"\n", uuid(*n))).collect()
    };
    let at = |driver: &str, numbers: &[u32]| format!("driver_version = \"{driver}\"\n{}", gpus(numbers));
    let changed = |device: &str, values: &str| ("inventory_changed".to_owned(), device.to_owned(), values.to_owned());
    // The first time there is nothing to compare with, and then nothing changes.
    assert_eq!(events(&at("570.10", &[1, 2]), state.path(), &kernel, true).await, []);
    assert_eq!(events(&at("570.10", &[1, 2]), state.path(), &kernel, true).await, []);
    // A driver and a kernel are new: once for the node; the firmware that comes with the driver, for each GPU.
    kernel.version("6.2.0-test");
    let mut told = events(&at("580.1", &[1, 2]), state.path(), &kernel, true).await;
    told.sort();
    assert_eq!(
        told,
        [
            changed("", &format!("{} 6.1.0-test 6.2.0-test", names::KERNEL_VERSION)),
            changed("", &format!("{} 570.10 580.1", names::HW_DRIVER_VERSION)),
            changed(&uuid(1), &format!("{} 570.10 580.1", names::GSP_FIRMWARE)),
            changed(&uuid(2), &format!("{} 570.10 580.1", names::GSP_FIRMWARE)),
        ]
    );
    // One was taken out and another one put in.
    let told = events(&at("580.1", &[1, 3]), state.path(), &kernel, true).await;
    let kinds: Vec<(&str, &str)> = told.iter().map(|(kind, device, _)| (kind.as_str(), device.as_str())).collect();
    let (one, two, three) = (uuid(1), uuid(2), uuid(3));
    assert_eq!(
        kinds,
        [("gpu_added", three.as_str()), ("gpu_removed", two.as_str()), ("inventory_changed", one.as_str())],
        "{told:?}"
    );
    assert_eq!(told[2].2, format!("{} PIX:{two} PIX:{three}", names::DEVICE_TOPOLOGY));
    // Nobody is told of serial numbers that are not wanted any more.
    assert_eq!(events(&at("580.1", &[1, 3]), state.path(), &kernel, false).await, []);
    let kept = std::fs::read_to_string(state.path().join("inventory")).unwrap();
    assert!(!kept.contains(names::HW_SERIAL) && kept.contains(&three), "{kept}");
    // A damaged file is said, and begun anew.
    std::fs::write(state.path().join("inventory"), "nonsense").unwrap();
    let told = events(&at("590.1", &[1, 3]), state.path(), &kernel, true).await;
    assert_eq!(told.iter().map(|(kind, ..)| kind.as_str()).collect::<Vec<_>>(), ["inventory_damaged"]);
    assert_eq!(events(&at("590.1", &[1, 3]), state.path(), &kernel, true).await, []);
}
