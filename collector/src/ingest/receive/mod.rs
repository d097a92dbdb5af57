//! Requests in, answers out. [`grpc`] and [`http`] share nothing but the pipeline and [`answer`], which says the same
//! outcome in both protocols; [`limit`] keeps gRPC's refusals to the codes that OTLP means.

mod answer;
pub mod grpc;
pub mod http;
mod limit;

/// Most bytes of one request after decompression. OTLP recommends 64 MiB.
pub const MOST_BYTES: usize = 64 << 20;
