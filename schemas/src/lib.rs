//! The contract between contador's parts: what is measured, what it is called, and how it is kept. No I/O.
//!
//! A value enters under a name of [`names`] (OpenTelemetry's where one exists), belongs to an owner of [`owner`], and is
//! stored as a row of [`rows`] in a table that [`migrations`] creates. Latencies are kept as [`cells`], which merge by
//! addition and answer a quantile as an interval ([`quantile`]), with what a sample can say at all ([`confidence`]);
//! [`series`] says which of them are the same series, [`running`] what came between two totals that only rise, and
//! [`runs`] which of them are of one run. Who
//! pays for an owner is a matter of [`mapping`]. [`otlp`] is the wire, as far as who receives it shares how to look at it.

pub mod cells;
pub mod confidence;
pub mod mapping;
pub mod migrations;
pub mod names;
pub mod otlp;
pub mod owner;
pub mod quantile;
pub mod rows;
pub mod running;
pub mod runs;
pub mod series;
