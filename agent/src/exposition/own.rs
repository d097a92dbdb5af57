//! The registry's metrics by OpenTelemetry's rules for Prometheus: a metric that is sent by OTLP to a Prometheus has the
//! same name there.
//!
//! What Prometheus does not take in a name becomes an underscore; the unit follows, where the name does not have it; a
//! counter ends in `_total`. Values are in the base unit: megahertz become hertz. Attributes become labels by the same
//! rule. One thing is Prometheus's own: `_count` at the end of a name belongs to histograms, so that it is left out.
//! A device's series carry its `hw_id` and their own attributes, and nothing that changes.

use std::collections::HashMap;
use std::sync::LazyLock;

use contador_schemas::names::{self, Instrument, MetricName};

use super::family::{Families, Labels};
use super::latest::Snapshot;

/// A metric at Prometheus.
#[derive(Debug)]
pub struct Exposed {
    /// Its name there.
    pub name: String,
    /// What one of the metric's unit is in the unit there.
    pub scale: f64,
    metric: &'static MetricName,
}

static EXPOSED: LazyLock<HashMap<&'static str, Exposed>> =
    LazyLock::new(|| names::metrics().map(|metric| (metric.name, Exposed::of(metric))).collect());

static LABELS: LazyLock<HashMap<&'static str, String>> =
    LazyLock::new(|| names::ATTRIBUTES.iter().map(|attribute| (attribute.name, plain(attribute.name))).collect());

impl Exposed {
    /// How a metric is shown.
    pub fn of(metric: &'static MetricName) -> Self {
        let (unit, scale) = unit(metric);
        let mut name = plain(metric.name);
        if let Some(counted) = name.strip_suffix("_count") {
            name.truncate(counted.len());
        }
        let has = |name: &str, word: &str| name.split('_').any(|known| known == word);
        if !unit.is_empty() && !has(&name, unit) {
            name = format!("{name}_{unit}");
        }
        if metric.instrument == Instrument::Counter {
            name = format!("{name}_total");
        }
        Self { name, scale, metric }
    }
}

/// The label of an attribute.
pub fn label(attribute: &str) -> String {
    LABELS.get(attribute).cloned().unwrap_or_else(|| plain(attribute))
}

/// What is allowed in a name, with underscores for the rest.
fn plain(name: &str) -> String {
    name.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '_' }).collect()
}

/// Prometheus's word for a unit, and what one of the metric's is in it. What is only counted, `{error}`, has none.
fn unit(metric: &MetricName) -> (&'static str, f64) {
    match metric.unit {
        "By" => ("bytes", 1.0),
        "By/s" => ("bytes_per_second", 1.0),
        "s" => ("seconds", 1.0),
        "W" => ("watts", 1.0),
        "J" => ("joules", 1.0),
        "Cel" => ("celsius", 1.0),
        "MHz" => ("hertz", 1e6),
        "1" if metric.instrument == Instrument::Gauge => ("ratio", 1.0),
        _ => ("", 1.0),
    }
}

/// Adds what the streams have, and how old each stream is.
pub fn add(families: &mut Families, snapshot: &Snapshot) {
    for stream in &snapshot.streams {
        for measure in stream.measures.iter() {
            let (Some(value), Some(exposed)) = (measure.reading.value(), EXPOSED.get(measure.metric)) else { continue };
            // Ages are those of now, not of when something was measured.
            if measure.metric == names::SENSOR_AGE {
                continue;
            }
            let id = stream.is_device.then_some(("hw_id", stream.name.as_str()));
            let attributes = measure.attributes();
            let own = attributes.filter_map(|(name, value)| Some((LABELS.get(name)?.as_str(), value)));
            let labels: Labels<'_> = id.into_iter().chain(own).collect();
            let value = value.f64() * exposed.scale;
            match exposed.metric.instrument {
                Instrument::Counter => families.counter(&exposed.name, exposed.metric.meaning, &labels, value),
                _ => families.gauge(&exposed.name, exposed.metric.meaning, &labels, value),
            }
        }
    }
    if let Some(age) = EXPOSED.get(names::SENSOR_AGE) {
        for (name, passed) in &snapshot.ages {
            let labels = vec![(LABELS.get(names::SENSOR).map_or("", String::as_str), name.as_str())];
            families.gauge(&age.name, age.metric.meaning, &labels, passed.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn name(metric: &str) -> String {
        Exposed::of(names::metric(metric).expect(metric)).name
    }

    #[test]
    fn names_follow_the_rules_of_opentelemetry() {
        for (metric, expected) in [
            (names::GPU_UTILIZATION, "hw_gpu_utilization_ratio"),
            (names::GPU_MEMORY_USAGE, "hw_gpu_memory_usage_bytes"),
            (names::ENERGY, "hw_energy_joules_total"),
            (names::POWER, "hw_power_watts"),
            (names::TEMPERATURE, "hw_temperature_celsius"),
            (names::FAN_SPEED, "hw_fan_speed_ratio"),
            (names::STATUS, "hw_status"),
            (names::ERRORS, "hw_errors_total"),
            (names::GPU_CLOCK_SM, "contador_gpu_clock_sm_hertz"),
            (names::GPU_PCIE_WIDTH, "contador_gpu_pcie_width"),
            (names::GPU_PERFORMANCE_STATE, "contador_gpu_performance_state"),
            (names::NVLINK_LINK_UP, "contador_gpu_nvlink_link_up"),
            (names::GPM_PCIE, "contador_gpu_pcie_throughput_bytes_per_second"),
            (names::DISK_IO, "system_disk_io_bytes_total"),
            (names::CPU_LOAD_1M, "system_cpu_load_average_1m"),
            (names::CPU_COUNT, "system_cpu_logical"),
            (names::SENSOR_STUCK, "contador_sensor_stuck_seconds"),
            (names::SENSOR_AGE, "contador_sensor_age_seconds"),
            (names::MOUNT_REACHABLE, "contador_mount_reachable"),
        ] {
            assert_eq!(name(metric), expected);
        }
    }

    #[test]
    fn every_name_and_label_is_one_of_its_own_and_legal() {
        let legal = |name: &str| {
            name.starts_with(|sign: char| sign.is_ascii_lowercase())
                && name.chars().all(|sign| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '_')
        };
        let mut seen = HashSet::new();
        for metric in names::metrics() {
            let name = name(metric.name);
            assert!(legal(&name) && !name.contains("__") && !name.starts_with("contador_agent"), "{name}");
            assert!(seen.insert(name), "{}", metric.name);
            for variant in metric.variants {
                assert!(!metric.unit.starts_with("Mi") && metric.unit != "ms", "{}: {variant:?}", metric.name);
            }
        }
        let labels: HashSet<String> = names::ATTRIBUTES.iter().map(|attribute| label(attribute.name)).collect();
        assert_eq!(labels.len(), names::ATTRIBUTES.len());
        assert!(labels.iter().all(|label| legal(label)));
    }
}
