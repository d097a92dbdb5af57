//! OTLP requests of the agent's facts, by the names of `contador_schemas::names`.
//!
//! [`points`] collects points by metric and makes a request of them. [`samples`] are what sensors saw, [`rows`] the
//! ledger's minutes with their owners, [`infos`] devices and events, [`histogram`] latencies and what was served.

pub mod histogram;
pub mod infos;
pub mod points;
pub mod rows;
pub mod samples;

pub use points::{Identity, Points};
