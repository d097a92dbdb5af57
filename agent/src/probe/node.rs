//! The machine of a report: CPU, memory, pressure and network on lines, mounts and disks in tables.

use std::collections::BTreeMap;
use std::time::Duration;

use comfy_table::{Cell, CellAlignment};
use contador_schemas::names;

use super::ProbeReport;
use super::table::grid;
use super::text::{bad, gib, good, mib, warn, wrapped};
use crate::sensors::{Measures, Number, Reading};

/// Everything that the sensors of the node say together.
pub(super) struct Node<'r> {
    report: &'r ProbeReport,
}

impl<'r> Node<'r> {
    pub(super) fn of(report: &'r ProbeReport) -> Self {
        Self { report }
    }

    /// The value of a metric's variant.
    fn get(&self, metric: &str, attributes: &[(&str, &str)]) -> Option<f64> {
        let mut readings =
            self.report.measured().filter_map(|(_, measures)| measures.reading_as(metric, attributes)?.get());
        readings.next().map(Number::f64)
    }

    /// By how much a counter rises in a second.
    fn rate(&self, metric: &str, attributes: &[(&str, &str)]) -> Option<f64> {
        let mut rates = self.report.measured().filter_map(|(name, now)| {
            let (passed, before) = self.report.before.get(name)?;
            rate(now, before, *passed, metric, attributes)
        });
        rates.next()
    }

    /// The lines that say how the machine is.
    pub(super) fn lines(&self, columns: u16) -> String {
        let mut out = String::new();
        if let Some(cpus) = self.get(names::CPU_COUNT, &[]) {
            let modes = ["user", "nice", "system", "interrupt", "steal"];
            let busy: Option<f64> =
                modes.iter().map(|mode| self.rate(names::CPU_TIME, &[(names::CPU_MODE, mode)])).sum();
            let mut line = format!("{cpus:.0} CPUs");
            // The kernel counts in ticks: over a short time it may be more than all.
            let busy = busy.map(|busy| (busy / cpus.max(1.0)).min(1.0) * 100.0);
            line += &busy.map(|busy| format!(", {busy:.0} % busy")).unwrap_or_default();
            line += &self.get(names::CPU_LOAD_1M, &[]).map(|load| format!(", load {load:.2}")).unwrap_or_default();
            let free = self.get(names::MEMORY_AVAILABLE, &[]);
            let free = free.or_else(|| self.get(names::MEMORY_USAGE, &[(names::MEMORY_STATE, "free")]));
            let memory = free.zip(self.get(names::MEMORY_LIMIT, &[]));
            line += &memory
                .map(|(free, all)| format!(", memory {} of {} GiB available", gib(free), gib(all)))
                .unwrap_or_default();
            let swap = self.get(names::SWAP_USAGE, &[(names::PAGING_STATE, "used")]).filter(|used| *used > 0.0);
            line += &swap.map(|used| format!(", {} GiB of swap used", gib(used))).unwrap_or_default();
            out += &wrapped(&line, columns);
        }
        let waited = |resource, kind| {
            let attributes = [(names::PSI_RESOURCE, resource), (names::PSI_KIND, kind)];
            let share = self.rate(names::PSI_STALLED, &attributes)? * 100.0;
            Some(format!("{resource} {share:.0} %"))
        };
        let pressure: Vec<String> =
            ["cpu", "memory", "io"].into_iter().filter_map(|resource| waited(resource, "some")).collect();
        if !pressure.is_empty() {
            out += &wrapped(&format!("pressure, share of time in which work waited: {}", pressure.join(", ")), columns);
        }
        let way = |direction| {
            let attributes = [(names::IO_DIRECTION, direction)];
            let rate = self.rate(names::NETWORK_IO, &attributes).map(|rate| format!(" ({} MiB/s)", mib(rate)));
            Some(format!("{} GiB{}", gib(self.get(names::NETWORK_IO, &attributes)?), rate.unwrap_or_default()))
        };
        if let Some((sent, received)) = way("transmit").zip(way("receive")) {
            out += &wrapped(&format!("network: {sent} sent, {received} received"), columns);
        }
        out
    }

