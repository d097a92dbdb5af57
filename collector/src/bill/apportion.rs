//! Exact fractions to amounts that add up: the whole is rounded once, and its parts are made to sum to it.
//!
//! Fractions are numerators over one denominator that all parts of a bill share, so nothing is ever divided before the
//! end. A part gets its amount rounded down, and what is then missing from the whole goes, one millionth each, to the parts
//! with the largest remainders (the first of equals). So every part is less than a millionth from its exact value, no part
//! is negative, and a part that is exactly nothing gets nothing.

use std::cmp::Reverse;

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::decimal::Millionths;

const MILLION: u32 = 1_000_000;

/// The fraction `numerator / denominator` rounded to millionths, half away from nothing.
pub fn round(numerator: &BigInt, denominator: &BigInt) -> Millionths {
    let doubled = numerator * (2 * MILLION) + denominator;
    Millionths(doubled / (denominator * 2))
}

/// Splits `whole`, which is the sum of `parts` rounded either way, into one amount for each part.
///
/// `parts` are numerators over `denominator`, none of them negative.
pub fn apportion(whole: &Millionths, parts: &[BigInt], denominator: &BigInt) -> Vec<Millionths> {
    let mut amounts = Vec::with_capacity(parts.len());
    let mut remainders = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        let scaled = part * MILLION;
        let floor = &scaled / denominator;
        remainders.push((Reverse(scaled - &floor * denominator), at));
        amounts.push(Millionths(floor));
    }
    let missing = &whole.0 - amounts.iter().map(|amount| &amount.0).sum::<BigInt>();
    let missing = missing.to_usize().unwrap_or_default();
    debug_assert!(missing <= parts.len(), "{missing} millionths for {} parts", parts.len());
    remainders.sort();
    for (_, at) in remainders.into_iter().take(missing) {
        if let Some(amount) = amounts.get_mut(at) {
            amount.0 += 1;
        }
    }
    amounts
}

#[cfg(test)]
mod tests {
    use num_traits::Zero;
    use proptest::prelude::*;

    use super::*;

    fn ints(values: &[u64]) -> Vec<BigInt> {
        values.iter().copied().map(BigInt::from).collect()
    }

    #[test]
    fn a_third_each_is_a_whole() {
        let denominator = BigInt::from(3);
        let parts = ints(&[1, 1, 1]);
        let whole = round(&BigInt::from(3), &denominator);
        let amounts = apportion(&whole, &parts, &denominator);
        let texts: Vec<String> = amounts.iter().map(Millionths::to_string).collect();
        assert_eq!(texts, ["0.333334", "0.333333", "0.333333"]);
    }

    #[test]
    fn halves_are_rounded_up() {
        assert_eq!(round(&BigInt::from(1), &BigInt::from(2_000_000)).to_string(), "0.000001");
        assert_eq!(round(&BigInt::from(1), &BigInt::from(2_000_001)).to_string(), "0.000000");
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_whole(values in prop::collection::vec(0u64..1 << 60, 0..40), denominator in 1u64..1 << 60) {
            let (parts, denominator) = (ints(&values), BigInt::from(denominator));
            let sum: BigInt = parts.iter().sum();
            let whole = round(&sum, &denominator);
            let amounts = apportion(&whole, &parts, &denominator);
            prop_assert_eq!(amounts.iter().sum::<Millionths>(), whole);
            for (amount, part) in amounts.iter().zip(&parts) {
                // |amount - part| < 1 millionth, by cross multiplication.
                let off = &amount.0 * &denominator - part * MILLION;
                prop_assert!(off > -denominator.clone() && off < denominator.clone());
                prop_assert!(!part.is_zero() || amount.is_zero());
            }
        }

        #[test]
        fn a_part_can_be_split_again(
            groups in prop::collection::vec(prop::collection::vec(0u64..1 << 40, 1..8), 1..8),
            denominator in 1u64..1 << 50,
        ) {
            let denominator = BigInt::from(denominator);
            let sums: Vec<BigInt> = groups.iter().map(|group| ints(group).iter().sum()).collect();
            let whole = round(&sums.iter().sum(), &denominator);
            let outer = apportion(&whole, &sums, &denominator);
            let mut all = Millionths::default();
            for (amount, group) in outer.iter().zip(&groups) {
                let inner = apportion(amount, &ints(group), &denominator);
                prop_assert_eq!(&inner.iter().sum::<Millionths>(), amount);
                all = [&all, amount].into_iter().sum();
            }
            prop_assert_eq!(all, whole);
        }
    }
}
