//! The agent's own metrics to an OTLP endpoint, when one is configured.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_otlp::{MetricExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::core::Collector;

use crate::outbox::encode::points::SERVICE;
use crate::telemetry::Telemetry;

/// Variables that name an endpoint, as OpenTelemetry defines them.
const ENDPOINT_VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"];

/// Longest wait for the receiver at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends what `/metrics` shows, every minute or as often as `OTEL_METRIC_EXPORT_INTERVAL` says.
pub(super) struct Export(SdkMeterProvider);

impl Export {
    /// Starts to export to `endpoint`, else to where the environment says; `None`: nobody wants it.
    pub(super) fn start(endpoint: Option<&str>, node: &str, telemetry: &Telemetry) -> Result<Option<Self>, String> {
        let in_environment = ENDPOINT_VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
        if endpoint.is_none() && !in_environment {
            return Ok(None);
        }
        let mut exporter = MetricExporter::builder().with_tonic();
        if let Some(endpoint) = endpoint {
            exporter = exporter.with_endpoint(endpoint);
        }
        let exporter = exporter.build().map_err(|error| error.to_string())?;
        let resource = Resource::builder()
            .with_service_name(SERVICE)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("host.name", node.to_owned()))
            .build();
        let provider = SdkMeterProvider::builder().with_resource(resource).with_periodic_exporter(exporter).build();
        instruments(&provider.meter(SERVICE), telemetry);
        Ok(Some(Self(provider)))
    }

    /// Sends what is left. A receiver that is gone must not hold up the end.
    pub(super) async fn stop(self) {
        let stopped = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(PATIENCE)).await;
        if let Ok(Err(error)) = stopped {
            tracing::debug!(%error, "own telemetry was not sent");
        }
    }
}

/// Has the meter read the counters that there are.
fn instruments(meter: &Meter, telemetry: &Telemetry) {
    counter(meter, "contador.agent.ticks", &telemetry.ticks);
    counter(meter, "contador.agent.dropped_records", &telemetry.dropped);
    counter(meter, "contador.agent.requests", &telemetry.requests);
    counter(meter, "contador.agent.sent_records", &telemetry.sent);
    counter(meter, "contador.agent.pushes", &telemetry.pushes);
    let bytes = telemetry.spool_bytes.clone();
    meter
        .i64_observable_gauge("contador.agent.spool_bytes")
        .with_unit("By")
        .with_callback(move |observer| {
            for (value, attributes) in values(&bytes) {
                #[expect(clippy::cast_possible_truncation, reason = "a whole number of bytes")]
                observer.observe(value as i64, &attributes);
            }
        })
        .build();
}

fn counter(meter: &Meter, name: &'static str, counters: &prometheus::IntCounterVec) {
    let counters = counters.clone();
    meter
        .u64_observable_counter(name)
        .with_callback(move |observer| {
            for (value, attributes) in values(&counters) {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a counter of whole numbers"
                )]
                observer.observe(value as u64, &attributes);
            }
        })
        .build();
}

/// Each value of a metric with its labels.
fn values(metric: &impl Collector) -> Vec<(f64, Vec<KeyValue>)> {
    let families = metric.collect();
    let metrics = families.iter().flat_map(|family| family.get_metric());
    metrics
        .map(|metric| {
            let labels = metric.get_label().iter();
            let attributes = labels.map(|label| KeyValue::new(label.name().to_owned(), label.value().to_owned()));
            (metric.get_counter().get_value() + metric.get_gauge().get_value(), attributes.collect())
        })
        .collect()
}
