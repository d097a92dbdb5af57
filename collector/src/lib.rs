//! The collector and the commands around it.
//!
//! OTLP requests come in through [`ingest`] (receive, decode, validate, write) and are acknowledged when ClickHouse has
//! the rows. Everything is kept in ClickHouse alone: [`store`] opens it and migrates it, [`engine`] is ClickHouse itself,
//! embedded and served over its HTTP interface by a process of its own. On the way out, [`latency`] turns stored cells
//! into quantile intervals, which [`web`] serves, and [`bill`] turns ledger rows and imported allocations into money. [`cli`] has one file a
//! command, [`failure`] their two ways to fail; [`demo`] runs all of them together on one machine, with
//! the [`random`] numbers that made-up data is of.

pub mod bill;
pub mod cli;
pub mod config;
pub mod demo;
pub mod engine;
pub mod failure;
pub mod ingest;
pub mod latency;
mod random;
pub mod run;
pub mod store;
pub mod web;
