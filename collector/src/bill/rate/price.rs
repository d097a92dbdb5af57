//! The price of one fact: its rate, and the quantity that the rate is multiplied with.

use contador_schemas::owner::OwnerKind;
use num_bigint::BigInt;
use num_traits::ToPrimitive;

use crate::bill::facts::Fact;
use crate::bill::prices::{ANY, Basis, Consumption, PriceBook, Rate};

/// What a fact is priced with.
#[derive(Clone, Copy, Debug)]
pub struct Price<'a> {
    /// By which model it is consumed; `None` for nobody's time.
    pub consumption: Option<Consumption>,
    /// Nothing if it is unpriced.
    pub rate: Option<&'a Rate>,
    /// GPU-milliseconds, or those of an instance, times `10^12`.
    pub quantity: i128,
}

/// Finds the price of a fact.
pub fn price<'a>(book: &'a PriceBook, fact: &Fact) -> Price<'a> {
    let is_part = fact.is_partition() || fact.fraction;
    let consumption = book.consumption_of(&fact.owner, &fact.device.gpu_model, is_part);
    let rate = book.rate(&fact.device, &fact.owner, Some(consumption), fact.from);
    let consumption = Some(consumption).filter(|_| fact.kind == OwnerKind::Workload);
    Price { consumption, rate, quantity: rate.map_or(fact.allocated, |rate| quantity(rate, fact)) }
}

/// Whether the rate is for hours of an instance, and not of a whole GPU.
pub fn is_by_instance(rate: &Rate) -> bool {
    rate.mig_profile.as_deref().is_some_and(|profile| profile != ANY)
}

/// What the rate is multiplied with: GPU-milliseconds, or those of an instance, times `10^12`. Nobody's time has neither a basis nor
/// increments.
fn quantity(rate: &Rate, fact: &Fact) -> i128 {
    if fact.kind != OwnerKind::Workload {
        return if is_by_instance(rate) { fact.instance } else { fact.allocated };
    }
    let used = match rate.basis {
        Basis::Allocated => fact.allocated,
        Basis::Used => fact.busy + fact.unknown,
        Basis::Greater => fact.greater,
    };
    let used = if !is_by_instance(rate) {
        used
    } else if used == fact.allocated {
        fact.instance
    } else {
        proportion(fact.instance, used, fact.allocated)
    };
    let Some(session) = fact.session.filter(|_| rate.is_by_session() && fact.held > 0) else { return used };
    let billed = rate.billed_ms(session.before + fact.held) - rate.billed_ms(session.before);
    // What is billed beside what was held counts with the session's share of the device.
    used + i128::from(billed - fact.held) * (used / i128::from(fact.held))
}

/// `amount × part / whole`, rounded down; nothing of nothing.
pub fn proportion(amount: i128, part: i128, whole: i128) -> i128 {
    if whole == 0 {
        return 0;
    }
    let exact = BigInt::from(amount) * part / whole;
    exact.to_i128().unwrap_or(amount)
}
