//! OTLP as JSON (<https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>), made protobuf.
//!
//! [`walk`] reads the text once, led by the tables of [`fields`], which say for each message what its fields are named and
//! what they hold; [`number`] reads numbers, enums and bytes in all ways in which senders write them; [`wire`] writes what
//! was read as protobuf, within the memory that there is. From there on it goes the way of every request: `cost` and
//! prost know nothing of JSON.
//!
//! What is strict: each value is stored as it was told, or the request is refused with the path of the value and what was
//! expected. Nothing falls back to "absent". A `null` is an absent field, as in protobuf's JSON; fields that nobody knows
//! are ignored, as OTLP wants it. Enums may be names and fields may be in snake case, which protobuf's JSON allows.

mod fields;
mod number;
#[cfg(test)]
mod tests;
mod walk;
mod wire;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;

pub(super) use self::walk::Fault;
use crate::ingest::room::NoRoom;

/// Why a body is no request.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The path of a value, what it is, and what was expected.
    #[error("{0}")]
    Malformed(String),
    /// It would take more memory than there is.
    #[error("the request takes more memory than there is")]
    NoRoom,
}

/// The request that `body` is.
///
/// # Errors
/// [`JsonError`]; never takes more than eight times the memory of `body` and what prost makes of it.
pub fn request(body: &[u8]) -> Result<ExportMetricsServiceRequest, JsonError> {
    let most = body.len().saturating_mul(8).saturating_add(1 << 10);
    let protobuf = to_protobuf(body, |bytes| if bytes > most { Err(NoRoom::Ever) } else { Ok(()) });
    let protobuf = protobuf.map_err(|fault| match fault {
        Fault::Malformed(message) => JsonError::Malformed(message),
        Fault::NoRoom(_) => JsonError::NoRoom,
    })?;
    ExportMetricsServiceRequest::decode(protobuf.as_slice()).map_err(|error| JsonError::Malformed(error.to_string()))
}

/// The request `body` as protobuf. `room` is asked before as many bytes are taken for it in all.
pub(super) fn to_protobuf(body: &[u8], room: impl FnMut(usize) -> Result<(), NoRoom>) -> Result<Vec<u8>, Fault> {
    walk::request(body, room)
}
