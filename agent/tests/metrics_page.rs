//! `docs/metrics.md` says what the registry and the exposition say. `CONTADOR_WRITE_DOCS=1 cargo test -p contador-agent --test
//! metrics_page` writes it anew.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::fmt::Write;
use std::path::Path;

use contador_agent::exposition::dcgm::FIELDS;
use contador_agent::exposition::own::{Exposed, label};
use contador_schemas::names::{Group, Instrument, MetricName, Variant, metrics};

const HEAD: &str = "# Metrics

What the agent measures: a row is one value. Written from `schemas/src/names/` and `agent/src/exposition/`; a test compares.
[names.md](names.md) has every metric's meaning, and the attributes.

A value that a device does not have is *unsupported*: it is absent everywhere, never 0, and `contador-agent probe` says why.
One that should be there and could not be read is *failed*, and absent too.

";

const PROMETHEUS: &str = r#"
## At Prometheus

`GET /metrics` of the agent shows the last sample of every sensor by OpenTelemetry's rules for Prometheus: dots become
underscores, the unit and, for a counter, `_total` follow, values are in base units, attributes become labels. A device's series
carry its `hw_id` and the attributes above, and nothing that changes with who uses it. (`_count` at the end of a name is
Prometheus's own, and left out.)

| series | what |
|---|---|
| `contador_gpu_info` | always 1; the labels are by what a device is known: model, architecture, driver, index, `/dev/nvidiaN`, PCI address, serial number; parent, profile and ids of a MIG instance; `contador_simulated="true"`. What can be set, such as limits and modes, is in the collector's `devices` |
| `contador_gpu_owner_info` | always 1; one for each device, GPU or MIG instance, and owner that holds it now; the labels are the owner's. Whoever holds an instance holds its GPU, too |
| `contador_sensor_age_seconds` | how long ago each sensor, or device, last answered |
| `contador_sensor_stuck_seconds` | for how long each sensor, or device, has not answered; 0 while it does |
| `target_info` | always 1; the node |

Values expire: what has not been measured for 5 intervals, or 5 s if that is longer, is not shown, while its age is. A value
that failed is not shown at once.

Owners, models and values are joined by `hw_id`. The info goes left, since a device can have several owners:

```promql
# Watts by department; a shared device counts for each of its owners in equal parts.
sum by (contador_department) (
  contador_gpu_owner_info
    * on (hw_id) group_left ()
  (hw_power_watts / on (hw_id) count by (hw_id) (contador_gpu_owner_info))
)

# Utilisation of each GPU by its model. hw_gpu_task is "encoder" or "decoder" on the other series of that name.
avg by (hw_model) (contador_gpu_info * on (hw_id) group_left () hw_gpu_utilization_ratio{hw_gpu_task=""})

# Devices that somebody holds, and that did nothing for 15 minutes.
contador_gpu_owner_info
  and on (hw_id) max_over_time(hw_gpu_utilization_ratio{hw_gpu_task=""}[15m]) == 0

# The same owners on the names of dcgm-exporter, where a MIG instance has its GPU's UUID, and a GPU_I_ID.
sum by (contador_project) (
  contador_gpu_owner_info
    * on (hw_id) group_left (UUID, GPU_I_ID)
  label_replace(
    label_replace(
      label_replace(contador_gpu_info, "UUID", "$1", "hw_id", "(.+)"),
      "UUID", "$1", "hw_parent", "(.+)"),
    "GPU_I_ID", "$1", "contador_mig_gpu_instance", "(.+)")
    * on (UUID, GPU_I_ID) group_left ()
  DCGM_FI_DEV_FB_USED
)

# What has not answered for a minute.
contador_sensor_age_seconds > 60
```

## By the names of dcgm-exporter

With `prometheus.dcgm = true` or `--dcgm`, the same scrape has the names, types, units and labels of dcgm-exporter (4.x), so
that its dashboards and alerts go on working: `gpu`, `UUID`, `pci_bus_id`, `device`, `modelName`, `GPU_I_PROFILE` and `GPU_I_ID`
of a MIG instance, `Hostname`, `DCGM_FI_DRIVER_VERSION`; `err_code` and `err_msg` of an XID. To be scraped as it was, let
`http.listen` have its port (9400). What differs, on purpose:

- No series has `namespace`, `pod` and `container`: join `contador_gpu_owner_info`, as above.
- What MIG instances tell themselves, `FB_*` and what `PROF_*` tells of them, is on them, in place of their GPU, as there. What only
  the board has (power, temperature, XIDs, what goes over PCIe and NVLink) is on the GPU alone. So a sum counts everything
  once. Compute instances that share a GPU instance are one series.
- `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL` is a counter of bytes, both directions together, and never falls but at a reset.
- Memory keeps its fraction of a MiB; what is blank there, or 0 for unsupported, is absent here.
- `DCGM_FI_DEV_VGPU_LICENSE_STATUS` is always absent: the agent does not ask for it.

| name | type | of | what |
|---|---|---|---|
"#;

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (title, groups) in [
        ("GPUs and MIG instances", &[Group::Gpu][..]),
        ("Disks and mounts", &[Group::Storage]),
        ("The node", &[Group::Node]),
        ("Series: what there are several of", &[Group::Series]),
    ] {
        let columns = "metric | attributes | unit | read from | who has it | column | at Prometheus | dcgm-exporter";
        writeln!(page, "## {title}\n\n| {columns} |\n|{}", "---|".repeat(8)).unwrap();
        for metric in metrics().filter(|metric| groups.contains(&metric.group)) {
            metric.variants.iter().for_each(|variant| row(&mut page, metric, Some(variant)));
            if metric.variants.is_empty() {
                row(&mut page, metric, None);
            }
        }
        page.push('\n');
    }
    page += "## Made by the agent\n\nSent by OTLP, and not shown at `/metrics`.\n\n| metric | unit | meaning |\n|---|---|---|\n";
    let made = [Group::Ledger, Group::Info, Group::Latency, Group::Served];
    for metric in metrics().filter(|metric| made.contains(&metric.group)) {
        writeln!(page, "| `{}` | {} | {} |", metric.name, metric.unit, metric.meaning).unwrap();
    }
    page += PROMETHEUS;
    for field in FIELDS {
        let of: Vec<String> = field
            .of
            .iter()
            .map(|(metric, fixed)| {
                let values: String = fixed.iter().map(|(_, value)| format!(" {value}")).collect();
                format!("`{metric}`{values}")
            })
            .collect();
        let kind = if field.is_counter { "counter" } else { "gauge" };
        writeln!(page, "| `{}` | {kind} | {} | {} |", field.name, of.join(" + "), field.help).unwrap();
    }
    page
}