    /// The mounts, with how they answer.
    pub(super) fn mounts(&self, columns: u16) -> String {
        let all = self.by(names::MOUNTPOINT, names::MOUNT_REACHABLE);
        if all.is_empty() {
            return String::new();
        }
        let mut table = grid(columns, &["mount", "type", "probe", "used GiB", "free GiB", "state"]);
        for (point, measures) in &all {
            let of = |metric: &str, fixed: &[(&str, &str)]| find(measures, metric, fixed);
            let state = |state| of(names::FILESYSTEM_USAGE, &[(names::FILESYSTEM_STATE, state)]);
            let kind = measures.iter().find_map(|measure| {
                measure
                    .attributes()
                    .find(|(name, _)| *name == names::FILESYSTEM_TYPE)
                    .map(|(_, value)| value.to_owned())
            });
            let probe = of(names::MOUNT_PROBE_TIME, &[]);
            let reachable = match of(names::MOUNT_REACHABLE, &[]) {
                Some(1.0) => good("ok"),
                Some(_) if probe.is_some_and(|seconds| seconds >= 1.0) => {
                    bad(format!("stuck ({:.0} s)", probe.unwrap_or_default()))
                }
                Some(_) => bad("unreachable"),
                None => warn("unknown"),
            };
            let gib_of = |value: Option<f64>| right(value.map(gib).unwrap_or_default());
            table.add_row(vec![
                Cell::new(point),
                Cell::new(kind.unwrap_or_default()),
                right(probe.map(took).unwrap_or_default()),
                gib_of(state("used")),
                gib_of(state("free")),
                Cell::new(reachable),
            ]);
        }
        format!("\n{}\n", table.trim_fmt())
    }

    /// The disks.
    pub(super) fn disks(&self, columns: u16) -> String {
        let all = self.by(names::SYSTEM_DEVICE, names::DISK_IO_TIME);
        if all.is_empty() {
            let asked = self.report.measured().any(|(name, _)| name == "disks");
            return if asked { "\nno whole block devices\n".to_owned() } else { String::new() };
        }
        let mut table = grid(columns, &["disk", "read GiB", "MiB/s", "written GiB", "MiB/s", "in flight"]);
        for (device, measures) in &all {
            let way = |direction| [(names::DISK_DIRECTION, direction)];
            let total = |direction| find(measures, names::DISK_IO, &way(direction));
            let rate = |direction| {
                let attributes = [(names::DISK_DIRECTION, direction), (names::SYSTEM_DEVICE, device.as_str())];
                self.rate(names::DISK_IO, &attributes).map(mib)
            };
            table.add_row(vec![
                Cell::new(device),
                right(total("read").map(gib).unwrap_or_default()),
                right(rate("read").unwrap_or_default()),
                right(total("write").map(gib).unwrap_or_default()),
                right(rate("write").unwrap_or_default()),
                right(
                    find(measures, names::DISK_IN_FLIGHT, &[]).map(|count| format!("{count:.0}")).unwrap_or_default(),
                ),
            ]);
        }
        format!("\n{}\n", table.trim_fmt())
    }

    /// The sensors that have no value, and those whose values are left to `--json`.
    pub(super) fn rest(&self, columns: u16) -> String {
        let mut out = String::new();
        for (name, asked) in &self.report.sensors {
            if let Some(missing) = asked.missing() {
                out += &wrapped(&format!("{name}: {}", bad(missing)), columns);
            }
        }
        let mut failed: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
        for measure in self.report.measured().flat_map(|(_, measures)| measures) {
            if let Some(missing) = measure.reading.missing() {
                let point = measure.attributes().find(|(name, _)| *name == names::MOUNTPOINT);
                let of = point.map_or_else(|| "node".to_owned(), |(_, point)| point.to_owned());
                let metrics = failed.entry((of, missing)).or_default();
                if !metrics.contains(&measure.metric) {
                    metrics.push(measure.metric);
                }
            }
        }
        for ((of, missing), metrics) in failed {
            out += &wrapped(&format!("{of}: {missing}: {}", metrics.join(", ")), columns);
        }
        out
    }

    /// What is measured of each thing that an attribute tells apart, of those that have `metric`.
    fn by(&self, attribute: &str, metric: &str) -> BTreeMap<String, Measures> {
        let mut all: BTreeMap<String, Measures> = BTreeMap::new();
        for measure in self.report.measured().flat_map(|(_, measures)| measures) {
            if let Some((_, value)) = measure.attributes().find(|(name, _)| *name == attribute) {
                let measures = all.entry(value.to_owned()).or_default();
                measures.add_with(measure.metric, measure.fixed, measure.varying.clone(), measure.reading.clone());
            }
        }
        all.retain(|_, measures| measures.iter().any(|measure| measure.metric == metric));
        all
    }
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// A time in what it is best read in.
fn took(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

/// The value of the variant with these fixed attributes, whatever others there are.
fn find(measures: &Measures, metric: &str, fixed: &[(&str, &str)]) -> Option<f64> {
    let found = measures.iter().find(|measure| measure.metric == metric && measure.fixed == fixed);
    found?.reading.get().map(Number::f64)
}

fn rate(now: &Measures, before: &Measures, passed: Duration, metric: &str, attributes: &[(&str, &str)]) -> Option<f64> {
    let of = |measures: &Measures| measures.reading_as(metric, attributes).and_then(Reading::get).map(Number::f64);
    let rise = of(now)? - of(before)?;
    (rise >= 0.0 && !passed.is_zero()).then(|| rise / passed.as_secs_f64())
}
