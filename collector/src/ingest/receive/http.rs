//! OTLP by HTTP: `POST /v1/metrics`, protobuf or JSON, plain or compressed. The answer is in the language of the request.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use http::{HeaderMap, HeaderName, StatusCode, header};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::answer;
use super::read::{self, Encoding, Fault, Media};
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
    let (media, request) = match media(&headers) {
        Ok(media) => (media, request(&service, media, &headers, body).await),
        Err(fault) => (Media::Protobuf, Err(fault)),
    };
    let (request, held) = match request {
        Ok(request) => request,
        Err(fault) => {
            pipeline.meters().request(fault.outcome());
            return refuse(media, fault, pipeline);
        }
    };
    match pipeline.ingest(request, held, "http").await {
        Ok(outcome) => answer::success(media, &answer::response(outcome)),
        Err(refusal) => answer::refused(media, &refusal, pipeline.retry_after()),
    }
}

fn refuse(media: Media, fault: Fault, pipeline: &Pipeline) -> Response {
    let (status, code, message) = match fault {
        Fault::Media(message) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidArgument, message),
        Fault::TooLarge(message) => (StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted, message),
        Fault::Malformed(message) => (StatusCode::BAD_REQUEST, Code::InvalidArgument, message),
        Fault::Refused(refusal) => return answer::refused(media, &refusal, pipeline.retry_after()),
    };
    answer::error(media, status, code, message)
}

/// A header's value in lower case.
fn named(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase())
}

fn media(headers: &HeaderMap) -> Result<Media, Fault> {
    let told = named(headers, header::CONTENT_TYPE).unwrap_or_default();
    match told.split(';').next().unwrap_or_default().trim() {
        "application/x-protobuf" | "application/protobuf" => Ok(Media::Protobuf),
        "application/json" => Ok(Media::Json),
        other => {
            let expected = "expected application/x-protobuf or application/json";
            Err(Fault::Media(format!("content-type {other:?}, {expected}")))
        }
    }
}

async fn request(
    service: &Service,
    media: Media,
    headers: &HeaderMap,
    body: Body,
) -> Result<(ExportMetricsServiceRequest, Held), Fault> {
    let encoding = match named(headers, header::CONTENT_ENCODING).as_deref() {
        None | Some("" | "identity") => Encoding::Identity,
        Some("gzip" | "x-gzip") => Encoding::Gzip,
        Some("zstd") => Encoding::Zstd,
        Some(other) => {
            return Err(Fault::Media(format!("content-encoding {other:?}, expected gzip, zstd or identity")));
        }
    };
    let mut held = service.pipeline.admit().map_err(Fault::Refused)?;
    let message = read::body(body, &mut held, &service.stop).await?;
    read::request(message, media, encoding, held).await
}
