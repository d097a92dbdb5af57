//! Stored cells to quantile intervals.
