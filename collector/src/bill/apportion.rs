//! Exact fractions to amounts that add up: the whole is rounded once, and its parts are made to sum to it.
//!
//! Parts get what is theirs of the whole in proportion, rounded down, and what is then missing goes, one unit each, to the parts with
//! the largest remainders (the first of equals). So every part is less than a unit from its exact share, no part is negative, and a
//! part that is exactly nothing gets nothing. Nothing is divided before that: the parts are brought to one denominator.

use std::cmp::Reverse;

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

use super::rate::exact::Amount;

/// The fraction `numerator / denominator` in whole units of which `units` are 1, rounded half away from nothing.
pub fn round(amount: &Amount, units: u32) -> BigInt {
    let doubled = amount.numerator.abs() * units * 2 + &amount.denominator;
    let rounded: BigInt = doubled / (&amount.denominator * 2);
    if amount.numerator.is_negative() { -rounded } else { rounded }
}

/// The sum of fractions.
pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Amount>) -> Amount {
    let parts: Vec<&Amount> = parts.into_iter().collect();
    let (numerators, denominator) = common(&parts);
    Amount { numerator: numerators.iter().sum(), denominator }
}

/// Splits `whole` units among parts, none of which is negative, in proportion to them. If all are nothing, so must `whole` be.
pub fn apportion(whole: &BigInt, parts: &[&Amount]) -> Vec<BigInt> {
    let (numerators, _) = common(parts);
    split(whole, &numerators)
}

/// The same for whole weights.
pub fn split(whole: &BigInt, weights: &[BigInt]) -> Vec<BigInt> {
    let sum: BigInt = weights.iter().sum();
    if sum.is_zero() {
        debug_assert!(whole.is_zero(), "{whole} units for nothing");
        return vec![BigInt::zero(); weights.len()];
    }
    let mut amounts = Vec::with_capacity(weights.len());
    let mut remainders = Vec::with_capacity(weights.len());
    for (at, weight) in weights.iter().enumerate() {
        let (floor, remainder) = (whole * weight).div_mod_floor(&sum);
        remainders.push((Reverse(remainder), at));
        amounts.push(floor);
    }
    let missing = whole - amounts.iter().sum::<BigInt>();
    let missing = missing.to_usize().unwrap_or_default();
    debug_assert!(missing <= weights.len(), "{missing} units for {} parts", weights.len());
    remainders.sort();
    for (_, at) in remainders.into_iter().take(missing) {
        if let Some(amount) = amounts.get_mut(at) {
            *amount += 1;
        }
    }
    amounts
}

/// The numerators of fractions over their least common denominator.
fn common(parts: &[&Amount]) -> (Vec<BigInt>, BigInt) {
    let mut denominator = BigInt::from(1);
    let mut last: Option<&BigInt> = None;
    for part in parts.iter().filter(|part| !part.is_zero()) {
        // Most have the denominator of the one before.
        if last != Some(&part.denominator) {
            denominator = denominator.lcm(&part.denominator);
            last = Some(&part.denominator);
        }
    }
    let numerator = |part: &&Amount| match part.is_zero() {
        true => BigInt::zero(),
        false if part.denominator == denominator => part.numerator.clone(),
        false => &part.numerator * (&denominator / &part.denominator),
    };
    (parts.iter().map(numerator).collect(), denominator)
}

#[cfg(test)]
mod tests {
    use num_rational::BigRational;
    use proptest::prelude::*;

    use super::*;

    fn amounts(parts: &[(u64, u64)]) -> Vec<Amount> {
        parts.iter().map(|(numerator, denominator)| Amount::new((*numerator).into(), &(*denominator).into())).collect()
    }

    #[test]
    fn a_third_each_is_a_whole() {
        let thirds = amounts(&[(1, 3), (1, 3), (1, 3)]);
        let parts = apportion(&1_000_000.into(), &thirds.iter().collect::<Vec<_>>());
        assert_eq!(parts, [333_334, 333_333, 333_333].map(BigInt::from));
    }

    #[test]
    fn halves_are_rounded_away_from_nothing() {
        for (numerator, rounded) in [(1, 1), (-1, -1), (3, 2), (-3, -2), (0, 0)] {
            assert_eq!(round(&Amount::new(numerator.into(), &2.into()), 1), BigInt::from(rounded));
        }
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_whole_and_are_less_than_a_unit_from_their_share(
            parts in prop::collection::vec((0u64..1 << 40, 1u64..1_000), 1..20),
            whole in 0u64..1 << 50,
        ) {
            let parts = amounts(&parts);
            let fractions: Vec<BigRational> = parts.iter().map(Amount::reduced).collect();
            let sum: BigRational = fractions.iter().sum();
            prop_assume!(!sum.is_zero());
            let split = apportion(&whole.into(), &parts.iter().collect::<Vec<_>>());
            prop_assert_eq!(split.iter().sum::<BigInt>(), BigInt::from(whole));
            for (part, fraction) in split.iter().zip(&fractions) {
                let share = BigRational::from(BigInt::from(whole)) * fraction / &sum;
                prop_assert!((BigRational::from(part.clone()) - share).abs() < BigRational::from(BigInt::from(1)));
                prop_assert!(!fraction.is_zero() || part.is_zero());
            }
        }
    }
}
