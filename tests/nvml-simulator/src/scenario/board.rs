//! What a scenario says about a GPU's board beside its load: links that are down, memory errors, counters that start
//! somewhere or wrap, clocks that are held down.
//!
//! The keys are read as they are written here, and checked against what the model has.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::Fault;
use crate::profiles::Profile;

/// A board, as a scenario has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Board {
    /// Its NVLinks.
    pub nvlink: Links,
    /// Its memory errors.
    pub ecc: Ecc,
    /// Its remapped rows.
    pub remapped_rows: RemappedRows,
    /// Its PCIe link.
    pub pcie: PcieLink,
    /// Why its clocks are held down, as NVML's bits; none: as its load has it.
    pub throttle: Option<u64>,
}

/// NVLinks.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Links {
    /// Those that are down, and carry nothing.
    pub down: BTreeSet<u32>,
    /// What the byte counters start at, in their own unit: KiB up to NVLink 4, bytes on NVLink 5.
    pub start: u64,
    /// How many bits the byte counters have before they start again at 0.
    pub counter_bits: Bits,
    /// Errors that have happened.
    pub errors: Vec<LinkErrors>,
}

/// Errors of one NVLink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkErrors {
    /// Which link.
    pub link: u32,
    /// Replays.
    pub replay: u64,
    /// Recoveries.
    pub recovery: u64,
    /// Checksum errors of flow control.
    pub crc_flit: u64,
    /// Checksum errors of data.
    pub crc_data: u64,
}

/// Memory errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ecc {
    /// False: ECC is switched off, and nothing is counted.
    pub enabled: bool,
    /// Corrected since the driver was loaded.
    pub corrected_volatile: u64,
    /// Not corrected since the driver was loaded.
    pub uncorrected_volatile: u64,
    /// Corrected in the board's life.
    pub corrected_aggregate: u64,
    /// Not corrected in the board's life.
    pub uncorrected_aggregate: u64,
}

impl Default for Ecc {
    fn default() -> Self {
        Self {
            enabled: true,
            corrected_volatile: 0,
            uncorrected_volatile: 0,
            corrected_aggregate: 0,
            uncorrected_aggregate: 0,
        }
    }
}

/// Rows of memory that were put out of use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemappedRows {
    /// For corrected errors.
    pub corrected: u32,
    /// For uncorrected errors.
    pub uncorrected: u32,
    /// A row waits for a reset.
    pub pending: bool,
    /// A row could not be remapped.
    pub failed: bool,
}

/// The PCIe link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PcieLink {
    /// Its generation now; absent: the board's greatest.
    pub generation: Option<u32>,
    /// Its lanes now; absent: the board's greatest number.
    pub width: Option<u32>,
    /// Replays that have happened.
    pub replays: u32,
    /// What the byte counters start at.
    pub start: u64,
    /// How many bits the byte counters have before they start again at 0.
    pub counter_bits: Bits,
}

/// How wide a counter is, from 1 to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Bits(u32);

impl Default for Bits {
    fn default() -> Self {
        Self(64)
    }
}

impl Bits {
    /// What a counter of this width shows after it has counted `counted` from `start` on.
    pub fn shown(self, start: u64, counted: u128) -> u64 {
        let sum = u128::from(start).wrapping_add(counted);
        let mask = u64::MAX >> (64 - self.0);
        u64::try_from(sum & u128::from(mask)).unwrap_or(u64::MAX)
    }

    fn check(self, key: &str) -> Result<(), Fault> {
        let possible = (1..=64).contains(&self.0);
        possible.then_some(()).ok_or_else(|| Fault::new(key, format!("{}: expected 1 to 64", self.0)))
    }
}

/// What can be written at a GPU about its board.
#[derive(Debug, Clone, Default)]
pub(super) struct Written<'w> {
    pub nvlink: Option<&'w Links>,
    pub ecc: Option<Ecc>,
    pub remapped_rows: Option<RemappedRows>,
    pub pcie: Option<PcieLink>,
    pub throttle: Option<&'w [String]>,
}

/// The board, or what a board of this model can't have.
pub(super) fn check(key: &str, written: &Written<'_>, profile: &Profile) -> Result<Board, Fault> {
    let lacks =
        |name: &str| Fault::new(format!("{key}.{name}"), format!("{} has none: expected no such key", profile.key));
    if let Some(links) = written.nvlink {
        let nvlink = profile.nvlink.ok_or_else(|| lacks("nvlink"))?;
        let mut named = links.down.iter().copied().chain(links.errors.iter().map(|errors| errors.link));
        if let Some(link) = named.find(|link| *link >= nvlink.links) {
            let fault = format!("link {link}: expected 0 to {}", nvlink.links - 1);
            return Err(Fault::new(format!("{key}.nvlink"), fault));
        }
        links.counter_bits.check(&format!("{key}.nvlink.counter_bits"))?;
    }
    if written.ecc.is_some() && !profile.ecc {
        return Err(lacks("ecc"));
    }
    if written.remapped_rows.is_some() && !profile.row_remapping {
        return Err(lacks("remapped_rows"));
    }
    if let Some(pcie) = written.pcie {
        pcie.counter_bits.check(&format!("{key}.pcie.counter_bits"))?;
    }
    Ok(Board {
        nvlink: written.nvlink.cloned().unwrap_or_default(),
        ecc: written.ecc.unwrap_or_default(),
        remapped_rows: written.remapped_rows.unwrap_or_default(),
        pcie: written.pcie.unwrap_or_default(),
        throttle: written.throttle.map(|names| throttle(&format!("{key}.throttle"), names)).transpose()?,
    })
}

/// NVML's bits for reasons to hold clocks down.
const THROTTLE: [(&str, u64); 9] = [
    ("idle", 0x1),
    ("application_clocks", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal", 0x20),
    ("hw_thermal", 0x40),
    ("hw_power_brake", 0x80),
    ("display_clocks", 0x100),
];

fn throttle(key: &str, names: &[String]) -> Result<u64, Fault> {
    let mut bits = 0;
    for name in names {
        let known = THROTTLE.iter().find(|(known, _)| known == name);
        let (_, bit) = known.ok_or_else(|| {
            let all: Vec<_> = THROTTLE.iter().map(|(name, _)| *name).collect();
            Fault::new(key, format!("\"{name}\" is not a reason: expected one of {}", all.join(", ")))
        })?;
        bits |= bit;
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_narrow_counter_wraps_and_a_wide_one_goes_on(start in any::<u32>(), counted in 0u64..1 << 40) {
            let sum = u64::from(start) + counted;
            prop_assert_eq!(Bits::default().shown(start.into(), counted.into()), sum);
            prop_assert_eq!(Bits(32).shown(start.into(), counted.into()), sum % (1 << 32));
            prop_assert_eq!(Bits(1).shown(start.into(), counted.into()), sum % 2);
        }
    }
}
