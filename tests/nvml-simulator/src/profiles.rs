//! The GPU models that a scenario can name, with the figures of the real boards.

const MIB: u64 = 1024 * 1024;

/// What is fixed by a GPU's model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The name in a scenario.
    pub key: &'static str,
    /// The name that the driver gives the board.
    pub name: &'static str,
    /// NVML's architecture number: 7 Ampere, 8 Ada, 9 Hopper.
    pub architecture: u32,
    /// NVML's brand number: 14 NVIDIA, 5 GeForce.
    pub brand: u32,
    /// CUDA compute capability.
    pub compute_capability: (i32, i32),
    /// PCI device id, device part above vendor part.
    pub pci_device_id: u32,
    /// All device memory, in bytes.
    pub memory_total: u64,
    /// What driver and firmware keep of it, in bytes.
    pub memory_reserved: u64,
    /// Power when idle, in milliwatts.
    pub power_idle_mw: u32,
    /// Power limit, in milliwatts; drawn at 100 percent.
    pub power_limit_mw: u32,
    /// SM and graphics clock when idle and at work, in MHz.
    pub sm_mhz: (u32, u32),
    /// Memory clock when idle and at work, in MHz.
    pub memory_mhz: (u32, u32),
    /// Core temperature when idle and at 100 percent, in degrees Celsius.
    pub temperature_c: (u32, u32),
    /// True for boards that can be split by MIG (MIG mode is then readable, and off).
    pub mig_capable: bool,
    /// True for boards with a serial number in their InfoROM.
    pub has_serial: bool,
}

/// Every model, by rising name.
pub const PROFILES: &[Profile] = &[
    Profile {
        key: "a100-80gb",
        name: "NVIDIA A100-SXM4-80GB",
        architecture: 7,
        brand: 14,
        compute_capability: (8, 0),
        pci_device_id: 0x20B2_10DE,
        memory_total: 81_920 * MIB,
        memory_reserved: 767 * MIB,
        power_idle_mw: 62_000,
        power_limit_mw: 400_000,
        sm_mhz: (210, 1_410),
        memory_mhz: (1_593, 1_593),
        temperature_c: (31, 68),
        mig_capable: true,
        has_serial: true,
    },
    Profile {
        key: "h100-80gb",
        name: "NVIDIA H100 80GB HBM3",
        architecture: 9,
        brand: 14,
        compute_capability: (9, 0),
        pci_device_id: 0x2330_10DE,
        memory_total: 81_559 * MIB,
        memory_reserved: 551 * MIB,
        power_idle_mw: 70_000,
        power_limit_mw: 700_000,
        sm_mhz: (345, 1_980),
        memory_mhz: (2_619, 2_619),
        temperature_c: (30, 72),
        mig_capable: true,
        has_serial: true,
    },
    Profile {
        key: "h200-141gb",
        name: "NVIDIA H200",
        architecture: 9,
        brand: 14,
        compute_capability: (9, 0),
        pci_device_id: 0x2335_10DE,
        memory_total: 143_771 * MIB,
        memory_reserved: 612 * MIB,
        power_idle_mw: 76_000,
        power_limit_mw: 700_000,
        sm_mhz: (345, 1_980),
        memory_mhz: (3_201, 3_201),
        temperature_c: (31, 71),
        mig_capable: true,
        has_serial: true,
    },
    Profile {
        key: "l4",
        name: "NVIDIA L4",
        architecture: 8,
        brand: 14,
        compute_capability: (8, 9),
        pci_device_id: 0x27B8_10DE,
        memory_total: 23_034 * MIB,
        memory_reserved: 466 * MIB,
        power_idle_mw: 16_000,
        power_limit_mw: 72_000,
        sm_mhz: (210, 2_040),
        memory_mhz: (405, 6_251),
        temperature_c: (38, 75),
        mig_capable: false,
        has_serial: true,
    },
    Profile {
        key: "rtx-4090",
        name: "NVIDIA GeForce RTX 4090",
        architecture: 8,
        brand: 5,
        compute_capability: (8, 9),
        pci_device_id: 0x2684_10DE,
        memory_total: 24_564 * MIB,
        memory_reserved: 347 * MIB,
        power_idle_mw: 21_000,
        power_limit_mw: 450_000,
        sm_mhz: (210, 2_520),
        memory_mhz: (405, 10_501),
        temperature_c: (34, 70),
        mig_capable: false,
        has_serial: false,
    },
];

/// The model of that name.
pub fn profile(key: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_possible_and_found_by_its_name() {
        for p in PROFILES {
            assert_eq!(profile(p.key), Some(p));
            assert!(p.memory_reserved < p.memory_total, "{}", p.key);
            assert!(p.power_idle_mw < p.power_limit_mw, "{}", p.key);
            assert!(p.name.len() < 96 && p.name.starts_with("NVIDIA "), "{}", p.key);
        }
    }
}
