//! How a GPU is split by MIG over time, and what runs on its parts: from what is written to what is simulated.

use std::collections::BTreeSet;
use std::path::Path;

use toml::Value;
use uuid::Uuid;

use super::{Fault, GpuSpec, ProcessSpec, check_process, raw, values};
use crate::curve::Curve;
use crate::mig_profiles::{MigProfile, mig_profiles, place};
use crate::profiles::Profile;

/// Places that a GPU has for MIG devices: the greatest number of them.
pub const PLACES: usize = 7;

/// A GPU whose MIG mode is on.
#[derive(Debug, Clone, PartialEq)]
pub struct MigSpec {
    /// Which instances exist from when on, by rising time.
    pub layouts: Vec<Layout>,
    /// What instances do, in the order of the scenario.
    pub loads: Vec<InstanceSpec>,
}

/// The instances that exist for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// From when on, in milliseconds.
    pub from_ms: u64,
    /// The MIG device at each index that the driver has for them; absent where there is a hole.
    pub places: Vec<Option<Slot>>,
}

/// One MIG device: a GPU instance with one compute instance, 0, that fills it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its profile.
    pub profile: &'static MigProfile,
    /// Id of its GPU instance.
    pub gpu_instance: u32,
    /// The memory slice at which it begins.
    pub start: u32,
    /// `MIG-…`: the same for the same id on the same GPU, whatever the profile.
    pub uuid: String,
    /// What runs on it, an index of [`MigSpec::loads`]; absent: nothing.
    pub load: Option<usize>,
}

/// What an instance does. Its processes are those of the GPU that name it.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceSpec {
    /// Name of the profile that it is for.
    pub profile: String,
    /// Utilisation of its own part in thousandths of a percent; absent: what its living processes add up to.
    pub utilization: Option<Curve>,
    /// Used memory in bytes; absent: what its living processes add up to.
    pub memory: Option<Curve>,
}

impl MigSpec {
    /// How many layouts have begun by `t`: handles of another number are no longer valid.
    pub fn generation(&self, t: u64) -> usize {
        self.layouts.partition_point(|layout| layout.from_ms <= t)
    }

    /// The MIG devices that exist at `t`, by the driver's index.
    pub fn places(&self, t: u64) -> &[Option<Slot>] {
        let layout = self.generation(t).checked_sub(1).and_then(|at| self.layouts.get(at));
        layout.map_or(&[], |layout| layout.places.as_slice())
    }

    /// The MIG devices that exist at `t`.
    pub fn slots(&self, t: u64) -> impl Iterator<Item = &Slot> {
        self.places(t).iter().flatten()
    }
}

/// The MIG part of a GPU's scenario, and the processes on instances; nothing where there is none. Paths are below `folder`.
pub(super) fn check(
    key: &str,
    raw: &raw::Gpu,
    folder: &Path,
    gpu: &GpuSpec,
) -> Result<Option<(MigSpec, Vec<ProcessSpec>)>, Fault> {
    let (board, uuid) = (gpu.profile, &gpu.uuid);
    if raw.mig.is_none() && raw.instance.is_empty() {
        return Ok(None);
    }
    let profiles = mig_profiles(board.key);
    if profiles.is_empty() {
        return Err(Fault::new(format!("{key}.mig"), format!("{} can't be split: expected no mig", board.key)));
    }
    if raw.utilization.is_some() || raw.memory_mib.is_some() || !raw.process.is_empty() {
        let fault = "utilization, memory_mib or process beside mig: expected them in [[gpu.instance]]";
        return Err(Fault::new(key, fault));
    }
    let (mut loads, mut processes) = (Vec::new(), Vec::new());
    for (position, instance) in raw.instance.iter().enumerate() {
        let (load, own) = check_instance(&format!("{key}.instance[{position}]"), instance, folder, (board, position))?;
        loads.push(load);
        processes.extend(own);
    }
    let written = match &raw.mig {
        Some(value) => layouts(&format!("{key}.mig"), value)?,
        None => vec![(0, loads.iter().map(|load| load.profile.clone()).collect())],
    };
    let mut checked: Vec<Layout> = Vec::new();
    for (from_ms, names) in written {
        if let Some(before) = checked.last().filter(|before| from_ms <= before.from_ms) {
            let fault = format!("the layout at {from_ms} ms is not after the one at {} ms", before.from_ms);
            return Err(Fault::new(format!("{key}.mig"), format!("{fault}: expected rising times")));
        }
        checked.push(Layout { from_ms, places: slots(&format!("{key}.mig"), &names, board, uuid, &loads)? });
    }
    let used: BTreeSet<_> =
        checked.iter().flat_map(|layout| &layout.places).flatten().filter_map(|slot| slot.load).collect();
    if let Some(unused) = (0..loads.len()).find(|load| !used.contains(load)) {
        let fault = format!("no instance \"{}\" is left for it: expected one in mig", loads[unused].profile);
        return Err(Fault::new(format!("{key}.instance[{unused}].profile"), fault));
    }
    Ok(Some((MigSpec { layouts: checked, loads }, processes)))
}

