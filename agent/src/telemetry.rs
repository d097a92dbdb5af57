//! What the agent tells of itself at `/metrics`.
//!
//! How old a sensor's last answer is, and for how long it is stuck, have the names of the registry: what the exposition has
//! of the same sensor takes their place.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
    /// Pushed latencies, by result.
    pub pushes: IntCounterVec,
    /// Requests of OTLP, by result.
    pub otlp_requests: IntCounterVec,
    /// First points of running totals, which count from then on.
    pub base_lines: IntCounter,
    /// Points of running totals that can't be compared with the ones before, by reason.
    pub otlp_dropped: IntCounterVec,
    /// Points of running totals that were refused, by reason.
    pub refused_points: IntCounterVec,
    /// Values that a sensor gave and that can't be, such as a utilisation of 2619 percent.
    pub rejected_readings: IntCounter,
    /// When a sensor last answered, Unix seconds.
    pub sensor_answered: GaugeVec,
    /// How long a sensor has not answered, in seconds; 0 while it answers.
    pub sensor_stuck: GaugeVec,
    /// Threads that are inside of a call of a driver that was given up.
    pub abandoned_threads: IntGauge,
    /// Scrapes of servers, by outcome.
    pub scrapes: IntCounterVec,
    /// What of servers' pages was left out, by reason.
    pub scrape_dropped: IntCounterVec,
    /// Writes of what is remembered of servers, by result.
    pub scrape_keeping: IntCounterVec,
    /// Servers that are scraped.
    pub scrape_targets: IntGauge,
    scrape_seconds: GaugeVec,
    scraped: GaugeVec,
    scrape_age: GaugeVec,
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
            pushes: counters("contador_agent_pushes_total", "Pushed latencies by result.", &["result"])?,
            otlp_requests: counters("contador_agent_otlp_requests_total", "OTLP requests by result.", &["result"])?,
            base_lines: counter(
                "contador_agent_otlp_base_lines_total",
                "First points of running totals, of which only what comes after them counts.",
            )?,
            otlp_dropped: counters(
                "contador_agent_otlp_dropped_total",
                "Points of running totals that can't be compared with the ones before, by reason: counting begins anew with them.",
                &["reason"],
            )?,
            refused_points: counters(
                "contador_agent_otlp_refused_points_total",
                "Points of running totals that contradict others or themselves, by reason.",
                &["reason"],
            )?,
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
            scrapes: counters("contador_agent_scrapes_total", "Scrapes of servers by outcome.", &["outcome"])?,
            scrape_dropped: counters(
                "contador_agent_scrape_dropped_total",
                "What of servers' pages was left out, by reason.",
                &["reason"],
            )?,
            scrape_keeping: counters(
                "contador_agent_scrape_checkpoints_total",
                "Writes of what is remembered of servers, by result.",
                &["result"],
            )?,
            scrape_targets: gauge("contador_agent_scrape_targets", "Servers that are scraped.")?,
            scrape_seconds: gauges(
                "contador_agent_scrape_duration_seconds",
                "How long the last scrape of a server took.",
                &["target"],
            )?,
            scraped: gauges(
                "contador_agent_scraped_timestamp_seconds",
                "When a server was last scraped with success.",
                &["target"],
            )?,
            scrape_age: gauges(
                "contador_agent_scrape_age_seconds",
                "Time since the last scrape of a server with success.",
                &["target"],
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

    /// A scrape of this server took so long.
    pub fn scrape_took(&self, url: &str, time: Duration) {
        self.scrape_seconds.with_label_values(&[url]).set(time.as_secs_f64());
    }

    /// This server was scraped with success at this instant, Unix milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "a time for people")]
    pub fn scraped(&self, url: &str, now_ms: i64) {
        self.scraped.with_label_values(&[url]).set(now_ms as f64 / 1e3);
    }

    /// Forgets a server that is no target any more.
    pub fn forget_target(&self, url: &str) {
        // It may never have answered.
        for gauges in [&self.scrape_seconds, &self.scraped, &self.scrape_age] {
            let _ = gauges.remove_label_values(&[url]);
        }
    }

    /// Everything as it is now.
    pub fn gather(&self) -> Vec<MetricFamily> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        for (since, ages) in [(&self.sensor_answered, &self.sensor_age), (&self.scraped, &self.scrape_age)] {
            for family in since.collect() {
                for metric in family.get_metric() {
                    if let Some(label) = metric.get_label().first() {
                        let age = (now - metric.get_gauge().get_value()).max(0.0);
                        ages.with_label_values(&[label.value()]).set(age);
                    }
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
