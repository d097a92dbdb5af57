//! OTLP by gRPC.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use tokio::net::TcpListener;
use tonic::codec::CompressionEncoding;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::{MOST_BYTES, answer, limit};
use crate::ingest::Pipeline;

struct Service {
    pipeline: Arc<Pipeline>,
}

#[tonic::async_trait]
impl MetricsService for Service {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        match self.pipeline.ingest(request.into_inner(), "grpc").await {
            Ok(outcome) => Ok(Response::new(answer::response(outcome))),
            Err(refusal) => Err(answer::status(&refusal, self.pipeline.retry_after())),
        }
    }
}

/// Serves OTLP on `listener` until `shutdown` is over, then answers what it has taken.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    pipeline: Arc<Pipeline>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let remap = limit::Remap::new(Arc::clone(&pipeline));
    let service = MetricsServiceServer::new(Service { pipeline })
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd)
        .max_decoding_message_size(MOST_BYTES);
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .max_concurrent_streams(256)
        .layer(remap)
        .add_service(service)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), shutdown)
        .await
}
