//! How facts leave the node.
//!
//! [`encode`] makes OTLP requests of samples, closed minutes, latencies and events, by the names in
//! `contador_schemas::names`. [`spool`] keeps them on disk in two queues ([`queue`], made of [`segment`] files): samples,
//! which may be dropped when there is no room and are compressed from the start ([`pack`]), and records, which may not. [`send`] takes from the spool what is oldest,
//! records first, and lets it go when the collector has answered with success; [`answer`] says what any other answer
//! means, and [`wire`] that nothing is encoded twice. [`keeper`] is how the rest of the program reaches the spool without waiting for the disk.

pub mod answer;
pub mod encode;
pub mod keeper;
pub mod pack;
pub mod queue;
pub mod segment;
pub mod send;
pub mod spool;
pub mod wire;

pub use keeper::{Keeper, Lost};
pub use queue::{Queue, SpoolError};
pub use segment::{Kind, Record};
pub use spool::{Spool, SpoolLimits};
