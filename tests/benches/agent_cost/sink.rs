//! An OTLP receiver that counts points and forgets them.
#![allow(dead_code, reason = "each benchmark uses its part")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use tonic::codec::CompressionEncoding;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A running receiver; it ends with the process.
pub struct Sink {
    /// Where it listens.
    pub address: SocketAddr,
    points: Arc<AtomicU64>,
}

impl Sink {
    /// Points received so far.
    pub fn points(&self) -> u64 {
        self.points.load(Ordering::Relaxed)
    }
}

struct Counting(Arc<AtomicU64>);

#[tonic::async_trait]
impl MetricsService for Counting {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let request = request.into_inner();
        let scopes = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
        let count = |data: &Option<Data>| match data {
            Some(Data::Gauge(gauge)) => gauge.data_points.len(),
            Some(Data::Sum(sum)) => sum.data_points.len(),
            _ => 0,
        };
        let points: usize = scopes.flat_map(|scope| &scope.metrics).map(|metric| count(&metric.data)).sum();
        self.0.fetch_add(points as u64, Ordering::Relaxed);
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

/// Listens on a free port, on a thread of its own.
pub fn start() -> Sink {
    let points = Arc::new(AtomicU64::new(0));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let service = MetricsServiceServer::new(Counting(Arc::clone(&points)))
        .accept_compressed(CompressionEncoding::Zstd)
        .accept_compressed(CompressionEncoding::Gzip);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener).unwrap());
            tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
    });
    Sink { address, points }
}
