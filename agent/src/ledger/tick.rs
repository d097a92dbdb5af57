//! What one device looked like at one instant.

use std::collections::BTreeMap;

use contador_schemas::owner::Owner;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Parts per million in one.
pub const PPM: u32 = 1_000_000;

/// One owner's hold of a device at an instant.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// [`Owner::id`], kept because it takes a hash to compute.
    pub id: Uuid,
    /// Who.
    pub owner: Owner,
    /// Device memory that its processes hold, in MiB.
    pub memory_mib: u64,
    /// Its processes' part of the streaming multiprocessors in parts per million, where the driver tells it for all.
    pub sm_ppm: Option<u64>,
}

/// What one device looked like at one instant: state that holds until the next tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Device UUID.
    pub device: String,
    /// Whether the device is a simulated one.
    pub simulated: bool,
    /// The sample's own instant, Unix milliseconds.
    pub instant_ms: i64,
    /// Who holds it, by rising id, each once; nobody: the device is idle.
    pub holders: Vec<Holder>,
    /// Utilisation in parts per million, at most [`PPM`]; `None` when unsupported or not read.
    pub utilization_ppm: Option<u32>,
    /// Energy counter in millijoules; `None` when unsupported or not read.
    pub energy_mj: Option<u64>,
}

/// Adds up the holds of processes by owner. `sm_percent` is 0 to 100.
pub fn holders(processes: impl IntoIterator<Item = (Owner, u64, Option<f64>)>) -> Vec<Holder> {
    let mut bytes: BTreeMap<Uuid, (Holder, u64)> = BTreeMap::new();
    for (owner, memory_bytes, sm_percent) in processes {
        let sm_ppm = sm_percent.map(|percent| u64::from(ppm(percent / 100.0)));
        let id = owner.id();
        match bytes.entry(id) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert((Holder { id, owner, memory_mib: 0, sm_ppm }, memory_bytes));
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                let (holder, bytes) = entry.get_mut();
                *bytes = bytes.saturating_add(memory_bytes);
                holder.sm_ppm = holder.sm_ppm.zip(sm_ppm).map(|(sum, more)| sum + more);
            }
        }
    }
    bytes.into_values().map(|(holder, bytes)| Holder { memory_mib: bytes >> 20, ..holder }).collect()
}

/// A ratio as parts per million, held to 0 to 1; not a number is 0.
#[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "held to 0..=1 before")]
pub fn ppm(ratio: f64) -> u32 {
    (ratio.clamp(0.0, 1.0) * f64::from(PPM)).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_one_owner_are_one_holder() {
        let owner = |department: &str| Owner { department: department.into(), ..Owner::default() };
        let found = holders([
            (owner("a"), 1 << 20, Some(10.0)),
            (owner("b"), 5 << 20, None),
            (owner("a"), (2 << 20) + 5, Some(2.5)),
        ]);
        assert_eq!(found.len(), 2);
        let a = found.iter().find(|holder| holder.owner == owner("a")).unwrap();
        assert_eq!((a.memory_mib, a.sm_ppm), (3, Some(125_000)));
        let b = found.iter().find(|holder| holder.owner == owner("b")).unwrap();
        assert_eq!((b.memory_mib, b.sm_ppm), (5, None));
        assert!(found[0].id < found[1].id);
    }

    #[test]
    fn ratios_outside_of_0_to_1_are_held_to_it() {
        assert_eq!([ppm(-1.0), ppm(f64::NAN), ppm(0.5), ppm(26.19)], [0, 0, 500_000, PPM]);
    }
}
