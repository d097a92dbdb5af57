//! Stored cells to quantile intervals: [`query`] adds up the cells of a service in ClickHouse, and `schemas` turns their
//! sum into an interval with a state.

pub mod query;

pub use query::{Asked, Error, Told, quantile, services, tell};
