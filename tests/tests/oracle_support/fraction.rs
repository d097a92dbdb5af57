//! Exact fractions that are not reduced: reducing is slow, and what is compared need not be.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_traits::Zero;

/// A fraction; what is below the line is positive.
#[derive(Clone, Debug)]
pub struct Fraction {
    pub above: BigInt,
    pub below: BigInt,
}

impl Default for Fraction {
    fn default() -> Self {
        Self { above: BigInt::zero(), below: BigInt::from(1) }
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        &self.above * &other.below == &other.above * &self.below
    }
}

impl Fraction {
    pub fn new(above: impl Into<BigInt>, below: &BigInt) -> Self {
        Self { above: above.into(), below: below.clone() }
    }

    pub fn is_zero(&self) -> bool {
        self.above.is_zero()
    }

    pub fn times(&self, above: &BigInt, below: &BigInt) -> Self {
        if self.is_zero() {
            return Self::default();
        }
        Self { above: &self.above * above, below: &self.below * below }
    }

    pub fn add(&mut self, other: &Self) {
        if other.is_zero() {
        } else if self.is_zero() {
            self.clone_from(other);
        } else if self.below == other.below {
            self.above += &other.above;
        } else {
            self.above = &self.above * &other.below + &other.above * &self.below;
            self.below = &self.below * &other.below;
        }
    }
}

/// The sum of fractions; those over the same number are added up first.
pub fn sum<'a>(of: impl IntoIterator<Item = &'a Fraction>) -> Fraction {
    let mut sums: BTreeMap<&BigInt, BigInt> = BTreeMap::new();
    for fraction in of {
        *sums.entry(&fraction.below).or_default() += &fraction.above;
    }
    let mut sum = Fraction::default();
    for (below, above) in sums {
        sum.add(&Fraction::new(above, below));
    }
    sum
}
