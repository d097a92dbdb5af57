//! What the GPUs run, and what they reach each other by: a line or two for all of them.

use std::collections::BTreeMap;

use contador_schemas::names;

use super::text::{bad, ranges, wrapped};
use super::{Asked, ProbeGpus};
use crate::sensors::nvml::topology::Topology;

/// Most pairs of GPUs that are listed for one kind of path; more are counted.
const MOST_PAIRS: usize = 6;

/// The lines.
pub(super) fn part(gpus: &ProbeGpus, columns: u16) -> String {
    let mut out = String::new();
    if let Some(firmware) = firmware(gpus) {
        out += &wrapped(&format!("firmware: {firmware}"), columns);
    }
    match &gpus.topology {
        Asked::Answered(reading) if reading.value().is_some() => {
            let paths = gpus.topology.value().and_then(|topology| paths(topology, gpus));
            out += &paths.map(|paths| wrapped(&format!("topology: {paths}"), columns)).unwrap_or_default();
        }
        missing => out += &wrapped(&format!("topology: {}", bad(missing.missing().unwrap_or_default())), columns),
    }
    out
}

/// Which firmware the boards have, and which GPUs have it, where they differ.
fn firmware(gpus: &ProbeGpus) -> Option<String> {
    let kinds = [("VBIOS", names::HW_FIRMWARE), ("GSP", names::GSP_FIRMWARE)];
    let shown: Vec<String> = kinds.into_iter().filter_map(|(name, fact)| versions(gpus, name, fact)).collect();
    (!shown.is_empty()).then(|| shown.join("; "))
}

fn versions(gpus: &ProbeGpus, name: &str, fact: &str) -> Option<String> {
    let mut versions: Vec<(&str, Vec<u32>)> = Vec::new();
    let boards = || gpus.devices.iter().map(|(identity, _)| identity).filter(|identity| identity.mig.is_none());
    for board in boards() {
        let Some(version) = board.facts.get(fact) else { continue };
        match versions.iter_mut().find(|(known, _)| *known == version) {
            Some((_, indices)) => indices.push(board.index),
            None => versions.push((version, vec![board.index])),
        }
    }
    let all = boards().count();
    let shown = versions.into_iter().map(|(version, indices)| match indices.len() {
        count if count == all => version.to_owned(),
        _ => format!("{version} (GPU {})", ranges(&indices)),
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| format!("{name} {}", shown.join(", ")))
}

/// By which path which pairs of GPUs reach each other.
fn paths(topology: &Topology, gpus: &ProbeGpus) -> Option<String> {
    let indices: BTreeMap<&str, u32> = gpus
        .devices
        .iter()
        .filter(|(identity, _)| identity.mig.is_none())
        .map(|(identity, _)| (identity.uuid.as_str(), identity.index))
        .collect();
    let mut pairs: BTreeMap<&str, Vec<(u32, u32)>> = BTreeMap::new();
    for (uuid, reached) in topology {
        for (path, other) in reached.iter().flat_map(|reached| reached.split(' ')).filter_map(|one| one.split_once(':'))
        {
            if let (Some(&own), Some(&other)) = (indices.get(uuid.as_str()), indices.get(other))
                && own < other
            {
                pairs.entry(path).or_default().push((own, other));
            }
        }
    }
    let all = indices.len() * indices.len().saturating_sub(1) / 2;
    let shown = pairs.into_iter().map(|(path, mut pairs)| match pairs.len() {
        count if count == all && all > 1 => format!("{path} between all"),
        count if count <= MOST_PAIRS => {
            pairs.sort_unstable();
            let pairs: Vec<String> = pairs.into_iter().map(|(one, other)| format!("{one}↔{other}")).collect();
            format!("{path} {}", pairs.join(" "))
        }
        count => format!("{path} between {count} of {all} pairs"),
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}
