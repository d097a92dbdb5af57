//! The GPU models that a scenario can name, with the figures of the real boards.
//!
//! A scenario's `model` is looked up by [`profile`] among [`PROFILES`]: the boards of `data_center`, which have HBM, ECC
//! and links between them, and those of `consumer`, which have fans. What a board lacks is answered as unsupported.

mod consumer;
mod data_center;

/// What is fixed by a GPU's model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The name in a scenario.
    pub key: &'static str,
    /// The name that the driver gives the board.
    pub name: &'static str,
    /// NVML's architecture number: 7 Ampere, 8 Ada, 9 Hopper, 10 Blackwell.
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
    /// The window through which the host reaches it, in bytes.
    pub bar1_total: u64,
    /// Power when idle, in milliwatts.
    pub power_idle_mw: u32,
    /// Power limit, in milliwatts; drawn at 100 percent.
    pub power_limit_mw: u32,
    /// SM and graphics clock when idle and at work, in MHz.
    pub sm_mhz: (u32, u32),
    /// Memory clock when idle and at work, in MHz.
    pub memory_mhz: (u32, u32),
    /// Video clock when idle and at work, in MHz.
    pub video_mhz: (u32, u32),
    /// Core temperature when idle and at 100 percent, in degrees Celsius.
    pub temperature_c: (u32, u32),
    /// The same of the memory; none on boards without HBM.
    pub hbm_c: Option<(u32, u32)>,
    /// Speed of the fan when idle and at 100 percent, in percent; none on boards that are cooled from outside.
    pub fan: Option<(u32, u32)>,
    /// True for boards that can be split by MIG (MIG mode is then readable, and off).
    pub mig_capable: bool,
    /// True for boards with a serial number in their InfoROM.
    pub has_serial: bool,
    /// True for boards that correct and count memory errors.
    pub ecc: bool,
    /// True for boards that put spare rows in place of broken ones.
    pub row_remapping: bool,
    /// How the board is attached.
    pub pcie: Pcie,
    /// Its links to other boards; none on boards without.
    pub nvlink: Option<NvLink>,
}

/// A board's PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pcie {
    /// Its greatest generation.
    pub generation: u32,
    /// Its greatest width, in lanes.
    pub width: u32,
    /// Bytes a millisecond, sent and received, at 100 percent; none where the driver does not count them.
    pub bytes_per_ms: Option<(u64, u64)>,
}

/// A board's NVLinks, all to switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvLink {
    /// Generation of NVLink: 3, 4 or 5.
    pub version: u32,
    /// How many there are.
    pub links: u32,
    /// Bytes a millisecond over each link, sent and received, at 100 percent.
    pub bytes_per_ms: (u64, u64),
}

/// Every model, by rising name.
pub const PROFILES: [&Profile; 6] = [
    &data_center::A100,
    &data_center::B200,
    &data_center::H100,
    &data_center::H200,
    &data_center::L4,
    &consumer::RTX_4090,
];

/// The model of that name.
pub fn profile(key: &str) -> Option<&'static Profile> {
    PROFILES.into_iter().find(|profile| profile.key == key)
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
            // NVML knows no more links of a board.
            assert!(p.nvlink.is_none_or(|nvlink| (1..=18).contains(&nvlink.links)), "{}", p.key);
        }
        assert!(PROFILES.is_sorted_by_key(|p| p.key));
    }
}
