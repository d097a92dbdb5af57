//! Running totals of latencies to increases.
//!
//! [`memory`] keeps, for each series and source, the last points that it saw; [`increase`] says what came between two of
//! them, on any layout of buckets. A point moves the memory on only when ClickHouse has acknowledged its row, so that a
//! point that is sent again makes the same row again.

pub mod increase;
pub mod memory;

pub use memory::{Increases, Memory, Pending};
