//! The interval contains the true quantile, for any values, any layouts and any merge.

#![allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::unwrap_used,
    reason = "values made by the test itself"
)]

use contador_schemas::cells::{Cell, Cells, Exponential};
use contador_schemas::quantile::{Quantile, State};
use proptest::collection::vec;
use proptest::prelude::*;

/// A layout that a source may have; the histogram is made by counting, independently of the code under test.
#[derive(Clone, Debug)]
enum Layout {
    Explicit(Vec<f64>),
    Exponential(i32),
    Exact,
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![
        vec(0.0..2000.0_f64, 0..12).prop_map(|mut bounds| {
            bounds.sort_by(f64::total_cmp);
            bounds.dedup();
            Layout::Explicit(bounds)
        }),
        (-2..=8_i32).prop_map(Layout::Exponential),
        Just(Layout::Exact),
    ]
}

fn cells_of(values: &[f64], layout: &Layout, tell_extremes: bool) -> Cells {
    let least = values.iter().copied().reduce(f64::min).filter(|_| tell_extremes);
    let greatest = values.iter().copied().reduce(f64::max).filter(|_| tell_extremes);
    match layout {
        Layout::Explicit(bounds) => {
            let mut counts = vec![0_u64; bounds.len() + 1];
            for value in values {
                counts[bounds.iter().filter(|bound| *value > **bound).count()] += 1;
            }
            Cells::from_explicit(bounds, &counts, least, greatest, 1.0).unwrap()
        }
        Layout::Exponential(scale) => {
            let index = |value: f64| (value.log2() * 2.0_f64.powi(*scale)).ceil() as i32 - 1;
            let positive: Vec<i32> = values.iter().filter(|value| **value > 0.0).map(|value| index(*value)).collect();
            let offset = positive.iter().copied().min().unwrap_or(0);
            let mut counts = vec![0_u64; positive.iter().map(|index| (index - offset) as usize + 1).max().unwrap_or(0)];
            for index in &positive {
                counts[(index - offset) as usize] += 1;
            }
            let point = Exponential {
                scale: *scale,
                zero_count: values.len() as u64 - positive.len() as u64,
                zero_threshold: 0.0,
                offset,
                counts: &counts,
                min: least,
                max: greatest,
            };
            Cells::from_exponential(&point, 1.0).unwrap()
        }
        Layout::Exact => Cells::new(values.iter().map(|&value| Cell { lo: value, hi: value, n: 1 })).unwrap(),
    }
}

/// Whole and broken values, zeros, powers of two (edges of exponential buckets) and a heavy tail.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        (0..12_i32).prop_map(|power| 2.0_f64.powi(power)),
        (1..1000_u32).prop_map(f64::from),
        0.001..1.0_f64,
        1.0..1.0e6_f64,
    ]
}

proptest! {
    #[test]
    fn the_interval_contains_the_true_quantile(
        sources in vec((vec(value(), 0..40), layout(), any::<bool>()), 1..6),
        ppm in 0..=1_000_000_u32,
    ) {
        let mut merged = Cells::default();
        for (values, layout, tell_extremes) in &sources {
            merged.merge(&cells_of(values, layout, *tell_extremes)).unwrap();
        }
        let mut sorted: Vec<f64> = sources.iter().flat_map(|(values, ..)| values.clone()).collect();
        sorted.sort_by(f64::total_cmp);
        prop_assert_eq!(merged.count(), sorted.len() as u64);
        let q = Quantile::from_ppm(ppm).unwrap();
        let answer = merged.quantile(q, f64::INFINITY, 0);
        if sorted.is_empty() {
            prop_assert_eq!(answer.state, State::NoTraffic);
            return Ok(());
        }
        // The least value with at least q * N values at or below it, by counting.
        let needed = u64::from(ppm) * sorted.len() as u64;
        let truth = *sorted.iter().enumerate().find(|(index, _)| (*index as u64 + 1) * 1_000_000 >= needed).unwrap().1;
        let low = answer.low.unwrap();
        let high = answer.high.unwrap_or(f64::INFINITY);
        prop_assert!(low <= truth && truth <= high, "{truth} outside of [{low}, {high}]");
        if let Some(point) = answer.point {
            prop_assert!(low <= point && point <= high);
        }
    }

    #[test]
    fn merging_is_independent_of_order_and_grouping(
        sources in vec((vec(value(), 0..20), layout(), any::<bool>()), 3),
    ) {
        let parts: Vec<Cells> =
            sources.iter().map(|(values, layout, extremes)| cells_of(values, layout, *extremes)).collect();
        let mut left = parts[0].clone();
        left.merge(&parts[1]).unwrap();
        left.merge(&parts[2]).unwrap();
        let mut tail = parts[2].clone();
        tail.merge(&parts[1]).unwrap();
        tail.merge(&parts[0]).unwrap();
        prop_assert_eq!(&left, &tail);
        let (lo, hi, n) = left.to_columns();
        prop_assert_eq!(Cells::from_columns(&lo, &hi, &n).unwrap(), left);
    }
}

