//! The request in a body: by HTTP with its headers, as protobuf or JSON; by gRPC with a prefix of five bytes.

use std::fmt::Display;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use contador_schemas::otlp::json;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;

use super::{Fault, cost};
use crate::errors::chain;
use crate::http::Shared;
use crate::http::body::{self, BodyError, Limits};
use crate::http::room::{Held, NoRoom};
use crate::owners::label;

/// Bytes before a message of gRPC: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A request, and the room that it takes.
#[derive(Debug)]
pub struct Message {
    pub request: ExportMetricsServiceRequest,
    pub held: Held,
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
            BodyError::Room(none) => none.into(),
        }
    }
}

impl From<NoRoom> for Fault {
    fn from(none: NoRoom) -> Self {
        match none {
            NoRoom::Now => Self::Overloaded(none.to_string()),
            NoRoom::Ever(_) => Self::TooLarge(none.to_string()),
        }
    }
}

fn malformed(reason: impl Display) -> Fault {
    Fault::Malformed(format!("the body is no ExportMetricsServiceRequest: {reason}"))
}

/// The request that `bytes` are; `held` is what they take, with what they were made of.
fn decoded(bytes: Bytes, mut held: Held) -> Result<Message, Fault> {
    let cost = cost::of(&bytes).ok_or_else(|| malformed("it is no protobuf message"))?;
    held.add(cost)?;
    let request = ExportMetricsServiceRequest::decode(bytes).map_err(malformed)?;
    Ok(Message { request, held })
}

/// The request that a `text` of JSON is: protobuf is made of it, for which there is room beside the text as it grows.
fn of_json(text: &[u8], mut held: Held) -> Result<Message, Fault> {
    // The parser keeps aside at most as much as the text has.
    held.add(text.len())?;
    let (beside, mut none) = (held.bytes(), None);
    let protobuf = json::to_protobuf(text, |bytes| {
        held.set(beside.saturating_add(bytes)).map_err(|fault| {
            none = Some(fault);
            json::NoRoom
        })
    });
    let protobuf = protobuf.map_err(|fault| none.map_or_else(|| malformed(fault), Fault::from))?;
    decoded(protobuf.into(), held)
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
    let mut held = shared.room.hold();
    let bytes = body::read(headers, body, shared.limits(), &mut held).await?;
    match media {
        Media::Protobuf => decoded(bytes, held),
        Media::Json => of_json(&bytes, held),
    }
}

/// Reads the body of a call.
pub async fn of_grpc(headers: &HeaderMap, body: Body, shared: &Shared) -> Result<Message, Fault> {
    let (mut held, limits) = (shared.room.hold(), shared.limits());
    let unframed = |what: &str| Fault::Malformed(format!("the body is {what}"));
    let with_prefix = Limits { max_bytes: limits.max_bytes + PREFIX, ..limits };
    let framed = body::read(&HeaderMap::new(), body, with_prefix, &mut held).await?;
    let [compressed, length @ ..] = *framed.first_chunk::<PREFIX>().ok_or_else(|| unframed("no message"))?;
    let message = framed.slice(PREFIX..);
    if u32::try_from(message.len()).ok() != Some(u32::from_be_bytes(length)) {
        return Err(unframed("not one message of the length that its prefix tells"));
    }
    if compressed == 0 {
        return decoded(message, held);
    }
    // What inflates it knows it by the name that HTTP has for it.
    let encoding = headers.get("grpc-encoding").map_or_else(|| "none".to_owned(), body::encoding_of);
    decoded(body::inflated(&encoding, message, limits.max_bytes, &mut held)?, held)
}

#[cfg(test)]
mod tests;
