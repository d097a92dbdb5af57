//! What a GPU is; read once, when the driver is opened.

use std::path::Path;

use contador_schemas::names;
use nvml_wrapper::enum_wrappers::device::{Clock, ComputeMode, GpuVirtualizationMode};
use nvml_wrapper::enums::device::DeviceArchitecture;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor};

use super::answer::{narrow, reading, wide};
use crate::sensors::sample::GpuIdentity;
use crate::sensors::{Facts, Reading};

/// What all GPUs of a machine have in common.
#[derive(Debug)]
pub(super) struct Machine {
    driver_version: String,
    cuda_version: Option<String>,
    simulated: bool,
    facts: Facts,
}

impl Machine {
    /// Reads the versions of the driver, and of the kernel under `proc_root` (`/proc`).
    pub(super) fn read(nvml: &Nvml, simulated: bool, proc_root: &Path) -> Self {
        let cuda = |version| format!("{}.{}", cuda_driver_version_major(version), cuda_driver_version_minor(version));
        let driver = reading(nvml.sys_driver_version());
        let cuda = reading(nvml.sys_cuda_driver_version()).map(cuda);
        let mut facts = Facts::default();
        facts.read(names::HW_DRIVER_VERSION, driver.clone());
        facts.read(names::NVML_VERSION, reading(nvml.sys_nvml_version()));
        facts.read(names::CUDA_VERSION, cuda.clone());
        facts.read(names::KERNEL_VERSION, kernel(proc_root));
        Self {
            driver_version: driver.value().cloned().unwrap_or_else(|| "unknown".to_owned()),
            cuda_version: cuda.value().cloned(),
            simulated,
            facts,
        }
    }
}

fn kernel(proc_root: &Path) -> Reading<String> {
    let path = proc_root.join("sys/kernel/osrelease");
    match std::fs::read_to_string(&path) {
        Ok(version) => Reading::Value(version.trim().to_owned()),
        Err(error) => Reading::Failed(format!("{}: {error}", path.display()).into()),
    }
}

/// Reads the identity of the GPU at the driver's `index`. UUID and name must be readable; the rest may be absent.
pub(super) fn read(device: &Device<'_>, index: u32, machine: &Machine) -> Result<GpuIdentity, NvmlError> {
    let facts = facts(device, index, machine);
    let told = |attribute: &str| facts.get(attribute).map(str::to_owned);
    Ok(GpuIdentity {
        uuid: device.uuid()?,
        name: device.name()?,
        index,
        pci_bus_id: told(names::DEVICE_PCI),
        minor: facts.get(names::DEVICE_MINOR).and_then(|minor| minor.parse().ok()),
        serial: told(names::HW_SERIAL),
        memory_total_bytes: wide(device.memory_info().map(|memory| memory.total)),
        power_limit_mw: narrow(device.enforced_power_limit()),
        driver_version: machine.driver_version.clone(),
        cuda_version: machine.cuda_version.clone(),
        architecture: told(names::DEVICE_ARCHITECTURE),
        simulated: machine.simulated,
        mig: None,
        facts,
    })
}

fn facts(device: &Device<'_>, index: u32, machine: &Machine) -> Facts {
    let mut facts = machine.facts.clone();
    let constraints = allowed(device.power_management_limit_constraints());
    let ecc = allowed(device.is_ecc_enabled()).map(|ecc| switched(ecc.currently_enabled));
    let mig = allowed(device.mig_mode()).map(|mode| switched(mode.current == 1));
    facts.read(names::DEVICE_INDEX, Reading::Value(index));
    facts.read(names::DEVICE_MINOR, allowed(device.minor_number()));
    facts.read(names::DEVICE_PCI, allowed(device.pci_info()).map(|pci| pci.bus_id));
    facts.read(names::HW_SERIAL, allowed(device.serial()));
    facts.read(names::HW_FIRMWARE, allowed(device.vbios_version()));
    facts.read(names::GSP_FIRMWARE, allowed(device.gsp_firmware_version()));
    facts.read(names::DEVICE_PART, allowed(device.board_part_number()));
    facts.read(names::DEVICE_ARCHITECTURE, allowed(device.architecture()).and_then(architecture));
    let capability = allowed(device.cuda_compute_capability());
    facts.read(names::COMPUTE_CAPABILITY, capability.map(|version| format!("{}.{}", version.major, version.minor)));
    facts.read(names::PCIE_GENERATION_MAX, allowed(device.max_pcie_link_gen()));
    facts.read(names::PCIE_WIDTH_MAX, allowed(device.max_pcie_link_width()));
    facts.read(names::POWER_LIMIT_DEFAULT, allowed(device.power_management_limit_default()));
    facts.read(names::POWER_LIMIT_MIN, constraints.clone().map(|limits| limits.min_limit));
    facts.read(names::POWER_LIMIT_MAX, constraints.map(|limits| limits.max_limit));
    facts.read(names::CLOCK_SM_MAX, allowed(device.max_clock_info(Clock::SM)));
    facts.read(names::CLOCK_MEMORY_MAX, allowed(device.max_clock_info(Clock::Memory)));
    facts.read(names::ECC_MODE, ecc);
    facts.read(names::PERSISTENCE_MODE, allowed(device.is_in_persistent_mode()).map(switched));
    facts.read(names::COMPUTE_MODE, allowed(device.compute_mode()).map(compute_mode));
    facts.read(names::MIG_MODE, mig);
    facts.read(names::VIRTUALIZATION_MODE, allowed(device.virtualization_mode()).map(virtualization_mode));
    facts
}

/// An answer as a reading. What this process is not allowed to know is as little known as what the device can't tell.
fn allowed<T>(answer: Result<T, NvmlError>) -> Reading<T> {
    match answer {
        Err(NvmlError::NoPermission) => Reading::Unsupported("not permitted".into()),
        answer => reading(answer),
    }
}

fn switched(enabled: bool) -> &'static str {
    if enabled { "enabled" } else { "disabled" }
}

fn architecture(known: DeviceArchitecture) -> Reading<String> {
    match known {
        DeviceArchitecture::Unknown => Reading::Unsupported("unknown to this driver".into()),
        known => Reading::Value(known.to_string()),
    }
}

fn compute_mode(mode: ComputeMode) -> &'static str {
    match mode {
        ComputeMode::Default => "default",
        ComputeMode::ExclusiveThread => "exclusive_thread",
        ComputeMode::Prohibited => "prohibited",
        ComputeMode::ExclusiveProcess => "exclusive_process",
    }
}

fn virtualization_mode(mode: GpuVirtualizationMode) -> &'static str {
    match mode {
        GpuVirtualizationMode::Bare => "none",
        GpuVirtualizationMode::PassThrough => "passthrough",
        GpuVirtualizationMode::Vgpu => "vgpu",
        GpuVirtualizationMode::HostVgpu => "host_vgpu",
        GpuVirtualizationMode::HostVsga => "host_vsga",
    }
}
