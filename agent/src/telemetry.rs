//! What the agent tells of itself at `/metrics`.
//!
//! How old a sensor's last answer is, and for how long it is stuck, have the names of the registry: what the exposition has
//! of the same sensor takes their place.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{
    GaugeVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, core::Collector, proto::MetricFamily,
};

/// Counters and gauges of one agent. Clones are the same counters.
#[derive(Clone, Debug)]
pub struct Telemetry {
    registry: Arc<Registry>,
    /// Ticks, by result: `done`, or `missed` when the loop came too late for one.
    pub ticks: IntCounterVec,
    /// Ticks that the ledger ignored because a device's clock was set back.
    pub ledger_ignored: IntCounter,
    /// Minutes that the ledger closed.
    pub ledger_minutes: IntCounter,
    /// Samples that were left out because their instant was not later than the last one (a clock that was set back).
    pub samples_set_back: IntCounterVec,
    /// 1 while the ledger's checkpoint can't be written, and nothing is handed on.
    pub checkpoint_failing: IntGauge,
    /// Closed minutes that the spool does not have yet.
    pub pending_minutes: IntGauge,
    /// Threads of sensors that had panicked and were started again.
    pub sensor_restarts: IntCounterVec,
    /// Records that were dropped, by kind and reason.
    pub dropped: IntCounterVec,
    /// Bytes in the spool, by queue.
    pub spool_bytes: IntGaugeVec,
    /// Segments of the spool that were damaged and set aside.
    pub damaged_segments: IntCounter,
    /// Requests to the collector, by result: `accepted`, `later`, `refused`.
    pub requests: IntCounterVec,
    /// Records that the collector has, by kind.
    pub sent: IntCounterVec,
    /// Points that the collector refused within requests that it accepted.
    pub rejected_points: IntCounter,
    /// Pushed histograms, by result.
    pub pushes: IntCounterVec,
    /// Values that a sensor gave and that can't be, such as a utilisation of 2619 percent.
    pub rejected_readings: IntCounter,
    /// When a sensor last answered, Unix seconds.
    pub sensor_answered: GaugeVec,
    /// How long a sensor has not answered, in seconds; 0 while it answers.
    pub sensor_stuck: GaugeVec,
    /// Threads that are inside of a call of a driver that was given up.
    pub abandoned_threads: IntGauge,
    sensor_age: GaugeVec,
}

impl Telemetry {
    /// New counters, all 0.
    ///
    /// # Errors
    /// When two of them have one name, which no release has.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| {
            register(&registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let counter = |name: &str, help: &str| register(&registry, IntCounter::new(name, help)?);
        let gauge = |name: &str, help: &str| register(&registry, IntGauge::new(name, help)?);
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            register(&registry, GaugeVec::new(Opts::new(name, help), labels)?)
        };
        Ok(Self {
            ticks: counters("contador_agent_ticks_total", "Ticks by result.", &["result"])?,
            ledger_ignored: counter(
                "contador_agent_ledger_ignored_ticks_total",
                "Ticks that were not later than the one before.",
            )?,
            ledger_minutes: counter(
                "contador_agent_ledger_closed_total",
                "Minutes of devices that the ledger has closed.",
            )?,
            samples_set_back: counters(
                "contador_agent_samples_set_back_total",
                "Samples left out because their instant was not later than the last one.",
                &["sensor"],
            )?,
            checkpoint_failing: gauge(
                "contador_agent_checkpoint_failing",
                "1 while the ledger's checkpoint can't be written and nothing is handed on.",
            )?,
            pending_minutes: gauge(
                "contador_agent_ledger_pending",
                "Closed minutes that the spool does not have yet.",
            )?,
            sensor_restarts: counters(
                "contador_agent_sensor_restarts_total",
                "Threads of sensors that had panicked and were started again.",
                &["sensor"],
            )?,
            dropped: counters(
                "contador_agent_dropped_records_total",
                "Records that were dropped before they were sent, by kind and reason.",
                &["kind", "reason"],
            )?,
            spool_bytes: register(
                &registry,
                IntGaugeVec::new(
                    Opts::new("contador_agent_spool_bytes", "Bytes on disk that wait to be sent."),
                    &["queue"],
                )?,
            )?,
            damaged_segments: counter(
                "contador_agent_spool_damaged_segments_total",
                "Segments of the spool that were damaged and set aside.",
            )?,
            requests: counters("contador_agent_requests_total", "Requests to the collector by result.", &["result"])?,
            sent: counters("contador_agent_sent_records_total", "Records that the collector has.", &["kind"])?,
            rejected_points: counter(
                "contador_agent_rejected_points_total",
                "Points that the collector refused within accepted requests.",
            )?,
            pushes: counters("contador_agent_pushes_total", "Pushed histograms by result.", &["result"])?,
            rejected_readings: counter(
                "contador_agent_rejected_readings_total",
                "Impossible values from sensors, which were left out.",
            )?,
            sensor_answered: gauges(
                "contador_agent_sensor_answered_timestamp_seconds",
                "When the sensor last answered.",
                &["sensor"],
            )?,
            sensor_stuck: gauges(
                "contador_sensor_stuck_seconds",
                "How long a sensor has not answered; 0 while it answers.",
                &["contador_sensor"],
            )?,
            abandoned_threads: gauge(
                "contador_agent_abandoned_threads",
                "Threads inside of a call of a driver that was given up.",
            )?,
            sensor_age: gauges(
                "contador_sensor_age_seconds",
                "Time since a sensor's last answer.",
                &["contador_sensor"],
            )?,
            registry: Arc::new(registry),
        })
    }

    /// Forgets a sensor that is no more.
    pub fn forget_sensor(&self, sensor: &str) {
        // It may not have answered ever.
        let _ = self.sensor_answered.remove_label_values(&[sensor]);
        let _ = self.sensor_stuck.remove_label_values(&[sensor]);
        let _ = self.sensor_age.remove_label_values(&[sensor]);
    }

    /// Everything as it is now.
    pub fn gather(&self) -> Vec<MetricFamily> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        for family in self.sensor_answered.collect() {
            for metric in family.get_metric() {
                if let Some(label) = metric.get_label().first() {
                    let age = (now - metric.get_gauge().get_value()).max(0.0);
                    self.sensor_age.with_label_values(&[label.value()]).set(age);
                }
            }
        }
        self.registry.gather()
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> Result<C, prometheus::Error> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
