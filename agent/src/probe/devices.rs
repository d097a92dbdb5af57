//! The GPUs of a report: who they are, a row for each, what else they tell, and their processes.

use comfy_table::{Cell, CellAlignment};
use contador_schemas::names;

use super::table::grid;
use super::text::{bad, dim, gib, good, warn, wrapped};
use super::{ProbeGpus, ProbeReport, about, faults, missing, owners};
use crate::sensors::{GpuIdentity, GpuSample, Measures, Number, Reading};

/// Columns from which a row has everything.
const WIDE: u16 = 72;

/// Columns from which there is room for more than what is looked at first.
const ROOMY: u16 = 100;

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

/// What a device is called: `GPU 0`, or `MIG 0/7/0 (1g.10gb)` by the ids of its GPU, GPU instance and compute instance.
pub(super) fn name(identity: &GpuIdentity) -> String {
    match &identity.mig {
        None => format!("GPU {}", identity.index),
        Some(mig) => {
            format!("MIG {}/{}/{} ({})", identity.index, mig.gpu_instance, mig.compute_instance, mig.profile)
        }
    }
}

/// The part of the table.
pub(super) fn part(report: &ProbeReport, gpus: &ProbeGpus, columns: u16) -> String {
    let instances = gpus.devices.iter().filter(|(identity, _)| is_instance(identity)).count();
    let mut head = match gpus.devices.len() - instances + gpus.unreadable.len() + gpus.stuck.len() {
        1 => "1 GPU".to_owned(),
        count => format!("{count} GPUs"),
    };
    head += if gpus.simulated { " (simulated)" } else { "" };
    head += &match instances {
        0 => String::new(),
        1 => " with 1 MIG instance".to_owned(),
        count => format!(" with {count} MIG instances"),
    };
    head += &format!(", driver {}", gpus.driver_version);
    let cuda = gpus.devices.iter().find_map(|(identity, _)| identity.cuda_version.as_ref());
    head += &cuda.map(|version| format!(", CUDA {version}")).unwrap_or_default();
    let mut out = format!("\n{}", wrapped(&head, columns));
    out += &about::part(gpus, columns);
    let mut identities: Vec<&GpuIdentity> = gpus.devices.iter().map(|(identity, _)| identity).collect();
    identities.extend(gpus.stuck.iter().filter_map(|stuck| stuck.identity.as_ref()));
    // In the driver's order, and each instance after its GPU.
    identities.sort_by_key(|identity| identity.index);
    out.extend(identities.into_iter().map(|identity| identity_line(identity, columns)));
    let rows = rows(report, gpus, columns < WIDE);
    if !rows.is_empty() {
        // A narrow window has no room for how many links there are; those that are down are a fault.
        let mut names = vec!["GPU", "use", "GiB", "W", "°C", "links", "state", "owner"];
        names.retain(|name| columns >= WIDE || *name != "links");
        let mut table = grid(columns, &names);
        table.add_rows(rows);
        out += &format!("{}\n\n", table.trim_fmt());
    }
    out += &faults::part(gpus, columns);
    let mut groups: Vec<(String, Vec<&GpuIdentity>)> = Vec::new();
    for (identity, sample) in &gpus.devices {
        let told = details(&sample.measures, columns);
        match groups.iter_mut().find(|(known, _)| *known == told) {
            Some((_, devices)) => devices.push(identity),
            None => groups.push((told, vec![identity])),
        }
    }
    for (told, devices) in groups.iter().filter(|(told, _)| !told.is_empty()) {
        out += &wrapped(&format!("{}: {told}", missing::devices_shown(devices, gpus)), columns);
    }
    for (identity, sample) in &gpus.devices {
        let all = sample.processes.value().into_iter().flatten();
        // Those of an instance are shown with it.
        let own = all.filter(|process| identity.mig.is_some() || process.gpu_instance.is_none());
        for process in own {
            let memory = match &process.memory_bytes {
                Reading::Value(bytes) => format!("{} GiB", gib(Number::Whole(*bytes).f64())),
                other => format!("memory {}", other.missing().unwrap_or_default()),
            };
            let sm = process.sm_util.map(|percent| format!(", {percent:.0} % of the SMs")).unwrap_or_default();
            let owner =
                report.processes.get(&process.pid).map(|owner| format!(", {}", owner.label())).unwrap_or_default();
            out += &wrapped(&format!("{}: pid {}: {memory}{sm}{owner}", name(identity), process.pid), columns);
        }
        for owner in report.without_process(sample) {
            out += &wrapped(&format!("{}: given to {}, no process", name(identity), owner.label()), columns);
        }
    }
    out += &owners::part(report, columns);
    out += &missing::part(gpus, columns);
    // What comes next begins with an empty line itself.
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

/// A row for each device, in the driver's order, also for one that can't be identified or does not answer.
fn rows(report: &ProbeReport, gpus: &ProbeGpus, is_narrow: bool) -> Vec<Vec<Cell>> {
    let mut rows: Vec<(u32, Vec<Cell>)> = Vec::new();
    for (identity, sample) in &gpus.devices {
        rows.push((identity.index, row(report, identity, sample, is_narrow)));
    }
    let silent = |state: String| {
        let mut cells = vec![Cell::new(dim("–")).set_alignment(CellAlignment::Right); if is_narrow { 4 } else { 5 }];
        cells.extend([Cell::new(bad(state)), Cell::new(dim("–"))]);
        cells
    };
    let unreadable = gpus.unreadable.iter().map(|(index, _)| (*index, silent("failed".to_owned())));
    let stuck = gpus.stuck.iter().map(|stuck| (stuck.index, silent(format!("stuck ({} s)", stuck.passed.as_secs()))));
    for (index, mut cells) in unreadable.chain(stuck) {
        cells.insert(0, Cell::new(index));
        rows.push((index, cells));
    }
    rows.sort_by_key(|(index, _)| *index);
    rows.into_iter().map(|(_, cells)| cells).collect()
}

fn is_instance(identity: &GpuIdentity) -> bool {
    identity.mig.is_some()
}

fn identity_line(identity: &GpuIdentity, columns: u16) -> String {
    if is_instance(identity) {
        return format!("  {}", wrapped(&format!("{}: {}", name(identity), identity.uuid), columns.saturating_sub(2)));
    }
    // Without the maker, a line fits 80 columns.
    let model = identity.name.strip_prefix("NVIDIA ").unwrap_or(&identity.name);
    let mut line = format!("GPU {}: {model}, {}", identity.index, identity.uuid);
    let address = identity.pci_bus_id.as_ref().map(|address| format!(", {address}"));
    let serial = identity.serial.as_ref().map(|serial| format!(", serial {serial}"));
    for part in [address, serial].into_iter().flatten() {
        // What there is no room for is in the JSON.
        if line.chars().count() + part.chars().count() > usize::from(columns) {
            break;
        }
        line += &part;
    }
    wrapped(&line, columns)
}

fn row(report: &ProbeReport, identity: &GpuIdentity, sample: &GpuSample, is_narrow: bool) -> Vec<Cell> {
    let measures = &sample.measures;
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    // An instance has no utilisation; its engines' activity is the nearest to it.
    let (label, activity) = match &identity.mig {
        Some(mig) => {
            let ids = format!("{}/{}", mig.gpu_instance, mig.compute_instance);
            // Its profile is in the line with its UUID, too.
            let label = if is_narrow { format!("└ {ids}") } else { format!("└ {ids} {}", mig.profile) };
            (label, names::GPM_GRAPHICS)
        }
        None => (identity.index.to_string(), names::GPU_UTILIZATION),
    };
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
    cells.push(Cell::new(match owners.as_slice() {
        [] if sample.processes.value().is_some() => dim("nobody"),
        // Nobody knows.
        [] => dim("–"),
        owners => owners.join("\n"),
    }));
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

/// How the device is; what is wrong with it is told below the table.
fn state(sample: &GpuSample) -> String {
    let is = |state: &'static str| {
        let status = sample.measures.reading_as(names::STATUS, &[(names::STATE, state)]);
        status.and_then(Reading::get).is_some_and(|on| on.f64() == 1.0)
    };
    let mut shown = match () {
        () if is("failed") || sample.measures.is_empty() && sample.processes.is_failed() => bad("failed"),
        () if is("degraded") => warn("degraded"),
        () if is("ok") => good("ok"),
        () => dim("–"),
    };
    let xid = sample.measures.count(names::GPU_XID_LAST).filter(|code| *code > 0);
    shown += &xid.map(|code| format!("\n{}", warn(format!("XID {code}")))).unwrap_or_default();
    shown
}

/// What a device tells beside its row.
fn details(measures: &Measures, columns: u16) -> String {
    let number = |metric| measures.f64(metric);
    let percent = |metric, shown: &str| Some(format!("{shown} {:.0} %", number(metric)? * 100.0));
    let activity: Vec<String> = [
        percent(names::GPM_SM, "SM"),
        percent(names::GPM_OCCUPANCY, "occupancy").filter(|_| columns >= ROOMY),
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
    parts.join("; ")
}
