//! How every part reaches ClickHouse: one client, by HTTP, through the `clickhouse` crate.
//!
//! [`connect`] makes the client, [`migrate`] brings the tables to what this program knows (under the [`lock`]),
//! [`cluster`] renders the same statements for a cluster, and [`watch`] does both for `contador serve`, again and again
//! until ClickHouse is there, and then looks whether it still is and whether its tables are [`expected`].

pub mod cluster;
pub mod connect;
mod expected;
pub mod lock;
pub mod migrate;
pub mod watch;

pub use connect::{Store, StoreArgs};
pub use migrate::MigrateError;
pub use watch::StoreState;