fn row(page: &mut String, metric: &'static MetricName, variant: Option<&Variant>) {
    let fixed = variant.map_or(&[][..], |variant| variant.attributes);
    let attributes: Vec<String> = fixed.iter().map(|(name, value)| format!("`{name}={value}`")).collect();
    let labels: Vec<String> = fixed.iter().map(|(name, value)| format!("{}=\"{value}\"", label(name))).collect();
    let shown = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let dcgm: Vec<String> = FIELDS
        .iter()
        .filter(|field| field.of.iter().any(|(name, of)| *name == metric.name && *of == fixed))
        .map(|field| format!("`{}`", field.name))
        .collect();
    let column = match (metric.group, variant) {
        (Group::Series, _) => "a row of `metrics`".to_owned(),
        (_, Some(variant)) => format!("`{}`", variant.column),
        (_, None) => String::new(),
    };
    let unit = match metric.instrument {
        Instrument::Counter => format!("{}, counter", metric.unit),
        _ => metric.unit.to_owned(),
    };
    writeln!(
        page,
        "| `{}` | {} | {unit} | {} | {} | {column} | `{}{shown}` | {} |",
        metric.name,
        attributes.join(" "),
        variant.map_or("made by the agent", |variant| variant.source),
        variant.map_or("all", |variant| variant.support.meaning()),
        Exposed::of(metric).name,
        dcgm.join(" "),
    )
    .unwrap();
}

#[test]
fn the_page_says_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    if std::env::var_os("CONTADOR_WRITE_DOCS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page(), "docs/metrics.md is old: run this test with CONTADOR_WRITE_DOCS=1");
}

#[test]
fn every_value_that_a_sensor_reads_is_on_the_page() {
    let page = page();
    let (page, _) = page.split_once("\n## At Prometheus\n").unwrap();
    for metric in metrics() {
        let rows = page.matches(&format!("| `{}` |", metric.name)).count();
        assert_eq!(rows, metric.variants.len().max(1), "{}", metric.name);
    }
}
