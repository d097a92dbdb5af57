//! What others got wrong about GPUs that are split by MIG, about GPM, and about who is on a GPU: the agent on the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use contador_agent::sensors::{GpuIdentity, GpuSample, Gpus, NvmlLibrary, ProcessKind, Reading};
use contador_nvml_simulator::mig_profiles::{mig_profiles, place};
use contador_nvml_simulator::profiles::{PROFILES, profile};
use contador_schemas::names;
use proptest::prelude::*;

mod nvml_support;
use nvml_support::Simulator;

const MIB: u64 = 1024 * 1024;

fn open(simulator: &Simulator) -> Gpus {
    Gpus::open(&NvmlLibrary::at(simulator.path()), Path::new("/proc")).expect("the simulator opens")
}

fn split(model: &str, layout: &[&str], more: &str) -> String {
    format!("[[gpu]]\nmodel = \"{model}\"\nmig = {layout:?}\n{more}")
}

fn busy(profile: &str, percent: u32) -> String {
    format!("[[gpu.instance]]\nprofile = \"{profile}\"\nutilization = {percent}\n")
}

/// Two samples, one second apart, so that GPM has something between them.
fn two_samples(simulator: &Simulator, gpus: &mut Gpus) -> Vec<GpuSample> {
    gpus.sample_all(1_000);
    simulator.hold_clock(1_000);
    gpus.sample_all(2_000)
}

/// The identity of each device, with the sample of the same UUID.
fn by_profile(gpus: &Gpus, samples: &[GpuSample]) -> BTreeMap<String, (GpuIdentity, GpuSample)> {
    let of = |identity: &GpuIdentity| {
        let sample = samples.iter().find(|sample| sample.uuid == identity.uuid).expect("its sample");
        let profile = identity.mig.as_ref().map_or("", |mig| &mig.profile).to_owned();
        (profile, (identity.clone(), sample.clone()))
    };
    gpus.identities().iter().map(of).collect()
}

fn value(sample: &GpuSample, metric: &str) -> Option<f64> {
    sample.measures.f64(metric)
}

fn is_unsupported(sample: &GpuSample, metric: &str) -> bool {
    matches!(sample.measures.reading(metric), Some(Reading::Unsupported(_)))
}

