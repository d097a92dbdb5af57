//! OTLP by gRPC.
//!
//! The one unary method is answered here rather than by tonic's codec, which would decompress and decode a message before
//! anybody could ask how much memory that takes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::{BodyExt as _, Full};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Status};

use super::answer;
use super::read::{self, Encoding, Fault, Media};
use crate::ingest::{Held, Pipeline};

const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

#[derive(Clone)]
struct Service {
    pipeline: Arc<Pipeline>,
    stop: CancellationToken,
}

impl NamedService for Service {
    const NAME: &'static str = "opentelemetry.proto.collector.metrics.v1.MetricsService";
}

impl tower::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            if request.uri().path() != EXPORT {
                return Ok(Status::unimplemented("expected the method Export").into_http());
            }
            Ok(service.export(request).await.unwrap_or_else(Status::into_http))
        })
    }
}

impl Service {
    async fn export(&self, request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
        let refused = |refusal| answer::status(&refusal, self.pipeline.retry_after());
        let (request, held) = self.request(request).await.map_err(|fault| {
            self.pipeline.meters().request(fault.outcome());
            match fault {
                Fault::Media(message) => Status::unimplemented(message),
                // Without RetryInfo this one is permanent, too.
                Fault::TooLarge(message) => Status::resource_exhausted(message),
                Fault::Malformed(message) => Status::invalid_argument(message),
                Fault::Refused(refusal) => refused(refusal),
            }
        })?;
        let outcome = self.pipeline.ingest(request, held, "grpc").await.map_err(refused)?;
        Ok(success(&answer::response(outcome).encode_to_vec()))
    }

    async fn request(&self, request: http::Request<Body>) -> Result<(ExportMetricsServiceRequest, Held), Fault> {
        let mut held = self.pipeline.admit().map_err(Fault::Refused)?;
        let told = request.headers().get("grpc-encoding").map(HeaderValue::as_bytes);
        let encoding = match told {
            None | Some(b"identity") => Encoding::Identity,
            Some(b"gzip") => Encoding::Gzip,
            Some(b"zstd") => Encoding::Zstd,
            Some(other) => {
                let other = String::from_utf8_lossy(other);
                return Err(Fault::Media(format!("grpc-encoding {other:?}, expected gzip, zstd or identity")));
            }
        };
        let body = read::body(request.into_body(), &mut held, &self.stop).await?;
        let prefix = body.first_chunk::<PREFIX>().ok_or_else(|| malformed("no message"))?;
        let [compressed, length @ ..] = *prefix;
        let message = body.slice(PREFIX..);
        if u32::try_from(message.len()).ok() != Some(u32::from_be_bytes(length)) {
            return Err(malformed("expected one message of the length that its prefix tells"));
        }
        let encoding = match (compressed, encoding) {
            (0, _) => Encoding::Identity,
            (1, Encoding::Gzip | Encoding::Zstd) => encoding,
            _ => return Err(malformed("a compressed message without grpc-encoding")),
        };
        read::request(message, Media::Protobuf, encoding, held).await
    }
}

fn malformed(what: &str) -> Fault {
    Fault::Malformed(format!("body: {what}"))
}

/// A message, and the status that says that it is all.
pub(crate) fn success(message: &[u8]) -> http::Response<Body> {
    let mut body = Vec::with_capacity(PREFIX + message.len());
    body.push(0);
    body.extend_from_slice(&u32::try_from(message.len()).unwrap_or_default().to_be_bytes());
    body.extend_from_slice(message);
    let mut trailers = HeaderMap::new();
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from(Code::Ok as i32));
    let body = Full::new(Bytes::from(body)).with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = http::Response::new(Body::new(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// Serves OTLP on `listener` until `stop` is cancelled, then answers what it has taken. Requests of which a part is still
/// to come are dropped.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    pipeline: Arc<Pipeline>,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let service = Service { pipeline, stop: stop.clone() };
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .max_concurrent_streams(256)
        .add_service(service)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), stop.cancelled_owned())
        .await
}
