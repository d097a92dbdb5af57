//! The GPUs of a report: who they are, a row for each, what else they tell, and their processes.

use comfy_table::{Cell, CellAlignment};
use contador_schemas::names;

use super::missing;
use super::table::grid;
use super::text::{bad, dim, gib, good, warn, wrapped};
use super::{ProbeGpus, ProbeReport};
use crate::exposition::Device;
use crate::sensors::{GpuIdentity, GpuSample, Measures, Number, Reading};

/// Columns from which a row has everything.
const WIDE: u16 = 72;

/// Why clocks are low, by bit; what is no reason to worry is left out.
const THROTTLES: [(u64, &str); 7] = [
    (4, "the power cap"),
    (8, "a hardware slowdown"),
    (16, "sync boost"),
    (32, "the temperature (software)"),
    (64, "the temperature (hardware)"),
    (128, "the power brake"),
    (256, "display clocks"),
];

/// Errors that are shown when there are any.
const ERRORS: [(&str, &str); 2] =
    [("ecc_uncorrected_volatile", "uncorrected ECC"), ("ecc_uncorrected_aggregate", "uncorrected ECC in its life")];

/// What a device is called: `GPU 0`, or `MIG 1g.10gb (GPU 0, 7)`.
pub(super) fn name(identity: &GpuIdentity) -> String {
    let device = Device::of(identity);
    match device.get(names::MIG_PROFILE) {
        "" => format!("GPU {}", identity.index),
        profile => format!("MIG {profile} ({}, GPU {})", device.get(names::MIG_GPU_INSTANCE), identity.index),
    }
}

/// The part of the table.
pub(super) fn part(report: &ProbeReport, gpus: &ProbeGpus, columns: u16) -> String {
    let instances = gpus.devices.iter().filter(|(identity, _)| is_instance(identity)).count();
    let mut head = match gpus.devices.len() - instances {
        1 => "1 GPU".to_owned(),
        count => format!("{count} GPUs"),
    };
    head += if gpus.simulated { " (simulated)" } else { "" };
    if instances > 0 {
        head += &format!(" with {instances} MIG instances");
    }
    if let Some((identity, _)) = gpus.devices.first() {
        head += &format!(", driver {}", identity.driver_version);
        head += &identity.cuda_version.as_ref().map(|version| format!(", CUDA {version}")).unwrap_or_default();
    }
    let mut out = format!("\n{}", wrapped(&head, columns));
    out.extend(gpus.devices.iter().map(|(identity, _)| identity_line(identity, columns)));
    if !gpus.devices.is_empty() {
        // A narrow window has no room for how many links there are; those that are down are a fault.
        let is_narrow = columns < WIDE;
        let mut names = vec!["GPU", "use", "GiB", "W", "°C", "links", "state", "owner"];
        names.retain(|name| !is_narrow || *name != "links");
        let mut table = grid(columns, &names);
        for (identity, sample) in &gpus.devices {
            table.add_row(row(report, identity, sample, is_narrow));
        }
        out += &format!("{}\n\n", table.trim_fmt());
    }
    for (identity, sample) in &gpus.devices {
        out += &details(identity, &sample.measures, columns);
    }
    for (identity, sample) in &gpus.devices {
        for process in sample.processes.value().into_iter().flatten() {
            let memory = match &process.memory_bytes {
                Reading::Value(bytes) => format!("{} GiB", gib(Number::Whole(*bytes).f64())),
                other => format!("memory {}", other.missing().unwrap_or_default()),
            };
            let sm = process.sm_util.map(|percent| format!(", {percent:.0} % of the SMs")).unwrap_or_default();
            let owner =
                report.processes.get(&process.pid).map(|owner| format!(", {}", owner.label())).unwrap_or_default();
            out += &wrapped(&format!("{}: pid {}: {memory}{sm}{owner}", name(identity), process.pid), columns);
        }
    }
    out += &missing::part(gpus, columns);
    for (index, reason) in &gpus.unreadable {
        out += &wrapped(&format!("GPU {index}: {}", bad(format!("failed ({reason})"))), columns);
    }
    out
}

fn is_instance(identity: &GpuIdentity) -> bool {
    !Device::of(identity).get(names::HW_PARENT).is_empty()
}

fn identity_line(identity: &GpuIdentity, columns: u16) -> String {
    if is_instance(identity) {
        return wrapped(&format!("  {}: {}", name(identity), identity.uuid), columns);
    }
    // Without the maker, a line fits 80 columns.
    let model = identity.name.strip_prefix("NVIDIA ").unwrap_or(&identity.name);
    wrapped(&format!("GPU {}: {model}, {}", identity.index, identity.uuid), columns)
}

fn row(report: &ProbeReport, identity: &GpuIdentity, sample: &GpuSample, is_narrow: bool) -> Vec<Cell> {
    let measures = &sample.measures;
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let is_part = is_instance(identity);
    let label = match is_part {
        true => format!("└ {}", Device::of(identity).get(names::MIG_PROFILE)),
        false => identity.index.to_string(),
    };
    // An instance has no utilisation; its engines' activity is the nearest to it.
    let activity = if is_part { names::GPM_GRAPHICS } else { names::GPU_UTILIZATION };
    let limit = match measures.reading(names::GPU_POWER_LIMIT) {
        Some(limit) => limit.clone(),
        None => identity.power_limit_mw.clone().map(|limit| Number::Thousandths(limit.into())),
    };
    let owners: Vec<String> = report.owners_of(&identity.uuid).map(contador_schemas::owner::Owner::label).collect();
    let limit = Some(&limit).filter(|_| !is_narrow);
    let mut cells = vec![
        Cell::new(label),
        right(value(measures.reading(activity), |share| format!("{:.0} %", share * 100.0))),
        right(both(measures.reading(names::GPU_MEMORY_USAGE), measures.reading(names::GPU_MEMORY_LIMIT), gib)),
        right(both(measures.reading(names::POWER), limit, |watts| format!("{watts:.0}"))),
        right(value(measures.reading(names::TEMPERATURE), |celsius| format!("{celsius:.0}"))),
    ];
    cells.extend((!is_narrow).then(|| right(links(measures))));
    cells.push(Cell::new(state(sample)));
    cells.push(Cell::new(if owners.is_empty() { dim("nobody") } else { owners.join("\n") }));
    cells
}

