//! OTLP as JSON: [`contador_schemas::otlp::json`] makes protobuf of it, which goes the way of every request from there on.

#[cfg(test)]
mod tests;

use contador_schemas::otlp::json::{NoRoom, to_protobuf};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;

pub use contador_schemas::otlp::json::Fault;

/// The request that `body` is.
///
/// # Errors
/// [`Fault`]; never takes more than eight times the memory of `body` and what prost makes of it.
pub fn request(body: &[u8]) -> Result<ExportMetricsServiceRequest, Fault> {
    let most = body.len().saturating_mul(8).saturating_add(1 << 10);
    let protobuf = to_protobuf(body, |bytes| if bytes > most { Err(NoRoom) } else { Ok(()) })?;
    ExportMetricsServiceRequest::decode(protobuf.as_slice()).map_err(|error| Fault::Malformed(error.to_string()))
}
