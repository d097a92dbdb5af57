//! Facts in the order in which they are laid end to end, with the rows of one fact put together.

use std::cmp::Ordering;
use std::sync::Arc;

use super::rank::Ranks;
use crate::bill::facts::Fact;

/// Facts in a fixed order, those of one owner, device, span and session put together. An imported allocation is a session of its own,
/// whatever else began in the same instant: where sessions are told, it stays as it is.
pub fn merged(facts: &[Fact]) -> Vec<Fact> {
    let ranks = Ranks::of(facts.iter().map(|fact| &fact.owner));
    let mut sorted: Vec<(u32, &Fact)> = facts.iter().map(|fact| (ranks.place(&fact.owner), fact)).collect();
    sorted.sort_by(|a, b| order(*a, *b));
    let mut merged: Vec<Fact> = Vec::with_capacity(sorted.len());
    let mut last = 0;
    for (place, fact) in sorted {
        match merged.last_mut() {
            Some(same) if order((last, same), (place, fact)).is_eq() && !is_own(fact) => same.add(fact),
            _ => merged.push(fact.clone()),
        }
        last = place;
    }
    merged
}

/// Whether a fact is of an imported allocation that nothing may be added to.
fn is_own(fact: &Fact) -> bool {
    fact.imported && fact.session.is_some()
}

/// By whose (the places of the owners), of what, when, and in which session; those of allocations by their amounts, too.
fn order((place_of_a, a): (u32, &Fact), (place_of_b, b): (u32, &Fact)) -> Ordering {
    let spans = |fact: &Fact| (fact.from, fact.to, fact.session, fact.imported, fact.simulated, fact.fraction);
    let own = |fact: &Fact| Some((fact.held, fact.allocated)).filter(|_| is_own(fact));
    a.kind
        .cmp(&b.kind)
        .then_with(|| place_of_a.cmp(&place_of_b))
        .then_with(|| a.cost_centre.cmp(&b.cost_centre))
        .then_with(|| if Arc::ptr_eq(&a.device, &b.device) { Ordering::Equal } else { a.device.cmp(&b.device) })
        .then_with(|| spans(a).cmp(&spans(b)))
        .then_with(|| own(a).cmp(&own(b)))
}
