//! What one device looked like at one instant.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::owners::Identified;
use crate::owners::claim::{Part, complete, is_work_of};

/// Parts per million in one.
pub const PPM: u32 = 1_000_000;

/// One owner's hold of a device at an instant.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Who.
    pub owner: Identified,
    /// What part of the device's time it has; `None`: none, since its processes are there and the device was given to others.
    #[serde(default = "even")]
    pub part: Option<Part>,
    /// Device memory that its processes hold, in MiB.
    pub memory_mib: u64,
    /// Its processes' part of the streaming multiprocessors in parts per million, where the driver tells it for all; 0 of
    /// who has no process.
    pub sm_ppm: Option<u64>,
}

/// What a checkpoint says that is older than parts.
fn even() -> Option<Part> {
    Some(Part::Even)
}

/// What one MIG instance of a GPU looked like at one instant.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Instance {
    /// Device UUID.
    pub device: String,
    /// Its part of the GPU, of [`super::slices::WHOLE`].
    pub weight: u64,
    /// Who holds it, by rising id, each once; nobody: it is idle.
    pub holders: Vec<Holder>,
    /// Its activity, of its own part, in parts per million, at most [`PPM`]; `None` when unsupported or not read.
    pub utilization_ppm: Option<u32>,
}

/// What one device looked like at one instant: state that holds until the next tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// Device UUID.
    pub device: String,
    /// Whether the device is a simulated one.
    pub simulated: bool,
    /// The sample's own instant, Unix milliseconds.
    pub instant_ms: i64,
    /// Who holds it, by rising id, each once; nobody: the device is idle. Of a GPU that is split: who holds what no instance
    /// covers; nobody: that is stranded.
    pub holders: Vec<Holder>,
    /// Utilisation in parts per million, at most [`PPM`]; `None` when unsupported or not read.
    pub utilization_ppm: Option<u32>,
    /// Energy counter in millijoules; `None` when unsupported or not read.
    pub energy_mj: Option<u64>,
    /// Its MIG instances, each UUID once; `None` when it is not split.
    pub split: Option<Vec<Instance>>,
}

impl Tick {
    /// Who holds the device, or an instance of it, each once.
    pub fn owners(&self) -> Vec<&Identified> {
        let parts = self.split.iter().flatten().flat_map(|instance| &instance.holders);
        let all: BTreeMap<Uuid, &Identified> =
            self.holders.iter().chain(parts).map(|holder| (holder.owner.id(), &holder.owner)).collect();
        all.into_values().collect()
    }
}

/// Joins who was given a device with the processes on it: owner, bytes of device memory, and use of the multiprocessors, 0 to
/// 100 percent. Who was given it twice has both parts. Who only has processes there has an even part when nobody was given
/// the device, and none when others were. Whose processes are those of a pod or a job that was given it, is that one holder.
pub fn holders<'o>(
    given: impl IntoIterator<Item = (Part, &'o Identified)>,
    processes: impl IntoIterator<Item = (&'o Identified, u64, Option<f64>)>,
) -> Vec<Holder> {
    let mut found: BTreeMap<Uuid, Found<'o>> = BTreeMap::new();
    for (part, owner) in given {
        let part_of = &mut found.entry(owner.id()).or_insert_with(|| Found::new(owner, None)).part;
        *part_of = Some(part_of.map_or(part, |before| both(before, part)));
    }
    let otherwise = found.is_empty().then_some(Part::Even);
    let given: Vec<&Identified> = found.values().map(|found| found.owner).collect();
    for (owner, memory_bytes, sm_percent) in processes {
        let sm_ppm = sm_percent.map(|percent| u64::from(ppm(percent / 100.0)));
        let holder = if found.contains_key(&owner.id()) { owner } else { holder_of(owner, &given).unwrap_or(owner) };
        let found = found.entry(holder.id()).or_insert_with(|| Found::new(owner, otherwise));
        found.bytes = found.bytes.saturating_add(memory_bytes);
        found.sm_ppm = found.sm_ppm.zip(sm_ppm).map(|(sum, more)| sum + more);
        if holder != owner {
            found.processes.push(owner);
        }
    }
    let holder = |Found { owner, part, bytes, sm_ppm, processes }| Holder {
        owner: complete(owner, &processes),
        part,
        memory_mib: bytes >> 20,
        sm_ppm,
    };
    let mut holders: Vec<Holder> = found.into_values().map(holder).collect();
    holders.sort_by_key(|holder| holder.owner.id());
    holders
}

/// Who was given the device, of those, that a process of this owner is of: the one with its container, or the only one.
fn holder_of<'o>(process: &Identified, given: &[&'o Identified]) -> Option<&'o Identified> {
    let mut fit = given.iter().copied().filter(|given| is_work_of(process, given));
    let first = fit.next()?;
    match fit.next() {
        None => Some(first),
        Some(_) => None,
    }
}

