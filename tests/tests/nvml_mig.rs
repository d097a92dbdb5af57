//! MIG, GPM and the lists of processes of the simulator, asked through `nvml-wrapper` exactly as the driver is.

use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;

mod nvml_support;
use nvml_support::Simulator;

const MIB: u64 = 1024 * 1024;

const SPLIT: &str = "[[gpu]]\nmodel = \"h100-80gb\"\n\
    mig = [{ at = \"0s\", layout = [\"3g.40gb\", \"-\", \"1g.10gb\"] }, { at = \"30s\", layout = [\"1g.10gb\"] }]\n\
    [[gpu.instance]]\nprofile = \"3g.40gb\"\nutilization = 80\n[[gpu.instance.process]]\npid = 7\nmemory_mib = 500\n\
    [[gpu]]\nmodel = \"h100-80gb\"\n[[gpu]]\nmodel = \"l4\"\n";

#[test]
fn an_instance_is_found_by_index_and_uuid_and_knows_its_gpu() {
    let simulator = Simulator::new(SPLIT);
    let nvml = simulator.nvml();
    let gpu = nvml.device_by_index(0).expect("a GPU");
    assert_eq!((gpu.mig_mode().expect("a mode").current, gpu.mig_device_count().expect("places")), (1, 7));
    assert!(matches!(gpu.mig_device_by_index(1), Err(NvmlError::NotFound)), "a hole");
    assert!(matches!(gpu.mig_device_by_index(7), Err(NvmlError::InvalidArg)));
    let instance = gpu.mig_device_by_index(2).expect("an instance");
    assert_eq!(instance.name().expect("a name"), "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
    let uuid = instance.uuid().expect("a uuid");
    assert_eq!(nvml.device_by_uuid(uuid.as_str()).expect("by uuid").uuid().expect("a uuid"), uuid);
    assert!(
        instance.mig_is_mig_device_handle().expect("an answer") && !gpu.mig_is_mig_device_handle().expect("an answer")
    );
    assert_eq!(instance.mig_parent_device().expect("a GPU").uuid().expect("a uuid"), gpu.uuid().expect("a uuid"));
    let attributes = instance.attributes().expect("attributes");
    assert_eq!((attributes.multiprocessor_count, attributes.compute_instance_slice_count), (16, 1));
    let memory = instance.memory_info().expect("memory");
    assert_eq!(memory.total, 9_984 * MIB);
    assert_eq!(memory.free + memory.used + memory.reserved, memory.total);
    let whole = nvml.device_by_index(1).expect("a GPU");
    assert_eq!((whole.mig_mode().expect("a mode").current, whole.mig_device_count().expect("places")), (0, 0));
    assert!(matches!(whole.mig_device_by_index(0), Err(NvmlError::NotSupported)));
}

#[test]
fn a_new_layout_makes_old_handles_invalid() {
    let simulator = Simulator::new(SPLIT);
    let nvml = simulator.nvml();
    let gpu = nvml.device_by_index(0).expect("a GPU");
    let old = gpu.mig_device_by_index(0).expect("an instance");
    let uuid = old.uuid().expect("a uuid");
    simulator.hold_clock(30_000);
    assert!(matches!(old.uuid(), Err(NvmlError::InvalidArg)));
    assert!(matches!(old.memory_info(), Err(NvmlError::InvalidArg)));
    assert!(matches!(nvml.device_by_uuid(uuid.as_str()), Err(NvmlError::NotFound)));
    assert_eq!(
        gpu.mig_device_by_index(0).expect("another one").name().expect("a name"),
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    );
}

#[test]
fn what_mig_takes_away_is_not_supported() {
    let simulator = Simulator::new(SPLIT);
    let nvml = simulator.nvml();
    let gpu = nvml.device_by_index(0).expect("a GPU");
    assert!(matches!(gpu.utilization_rates(), Err(NvmlError::NotSupported)));
    assert!(matches!(gpu.process_utilization_stats(0), Err(NvmlError::NotSupported)));
    assert!(gpu.power_usage().is_ok() && gpu.total_energy_consumption().is_ok() && gpu.memory_info().is_ok());
    let instance = gpu.mig_device_by_index(0).expect("an instance");
    assert!(matches!(instance.utilization_rates(), Err(NvmlError::NotSupported)));
    assert!(matches!(instance.power_usage(), Err(NvmlError::NotSupported)));
    assert!(matches!(instance.total_energy_consumption(), Err(NvmlError::NotSupported)));
}

#[test]
fn processes_of_a_split_gpu_have_their_instance() {
    let simulator = Simulator::new(SPLIT);
    let nvml = simulator.nvml();
    let gpu = nvml.device_by_index(0).expect("a GPU");
    let own = |index| gpu.mig_device_by_index(index).expect("an instance").running_compute_processes().expect("a list");
    let all = gpu.running_compute_processes().expect("a list");
    assert_eq!((all.len(), all[0].pid, all[0].gpu_instance_id, all[0].compute_instance_id), (1, 7, Some(1), Some(0)));
    assert_eq!((own(0), own(2)), (all, vec![]));
    assert_eq!(nvml.device_by_index(1).expect("a GPU").mps_running_compute_processes().expect("a list"), []);
}

#[test]
fn gpm_is_the_difference_of_two_samples() {
    let simulator = Simulator::new(SPLIT);
    let nvml = simulator.nvml();
    let [gpu, whole, l4] = [0, 1, 2].map(|index| nvml.device_by_index(index).expect("a GPU"));
    assert!(gpu.gpm_support().expect("an answer") && !l4.gpm_support().expect("an answer"));
    assert!(matches!(l4.gpm_sample(), Err(NvmlError::NotSupported)));
    assert!(matches!(gpu.gpm_mig_sample(5), Err(NvmlError::InvalidArg)), "no such instance");
    let ids = [GpmMetricId::SmUtil, GpmMetricId::PcieTxPerSec, GpmMetricId::Nvdec0Util];
    let first = [gpu.gpm_sample(), gpu.gpm_mig_sample(1), whole.gpm_sample()].map(|sample| sample.expect("a sample"));
    simulator.hold_clock(50);
    let near = gpu.gpm_mig_sample(1).expect("a sample");
    let values = gpm_metrics_get(&nvml, &first[1], &near, &ids).expect("values");
    assert!(matches!(values[0], Err(NvmlError::NoData)), "{values:?}");
    simulator.hold_clock(2_000);
    let second = [gpu.gpm_sample(), gpu.gpm_mig_sample(1), whole.gpm_sample()].map(|sample| sample.expect("a sample"));
    let values = |at: usize| {
        let values = gpm_metrics_get(&nvml, &first[at], &second[at], &ids).expect("values");
        values.into_iter().map(|value| value.ok().map(|value| value.value)).collect::<Vec<_>>()
    };
    assert_eq!(
        values(0).iter().map(Option::is_some).collect::<Vec<_>>(),
        [false, true, false],
        "a board that is split"
    );
    assert_eq!(values(1), [Some(80.0), None, None], "of its own part");
    assert_eq!(values(2), [Some(0.0), Some(0.0), None]);
    assert!(matches!(gpm_metrics_get(&nvml, &first[0], &second[1], &ids), Err(NvmlError::InvalidArg)));
    assert_eq!(simulator.gpm_samples(), 7);
    drop((first, near, second));
    assert_eq!(simulator.gpm_samples(), 0);
}
