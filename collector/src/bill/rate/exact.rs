//! Exact amounts: sums of whole numbers while facts are rated, fractions once that is done.

use std::ops::{AddAssign, Sub};

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use crate::bill::decimal::ONE;
use crate::bill::settle::Amounts;

/// What a line comes to before anything is rounded. Fractions are not reduced: their denominators are few, and alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exact {
    /// GPU-hours that were held.
    pub gpu_hours: Amount,
    /// Quantity that is priced: GPU-hours after basis and increments, kWh, GiB-months, GiB.
    pub quantity: Amount,
    /// GPU-hours among those held that have no price.
    pub unpriced: Amount,
    /// GPU-hours in which it was busy.
    pub busy: Amount,
    /// GPU-hours of which it is unknown whether it was busy.
    pub unknown: Amount,
    /// kWh of the devices.
    pub energy: Amount,
    /// kWh of the site: times its power usage effectiveness.
    pub site_energy: Amount,
    /// Grams of CO2 equivalent.
    pub carbon: Amount,
    /// Currency units, billed.
    pub cost: Amount,
    /// Currency units with commitments spread over their use.
    pub effective: Amount,
}

/// How many amounts an [`Exact`] has.
pub const MEASURES: usize = 10;

impl Exact {
    /// All amounts, in the order of the fields.
    pub fn all(&self) -> [&Amount; MEASURES] {
        [
            &self.gpu_hours,
            &self.quantity,
            &self.unpriced,
            &self.busy,
            &self.unknown,
            &self.energy,
            &self.site_energy,
            &self.carbon,
            &self.cost,
            &self.effective,
        ]
    }

    /// All amounts, in the order of the fields.
    pub fn all_mut(&mut self) -> [&mut Amount; MEASURES] {
        [
            &mut self.gpu_hours,
            &mut self.quantity,
            &mut self.unpriced,
            &mut self.busy,
            &mut self.unknown,
            &mut self.energy,
            &mut self.site_energy,
            &mut self.carbon,
            &mut self.cost,
            &mut self.effective,
        ]
    }

    /// What was rounded already, as it is.
    pub fn of(amounts: &Amounts) -> Self {
        let mut exact = Self::default();
        for (exact, amount) in exact.all_mut().into_iter().zip(amounts.all()) {
            *exact = Amount::new(amount.0.clone(), &BigInt::from(1_000_000));
        }
        exact
    }

    /// The part `weight / whole` of every amount.
    pub fn part(&self, weight: &BigInt, whole: &BigInt) -> Self {
        let mut part = self.clone();
        for amount in part.all_mut() {
            *amount = amount.part(weight, whole);
        }
        part
    }
}

impl AddAssign<&Self> for Exact {
    fn add_assign(&mut self, other: &Self) {
        for (sum, amount) in self.all_mut().into_iter().zip(other.all()) {
            *sum += amount;
        }
    }
}

/// A fraction that is not reduced.
#[derive(Clone, Debug)]
pub struct Amount {
    /// Above the line.
    pub numerator: BigInt,
    /// Below it; positive.
    pub denominator: BigInt,
}

impl Amount {
    /// A fraction.
    pub fn new(numerator: BigInt, denominator: &BigInt) -> Self {
        Self { numerator, denominator: denominator.clone() }
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.numerator.is_zero()
    }

    /// The part `weight / whole` of it.
    pub fn part(&self, weight: &BigInt, whole: &BigInt) -> Self {
        if self.is_zero() {
            return Self::default();
        }
        Self { numerator: &self.numerator * weight, denominator: &self.denominator * whole }
    }

    /// In lowest terms.
    pub fn reduced(&self) -> BigRational {
        BigRational::new(self.numerator.clone(), self.denominator.clone())
    }
}

impl Default for Amount {
    fn default() -> Self {
        Self { numerator: BigInt::zero(), denominator: BigInt::from(1) }
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        &self.numerator * &other.denominator == &other.numerator * &self.denominator
    }
}

impl AddAssign<&Self> for Amount {
    fn add_assign(&mut self, other: &Self) {
        if other.is_zero() {
            return;
        }
        if self.is_zero() {
            self.clone_from(other);
        } else if self.denominator == other.denominator {
            self.numerator += &other.numerator;
        } else {
            let sum = self.reduced() + other.reduced();
            *self = Self { numerator: sum.numer().clone(), denominator: sum.denom().clone() };
        }
    }
}

impl Sub for &Amount {
    type Output = Amount;

    fn sub(self, other: Self) -> Amount {
        let mut difference = self.clone();
        difference += &Amount { numerator: -&other.numerator, denominator: other.denominator.clone() };
        difference
    }
}

/// What GPU-milliseconds times `10^12` are an hour of one GPU.
pub fn hour() -> BigInt {
    BigInt::from(3_600_000) * ONE
}

/// What those times a rate are over.
pub fn cost_denominator() -> BigInt {
    hour() * ONE
}

/// What millijoules are a kWh.
pub fn kwh() -> BigInt {
    BigInt::from(3_600_000_000_i64)
}
