//! What GPUs would cost otherwise: on the demand that was, not on a guess.
//!
//! [`demand`] asks ClickHouse how many GPUs were held in each slot of a period, as a histogram; [`rates`] finds what they cost on demand,
//! reserved and in parts; [`commitments`] makes the exact curve of reserving 0, 1, 2… GPUs of them, and [`fractions`] what parts of GPUs
//! would cost and whom they would do; [`advice`] puts that together. [`show`] and [`chart`] tell it. [`sql`] has what the questions share.

pub mod advice;
pub mod chart;
pub mod commitments;
pub mod demand;
pub mod fractions;
pub mod rates;
pub mod show;
mod sql;

#[cfg(test)]
mod tests;
