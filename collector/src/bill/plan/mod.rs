//! What GPUs would cost otherwise, and how many are needed: on the demand that was, not on a guess.
//!
//! For commitments, [`demand`] asks ClickHouse how many GPUs were held in each slot of a period, as a histogram; [`rates`] finds what they
//! cost on demand, reserved and in parts; [`commitments`] makes the exact curve of reserving 0, 1, 2… GPUs of them, and [`fractions`]
//! what parts of GPUs would cost and whom they would do; [`advice`] puts that together. For capacity, [`load`] asks for requests,
//! held GPUs and latencies by the minute, [`throughput`] finds what a GPU can do within a target, and [`capacity`] what the peaks need.
//! [`pool`] puts that together. [`show`] and [`chart`] tell both. [`sql`] has what the questions share.

pub mod advice;
pub mod capacity;
pub mod chart;
pub mod commitments;
pub mod demand;
pub mod fractions;
pub mod load;
pub mod pool;
pub mod rates;
pub mod show;
mod sql;
pub mod throughput;

#[cfg(test)]
mod tests;
