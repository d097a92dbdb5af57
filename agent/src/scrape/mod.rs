//! Latencies of servers that show them to Prometheus: a page becomes increases.
//!
//! [`text`] reads a page in Prometheus's text format or in OpenMetrics. [`presets`] say what the families of each server
//! mean: which histogram is which latency, in which unit, which label is the model, and which only tell replicas apart.
//! [`series`] gathers the samples of each series, [`reading`] makes one total of them, [`memory`] tells what came since the
//! last one, [`other`] whether that was another server's, [`plausible`] whether that can be. [`served`] adds up requests and tokens, [`aborted`] turns aborted requests
//! into lower bounds, [`owed`] those that a later page has to tell of; [`taking`] holds what has come of a page so far. [`server`] does all that with what it remembers of one
//! server, and answers with what was [`taken`].
//!
//! Nothing here waits, reads a file or a clock.

mod aborted;
mod memory;
mod other;
mod owed;
mod plausible;
pub mod presets;
mod reading;
mod series;
mod served;
pub mod server;
pub mod taken;
mod taking;
pub mod text;
