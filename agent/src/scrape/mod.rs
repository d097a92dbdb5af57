//! Latencies of servers that show them to Prometheus: a page becomes increases.
//!
//! [`text`] reads a page in Prometheus's text format or in OpenMetrics. [`presets`] say what the families of each server
//! mean: which histogram is which latency, in which unit, which label is the model, and which only tell replicas apart.
//! [`server`] remembers what one server said the last time, and makes [`taken`] of it: what came since then.
//!
//! Nothing here waits, reads a file or a clock.

pub mod presets;
pub mod server;
pub mod taken;
pub mod text;