/// The value, or only in which way it is missing; the reason is in a line below the table.
fn value(reading: Option<&Reading<Number>>, show: impl FnOnce(f64) -> String) -> String {
    match reading {
        Some(Reading::Value(value)) => show(value.f64()),
        Some(Reading::Failed(_)) => bad("failed"),
        Some(Reading::Unsupported(_)) | None => dim("–"),
    }
}

/// A value and its bound.
fn both(of: Option<&Reading<Number>>, most: Option<&Reading<Number>>, show: impl Fn(f64) -> String) -> String {
    let bound = most.and_then(Reading::get).map(|most| format!("/{}", show(most.f64())));
    value(of, |of| format!("{}{}", show(of), bound.unwrap_or_default()))
}

/// Links that are up, of those that there are.
fn links(measures: &Measures) -> String {
    let (up, all) = (measures.count(names::NVLINK_LINKS_ACTIVE), measures.count(names::NVLINK_LINKS));
    match (up, all) {
        (Some(up), Some(all)) if up < all => bad(format!("{up}/{all}")),
        (Some(up), Some(all)) => format!("{up}/{all}"),
        _ => value(measures.reading(names::NVLINK_LINKS_ACTIVE), |up| format!("{up:.0}")),
    }
}

/// How the device is, and what is wrong with it.
fn state(sample: &GpuSample) -> String {
    let measures = &sample.measures;
    let is = |state: &'static str| {
        measures
            .reading_as(names::STATUS, &[(names::STATE, state)])
            .and_then(Reading::get)
            .is_some_and(|on| on.f64() == 1.0)
    };
    let faults = faults(measures);
    let mut shown = Vec::new();
    match () {
        () if is("failed") => shown.push(bad("failed")),
        () if is("degraded") => shown.push(warn("degraded")),
        () if is("ok") && faults.is_empty() => shown.push(good("ok")),
        () if sample.processes.is_failed() && measures.iter().all(|measure| measure.reading.value().is_none()) => {
            shown.push(bad("failed"));
        }
        () => {}
    }
    shown.extend(faults.into_iter().map(warn));
    if shown.is_empty() { dim("–") } else { shown.join("\n") }
}

fn faults(measures: &Measures) -> Vec<String> {
    let mut faults = Vec::new();
    let links = measures.count(names::NVLINK_LINKS).zip(measures.count(names::NVLINK_LINKS_ACTIVE));
    let down = links.map(|(all, up)| all.saturating_sub(up)).filter(|down| *down > 0);
    faults.extend(down.map(|down| format!("{down} links down")));
    let some = |metric| measures.count(metric).filter(|count| *count > 0);
    faults.extend(some(names::GPU_XID_LAST).map(|code| format!("XID {code}")));
    for (kind, shown) in ERRORS {
        let count = measures.reading_as(names::ERRORS, &[(names::ERROR_TYPE, kind)]).and_then(Reading::get);
        faults.extend(count.and_then(Number::count).filter(|count| *count > 0).map(|count| format!("{count} {shown}")));
    }
    faults.extend(some(names::GPU_REMAP_PENDING).map(|_| "row remap pending".to_owned()));
    faults.extend(some(names::GPU_REMAP_FAILED).map(|_| "row remap failed".to_owned()));
    faults
}

/// What a device tells beside its row, on a line.
fn details(identity: &GpuIdentity, measures: &Measures, columns: u16) -> String {
    let number = |metric| measures.f64(metric);
    let percent = |metric, shown: &str| Some(format!("{shown} {:.0} %", number(metric)? * 100.0));
    let activity: Vec<String> = [
        percent(names::GPM_SM, "SM"),
        percent(names::GPM_OCCUPANCY, "occupancy"),
        percent(names::GPM_TENSOR, "tensor"),
        percent(names::GPM_DRAM, "DRAM"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut parts = Vec::new();
    parts.extend((!activity.is_empty()).then(|| activity.join(", ")));
    let clocks = number(names::GPU_CLOCK_SM).zip(number(names::GPU_CLOCK_MEMORY));
    parts.extend(clocks.map(|(sm, memory)| format!("{sm:.0} MHz, memory {memory:.0} MHz")));
    let pcie = number(names::GPU_PCIE_GENERATION).zip(number(names::GPU_PCIE_WIDTH));
    parts.extend(pcie.map(|(generation, width)| format!("PCIe {generation:.0} x{width:.0}")));
    if let Some(bits) = measures.count(names::GPU_THROTTLE_REASONS) {
        let reasons: Vec<&str> =
            THROTTLES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, reason)| *reason).collect();
        parts.extend((!reasons.is_empty()).then(|| warn(format!("held down by {}", reasons.join(" and ")))));
    }
    if parts.is_empty() {
        String::new()
    } else {
        wrapped(&format!("{}: {}", name(identity), parts.join("; ")), columns)
    }
}