fn find(key: &str, board: &Profile, name: &str) -> Result<&'static MigProfile, Fault> {
    let profiles = mig_profiles(board.key);
    profiles.iter().find(|profile| profile.name == name).ok_or_else(|| {
        let known: Vec<_> = profiles.iter().map(|profile| profile.name).collect();
        Fault::new(key, format!("\"{name}\" is no profile of {}: expected one of {}", board.key, known.join(", ")))
    })
}

fn check_instance(
    key: &str,
    raw: &raw::Instance,
    folder: &Path,
    (board, position): (&Profile, usize),
) -> Result<(InstanceSpec, Vec<ProcessSpec>), Fault> {
    let profile = find(&format!("{key}.profile"), board, &raw.profile)?;
    let capacity = profile.capacity(board);
    let mut processes = Vec::new();
    for (number, process) in raw.process.iter().enumerate() {
        let spec = check_process(&format!("{key}.process[{number}]"), process, capacity)?;
        processes.push(ProcessSpec { instance: Some(position), ..spec });
    }
    let held: u64 = processes.iter().map(|process| process.memory_bytes).sum();
    if held > capacity {
        let fault = format!("{held} bytes together: expected at most {capacity}, what the instance has");
        return Err(Fault::new(format!("{key}.process"), fault));
    }
    let percent = |value| values::percent_curve(&format!("{key}.utilization"), value, folder);
    let mib = |value| values::mib_curve(&format!("{key}.memory_mib"), value, folder, capacity);
    let spec = InstanceSpec {
        profile: raw.profile.clone(),
        utilization: raw.utilization.as_ref().map(percent).transpose()?,
        memory: raw.memory_mib.as_ref().map(mib).transpose()?,
    };
    Ok((spec, processes))
}

/// Times and profile names of `["3g.40gb", …]` or `[{ at = "0s", layout = […] }, …]`.
fn layouts(key: &str, value: &Value) -> Result<Vec<(u64, Vec<String>)>, Fault> {
    let expected = "expected [\"1g.10gb\", …] or [{ at = \"0s\", layout = [\"1g.10gb\", …] }, …]";
    let list = value.as_array().ok_or_else(|| Fault::new(key, format!("{value}: {expected}")))?;
    let names = |list: &[Value]| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        list.iter().map(text).collect::<Option<Vec<_>>>().ok_or_else(|| Fault::new(key, expected))
    };
    if !list.iter().any(Value::is_table) {
        return Ok(vec![(0, names(list)?)]);
    }
    let timed = list.iter().enumerate().map(|(position, entry)| {
        let key = format!("{key}[{position}]");
        let [at, layout] = values::fields(&key, entry, ["at", "layout"])?;
        let layout = layout.as_array().ok_or_else(|| Fault::new(format!("{key}.layout"), expected))?;
        Ok((values::duration(&format!("{key}.at"), at)?, names(layout)?))
    });
    timed.collect()
}

/// The MIG devices of a layout: its profiles by name, and `-` for a hole.
fn slots(
    key: &str,
    names: &[String],
    board: &Profile,
    uuid: &str,
    loads: &[InstanceSpec],
) -> Result<Vec<Option<Slot>>, Fault> {
    if names.len() > PLACES {
        return Err(Fault::new(key, format!("{} places: expected at most {PLACES}", names.len())));
    }
    let found = names.iter().map(|name| if name == "-" { Ok(None) } else { find(key, board, name).map(Some) });
    let found = found.collect::<Result<Vec<_>, _>>()?;
    let existing: Vec<_> = found.iter().copied().flatten().collect();
    let starts = place(&existing).ok_or_else(|| {
        let fault = format!("{} don't fit together", names.join(", "));
        Fault::new(key, format!("{fault}: expected 7 compute and 8 memory slices, and places that the board has"))
    })?;
    let mut starts = starts.into_iter();
    let mut free: BTreeSet<usize> = (0..loads.len()).collect();
    Ok(found
        .into_iter()
        .map(|profile| {
            let (profile, start) = (profile?, starts.next()?);
            let load = free.iter().copied().find(|load| loads[*load].profile == profile.name);
            load.inspect(|load| _ = free.remove(load));
            let gpu_instance = profile.gpu_instance(start);
            let name = format!("{uuid}/{gpu_instance}/0");
            let uuid = format!("MIG-{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()));
            Some(Slot { profile, gpu_instance, start, uuid, load })
        })
        .collect())
}
