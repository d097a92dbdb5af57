//! The node agent.
//!
//! [`sensors`] tell what is, every second. [`owners`] tell whose it is. [`ledger`] makes minutes of it: who held which
//! device for how long. [`outbox`] turns all of that into OTLP, keeps it on disk until the collector has it, and sends
//! it. [`http`] takes latencies and OTLP from services, whose running totals become increases ([`totals`]), tells how the agent
//! itself is, and shows the last samples to Prometheus ([`exposition`]). [`scrape`] makes latencies of what servers show to
//! Prometheus, and [`targets`] asks them for it. [`run`] is the loop that drives them, and what may block, a driver, the kernel
//! or a disk, is waited for by a [`crew`] of threads; [`config`] says how; [`cli`] is the command line.

pub mod cli;
pub mod client;
pub mod config;
pub mod crew;
pub mod errors;
pub mod exposition;
pub mod http;
pub mod jitter;
pub mod ledger;
pub mod outbox;
pub mod owners;
pub mod probe;
pub mod run;
pub mod scrape;
pub mod sensors;
pub mod targets;
pub mod telemetry;
pub mod totals;
