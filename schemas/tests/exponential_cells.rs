//! Exponential histograms of any scale: a value is in the cell of its bucket, whose index is computed by logarithms here.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use contador_schemas::cells::{Cells, Exponential};
use proptest::prelude::*;

/// The index of the bucket of `value`: the greatest one whose lower edge is below it.
fn index(value: f64, scale: i32) -> i32 {
    ((value.log2() * 2.0_f64.powi(scale)).ceil() - 1.0) as i32
}

/// Positive floats of every size, the least and the greatest ones too.
fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 1e-9..1e9_f64, 1 => (-1_074.0..1_023.9_f64).prop_map(f64::exp2), 1 => Just(f64::MIN_POSITIVE)]
        .prop_filter("a value above 0", |value| *value > 0.0)
}

proptest! {
    #[test]
    fn a_value_is_inside_of_its_cell_at_every_scale(value in any_value(), scale in -10..=20_i32) {
        let point = Exponential {
            scale,
            zero_count: 0,
            zero_threshold: 0.0,
            offset: index(value, scale),
            counts: &[1],
            min: None,
            max: None,
        };
        let cells = Cells::from_exponential(&point, 1.0).unwrap();
        let [cell] = cells.as_slice() else { panic!("{cells:?}") };
        prop_assert!(cell.lo <= value && value <= cell.hi, "{} in {:?}", value, cell);
        // No wider than the bucket, but for the last places.
        let width = 2.0_f64.powf(2.0_f64.powi(-scale));
        prop_assert!(scale < 0 || value < 1e-300 || cell.hi / cell.lo <= width * (1.0 + 1e-12), "{:?}", cell);
    }
}