/// What is known of one holder.
struct Found<'o> {
    owner: &'o Identified,
    part: Option<Part>,
    bytes: u64,
    sm_ppm: Option<u64>,
    /// Owners of his processes that say more, or less, than he.
    processes: Vec<&'o Identified>,
}

impl<'o> Found<'o> {
    fn new(owner: &'o Identified, part: Option<Part>) -> Self {
        Self { owner, part, bytes: 0, sm_ppm: Some(0), processes: Vec::new() }
    }
}

/// Two parts of one holder. A fraction says more than none.
fn both(one: Part, other: Part) -> Part {
    match (one, other) {
        (Part::Ppm(one), Part::Ppm(other)) => Part::Ppm(one.saturating_add(other)),
        (Part::Ppm(ppm), Part::Even) | (Part::Even, Part::Ppm(ppm)) => Part::Ppm(ppm),
        (Part::Even, Part::Even) => Part::Even,
    }
}

/// A ratio as parts per million, held to 0 to 1; not a number is 0.
#[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "held to 0..=1 before")]
pub fn ppm(ratio: f64) -> u32 {
    (ratio.clamp(0.0, 1.0) * f64::from(PPM)).round() as u32
}

#[cfg(test)]
mod tests {
    use contador_schemas::owner::Owner;

    use super::*;

    fn owner(department: &str) -> Identified {
        Owner { department: department.into(), ..Owner::default() }.into()
    }

    /// What each holder has, by rising name.
    fn found(given: &[(Part, &Identified)], processes: &[(&Identified, u64, Option<f64>)]) -> Vec<(String, Holder)> {
        let holders = holders(given.iter().copied(), processes.iter().copied());
        assert!(holders.is_sorted_by(|one, other| one.owner.id() < other.owner.id()));
        let mut named: Vec<_> = holders.into_iter().map(|holder| (holder.owner.label(), holder)).collect();
        named.sort_by(|one, other| one.0.cmp(&other.0));
        named
    }

    #[test]
    fn processes_of_one_owner_are_one_holder() {
        let (a, b) = (owner("a"), owner("b"));
        let found = found(&[], &[(&a, 1 << 20, Some(10.0)), (&b, 5 << 20, None), (&a, (2 << 20) + 5, Some(2.5))]);
        let [(_, of_a), (_, of_b)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((of_a.memory_mib, of_a.sm_ppm, of_a.part), (3, Some(125_000), Some(Part::Even)));
        assert_eq!((of_b.memory_mib, of_b.sm_ppm, of_b.part), (5, None, Some(Part::Even)));
    }

    #[test]
    fn who_was_given_a_device_holds_it_without_a_process_and_who_was_not_has_no_part() {
        let (a, b, c) = (owner("a"), owner("b"), owner("c"));
        let given = [(Part::Ppm(200_000), &a), (Part::Even, &b), (Part::Ppm(50_000), &a)];
        let found = found(&given, &[(&b, 7 << 20, Some(5.0)), (&c, 1 << 20, Some(90.0))]);
        let told: Vec<_> = found.iter().map(|(name, of)| (name.as_str(), of.part, of.memory_mib, of.sm_ppm)).collect();
        assert_eq!(
            told,
            [
                ("a", Some(Part::Ppm(250_000)), 0, Some(0)),
                ("b", Some(Part::Even), 7, Some(50_000)),
                ("c", None, 1, Some(900_000))
            ]
        );
        assert_eq!(both(Part::Ppm(u32::MAX), Part::Ppm(1)), Part::Ppm(u32::MAX));
    }

    #[test]
    fn a_holder_of_an_older_checkpoint_has_an_even_part() {
        let id = Uuid::nil();
        let old = serde_json::json!({ "id": id, "owner": owner("a"), "memory_mib": 1, "sm_ppm": null });
        assert_eq!(serde_json::from_value::<Holder>(old).unwrap().part, Some(Part::Even));
    }

    #[test]
    fn ratios_outside_of_0_to_1_are_held_to_it() {
        assert_eq!([ppm(-1.0), ppm(f64::NAN), ppm(0.5), ppm(26.19)], [0, 0, 500_000, PPM]);
    }
}
