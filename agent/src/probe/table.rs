//! The report for a terminal; good at 80 columns.

use std::borrow::Cow;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use contador_schemas::names;

use super::{ProbeGpus, ProbeReport, missing};
use crate::sensors::{DiskSample, GpuIdentity, GpuProcess, GpuSample, HostSample, Number, Reading};

/// Stands for what a sample lacks, as that of a device that does not answer.
const NOT_ASKED: Reading<Number> = Reading::Failed(Cow::Borrowed("not asked"));

/// The report as text, `width` columns wide, with a line end after the last line and without colour.
pub fn render_table(report: &ProbeReport, width: u16) -> String {
    let taken = jiff::Timestamp::from_millisecond(report.ts_ms).map_or_else(|_| "?".to_owned(), |at| at.to_string());
    let mut out = format!("{} at {taken}\n", report.node);
    match &report.host {
        Reading::Value(host) => out += &host_line(host),
        absent => out += &absent_line("host", absent, width),
    }
    match &report.gpus {
        Reading::Value(gpus) => out += &gpu_part(report, gpus, width),
        absent => out += &format!("\n{}", absent_line("GPUs", absent, width)),
    }
    match &report.disks {
        Reading::Value(disks) => out += &disk_part(disks, width),
        absent => out += &format!("\n{}", absent_line("disks", absent, width)),
    }
    out
}

fn absent_line<T>(what: &str, reading: &Reading<T>, width: u16) -> String {
    wrapped(&format!("{what}: {}", reading.missing().unwrap_or_default()), width)
}

/// One line, broken at blanks so that it fits; what follows the first line is set in by two. A word that is too long
/// stays whole.
fn wrapped(line: &str, width: u16) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in line.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > usize::from(width) {
            out += "\n  ";
            column = 2;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += length;
    }
    out.push('\n');
    out
}

fn host_line(host: &HostSample) -> String {
    let available = host.memory_available_bytes.unwrap_or(host.memory_free_bytes);
    format!(
        "{} CPUs, load {:.2} {:.2} {:.2}, memory {} of {} GiB available\n",
        host.cpu_count,
        host.load_1m,
        host.load_5m,
        host.load_15m,
        gib(available),
        gib(host.memory_total_bytes)
    )
}

fn gpu_part(report: &ProbeReport, gpus: &ProbeGpus, width: u16) -> String {
    let mut out = "\n".to_owned();
    let driver = gpus.devices.first().map(|(identity, _)| {
        let cuda = identity.cuda_version.as_ref().map(|version| format!(", CUDA {version}")).unwrap_or_default();
        format!(", driver {}{cuda}", identity.driver_version)
    });
    let kind = if gpus.simulated { " (simulated)" } else { "" };
    out += &format!("GPUs: {}{kind}{}\n", gpus.devices.len(), driver.unwrap_or_default());
    out.extend(gpus.devices.iter().map(|(identity, _)| identity_line(identity, gpus.simulated)));
    if !gpus.devices.is_empty() {
        let mut table = table(width, &["GPU", "use", "GiB", "W", "kWh", "°C", "owner"]);
        for (identity, sample) in &gpus.devices {
            let owners: Vec<&str> = report.owners_of(&identity.uuid).collect();
            table.add_row(gpu_row(identity, sample, &owners));
        }
        out += &format!("{}\n", table.trim_fmt());
    }
    for (identity, sample) in &gpus.devices {
        let processes = sample.processes.value().map_or(&[][..], Vec::as_slice);
        out.extend(processes.iter().map(|process| process_line(identity.index, process)));
    }
    for (identity, sample) in &gpus.devices {
        let lines = missing(identity, sample).into_iter();
        out.extend(lines.map(|(name, reason)| wrapped(&format!("GPU {}: {name}: {reason}", identity.index), width)));
    }
    out.extend(
        gpus.unreadable.iter().map(|(index, reason)| wrapped(&format!("GPU {index}: failed ({reason})"), width)),
    );
    out
}

fn identity_line(identity: &GpuIdentity, simulated: bool) -> String {
    let mark = if simulated { ", simulated" } else { "" };
    // Without the maker, a line fits 80 columns.
    let name = identity.name.strip_prefix("NVIDIA ").unwrap_or(&identity.name);
    format!("GPU {}: {name}, {}{mark}\n", identity.index, identity.uuid)
}

fn gpu_row(identity: &GpuIdentity, sample: &GpuSample, owners: &[&str]) -> Vec<Cell> {
    let value = |metric| sample.measures.reading(metric).unwrap_or(&NOT_ASKED);
    let memory =
        both(value(names::GPU_MEMORY_USAGE), value(names::GPU_MEMORY_LIMIT), |bytes| gib(bytes.count().unwrap_or(0)));
    let limit = identity.power_limit_mw.clone().map(|limit| Number::Thousandths(limit.into()));
    let power = both(value(names::POWER), &limit, |watts| format!("{:.0}", watts.f64()));
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    vec![
        Cell::new(identity.index),
        number(shown(value(names::GPU_UTILIZATION), |share| format!("{:.0} %", share.f64() * 100.0))),
        number(memory),
        number(power),
        number(shown(value(names::ENERGY), |joules| format!("{:.3}", joules.f64() / 3.6e6))),
        number(shown(value(names::TEMPERATURE), |celsius| format!("{:.0}", celsius.f64()))),
        Cell::new(if owners.is_empty() { "nobody".to_owned() } else { owners.join("\n") }),
    ]
}

fn process_line(index: u32, process: &GpuProcess) -> String {
    let memory = shown(&process.memory_bytes, |bytes| format!("{} GiB", gib(*bytes)));
    let sm = process.sm_util.map(|percent| format!(", {percent:.0} % of the SMs")).unwrap_or_default();
    format!("GPU {index}: pid {}: memory {memory}{sm}\n", process.pid)
}

fn disk_part(disks: &[DiskSample], width: u16) -> String {
    if disks.is_empty() {
        return "\nno whole block devices\n".to_owned();
    }
    let mut table = table(width, &["disk", "reads", "read GiB", "writes", "written GiB", "in flight"]);
    for disk in disks {
        let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row(vec![
            Cell::new(&disk.device),
            number(disk.reads.to_string()),
            number(gib(disk.read_bytes)),
            number(disk.writes.to_string()),
            number(gib(disk.written_bytes)),
            number(disk.in_flight.to_string()),
        ]);
    }
    format!("\n{}\n", table.trim_fmt())
}

fn table(width: u16, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(header.to_vec());
    table
}

/// The value, or only in which way it is missing; the reason is in a line below the table.
fn shown<T>(reading: &Reading<T>, show: impl FnOnce(&T) -> String) -> String {
    match reading {
        Reading::Value(value) => show(value),
        Reading::Unsupported(_) => "unsupported".to_owned(),
        Reading::Failed(_) => "failed".to_owned(),
    }
}

/// A value and its bound.
fn both<T>(value: &Reading<T>, most: &Reading<T>, show: impl Fn(&T) -> String) -> String {
    match most.value() {
        Some(most) if value.value().is_some() => format!("{} / {}", shown(value, &show), show(most)),
        _ => shown(value, show),
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 30))
}
