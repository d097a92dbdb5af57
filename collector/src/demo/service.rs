//! A small HTTP service that really works for its answers, and pushes how long it took as exponential histograms, through
//! OpenTelemetry's own SDK and exporter.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::extract::{Query, State};
use axum::routing::get;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, MeterProvider};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{Aggregation, Instrument, PeriodicReader, SdkMeterProvider, Stream, Temporality};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Name of the service.
pub(super) const SERVICE: &str = "demo-api";

/// How often the SDK exports.
const EXPORT_INTERVAL: Duration = Duration::from_secs(2);

/// The running service.
pub(super) struct Service {
    pub(super) address: SocketAddr,
    provider: SdkMeterProvider,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(serde::Deserialize)]
struct Work {
    kib: usize,
}

impl Service {
    /// Listens on a free port and exports to the OTLP gRPC endpoint `otlp`.
    pub(super) async fn start(otlp: &str) -> anyhow::Result<Self> {
        let exporter = opentelemetry_otlp::MetricExporter::builder()
            .with_tonic()
            .with_endpoint(otlp)
            .with_temporality(Temporality::Delta)
            .build()
            .context("build the OTLP exporter")?;
        let resource = Resource::builder()
            .with_service_name(SERVICE)
            .with_attribute(KeyValue::new("service.instance.id", format!("demo-{}", std::process::id())))
            .with_attribute(KeyValue::new("deployment.environment.name", "demo"))
            .build();
        let exponential = |_: &Instrument| {
            let aggregation =
                Aggregation::Base2ExponentialHistogram { max_size: 160, max_scale: 20, record_min_max: true };
            Stream::builder().with_aggregation(aggregation).build().ok()
        };
        let provider = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_view(exponential)
            .with_reader(PeriodicReader::builder(exporter).with_interval(EXPORT_INTERVAL).build())
            .build();
        let durations = provider.meter("demo").f64_histogram("http.server.request.duration").with_unit("s").build();

        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen for the demo's service")?;
        let address = listener.local_addr()?;
        let router = axum::Router::new().route("/rank", get(rank)).with_state(Arc::new(durations));
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let stopped = stop.clone();
        tasks.spawn(async move {
            let serving = axum::serve(listener, router).with_graceful_shutdown(stopped.cancelled_owned());
            if let Err(error) = serving.await {
                tracing::error!(%error, "the demo's service stopped");
            }
        });
        tasks.close();
        Ok(Self { address, provider, stop, tasks })
    }

    /// Answers what is in flight, exports the last histograms, ends.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.tasks.wait().await;
        let provider = self.provider;
        tokio::task::spawn_blocking(move || provider.shutdown()).await?.context("export the last histograms")
    }
}

/// Hashes as many KiB as it is asked to, off the runtime's threads.
async fn rank(
    State(durations): State<Arc<Histogram<f64>>>,
    Query(work): Query<Work>,
) -> Result<String, http::StatusCode> {
    let started = Instant::now();
    let kib = work.kib.min(65_536);
    let digest = tokio::task::spawn_blocking(move || {
        let block = [0x5a_u8; 1024];
        let mut hash = Sha256::new();
        for _ in 0..kib {
            hash.update(block);
        }
        hash.finalize()
    })
    .await
    .map_err(|_| http::StatusCode::INTERNAL_SERVER_ERROR)?;
    let attributes = [KeyValue::new("http.route", "/rank"), KeyValue::new("http.response.status_code", 200)];
    durations.record(started.elapsed().as_secs_f64(), &attributes);
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}
