//! The request in a body: by HTTP with its headers, by gRPC with a prefix of five bytes.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;

use super::{Fault, cost};
use crate::errors::chain;
use crate::http::Shared;
use crate::http::body::{self, BodyError};
use crate::http::room::{FULL, Part};
use crate::owners::label;

/// Bytes before a message of gRPC: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A request, and the room that it takes.
#[derive(Debug)]
pub struct Message {
    pub request: ExportMetricsServiceRequest,
    pub room: [Part; 2],
}

impl From<BodyError> for Fault {
    fn from(error: BodyError) -> Self {
        let message = chain(&error);
        match error {
            BodyError::TooLarge(_) | BodyError::Bomb(_) => Self::TooLarge(message),
            BodyError::Encoding(_) => Self::Media(message),
            BodyError::Read(_) | BodyError::Late(_) | BodyError::Inflate(_) => Self::Malformed(message),
        }
    }
}

/// Room for so many bytes.
fn room(shared: &Shared, bytes: usize) -> Result<Part, Fault> {
    shared.room.take(bytes).ok_or_else(|| Fault::Overloaded(FULL.to_owned()))
}

/// What is read and inflated.
fn reading_bytes(shared: &Shared) -> usize {
    2 * shared.max_push_bytes
}

fn decoded(bytes: Bytes, reading: Part, shared: &Shared) -> Result<Message, Fault> {
    let malformed = |reason: String| Fault::Malformed(format!("the body is no ExportMetricsServiceRequest: {reason}"));
    let cost = cost::of(&bytes).ok_or_else(|| malformed("it is no protobuf message".to_owned()))?;
    let most = shared.room.bytes() - reading_bytes(shared);
    if cost > most {
        return Err(Fault::TooLarge(format!("the request takes {cost} bytes of memory, expected at most {most}")));
    }
    let decoding = room(shared, cost)?;
    let request = ExportMetricsServiceRequest::decode(bytes).map_err(|error| malformed(error.to_string()))?;
    Ok(Message { request, room: [reading, decoding] })
}

/// Reads the body of a `POST`.
pub async fn of_http(headers: &HeaderMap, body: Body, shared: &Shared) -> Result<Message, Fault> {
    let reading = room(shared, reading_bytes(shared))?;
    let kind =
        headers.get(header::CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase());
    let kind = kind.unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !matches!(kind, "application/x-protobuf" | "application/protobuf") {
        let shown = label::shown(kind);
        return Err(Fault::Media(format!("content-type is {shown}, expected application/x-protobuf")));
    }
    decoded(body::read(headers, body, shared.max_push_bytes).await?, reading, shared)
}

/// Reads the body of a call.
pub async fn of_grpc(headers: &HeaderMap, body: Body, shared: &Shared) -> Result<Message, Fault> {
    let reading = room(shared, reading_bytes(shared))?;
    let malformed = |what: &str| Fault::Malformed(format!("the body is {what}"));
    let framed = body::read(&HeaderMap::new(), body, shared.max_push_bytes + PREFIX).await?;
    let [compressed, length @ ..] = *framed.first_chunk::<PREFIX>().ok_or_else(|| malformed("no message"))?;
    let message = framed.slice(PREFIX..);
    if u32::try_from(message.len()).ok() != Some(u32::from_be_bytes(length)) {
        return Err(malformed("not one message of the length that its prefix tells"));
    }
    if compressed == 0 {
        return decoded(message, reading, shared);
    }
    // What inflates it knows it by the name that HTTP has for it.
    let encoding = headers.get("grpc-encoding").cloned().unwrap_or(HeaderValue::from_static("none"));
    let named = HeaderMap::from_iter([(header::CONTENT_ENCODING, encoding)]);
    decoded(body::read(&named, Body::from(message), shared.max_push_bytes).await?, reading, shared)
}
