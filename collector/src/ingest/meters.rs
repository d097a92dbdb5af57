//! What the ingest counts: for `/metrics`, and for an OTLP endpoint when one is configured.

use contador_schemas::runs::Untold;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram as OtelHistogram, Meter};
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};

use super::decode::reject::Rejected;

/// Counters and histograms of one collector.
pub struct Meters {
    registry: Registry,
    requests: IntCounterVec,
    points: IntCounterVec,
    rejected: IntCounterVec,
    rows: IntCounterVec,
    failed: IntCounterVec,
    dead: IntCounterVec,
    base_lines: IntCounter,
    untold: IntCounterVec,
    evicted: IntCounter,
    seconds: HistogramVec,
    gauges: IntGaugeVec,
    otel: Otel,
}

struct Otel {
    requests: Counter<u64>,
    points: Counter<u64>,
    rejected: Counter<u64>,
    rows: Counter<u64>,
    seconds: OtelHistogram<f64>,
}

impl Meters {
    /// Meters in a registry of their own, and in `meter`.
    ///
    /// # Errors
    /// When two of them have the same name.
    pub fn new(meter: &Meter) -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, label: &str| -> Result<IntCounterVec, prometheus::Error> {
            let counter = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(counter.clone()))?;
            Ok(counter)
        };
        let single = |name: &str, help: &str| -> Result<IntCounter, prometheus::Error> {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok(counter)
        };
        let seconds = HistogramVec::new(
            HistogramOpts::new(
                "contador_insert_duration_seconds",
                "Time of one insert, until ClickHouse has answered.",
            )
            .buckets(prometheus::exponential_buckets(0.001, 2.0, 16)?),
            &["table"],
        )?;
        registry.register(Box::new(seconds.clone()))?;
        let gauges = IntGaugeVec::new(
            Opts::new(
                "contador_ingest_state",
                "requests at work and the inflight_bytes that they hold, queued_bytes of each table, cumulative_series, store_up.",
            ),
            &["what"],
        )?;
        registry.register(Box::new(gauges.clone()))?;
        Ok(Self {
            requests: counter("contador_ingest_requests_total", "OTLP requests, by outcome.", "outcome")?,
            points: counter("contador_ingest_points_total", "Points of accepted requests, by protocol.", "protocol")?,
            rejected: counter("contador_ingest_rejected_points_total", "Rejected points, by reason.", "reason")?,
            rows: counter("contador_ingest_rows_total", "Rows that ClickHouse has acknowledged, by table.", "table")?,
            failed: counter("contador_ingest_failed_inserts_total", "Failed inserts, by table.", "table")?,
            dead: counter("contador_ingest_dead_letters_total", "Rows kept in dead_letters, by table.", "table")?,
            base_lines: single(
                "contador_ingest_cumulative_base_lines_total",
                "First points of running totals that could not be counted from their start.",
            )?,
            untold: counter(
                "contador_ingest_cumulative_dropped_total",
                "Points of running totals that can't be compared with the ones before, by reason: counting begins anew with them.",
                "reason",
            )?,
            evicted: single(
                "contador_ingest_cumulative_evicted_total",
                "Running totals that were forgotten since there were more than the configured series; they are read again when they come back.",
            )?,
            seconds,
            gauges,
            registry,
            otel: Otel {
                requests: meter.u64_counter("contador.ingest.requests").with_unit("{request}").build(),
                points: meter.u64_counter("contador.ingest.points").with_unit("{point}").build(),
                rejected: meter.u64_counter("contador.ingest.rejected_points").with_unit("{point}").build(),
                rows: meter.u64_counter("contador.ingest.rows").with_unit("{row}").build(),
                seconds: meter.f64_histogram("contador.insert.duration").with_unit("s").build(),
            },
        })
    }

    /// One request and its outcome: `accepted`, `partial`, `unavailable`, `overloaded`, `invalid` or `too_large`.
    pub fn request(&self, outcome: &'static str) {
        self.requests.with_label_values(&[outcome]).inc();
        self.otel.requests.add(1, &[KeyValue::new("outcome", outcome)]);
    }

    /// Points of an answered request.
    pub fn points(&self, protocol: &'static str, points: u64, rejected: &Rejected) {
        self.points.with_label_values(&[protocol]).inc_by(points);
        self.otel.points.add(points, &[KeyValue::new("protocol", protocol)]);
        for (reason, count) in rejected.iter() {
            self.rejected.with_label_values(&[reason.as_str()]).inc_by(count);
            self.otel.rejected.add(count, &[KeyValue::new("reason", reason.as_str())]);
        }
    }

    /// Rows that ClickHouse has acknowledged after `seconds`.
    pub fn inserted(&self, table: &'static str, rows: u64, seconds: f64) {
        let label = [KeyValue::new("table", table)];
        self.rows.with_label_values(&[table]).inc_by(rows);
        self.seconds.with_label_values(&[table]).observe(seconds);
        self.otel.rows.add(rows, &label);
        self.otel.seconds.record(seconds, &label);
    }

    /// An insert that failed.
    pub fn insert_failed(&self, table: &'static str) {
        self.failed.with_label_values(&[table]).inc();
    }

    /// Rows that were put into `dead_letters`.
    pub fn dead_letters(&self, table: &'static str, rows: u64) {
        self.dead.with_label_values(&[table]).inc_by(rows);
    }

    /// New base lines, and running totals that were forgotten.
    pub fn running_totals(&self, base_lines: u64, evicted: u64) {
        self.base_lines.inc_by(base_lines);
        self.evicted.inc_by(evicted);
    }

    /// Points of running totals of which it can't be told what came since the ones before.
    pub fn untold(&self, reason: Untold, points: u64) {
        self.untold.with_label_values(&[reason.name()]).inc_by(points);
    }

    /// The present value of a state, such as `store_up`.
    pub fn state(&self, what: &str, value: usize) {
        self.gauges.with_label_values(&[what]).set(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// All of them in Prometheus' text format.
    ///
    /// # Errors
    /// When a name can't be written in that format.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        let mut text = String::new();
        prometheus::TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}