#[test]
fn a_rank_is_exact_where_floating_point_is_off_by_one() {
    // 0.07 * 100 is 7.000000000000001 in floating point.
    assert_eq!(Quantile::from_ppm(70_000).unwrap().rank(100), 7);
    assert_eq!(Quantile::P99.rank(1), 1);
    assert_eq!(Quantile::P99.rank(u64::MAX), 18_262_276_632_972_456_099);
}

#[test]
fn every_request_in_the_first_bucket_is_unresolved_not_invented() {
    let cells = Cells::from_explicit(&[0.3, 0.5], &[1000, 0, 0], None, None, 1.0).unwrap();
    let answer = cells.quantile(Quantile::P99, 1.5, 0);
    assert_eq!((answer.low, answer.high, answer.state), (Some(0.0), Some(0.3), State::Unresolved));
}

#[test]
fn states_say_why_an_answer_cannot_be_trusted() {
    let narrow = |n| Cells::new([Cell { lo: 10.0, hi: 10.1, n }]).unwrap();
    assert_eq!(Cells::default().quantile(Quantile::P99, 1.5, 0).state, State::NoTraffic);
    assert_eq!(narrow(298).quantile(Quantile::P99, 1.5, 0).state, State::TooFew);
    assert_eq!(narrow(299).quantile(Quantile::P99, 1.5, 0).state, State::Ok);
    assert_eq!(narrow(299).quantile(Quantile::P99, 1.5, 5).state, State::Censored);
    let unbounded = Cells::from_explicit(&[30.0], &[2513, 8495], None, None, 1.0).unwrap();
    let answer = unbounded.quantile(Quantile::P99, 1.5, 0);
    assert_eq!((answer.low, answer.high, answer.point, answer.state), (Some(30.0), None, None, State::Unresolved));
}

#[test]
fn the_confidence_interval_misses_the_true_quantile_in_at_most_one_sample_of_twenty() {
    // Uniform numbers of a generator of its own (SplitMix64), rounded to 1,000 different values so that there are ties.
    let mut state = 7_u64;
    let mut uniform = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) >> 11
    };
    for (ppm, n, rounds) in [(990_000_u32, 400, 4_000_u32), (990_000, 1_000, 2_000), (500_000, 50, 4_000)] {
        let q = Quantile::from_ppm(ppm).unwrap();
        // Values 1 to 1,000, each as likely: the least one with a share of at least q at or below it.
        let truth = f64::from(ppm / 1_000);
        let mut missed = 0;
        for _ in 0..rounds {
            let values = (0..n).map(|_| (uniform() % 1_000) as f64 + 1.0);
            let cells = Cells::new(values.map(|value| Cell { lo: value, hi: value, n: 1 })).unwrap();
            let answer = cells.quantile(q, 1.1, 0);
            let (low, high) = (answer.ci_low.unwrap(), answer.ci_high.unwrap_or(f64::INFINITY));
            assert!(low <= answer.low.unwrap() && answer.high.unwrap() <= high);
            missed += u32::from(!(low..=high).contains(&truth));
        }
        // At most 5 % are expected; three standard deviations more are 1 % of 4,000 and 1.5 % of 2,000.
        assert!(missed * 1_000 <= rounds * 65, "{ppm} of {n}: {missed} of {rounds}");
    }
}
