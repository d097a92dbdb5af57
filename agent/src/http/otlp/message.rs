//! The request in a body: by HTTP with its headers, as protobuf or JSON; by gRPC with a prefix of five bytes.

use std::fmt::Display;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;
use contador_schemas::otlp::json;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;

use super::{Fault, cost};
use crate::errors::chain;
use crate::http::Shared;
use crate::http::body::{self, BodyError};
use crate::http::room::{self, FULL, Part};
use crate::owners::label;

/// Bytes before a message of gRPC: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A request, and the room that it takes.
#[derive(Debug)]
pub struct Message {
    pub request: ExportMetricsServiceRequest,
    pub room: [Part; 2],
}

/// How a request is written, and its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Media {
    Protobuf,
    Json,
}

impl From<BodyError> for Fault {
    fn from(error: BodyError) -> Self {
        let message = chain(&error);
        match error {
            BodyError::TooLarge(_) | BodyError::Bomb(_) => Self::TooLarge(message),
            BodyError::Encoding(_) => Self::Media(message),
            BodyError::Inflate(_) => Self::Malformed(message),
            // What is refused as malformed is dropped by who sent it, and this may come whole the next time.
            BodyError::Read(_) | BodyError::Late(_) => Self::Unavailable(message),
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

fn malformed(reason: impl Display) -> Fault {
    Fault::Malformed(format!("the body is no ExportMetricsServiceRequest: {reason}"))
}

/// The request that `bytes` are, which take `others` bytes of room with what they were made of.
fn decoded(bytes: Bytes, others: usize, reading: Part, shared: &Shared) -> Result<Message, Fault> {
    let cost = cost::of(&bytes).ok_or_else(|| malformed("it is no protobuf message"))?;
    let most = shared.room.bytes().saturating_sub(others);
    if cost > most {
        return Err(Fault::TooLarge(format!("the request takes {cost} bytes of memory, expected at most {most}")));
    }
    let decoding = room(shared, cost)?;
    let request = ExportMetricsServiceRequest::decode(bytes).map_err(malformed)?;
    Ok(Message { request, room: [reading, decoding] })
}

/// The request that a `text` of JSON is: protobuf is made of it, for which there is room beside the text as it grows.
fn of_json(text: &[u8], reading: Part, shared: &Shared) -> Result<Message, Fault> {
    // The parser keeps aside at most as much as the text has.
    let (mut taken, mut none) = (0, None);
    let mut held = room(shared, text.len())?;
    let protobuf = json::to_protobuf(text, |bytes| {
        room(shared, bytes.saturating_sub(taken)).map(|more| held.merge(more)).map_err(|fault| {
            none = Some(fault);
            json::NoRoom
        })?;
        taken = bytes;
        Ok(())
    });
    let protobuf = protobuf.map_err(|fault| none.unwrap_or_else(|| malformed(fault)))?;
    // Rounded up to permits, of which there is one for each time that it grew.
    let others = reading_bytes(shared) + room::held(&held);
    decoded(protobuf.into(), others, reading, shared)
}

/// How the body of a `POST` with these headers is written.
pub fn media(headers: &HeaderMap) -> Result<Media, Fault> {
    let kind =
        headers.get(header::CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase());
    let kind = kind.unwrap_or_default();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/x-protobuf" | "application/protobuf" => Ok(Media::Protobuf),
        "application/json" => Ok(Media::Json),
        other => {
            let shown = label::shown(other);
            Err(Fault::Media(format!("content-type is {shown}, expected application/x-protobuf or application/json")))
        }
    }
}

/// Reads the body of a `POST`.
pub async fn of_http(media: Media, headers: &HeaderMap, body: Body, shared: &Shared) -> Result<Message, Fault> {
    let reading = room(shared, reading_bytes(shared))?;
    let bytes = body::read(headers, body, shared.max_push_bytes).await?;
    match media {
        Media::Protobuf => decoded(bytes, reading_bytes(shared), reading, shared),
        Media::Json => of_json(&bytes, reading, shared),
    }
}

/// Reads the body of a call.
pub async fn of_grpc(headers: &HeaderMap, body: Body, shared: &Shared) -> Result<Message, Fault> {
    let reading = room(shared, reading_bytes(shared))?;
    let unframed = |what: &str| Fault::Malformed(format!("the body is {what}"));
    let framed = body::read(&HeaderMap::new(), body, shared.max_push_bytes + PREFIX).await?;
    let [compressed, length @ ..] = *framed.first_chunk::<PREFIX>().ok_or_else(|| unframed("no message"))?;
    let message = framed.slice(PREFIX..);
    if u32::try_from(message.len()).ok() != Some(u32::from_be_bytes(length)) {
        return Err(unframed("not one message of the length that its prefix tells"));
    }
    if compressed == 0 {
        return decoded(message, reading_bytes(shared), reading, shared);
    }
    // What inflates it knows it by the name that HTTP has for it.
    let encoding = headers.get("grpc-encoding").cloned().unwrap_or(HeaderValue::from_static("none"));
    let named = HeaderMap::from_iter([(header::CONTENT_ENCODING, encoding)]);
    let message = body::read(&named, Body::from(message), shared.max_push_bytes).await?;
    decoded(message, reading_bytes(shared), reading, shared)
}
