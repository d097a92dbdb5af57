//! OTLP by HTTP: `POST /v1/metrics`, protobuf, plain or compressed.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use http::{HeaderMap, StatusCode, header};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::answer;
use super::read::{self, Encoding, Fault};
use crate::ingest::{Held, Pipeline};

#[derive(Clone)]
struct Service {
    pipeline: Arc<Pipeline>,
    stop: CancellationToken,
}

/// Serves OTLP on `listener` until `stop` is cancelled, then answers what it has taken. Requests of which a part is still
/// to come are dropped.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, pipeline: Arc<Pipeline>, stop: CancellationToken) -> std::io::Result<()> {
    let listener = listener.tap_io(|stream| {
        // Without it an answer is only slower.
        let _slow = stream.set_nodelay(true);
    });
    let service = Service { pipeline, stop: stop.clone() };
    let router = Router::new().route("/v1/metrics", post(export)).with_state(service);
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn export(State(service): State<Service>, headers: HeaderMap, body: Body) -> Response {
    let pipeline = &service.pipeline;
    let (request, held) = match request(&service, &headers, body).await {
        Ok(request) => request,
        Err(fault) => {
            pipeline.meters().request(fault.outcome());
            return refuse(fault, pipeline);
        }
    };
    match pipeline.ingest(request, held, "http").await {
        Ok(outcome) => answer::protobuf(StatusCode::OK, answer::response(outcome).encode_to_vec()),
        Err(refusal) => answer::refused(&refusal, pipeline.retry_after()),
    }
}

fn refuse(fault: Fault, pipeline: &Pipeline) -> Response {
    match fault {
        Fault::Media(message) => answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidArgument, message),
        Fault::TooLarge(message) => answer::error(StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted, message),
        Fault::Malformed(message) => answer::error(StatusCode::BAD_REQUEST, Code::InvalidArgument, message),
        Fault::Refused(refusal) => answer::refused(&refusal, pipeline.retry_after()),
    }
}

async fn request(
    service: &Service,
    headers: &HeaderMap,
    body: Body,
) -> Result<(ExportMetricsServiceRequest, Held), Fault> {
    let named = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
    let media = named(header::CONTENT_TYPE).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if !matches!(media, "application/x-protobuf" | "application/protobuf") {
        return Err(Fault::Media(format!("content-type {media:?}, expected application/x-protobuf")));
    }
    let encoding = match named(header::CONTENT_ENCODING).as_deref().map(str::trim) {
        None | Some("" | "identity") => Encoding::Identity,
        Some("gzip" | "x-gzip") => Encoding::Gzip,
        Some("zstd") => Encoding::Zstd,
        Some(other) => {
            return Err(Fault::Media(format!("content-encoding {other:?}, expected gzip, zstd or identity")));
        }
    };
    let mut held = service.pipeline.admit().map_err(Fault::Refused)?;
    let message = read::body(body, &mut held, &service.stop).await?;
    read::request(message, encoding, held).await
}