/// Model, name of the board, and of each profile: its name, compute slices, memory slices and memory in MiB.
type Board = (&'static str, &'static str, [(&'static str, u32, u32, u64); 6]);

const BOARDS: [Board; 4] = [
    (
        "a100-80gb",
        "NVIDIA A100-SXM4-80GB",
        [
            ("1g.10gb", 1, 1, 9_728),
            ("1g.20gb", 1, 2, 19_968),
            ("2g.20gb", 2, 2, 19_968),
            ("3g.40gb", 3, 4, 40_192),
            ("4g.40gb", 4, 4, 40_192),
            ("7g.80gb", 7, 8, 80_640),
        ],
    ),
    (
        "h100-80gb",
        "NVIDIA H100 80GB HBM3",
        [
            ("1g.10gb", 1, 1, 9_984),
            ("1g.20gb", 1, 2, 20_096),
            ("2g.20gb", 2, 2, 20_096),
            ("3g.40gb", 3, 4, 40_448),
            ("4g.40gb", 4, 4, 40_448),
            ("7g.80gb", 7, 8, 80_896),
        ],
    ),
    (
        "h200-141gb",
        "NVIDIA H200",
        [
            ("1g.18gb", 1, 1, 16_384),
            ("1g.35gb", 1, 2, 33_280),
            ("2g.35gb", 2, 2, 33_280),
            ("3g.71gb", 3, 4, 71_168),
            ("4g.71gb", 4, 4, 71_168),
            ("7g.141gb", 7, 8, 142_848),
        ],
    ),
    (
        "b200-180gb",
        "NVIDIA B200",
        [
            ("1g.23gb", 1, 1, 22_144),
            ("1g.45gb", 1, 2, 45_056),
            ("2g.45gb", 2, 2, 45_056),
            ("3g.90gb", 3, 4, 90_624),
            ("4g.90gb", 4, 4, 90_624),
            ("7g.180gb", 7, 8, 182_272),
        ],
    ),
];

/// The driver's own words: a `7g.80gb` is one, though it has 79 GiB; and slices are the driver's, also for who isn't root.
#[test]
fn d4_a_profile_is_called_what_the_driver_calls_it() {
    let known: Vec<_> = BOARDS.iter().filter(|(model, ..)| profile(model).is_some()).collect();
    assert_eq!(known.len(), PROFILES.iter().filter(|board| board.mig_capable).count(), "every board is in the table");
    for (model, board, profiles) in known {
        for (name, compute, memory, mib) in profiles {
            for refused in ["", "errors = { gpu_instance = \"no_permission\" }\n"] {
                let simulator = Simulator::new(&split(model, &[name], refused));
                let mut gpus = open(&simulator);
                let sample = gpus.sample_all(0).pop().expect("an instance");
                let [parent, instance] = gpus.identities() else { panic!("{:?}", gpus.identities()) };
                let mig = instance.mig.as_ref().expect("a MIG instance");
                assert_eq!((instance.name.clone(), mig.profile.as_str()), (format!("{board} MIG {name}"), *name));
                assert_eq!((mig.compute_slices, mig.memory_slices), (Some(*compute), Some(*memory)), "{model} {name}");
                assert_eq!(instance.memory_total_bytes, Reading::Value(mib * MIB), "{model} {name}");
                assert_eq!(sample.measures.count(names::GPU_MEMORY_LIMIT), Some(mib * MIB));
                assert_eq!((mig.parent.as_str(), parent.mig.as_ref()), (parent.uuid.as_str(), None));
                assert_eq!((instance.serial.as_ref(), instance.minor), (None, None));
                assert_eq!(instance.pci_bus_id, parent.pci_bus_id, "it is where its board is");
            }
        }
    }
}

/// A 2g instance that is busy on all of its own SMs is at 1, not at 2/7; and more than that there isn't.
#[test]
fn d5_activity_is_of_the_instances_own_part_and_at_most_1() {
    let loads = busy("2g.20gb", 100) + &busy("3g.40gb", 50);
    let simulator = Simulator::new(&split("h100-80gb", &["3g.40gb", "2g.20gb", "1g.10gb"], &loads));
    let mut gpus = open(&simulator);
    let samples = two_samples(&simulator, &mut gpus);
    let devices = by_profile(&gpus, &samples);
    for (profile, activity) in [("2g.20gb", 1.0), ("3g.40gb", 0.5), ("1g.10gb", 0.0)] {
        for metric in [names::GPM_SM, names::GPM_GRAPHICS] {
            assert_eq!(value(&devices[profile].1, metric), Some(activity), "{profile} {metric}");
        }
        assert_eq!(value(&devices[profile].1, names::GPM_OCCUPANCY), Some(activity * 0.5));
    }
    let faulty = Simulator::new(&split("h100-80gb", &["2g.20gb"], "answers = { gpm_sm_util = 150 }\n"));
    let mut gpus = open(&faulty);
    let samples = two_samples(&faulty, &mut gpus);
    let missing = samples[1].measures.missing(names::GPM_SM);
    assert_eq!(missing.as_deref(), Some("failed (150: expected 0 to 100 percent)"));
    assert_eq!((value(&samples[1], names::GPM_GRAPHICS), samples[1].rejected), (Some(0.0), 1));
}

/// What can't be told of an instance is absent; on Hopper and later its activity comes from GPM, before that from nowhere.
#[test]
fn d6_the_utilisation_of_an_instance_is_absent_or_of_gpm_and_never_0() {
    for (model, profile, has_gpm) in [("a100-80gb", "3g.40gb", false), ("h100-80gb", "3g.40gb", true)] {
        let simulator = Simulator::new(&split(model, &[profile], &busy(profile, 70)));
        let mut gpus = open(&simulator);
        for sample in &two_samples(&simulator, &mut gpus) {
            for metric in [names::GPU_UTILIZATION, names::GPU_MEMORY_UTILIZATION] {
                assert!(is_unsupported(sample, metric), "{model} {} {metric}", sample.uuid);
            }
        }
        let sample = gpus.sample_all(5_000).pop().expect("an instance");
        for board_only in [names::POWER, names::ENERGY, names::TEMPERATURE, names::GPU_CLOCK_SM, names::STATUS] {
            let found = sample.measures.iter().filter(|measure| measure.metric == board_only);
            let readings: Vec<_> = found.map(|measure| &measure.reading).collect();
            let absent = readings.iter().all(|reading| matches!(reading, Reading::Unsupported(_)));
            assert!(absent && !readings.is_empty(), "{model} {board_only}: {readings:?}");
        }
        simulator.hold_clock(3_000);
        let sample = gpus.sample_all(6_000).pop().expect("an instance");
        assert_eq!(value(&sample, names::GPM_SM), has_gpm.then_some(0.7), "{model}");
        assert_eq!(is_unsupported(&sample, names::GPM_SM), !has_gpm, "{model}");
        assert!(is_unsupported(&sample, names::MIG_INSTANCES));
    }
}

/// A GPU that is split stays a device, with what its board has; its instances come beside it.
#[test]
fn d7_the_parent_and_its_instances_are_devices() {
    let scenario = format!(
        "{}[[gpu]]\nmodel = \"h100-80gb\"\nmig = []\n[[gpu]]\nmodel = \"h100-80gb\"\n[[gpu]]\nmodel = \"l4\"\n",
        split("h100-80gb", &["4g.40gb", "-", "3g.40gb"], &(busy("4g.40gb", 100) + "memory_mib = 1000\n"))
    );
    let simulator = Simulator::new(&scenario);
    let mut gpus = open(&simulator);
    let samples = two_samples(&simulator, &mut gpus);
    let profiles = gpus.identities().iter().map(|gpu| gpu.mig.as_ref().map(|mig| mig.profile.as_str()));
    assert_eq!(profiles.collect::<Vec<_>>(), [None, Some("4g.40gb"), Some("3g.40gb"), None, None, None]);
    let uuids: Vec<_> = gpus.identities().iter().map(|gpu| gpu.uuid.clone()).collect();
    assert_eq!(samples.iter().map(|sample| sample.uuid.clone()).collect::<Vec<_>>(), uuids, "in the same order");
    let parents: Vec<_> = samples.iter().map(|sample| sample.parent.as_ref()).collect();
    assert_eq!(parents, [None, Some(&uuids[0]), Some(&uuids[0]), None, None, None]);
    // 57.142 percent of 630 W, above the 70 W of an idle board; 4/7 and milliwatts are rounded down.
    assert_eq!(value(&samples[0], names::POWER), Some(429.994));
    assert_eq!(samples[0].measures.count(names::GPU_MEMORY_LIMIT), Some(81_559 * MIB));
    assert_eq!(samples[0].measures.count(names::GPU_MEMORY_USAGE), Some(1_000 * MIB));
    assert_eq!(samples[1].measures.count(names::GPU_MEMORY_USAGE), Some(1_000 * MIB));
    assert_eq!(samples[2].measures.count(names::GPU_MEMORY_USAGE), Some(0));
    let counts: Vec<_> = [0, 3].map(|at: usize| samples[at].measures.count(names::MIG_INSTANCES)).to_vec();
    assert_eq!(counts, [Some(2), Some(0)], "on, with and without instances");
    for (at, reason) in [(4, "unsupported (MIG is off)"), (5, "unsupported (not offered by this device)")] {
        assert_eq!(samples[at].measures.missing(names::MIG_INSTANCES).as_deref(), Some(reason));
    }
    // Of a split board GPM tells its links, of an instance everything but them, and of a whole board all.
    let pcie = &[(names::IO_DIRECTION, "transmit")];
    let sent = |at: usize| samples[at].measures.reading_as(names::GPM_PCIE, pcie).expect("asked").get().is_some();
    let active = |at: usize| samples[at].measures.f64(names::GPM_SM).is_some();
    assert_eq!(
        [0, 1, 4, 5].map(|at| (sent(at), active(at))),
        [(true, false), (false, true), (true, true), (false, false)]
    );
}

/// The driver's UUID is the only key: of the sample, of the identity, and of the driver.
#[test]
fn d10_an_instance_has_one_key() {
    let layout = ["1g.10gb", "2g.20gb", "1g.10gb", "-", "1g.10gb"];
    let simulator = Simulator::new(&split("h100-80gb", &layout, ""));
    let mut gpus = open(&simulator);
    let keys: BTreeSet<_> = gpus.sample_all(0).into_iter().map(|sample| sample.uuid).collect();
    assert_eq!(keys, gpus.identities().iter().map(|gpu| gpu.uuid.clone()).collect());
    assert_eq!(keys.len(), 5, "instances of one profile are told apart");
    let nvml = simulator.nvml();
    for identity in gpus.identities() {
        assert!(identity.uuid.starts_with(if identity.mig.is_some() { "MIG-" } else { "GPU-" }), "{}", identity.uuid);
        assert_eq!(
            nvml.device_by_uuid(identity.uuid.as_str()).expect("by uuid").name().expect("a name"),
            identity.name
        );
    }
}

/// A GPU on which nothing ran since the last look answers *not found*: its processes are there, without utilisation.
#[test]
fn d19_not_found_is_nothing_and_no_error() {
    let here = std::process::id();
    let on = format!("[[gpu.process]]\npid = {here}\nmemory_mib = 5\nsm_util = 0\n");
    let simulator = Simulator::new(&format!("[[gpu]]\nmodel = \"h100-80gb\"\n{on}[[gpu]]\nmodel = \"h100-80gb\"\n"));
    let samples = open(&simulator).sample_all(0);
    let [held, empty] = &samples[..] else { panic!("{samples:?}") };
    let processes = held.processes.value().expect("no error");
    assert_eq!((processes.len(), processes[0].sm_util), (1, None));
    assert_eq!(empty.processes, Reading::Value(vec![]));
    assert_eq!(empty.measures.count(names::GPU_PROCESSES), Some(0), "nobody is a number here");
}

/// PIDs that aren't there, or are dead and not yet collected by their parents, hold nothing: no GPU and no instance.
#[test]
fn d20_only_the_living_hold_a_gpu() {
    let here = std::process::id();
    let mut dead = Command::new("true").spawn().expect("true");
    // Dead, and a zombie for as long as nobody waits for it.
    let stat = format!("/proc/{}/stat", dead.id());
    while !std::fs::read_to_string(&stat).expect("its state").contains(") Z ") {
        std::thread::yield_now();
    }
    let list: String = [here, dead.id(), 4_194_304]
        .map(|pid| format!("[[gpu.instance.process]]\npid = {pid}\nmemory_mib = 7\nsm_util = 10\n"))
        .concat();
    let instance = format!("[[gpu.instance]]\nprofile = \"1g.10gb\"\n{list}");
    let simulator = Simulator::new(&split("h100-80gb", &["2g.20gb", "1g.10gb"], &instance));
    let samples = open(&simulator).sample_all(0);
    let pids = |sample: &GpuSample| -> Vec<u32> {
        sample.processes.value().expect("a list").iter().map(|process| process.pid).collect()
    };
    assert_eq!(samples.iter().map(pids).collect::<Vec<_>>(), [vec![here], vec![], vec![here]]);
    let counts = samples.iter().map(|sample| sample.measures.count(names::GPU_PROCESSES));
    assert_eq!(counts.collect::<Vec<_>>(), [Some(1), Some(0), Some(1)]);
    let process = &samples[2].processes.value().expect("a list")[0];
    assert_eq!((process.gpu_instance, process.compute_instance), (Some(9), Some(0)));
    assert_eq!(process.memory_bytes, Reading::Value(7 * MIB));
    dead.wait().expect("its end");
}

/// What a driver doesn't offer is neither 0 nor an error, of whatever sensor.
#[test]
fn d22_unsupported_stays_unsupported() {
    let here = std::process::id();
    let process = format!("[[gpu.process]]\npid = {here}\nsm_util = 50\n");
    let refused =
        "unsupported = [\"process_utilization\", \"mps_processes\", \"graphics_processes\", \"gpm_sample\"]\n";
    let simulator = Simulator::new(&format!("[[gpu]]\nmodel = \"h100-80gb\"\n{refused}{process}"));
    let mut gpus = open(&simulator);
    let sample = two_samples(&simulator, &mut gpus).remove(0);
    let processes = sample.processes.value().expect("one list is offered");
    assert_eq!((processes.len(), processes[0].sm_util), (1, None));
    for metric in [names::GPM_SM, names::GPM_TENSOR, names::VGPU_INSTANCES, names::MIG_INSTANCES] {
        assert!(is_unsupported(&sample, metric), "{metric}");
    }
    let lists = "unsupported = [\"compute_processes\", \"mps_processes\", \"graphics_processes\"]\n";
    let simulator = Simulator::new(&split("h100-80gb", &["1g.10gb"], lists));
    for sample in open(&simulator).sample_all(0) {
        assert!(matches!(sample.processes, Reading::Unsupported(_)));
        assert!(is_unsupported(&sample, names::GPU_PROCESSES), "{}", sample.uuid);
    }
    let failing = Simulator::new(
        "[[gpu]]\nmodel = \"h100-80gb\"\nerrors = { active_vgpus = \"unknown\", gpm_sample = \"timeout\" }",
    );
    let sample = open(&failing).sample(0, 0).expect("a GPU");
    for metric in [names::GPM_SM, names::VGPU_INSTANCES] {
        assert!(sample.measures.reading(metric).expect("asked").is_failed(), "{metric}: it should be able to");
    }
}

#[test]
fn clients_of_mps_and_virtual_gpus_are_seen() {
    let here = std::process::id();
    let simulator = Simulator::new(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nvgpus = 2\n[[gpu.process]]\npid = {here}\nmps = true\nmemory_mib = 300\nsm_util = 20\n\
         [[gpu]]\nmodel = \"h100-80gb\"\nvgpus = 0\n"
    ));
    let samples = open(&simulator).sample_all(0);
    let process = &samples[0].processes.value().expect("a list")[0];
    assert_eq!((process.kind, process.sm_util), (ProcessKind::Mps, Some(20.0)));
    assert_eq!(process.memory_bytes, Reading::Value(300 * MIB));
    let counts = samples.iter().map(|sample| sample.measures.count(names::VGPU_INSTANCES));
    assert_eq!(counts.collect::<Vec<_>>(), [Some(2), Some(0)]);
}

#[test]
fn gpm_needs_two_samples_that_are_apart_and_keeps_one() {
    let simulator = Simulator::new(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nutilization = [{{ at = \"0s\", value = 0 }}, {{ at = \"1s\", value = 100 }}]\n{}",
        split("h100-80gb", &["1g.10gb"], "")
    ));
    let mut gpus = open(&simulator);
    let mut take = |clock, ts_ms| {
        simulator.hold_clock(clock);
        gpus.sample_all(ts_ms).remove(0).measures
    };
    let asked = |measures: &contador_agent::sensors::Measures| measures.reading(names::GPM_SM).is_some();
    assert!(!asked(&take(0, 10_000)), "nothing before it: left out, and not 0");
    assert!(!asked(&take(90, 10_090)), "too near");
    assert_eq!(take(1_000, 11_000).f64(names::GPM_SM), Some(0.5), "the mean of the second, from the first sample on");
    let measures = take(2_000, 12_000);
    assert_eq!(measures.f64(names::GPM_SM), Some(1.0));
    // At 100 percent the simulated board sends 1,000 MiB/s over PCIe, and 10,000 over NVLink.
    let sent = |metric| measures.reading_as(metric, &[(names::IO_DIRECTION, "transmit")]).expect("asked").get();
    let rates = [names::GPM_PCIE, names::GPM_NVLINK].map(|metric| sent(metric).expect("a rate").f64());
    assert_eq!(rates, [1_000.0 * 1_048_576.0, 10_000.0 * 1_048_576.0]);
    assert_eq!(simulator.gpm_samples(), 3, "one of each device");
    drop(gpus);
    assert_eq!(simulator.gpm_samples(), 0);
}

#[test]
fn a_layout_that_changes_is_said_and_followed() {
    let simulator = Simulator::new(
        "[[gpu]]\nmodel = \"h100-80gb\"\nmig = [{ at = \"0s\", layout = [\"2g.20gb\", \"1g.10gb\"] }, \
         { at = \"30s\", layout = [\"1g.20gb\", \"-\", \"1g.10gb\"] }, { at = \"60s\", layout = [] }]",
    );
    let mut gpus = open(&simulator);
    let profiles = |gpus: &Gpus| -> Vec<String> {
        gpus.identities().iter().filter_map(|gpu| Some(gpu.mig.as_ref()?.profile.clone())).collect()
    };
    let before = gpus.identities().to_vec();
    assert_eq!(
        (gpus.sample_all(1_000).len(), gpus.take_changes()),
        (3, vec![]),
        "what is there at first has not changed"
    );
    simulator.hold_clock(30_000);
    let samples = gpus.sample_all(31_000);
    let after = gpus.identities().to_vec();
    assert_eq!(profiles(&gpus), ["1g.20gb", "1g.10gb"]);
    // The 1g.20gb has taken the place of the 2g.20gb, and with it the UUID: yet it is another instance.
    assert_eq!(before[1].uuid, after[1].uuid);
    assert_eq!(after[1].mig.as_ref().expect("an instance").compute_slices, Some(1));
    assert_eq!(before[2], after[2], "and this one is the same, at another index");
    assert_eq!(samples.len(), 3);
    let change = gpus.take_changes().pop().expect("a change");
    assert_eq!((change.parent.as_str(), gpus.take_changes()), (before[0].uuid.as_str(), vec![]));
    let names = |list: &[(String, String)]| list.iter().map(|(profile, _)| profile.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&change.before), names(&change.after)),
        (vec!["2g.20gb".into(), "1g.10gb".into()], profiles(&gpus))
    );
    simulator.hold_clock(32_000);
    assert_eq!(gpus.sample_all(33_000).len(), 3);
    assert_eq!(simulator.gpm_samples(), 3);
    simulator.hold_clock(60_000);
    assert_eq!(gpus.sample_all(61_000).len(), 1);
    assert_eq!(gpus.take_changes().pop().expect("a change").after, []);
    assert_eq!(simulator.gpm_samples(), 1, "what is gone is given back");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn slices_never_exceed_a_board(picks in proptest::collection::vec(0usize..6, 0..8)) {
        let all = mig_profiles("h100-80gb");
        let mut layout: Vec<_> = picks.iter().map(|pick| &all[*pick]).collect();
        while place(&layout).is_none() {
            layout.pop();
        }
        let names: Vec<_> = layout.iter().map(|profile| profile.name).collect();
        let gpus = open(&Simulator::new(&split("h100-80gb", &names, "")));
        let instances: Vec<_> = gpus.identities().iter().filter_map(|gpu| gpu.mig.clone()).collect();
        prop_assert_eq!(instances.iter().map(|mig| mig.profile.as_str()).collect::<Vec<_>>(), names);
        prop_assert!(instances.iter().filter_map(|mig| mig.compute_slices).sum::<u32>() <= 7);
        prop_assert!(instances.iter().filter_map(|mig| mig.memory_slices).sum::<u32>() <= 8);
        let ids: BTreeSet<_> = instances.iter().map(|mig| (mig.gpu_instance, mig.compute_instance)).collect();
        prop_assert_eq!(ids.len(), instances.len());
    }
}
