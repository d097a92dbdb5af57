//! Requests in, answers out. [`grpc`] and [`http`] share the pipeline, [`read`], which makes a request of a body within
//! bounds of time and memory ([`contador_schemas::otlp::json`] makes protobuf of JSON, [`cost`] tells the memory before it is
//! taken), and [`answer`], which says the same outcome in both protocols.

mod answer;
mod cost;
pub mod grpc;
pub mod http;
pub mod json;
mod read;

/// Most bytes of one request after decompression. OTLP recommends 64 MiB.
pub const MOST_BYTES: usize = 64 << 20;
