//! Boards for desktops: with fans, without ECC, serial number, HBM and NVLink.

use super::{Pcie, Profile};

const MIB: u64 = 1024 * 1024;

pub(super) static RTX_4090: Profile = Profile {
    key: "rtx-4090",
    name: "NVIDIA GeForce RTX 4090",
    architecture: 8,
    brand: 5,
    compute_capability: (8, 9),
    pci_device_id: 0x2684_10DE,
    memory_total: 24_564 * MIB,
    memory_reserved: 347 * MIB,
    bar1_total: 32_768 * MIB,
    power_idle_mw: 21_000,
    power_limit_mw: 450_000,
    sm_mhz: (210, 2_520),
    memory_mhz: (405, 10_501),
    video_mhz: (1_185, 2_265),
    temperature_c: (34, 70),
    hbm_c: None,
    fan: Some((0, 80)),
    mig_capable: false,
    has_serial: false,
    ecc: false,
    row_remapping: false,
    pcie: Pcie { generation: 4, width: 16, bytes_per_ms: None },
    nvlink: None,
};
