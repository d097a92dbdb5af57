//! How every part reaches ClickHouse: one client, by HTTP, through the `clickhouse` crate.

pub mod connect;

pub use connect::{Store, StoreArgs};
