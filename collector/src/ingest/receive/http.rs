//! OTLP by HTTP: `POST /v1/metrics`, protobuf, plain or compressed.

use std::future::Future;
use std::io::Read as _;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use tokio::net::TcpListener;
use tonic::Code;

use super::{MOST_BYTES, answer};
use crate::ingest::Pipeline;

/// Bodies of this many bytes and more are decompressed and parsed on a thread for blocking work.
const LARGE: usize = 64 << 10;

/// The routes of OTLP over HTTP.
pub fn router(pipeline: Arc<Pipeline>) -> Router {
    Router::new().route("/v1/metrics", post(export)).with_state(pipeline)
}

/// Serves OTLP on `listener` until `shutdown` is over, then answers what it has taken.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    pipeline: Arc<Pipeline>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let listener = listener.tap_io(|stream| {
        // Without it an answer is only slower.
        let _slow = stream.set_nodelay(true);
    });
    axum::serve(listener, router(pipeline)).with_graceful_shutdown(shutdown).await
}

async fn export(State(pipeline): State<Arc<Pipeline>>, headers: HeaderMap, body: Body) -> Response {
    let request = match read(&headers, body).await {
        Ok(request) => request,
        Err(fault) => {
            let too_large = matches!(fault, Fault::TooLarge);
            pipeline.meters().request(if too_large { "too_large" } else { "invalid" });
            return fault.answer();
        }
    };
    match pipeline.ingest(request, "http").await {
        Ok(outcome) => answer::protobuf(StatusCode::OK, answer::response(outcome).encode_to_vec()),
        Err(refusal) => answer::refused(&refusal, pipeline.retry_after()),
    }
}

/// Why a body is no request. Permanent: the same body would fail again.
enum Fault {
    Media(String),
    TooLarge,
    Malformed(String),
}

impl Fault {
    fn answer(self) -> Response {
        match self {
            Self::Media(message) => answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidArgument, message),
            Self::TooLarge => {
                let message = format!("the request has more than {MOST_BYTES} bytes after decompression");
                answer::error(StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted, message)
            }
            Self::Malformed(message) => answer::error(StatusCode::BAD_REQUEST, Code::InvalidArgument, message),
        }
    }
}

#[derive(Clone, Copy)]
enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

async fn read(headers: &HeaderMap, body: Body) -> Result<ExportMetricsServiceRequest, Fault> {
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
    let body = Limited::new(body, MOST_BYTES).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() { Fault::TooLarge } else { Fault::Malformed(format!("body: {error}")) }
    })?;
    let body = body.to_bytes();
    if body.len() < LARGE && matches!(encoding, Encoding::Identity) {
        return parse(&body, encoding);
    }
    let parsed = tokio::task::spawn_blocking(move || parse(&body, encoding)).await;
    parsed.unwrap_or_else(|error| Err(Fault::Malformed(format!("decoding: {error}"))))
}

fn parse(body: &Bytes, encoding: Encoding) -> Result<ExportMetricsServiceRequest, Fault> {
    let malformed = |error: std::io::Error| Fault::Malformed(format!("body: {error}"));
    let plain = match encoding {
        Encoding::Identity => body.clone(),
        Encoding::Gzip => bounded(flate2::read::MultiGzDecoder::new(body.as_ref()), malformed)?,
        Encoding::Zstd => bounded(zstd::Decoder::new(body.as_ref()).map_err(malformed)?, malformed)?,
    };
    ExportMetricsServiceRequest::decode(plain)
        .map_err(|error| Fault::Malformed(format!("body: {error}, expected an ExportMetricsServiceRequest")))
}

/// Reads all of `reader`, but never more than the limit and one byte.
fn bounded(reader: impl std::io::Read, malformed: impl Fn(std::io::Error) -> Fault) -> Result<Bytes, Fault> {
    let mut plain = Vec::new();
    reader.take(MOST_BYTES as u64 + 1).read_to_end(&mut plain).map_err(malformed)?;
    if plain.len() > MOST_BYTES { Err(Fault::TooLarge) } else { Ok(plain.into()) }
}
