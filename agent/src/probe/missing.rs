//! What is missing of devices, and why: a paragraph for each reason, however many values and devices have it.

use std::collections::BTreeMap;

use contador_schemas::names;

use super::ProbeGpus;
use super::devices::name;
use super::text::{bad, dim, ranges, wrapped};
use crate::sensors::{GpuIdentity, GpuSample, Reading};

/// What is missing for one reason: metrics with the variants that are.
type Lacks = BTreeMap<&'static str, Vec<String>>;

/// Whether something failed, why it is missing, and the list of what is.
type Why = (bool, String, String);

/// The paragraphs.
pub(super) fn part(gpus: &ProbeGpus, columns: u16) -> String {
    // By kind and reason, and by what is missing for it: which devices.
    let mut groups: Vec<(Why, Vec<&GpuIdentity>)> = Vec::new();
    for (identity, sample) in &gpus.devices {
        for ((is_failed, reason), lacks) in of_device(identity, sample) {
            let key = (is_failed, reason, listed(&lacks));
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, devices)) => devices.push(identity),
                None => groups.push((key, vec![identity])),
            }
        }
    }
    // What failed comes first.
    groups.sort_by_key(|((is_failed, ..), _)| !is_failed);
    let mut out = String::new();
    for ((is_failed, reason, list), devices) in groups {
        let who = devices_shown(&devices, gpus);
        let why = if is_failed { bad(format!("failed ({reason})")) } else { dim(format!("unsupported ({reason})")) };
        out += &wrapped(&format!("{who}: {why}: {list}"), columns);
    }
    out
}

/// By whether it failed, and why.
fn of_device(identity: &GpuIdentity, sample: &GpuSample) -> BTreeMap<(bool, String), Lacks> {
    let mut all: BTreeMap<(bool, String), Lacks> = BTreeMap::new();
    let mut add = |metric, variant: Option<String>, missing: Option<(bool, String)>| {
        // A device that tells nothing at all is shown with its fault.
        let is_told = |reason: &String| sample.faults.iter().any(|fault| fault.ends_with(reason.as_str()));
        if let Some(key) = missing.filter(|(is_failed, reason)| !(*is_failed && is_told(reason))) {
            let variants = all.entry(key).or_default().entry(metric).or_default();
            variants.extend(variant.filter(|variant| !variants.contains(variant)));
        }
    };
    for measure in sample.measures.iter() {
        let values: Vec<&str> = measure.fixed.iter().map(|(_, value)| *value).collect();
        add(measure.metric, Some(values.join(" ")), why(&measure.reading));
    }
    add("processes", None, why(&sample.processes));
    if identity.power_limit_mw.value().is_none() && sample.measures.reading(names::GPU_POWER_LIMIT).is_none() {
        add("power limit", None, why(&identity.power_limit_mw));
    }
    all
}

fn why<T>(reading: &Reading<T>) -> Option<(bool, String)> {
    match reading {
        Reading::Value(_) => None,
        Reading::Unsupported(reason) => Some((false, reason.to_string())),
        Reading::Failed(reason) => Some((true, reason.to_string())),
    }
}

/// Metrics without what they have in common, with their variants unless all are missing.
fn listed(lacks: &Lacks) -> String {
    let shown = lacks.iter().map(|(metric, variants)| {
        let short =
            ["contador.gpu.", "hw.gpu.", "contador.", "hw."].iter().find_map(|prefix| metric.strip_prefix(prefix));
        let all = names::metric(metric).map_or(1, |known| known.variants.len());
        let short = short.unwrap_or(metric);
        let is_plain = variants.iter().all(String::is_empty);
        let named: Vec<&str> =
            variants.iter().map(|variant| if variant.is_empty() { "itself" } else { variant }).collect();
        if is_plain || variants.len() >= all { short.to_owned() } else { format!("{short} ({})", named.join(", ")) }
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// GPUs by their numbers, and instances by their names, or all of them.
pub(super) fn devices_shown(devices: &[&GpuIdentity], gpus: &ProbeGpus) -> String {
    let (instances, boards): (Vec<&GpuIdentity>, Vec<_>) = devices.iter().partition(|device| device.mig.is_some());
    let mut shown = Vec::new();
    if !boards.is_empty() {
        let numbers: Vec<u32> = boards.iter().map(|board| board.index).collect();
        shown.push(format!("GPU {}", ranges(&numbers)));
    }
    let all = gpus.devices.iter().filter(|(identity, _)| identity.mig.is_some()).count();
    if instances.len() > 1 && instances.len() == all {
        shown.push("all MIG instances".to_owned());
    } else {
        shown.extend(instances.into_iter().map(name));
    }
    shown.join(", ")
}
