//! What was done with what was held.

use contador_schemas::owner::OwnerKind;
use num_bigint::BigInt;
use num_traits::{Signed, Zero};

use crate::bill::apportion::round;
use crate::bill::decimal::Millionths;
use crate::bill::rate::Category;
use crate::bill::rate::exact::Amount;
use crate::bill::settle::{Amounts, Line};

/// What was done with what workloads held. Hours are GPU-hours.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Efficiency {
    /// Hours held.
    pub held: Millionths,
    /// Hours of them in which it was busy.
    pub busy: Millionths,
    /// Hours of them of which it is unknown whether it was busy.
    pub unknown: Millionths,
    /// Hours of them in which it was known not to be busy.
    pub idle: Millionths,
    /// Effective cost of the idle ones, line by line, each rounded to a millionth.
    pub waste: Millionths,
    /// Hours that a commitment has reserved and nobody used.
    pub unused: Millionths,
    /// Their effective cost.
    pub unused_cost: Millionths,
    /// kWh of the devices.
    pub energy: Millionths,
    /// kWh of the site.
    pub site_energy: Millionths,
    /// Grams of CO2 equivalent.
    pub carbon: Millionths,
    /// Whether some of it was metered: of what was imported alone, use and energy are unknown.
    pub metered: bool,
}

impl Efficiency {
    /// Adds a line.
    pub fn add(&mut self, line: &Line) {
        let amounts = &line.amounts;
        if line.key.category == Category::Unused {
            self.unused.0 += &amounts.quantity.0;
            self.unused_cost.0 += &amounts.effective.0;
        }
        if line.key.payer.kind != OwnerKind::Workload
            || !matches!(line.key.category, Category::Usage | Category::Covered)
        {
            return;
        }
        self.held.0 += &amounts.gpu_hours.0;
        self.busy.0 += &amounts.busy.0;
        self.unknown.0 += &amounts.unknown.0;
        self.energy.0 += &amounts.energy.0;
        self.site_energy.0 += &amounts.site_energy.0;
        self.carbon.0 += &amounts.carbon.0;
        self.metered |= !line.key.imported && !amounts.gpu_hours.is_zero();
        let (idle, waste) = waste(amounts);
        self.idle.0 += idle;
        self.waste.0 += waste;
    }

    /// The part of the known time in which it was busy, in tenths of a hundredth; `None` where nothing is known.
    pub fn utilisation(&self) -> Option<BigInt> {
        utilisation(&self.held, &self.busy, &self.unknown)
    }
}

/// The part of the known time in which it was busy, in tenths of a hundredth; `None` where nothing is known.
pub fn utilisation(held: &Millionths, busy: &Millionths, unknown: &Millionths) -> Option<BigInt> {
    let known = &held.0 - &unknown.0;
    if known.is_positive() { super::super::lang::tenths(&busy.0, &known) } else { None }
}

/// Hours known not to be busy, and their part of the effective cost, both in millionths.
fn waste(amounts: &Amounts) -> (BigInt, BigInt) {
    let idle = &amounts.gpu_hours.0 - &amounts.busy.0 - &amounts.unknown.0;
    if !idle.is_positive() {
        return (BigInt::zero(), BigInt::zero());
    }
    let waste = round(&Amount::new(&amounts.effective.0 * &idle, &amounts.gpu_hours.0), 1);
    (idle, waste)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::rate::Key;

    fn line(category: Category, amounts: [i64; 4]) -> Line {
        let [gpu_hours, busy, unknown, effective] = amounts.map(|amount| Millionths((amount * 1_000_000).into()));
        let quantity = gpu_hours.clone();
        let amounts = Amounts { gpu_hours, busy, unknown, effective, quantity, ..Amounts::default() };
        Line { key: Key { category, ..Key::default() }, amounts }
    }

    #[test]
    fn waste_is_the_idle_part_of_the_effective_cost() {
        let mut sum = Efficiency::default();
        // 10 h for 30: 6 busy, 1 unknown, so 3 h and 9.00 were for nothing. What is unknown is no waste.
        sum.add(&line(Category::Usage, [10, 6, 1, 30]));
        sum.add(&line(Category::Covered, [4, 0, 4, 12]));
        sum.add(&line(Category::Unused, [2, 0, 0, 5]));
        sum.add(&line(Category::Share(OwnerKind::Idle), [9, 0, 0, 9]));
        let text = [&sum.held, &sum.idle, &sum.waste, &sum.unused, &sum.unused_cost].map(ToString::to_string);
        assert_eq!(text, ["14.000000", "3.000000", "9.000000", "2.000000", "5.000000"]);
        // 6 of the 9 hours that are known.
        assert_eq!(sum.utilisation(), Some(667.into()));
        assert_eq!(Efficiency::default().utilisation(), None);
    }
}
