//! The node agent.

pub mod ledger;
pub mod outbox;
pub mod probe;
pub mod sensors;
