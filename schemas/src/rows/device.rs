//! What a device is.

use super::columns::columns;

columns! {
    /// What a device is. `None` is *not told*, and leaves what was known before.
    Device {
        /// Device UUID.
        id: String,
        /// Host name.
        node: String,
        /// Maker.
        vendor: String,
        /// Model as the driver names it.
        model: String,
        /// UUID of the GPU that a MIG instance is part of.
        parent: String,
        /// MIG profile as the driver names it.
        mig_profile: String,
        /// PCI address.
        pci_bus_id: String,
        /// Driver's version.
        driver_version: String,
        /// Bytes.
        memory_bytes: u64,
        /// Whether the device is a simulated one.
        simulated: bool,
        /// Unix milliseconds.
        first_seen: i64,
        /// Unix milliseconds.
        last_seen: i64,
    } values {
        /// Serial number of the board.
        serial_number: String,
        /// Version of the VBIOS.
        vbios_version: String,
        /// Version of the firmware of the GPU's system processor.
        gsp_firmware_version: String,
        /// Part number of the board.
        part_number: String,
        /// Architecture of a GPU, such as Hopper.
        architecture: String,
        /// CUDA compute capability, such as 9.0.
        compute_capability: String,
        /// Index at the driver; not stable over reboots.
        device_index: u32,
        /// N of /dev/nvidiaN.
        minor: u32,
        /// Greatest generation of the PCIe link.
        pcie_generation_max: u32,
        /// Greatest number of lanes of the PCIe link.
        pcie_width_max: u32,
        /// Power limit of the board after a reset, milliwatts.
        power_limit_default_mw: u32,
        /// Least power limit that can be set, milliwatts.
        power_limit_min_mw: u32,
        /// Greatest power limit that can be set, milliwatts.
        power_limit_max_mw: u32,
        /// Greatest clock of the streaming multiprocessors, megahertz.
        clock_sm_max_mhz: u32,
        /// Greatest clock of the memory, megahertz.
        clock_memory_max_mhz: u32,
        /// `enabled` or `disabled`.
        ecc_mode: String,
        /// `enabled` or `disabled`.
        persistence_mode: String,
        /// `default`, `exclusive_process` or `prohibited`.
        compute_mode: String,
        /// `enabled` or `disabled`.
        mig_mode: String,
        /// `none`, `passthrough`, `vgpu`, `host_vgpu` or `host_vsga`.
        virtualization_mode: String,
        /// What it reaches each other device by, such as `NV18:GPU-…`.
        topology: String,
        /// Version of NVML on the node.
        nvml_version: String,
        /// Newest CUDA version that the driver supports.
        cuda_version: String,
        /// Version of the node's kernel.
        kernel_version: String,
        /// MIG instances: id of the GPU instance.
        mig_gpu_instance: u32,
        /// MIG instances: id of the compute instance.
        mig_compute_instance: u32,
        /// MIG instances: compute slices, of 7.
        mig_compute_slices: u32,
        /// MIG instances: memory slices, of 8.
        mig_memory_slices: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{ATTRIBUTES, DEVICE_FACTS};
    use crate::rows::ByColumn as _;

    #[test]
    fn each_fact_has_an_attribute_and_a_column() {
        let columns: Vec<&str> = DEVICE_FACTS.iter().map(|(column, _)| *column).collect();
        assert_eq!(columns, Device::COLUMNS);
        assert!(DEVICE_FACTS.iter().all(|(_, name)| ATTRIBUTES.iter().any(|attribute| attribute.name == *name)));
    }
}
