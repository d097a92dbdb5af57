//! A fact in the making: what its owner's id means is looked up last, once for all.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use contador_schemas::owner::OwnerKind;
use uuid::Uuid;

use super::Fact;

/// A fact, the id of its owner, and the minutes that it is of.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Part {
    /// The owner's id.
    pub id: Uuid,
    /// Start of its first minute, Unix milliseconds; only of parts that may belong to a session.
    pub first: i64,
    /// End of its last minute, exclusive.
    pub end: i64,
    /// Everything but the owner.
    pub fact: Fact,
}

impl Part {
    /// Adds what another one has; both are of one owner, device, span and session.
    pub fn add(&mut self, other: &Self) {
        let (sum, part) = (&mut self.fact, &other.fact);
        sum.add(part);
        // Of a device that moved within a span, the last node by its name, however its rows were put together.
        if sum.device.node < part.device.node {
            sum.device = Arc::clone(&part.device);
        }
        self.first = self.first.min(other.first);
        self.end = self.end.max(other.end);
    }

    /// What stays the same while a device has one owner.
    pub fn key(&self) -> (&str, Uuid, i64) {
        (&self.fact.device.id, self.id, self.fact.from)
    }
}

/// Adds parts without a session to those that are there already.
pub(super) fn merge(parts: &mut Vec<Part>, more: Vec<Part>) {
    let key = |part: &Part| {
        let (device, id, from) = part.key();
        (device.to_owned(), id, from, part.fact.kind)
    };
    let mut places: HashMap<_, usize> = parts.iter().enumerate().map(|(at, part)| (key(part), at)).collect();
    for part in more {
        match places.get(&key(&part)).and_then(|at| parts.get_mut(*at)) {
            Some(same) => same.add(&part),
            None => {
                places.insert(key(&part), parts.len());
                parts.push(part);
            }
        }
    }
}

/// Takes from the unmetered time of devices what was given to somebody.
pub(super) fn take(parts: &mut Vec<Part>, given: &[Part]) {
    let mut left: HashMap<(&str, i64), Fact> = HashMap::new();
    let mut gaps = HashSet::new();
    for Part { fact, first, .. } in given {
        let sum = left.entry((&fact.device.id, fact.from)).or_default();
        sum.allocated += fact.allocated;
        sum.energy_mj += fact.energy_mj;
        // Everybody that a gap was given to held the device all the time.
        if gaps.insert((&fact.device.id, fact.from, first)) {
            sum.held += fact.held;
        }
    }
    parts.retain_mut(|Part { fact, .. }| {
        let taken = if fact.kind == OwnerKind::Unmetered { left.get(&(&*fact.device.id, fact.from)) } else { None };
        let Some(taken) = taken else { return true };
        fact.allocated -= taken.allocated;
        fact.unknown -= taken.allocated;
        fact.greater -= taken.allocated;
        fact.energy_mj -= taken.energy_mj;
        fact.held -= taken.held;
        (fact.held, fact.allocated, fact.energy_mj) != (0, 0, 0)
    });
}
