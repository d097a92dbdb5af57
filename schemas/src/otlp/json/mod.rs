//! OTLP as JSON (<https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>), made protobuf.
//!
//! [`walk`] reads the text once, led by the tables of [`fields`], which say for each message what its fields are named and
//! what they hold; [`number`] reads numbers, enums and bytes in all ways in which senders write them; [`wire`] writes what
//! was read as protobuf, within the memory that there is. From there on it goes the way of every request. [`answer`] is what
//! whoever sent JSON is answered.
//!
//! What is strict: each value is stored as it was told, or the request is refused with the path of the value and what was
//! expected. Nothing falls back to "absent". A `null` is an absent field, as in protobuf's JSON; fields that nobody knows
//! are ignored, as OTLP wants it. Enums may be names and fields may be in snake case, which protobuf's JSON allows.

pub mod answer;
mod fields;
mod number;
mod walk;
mod wire;

/// Why a text is no request.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The path of a value, what it is, and what was expected.
    #[error("{0}")]
    Malformed(String),
    /// There is no memory for it.
    #[error("the request takes more memory than there is")]
    NoRoom,
}

/// There is no memory for what is to be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoRoom;

/// The `ExportMetricsServiceRequest` that `body` is, as protobuf. `room` is asked before as many bytes are taken for it in
/// all; beside them the parser keeps at most as much aside as `body` has.
///
/// # Errors
/// [`Fault`]
pub fn to_protobuf(body: &[u8], room: impl FnMut(usize) -> Result<(), NoRoom>) -> Result<Vec<u8>, Fault> {
    walk::request(body, room)
}
