//! The node agent.

pub mod config;
pub mod ledger;
pub mod outbox;
pub mod probe;
pub mod sensors;
pub mod telemetry;
