//! Own metrics to an OTLP endpoint, when one is configured.

use std::time::Duration;

use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_otlp::{MetricExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::RunError;

/// Variables that name an endpoint, as OpenTelemetry defines them.
const ENDPOINT_VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"];

/// Longest wait for the receiver at the end.
const PATIENCE: Duration = Duration::from_secs(2);

/// A provider of meters, with an exporter or without.
pub(super) struct Telemetry {
    provider: SdkMeterProvider,
}

impl Telemetry {
    /// Starts to export to `endpoint`, else to where the environment says, else nowhere.
    pub(super) fn start(endpoint: Option<&str>) -> Result<Self, RunError> {
        let resource = Resource::builder()
            .with_service_name("contador")
            .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let mut builder = SdkMeterProvider::builder().with_resource(resource);
        let in_environment = ENDPOINT_VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
        if endpoint.is_some() || in_environment {
            let mut exporter = MetricExporter::builder().with_tonic();
            if let Some(endpoint) = endpoint {
                exporter = exporter.with_endpoint(endpoint);
            }
            let exporter = exporter.build().map_err(|error| RunError::Telemetry(error.to_string()))?;
            builder = builder.with_periodic_exporter(exporter);
        }
        Ok(Self { provider: builder.build() })
    }

    /// The meter of this program.
    pub(super) fn meter(&self) -> Meter {
        self.provider.meter("contador")
    }

    /// Sends what is left. A receiver that is gone must not hold up the shutdown.
    pub(super) async fn stop(self) {
        let stopped = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(PATIENCE)).await;
        if let Ok(Err(error)) = stopped {
            tracing::debug!(%error, "own telemetry was not sent");
        }
    }
}
