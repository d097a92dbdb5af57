//! What is wrong with devices: a paragraph for each fault, with all devices that have it.

use contador_schemas::names;

use super::ProbeGpus;
use super::missing::devices_shown;
use super::text::{bad, ranges, warn, wrapped};
use crate::sensors::nvml::xids::meaning;
use crate::sensors::{GpuIdentity, GpuSample, Number, Reading};

/// The paragraphs.
pub(super) fn part(gpus: &ProbeGpus, columns: u16) -> String {
    let mut groups: Vec<(String, Vec<&GpuIdentity>)> = Vec::new();
    for (identity, sample) in &gpus.devices {
        for fault in of_device(sample) {
            match groups.iter_mut().find(|(known, _)| *known == fault) {
                Some((_, devices)) => devices.push(identity),
                None => groups.push((fault, vec![identity])),
            }
        }
    }
    let mut unreadable: Vec<(&str, Vec<u32>)> = Vec::new();
    for (index, reason) in &gpus.unreadable {
        match unreadable.iter_mut().find(|(known, _)| known == reason) {
            Some((_, indices)) => indices.push(*index),
            None => unreadable.push((reason, vec![*index])),
        }
    }
    let mut out = String::new();
    for (reason, indices) in unreadable {
        let who = ranges(&indices);
        out += &wrapped(&format!("GPU {who}: {}", bad(format!("failed ({reason})"))), columns);
    }
    for (fault, devices) in groups {
        out += &wrapped(&format!("{}: {fault}", devices_shown(&devices, gpus)), columns);
    }
    out
}

/// What is wrong with one device.
fn of_device(sample: &GpuSample) -> Vec<String> {
    let measures = &sample.measures;
    let is_failed = measures
        .reading_as(names::STATUS, &[(names::STATE, "failed")])
        .map_or(measures.is_empty(), |failed| failed.get().is_some_and(|on| on.f64() == 1.0));
    let mut faults = Vec::new();
    if !sample.faults.is_empty() {
        let all = sample.faults.join("; ");
        faults.push(if is_failed { bad(format!("failed ({all})")) } else { warn(format!("degraded ({all})")) });
    }
    for measure in measures.iter().filter(|measure| measure.metric == names::GPU_XIDS) {
        let code = measure.varying.iter().find(|(name, _)| *name == names::XID).map(|(_, code)| code);
        let count = measure.reading.get().and_then(Number::count).filter(|count| *count > 0);
        if let Some((code, count)) = code.zip(count) {
            let meant = code.parse().ok().and_then(meaning).map(|meant| format!(" ({meant})")).unwrap_or_default();
            let times = if count > 1 { format!(", {count} times") } else { String::new() };
            faults.push(warn(format!("XID {code}{meant}{times}")));
        }
    }
    let aged = measures.reading_as(names::ERRORS, &[(names::ERROR_TYPE, "ecc_uncorrected_aggregate")]);
    let aged = aged.and_then(Reading::get).and_then(Number::count).filter(|count| *count > 0);
    faults.extend(aged.map(|count| {
        let plural = if count == 1 { "" } else { "s" };
        warn(format!("{count} uncorrected ECC error{plural} in its life"))
    }));
    faults
}
