//! What a GPU is; read once.

use nvml_wrapper::enums::device::DeviceArchitecture;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor};

use super::answer::{narrow, wide};
use crate::sensors::sample::GpuIdentity;

/// What all GPUs of a machine have in common.
pub(super) struct Machine {
    driver_version: String,
    cuda_version: Option<String>,
    simulated: bool,
}

impl Machine {
    pub(super) fn read(nvml: &Nvml, simulated: bool) -> Self {
        let cuda = |version| format!("{}.{}", cuda_driver_version_major(version), cuda_driver_version_minor(version));
        Self {
            driver_version: nvml.sys_driver_version().unwrap_or_else(|_| "unknown".to_owned()),
            cuda_version: nvml.sys_cuda_driver_version().ok().map(cuda),
            simulated,
        }
    }
}

/// Reads the identity of the GPU at the driver's `index`. UUID and name must be readable; the rest may be absent.
pub(super) fn read(device: &Device<'_>, index: u32, machine: &Machine) -> Result<GpuIdentity, NvmlError> {
    let architecture = device.architecture().ok().filter(|known| *known != DeviceArchitecture::Unknown);
    Ok(GpuIdentity {
        uuid: device.uuid()?,
        name: device.name()?,
        index,
        pci_bus_id: device.pci_info().ok().map(|pci| pci.bus_id),
        minor: device.minor_number().ok(),
        serial: device.serial().ok().filter(|serial| !serial.is_empty()),
        memory_total_bytes: wide(device.memory_info().map(|memory| memory.total)),
        power_limit_mw: narrow(device.enforced_power_limit()),
        driver_version: machine.driver_version.clone(),
        cuda_version: machine.cuda_version.clone(),
        architecture: architecture.map(|known| known.to_string()),
        simulated: machine.simulated,
        mig: None,
    })
}
