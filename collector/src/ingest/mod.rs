//! OTLP bytes to rows in ClickHouse, acknowledged when ClickHouse has them.
//!
//! [`receive`] takes requests by gRPC and HTTP and turns them into one message, within the memory that [`room`] has; [`decode`] pivots its points into the
//! [`rows`] of the tables and rejects, with a reason, what can't be true; [`cumulative`] turns running totals of
//! latencies into increases, since only those can be added up; [`mod@write`] collects the rows of many requests into one
//! insert a second for each table; [`pipeline`] leads a request through all of them and answers it. [`meters`] counts.

pub mod cumulative;
pub mod decode;
pub mod meters;
pub mod pipeline;
pub mod receive;
mod room;
pub mod rows;
pub mod write;

pub use pipeline::{Outcome, Pipeline, Refusal, Settings};
pub use room::Held;
