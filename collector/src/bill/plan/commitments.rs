//! The exact cost of reserving 0, 1, 2… GPUs for a whole period and paying the rest on demand.
//!
//! `cost(n) = n × hours × reserved + Σ over slots of max(0, demand − n) × on demand`. The n-th GPU serves what is above n − 1 and
//! not above n; it pays if that costs more on demand than the GPU does reserved. The more GPUs there are, the less the next one
//! serves, so the curve is convex, and its lowest point is where the next one stops paying.

use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use super::demand::Level;
use super::rates::Rates;
use crate::bill::decimal::ONE;
use crate::bill::rate::exact::{Amount, hour};

/// A part of a period in which prices are the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stretch {
    /// How long it is, milliseconds.
    pub ms: i64,
    /// What an hour costs.
    pub rates: Rates,
    /// The demand; slots in which nothing was held need no level.
    pub levels: Vec<Level>,
}

/// The cost of reserving so many GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// How many.
    pub gpus: u32,
    /// What they cost reserved, used or not: currency units.
    pub reserved: Amount,
    /// What the demand above them costs on demand: currency units.
    pub on_demand: Amount,
    /// Both.
    pub total: Amount,
    /// How much of them is used: GPU-hours.
    pub used: Amount,
    /// How much the last of them is used: hours; nothing for no GPU.
    pub last_used: Amount,
    /// Whether the last of them costs less reserved than what it serves does on demand.
    pub pays: bool,
}

/// Costs from no GPU on to as many as the demand ever needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// One for each number of GPUs.
    pub points: Vec<Point>,
    /// The cheapest; of equals the one with fewest GPUs.
    pub best: usize,
    /// The period, hours.
    pub hours: Amount,
    /// How many hours a GPU must be used to be worth its reservation, at the mean rates of the period; `None` if on demand is
    /// free.
    pub break_even: Option<Amount>,
}

impl Curve {
    /// The cheapest point.
    pub fn best(&self) -> &Point {
        &self.points[self.best]
    }

    /// Everything on demand.
    pub fn nothing(&self) -> &Point {
        &self.points[0]
    }

    /// Nothing on demand.
    pub fn everything(&self) -> &Point {
        self.points.last().unwrap_or_else(|| self.nothing())
    }

    /// What the cheapest point saves against everything on demand; never negative.
    pub fn saving(&self) -> Amount {
        &self.nothing().total - &self.best().total
    }

    /// The part of reserved time that is used, in tenths of a percent, rounded down; `None` without a reservation.
    pub fn use_of(&self, point: &Point) -> Option<u32> {
        let whole = Amount::new(&self.hours.numerator * point.gpus, &self.hours.denominator);
        permille(&point.used, &whole)
    }
}

/// `part / whole` in thousandths, rounded down; `None` of nothing.
pub fn permille(part: &Amount, whole: &Amount) -> Option<u32> {
    if whole.is_zero() {
        return None;
    }
    let above: BigInt = &part.numerator * &whole.denominator * 1_000;
    (above / (&part.denominator * &whole.numerator)).to_u32()
}

/// The curve of some stretches, of which there is at least one.
pub fn curve(stretches: &[Stretch]) -> Curve {
    let most = stretches.iter().map(most).max().unwrap_or_default();
    let (hour, one) = (hour(), BigInt::from(ONE));
    // Reserved rates are in 10^-24, times GPU-milliseconds times 10^12.
    let money = &hour * &one * &one;
    let whole: BigInt = stretches.iter().map(|stretch| BigInt::from(stretch.ms) * ONE).sum();
    let of_one: BigInt = stretches.iter().map(|stretch| &stretch.rates.reserved * stretch.ms * ONE).sum();
    let listed: BigInt =
        stretches.iter().map(|stretch| BigInt::from(stretch.rates.on_demand) * stretch.ms * ONE * ONE).sum();
    let demand: BigInt = stretches.iter().map(|stretch| BigInt::from(above(stretch, 0))).sum();
    let mut points: Vec<Point> = Vec::new();
    let (mut before_cost, mut before_left) = (BigInt::zero(), demand.clone());
    for gpus in 0..=most {
        let left: BigInt = stretches.iter().map(|stretch| BigInt::from(above(stretch, gpus))).sum();
        let on_demand: BigInt =
            stretches.iter().map(|stretch| BigInt::from(above(stretch, gpus)) * stretch.rates.on_demand * ONE).sum();
        let reserved = &of_one * gpus;
        points.push(Point {
            gpus,
            total: Amount::new(&reserved + &on_demand, &money),
            reserved: Amount::new(reserved, &money),
            used: Amount::new(&demand - &left, &hour),
            last_used: Amount::new(&before_left - &left, &hour),
            pays: gpus > 0 && &before_cost - &on_demand > of_one,
            on_demand: Amount::new(on_demand.clone(), &money),
        });
        (before_cost, before_left) = (on_demand, left);
    }
    let best = (0..points.len()).min_by(|a, b| {
        let total = |at: &usize| &points[*at].total.numerator;
        total(a).cmp(total(b)).then(a.cmp(b))
    });
    let break_even = (!listed.is_zero()).then(|| Amount::new(&of_one * &whole, &(&listed * &hour)));
    Curve { best: best.unwrap_or_default(), points, hours: Amount::new(whole, &hour), break_even }
}

/// The least whole number of GPUs that demand is never above.
fn most(stretch: &Stretch) -> u32 {
    let above = |level: &Level| level.held > i128::from(level.gpus) * i128::from(level.ms) * ONE;
    stretch.levels.iter().map(|level| level.gpus + u32::from(above(level))).max().unwrap_or_default()
}

/// What was held above so many GPUs: GPU-milliseconds times `10^12`.
fn above(stretch: &Stretch, gpus: u32) -> i128 {
    let part = |level: &Level| level.held - i128::from(gpus) * i128::from(level.ms) * ONE;
    stretch.levels.iter().filter(|level| level.gpus >= gpus).map(part).sum()
}
