//! Made-up latencies, what senders make of them, and what sorting says of them.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "values are checked to be below 2^53, and a million values are few"
)]

pub mod distributions;
pub mod layouts;
pub mod pages;

/// Sources, each of which has an eighth of the values.
pub const SOURCES: usize = 8;

/// Intervals of each source, each of which ends in a window of its own.
pub const INTERVALS: usize = 3;

/// Values of one source in one interval, in ascending order.
pub struct Part {
    pub source: usize,
    pub interval: usize,
    pub sorted: Vec<u64>,
}

/// Deals values out in turn, and sorts what each part got.
pub fn parts(values: &[u64]) -> Vec<Part> {
    let all = SOURCES * INTERVALS;
    let part = |index: usize| {
        let mut sorted: Vec<u64> = values.iter().skip(index).step_by(all).copied().collect();
        sorted.sort_unstable();
        Part { source: index % SOURCES, interval: index / SOURCES, sorted }
    };
    (0..all).map(part).collect()
}

/// The value of this rank, from 1, of all parts together: the least that has so many at or below it.
pub fn ranked(parts: &[Part], rank: usize) -> u64 {
    let upto = |value: u64| parts.iter().map(|part| part.sorted.partition_point(|one| *one <= value)).sum::<usize>();
    let (mut low, mut high) = (0, u64::MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        if upto(middle) >= rank {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[test]
fn the_rank_is_that_of_all_values_sorted() {
    let mut values = distributions::DISTRIBUTIONS[5].values(3, 5_000);
    values.extend([0, 0, 7]);
    let parts = parts(&values);
    assert_eq!(parts.iter().map(|part| part.sorted.len()).sum::<usize>(), values.len());
    values.sort_unstable();
    for rank in [1, 2, 3, 4, 2_501, 4_953, 5_003] {
        assert_eq!(ranked(&parts, rank), values[rank - 1]);
    }
}
