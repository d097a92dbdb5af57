//! Running totals of latencies to increases, exactly, whichever collectors the points come to.
//!
//! [`increase`] says what came between two points of a total, on any layout of buckets. A [`chain`] holds the last points of a
//! total, as one collector knows them; [`record`] makes a row of `latency_totals` of it, which [`store`] writes for all
//! collectors to read. [`memory`] remembers the chains that came last and lets one request at a time work on each; [`work`] is
//! what that request does, in an order that a crash at any moment doesn't spoil. [`mod@watch`] says which first points count
//! from their start.

mod chain;
pub mod increase;
pub mod memory;
mod record;
pub mod store;
#[cfg(test)]
mod tests;
pub mod watch;
pub mod work;

pub use memory::Memory;
pub use store::{Stored, Totals};
pub use work::Work;
