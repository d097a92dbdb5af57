//! Stored cells to quantile intervals, and to roll-ups that make them quick.
//!
//! On the way in, [`job`] runs a pass of [`rollup`] now and then: rows of 10 s become rows of five minutes, of hours and of
//! days ([`levels`]). On the way out, [`ask`] says what is wanted, [`levels`] covers its time with the coarsest windows that
//! have everything, [`sql`] words the question and [`query`] turns the sums of cells into intervals with a state.
//! [`phases`] puts several metrics side by side, [`read`] and [`show`] are the words of flags and of JSON, and [`gauges`] keeps the last five minutes for Prometheus.

pub mod ask;
pub mod gauges;
pub mod job;
pub mod levels;
pub mod phases;
pub mod query;
pub mod read;
pub mod rollup;
pub mod show;
pub mod sql;

pub use ask::{Ask, Error, Label, MOST_RATIO};
pub use query::{Point, Series, Told, quantile, services, tell};
