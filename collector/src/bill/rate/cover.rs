//! Commitments over facts: what of which fact is covered by whom, slot by slot, and what is left unused.

use std::collections::{BTreeMap, HashMap};

use contador_schemas::owner::OwnerKind;
use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use crate::bill::commitments::Commitment;
use crate::bill::decimal::ONE;
use crate::bill::facts::Fact;
use crate::bill::period::Period;

/// What commitments cover.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// By fact: which commitment, and how much of the fact, in the unit of [`covered_of`].
    pub of_fact: HashMap<usize, Vec<(usize, i128)>>,
    /// By commitment: what it has in the period, GPU-milliseconds (or those of instances) times `10^12`.
    pub bought: Vec<i128>,
    /// By commitment, and by the Unix millisecond from which it holds on a local day: what was used by nobody of the slots that begin
    /// on that day.
    pub unused: BTreeMap<(usize, i64), i128>,
}

/// What of a fact a commitment can cover: GPU time, or time of an instance if it is for instances.
pub fn covered_of(commitment: &Commitment, fact: &Fact) -> i128 {
    if commitment.mig_profile.is_some() { fact.instance } else { fact.allocated }
}

/// Covers facts, which must be sorted, merged, and cut at slots and at the ends of commitments. Commitments are taken in the order of
/// their starts, and of their ids.
pub fn cover(facts: &[Fact], commitments: &[Commitment], period: &Period) -> Coverage {
    let mut coverage = Coverage { bought: vec![0; commitments.len()], ..Coverage::default() };
    let mut order: Vec<usize> = (0..commitments.len()).collect();
    order.sort_by_key(|at| (commitments[*at].from, &commitments[*at].id));
    let mut of_model: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, fact) in facts.iter().enumerate() {
        of_model.entry(&fact.device.gpu_model).or_default().push(number);
    }
    let midnights = period.midnights();
    for at in order {
        let commitment = &commitments[at];
        let valid = valid(commitment, period);
        coverage.days(at, commitment, &days(commitment, valid, &midnights));
        let numbers = of_model.get(commitment.gpu_model.as_str()).map_or(&[][..], Vec::as_slice);
        for (start, [users, idle]) in slots(facts, numbers, commitment, valid) {
            let (from, to) = (start.max(valid.0), valid.1.min(start + commitment.slot.ms()));
            let capacity = capacity(commitment, from, to);
            let of = |number: &usize| left(&coverage, commitments, commitment, *number, &facts[*number]);
            let used: Vec<i128> = users.iter().map(of).collect();
            let free: Vec<i128> = idle.iter().map(of).collect();
            let covered = lay(capacity, &used);
            let whole: i128 = covered.iter().sum();
            let resting = lay(capacity - whole, &free);
            for (number, part) in users.into_iter().zip(covered).chain(idle.into_iter().zip(resting)) {
                if part > 0 {
                    coverage.of_fact.entry(number).or_default().push((at, part));
                }
            }
            if let Some((_, unused)) = coverage.unused.range_mut((at, i64::MIN)..=(at, from)).next_back() {
                *unused -= whole;
            }
        }
    }
    coverage
}

impl Coverage {
    /// Counts what a commitment has, all of it unused.
    fn days(&mut self, at: usize, commitment: &Commitment, days: &[(i64, i64)]) {
        for (from, to) in days {
            let capacity = capacity(commitment, *from, *to);
            self.bought[at] += capacity;
            self.unused.insert((at, *from), capacity);
        }
    }
}

/// What a commitment has from one instant to another, GPU-milliseconds times `10^12`.
fn capacity(commitment: &Commitment, from: i64, to: i64) -> i128 {
    i128::from(commitment.gpus) * i128::from(to - from) * ONE
}

/// The local days within which a commitment holds, cut where the first slot of a day begins: a slot belongs to the day that it begins on.
fn days(commitment: &Commitment, (begins, ends): (i64, i64), midnights: &[i64]) -> Vec<(i64, i64)> {
    let slot = commitment.slot.ms();
    let first = |midnight: &i64| midnight + (-midnight).rem_euclid(slot);
    let mut starts = vec![begins];
    starts.extend(midnights.iter().map(first).filter(|start| begins < *start && *start < ends));
    let stops: Vec<i64> = starts.iter().skip(1).copied().chain([ends]).collect();
    starts.into_iter().zip(stops).filter(|(start, stop)| start < stop).collect()
}

/// By the start of a slot: the facts in it that a commitment covers, and those of idle time.
fn slots(
    facts: &[Fact],
    numbers: &[usize],
    commitment: &Commitment,
    (begins, ends): (i64, i64),
) -> BTreeMap<i64, [Vec<usize>; 2]> {
    let mut slots: BTreeMap<i64, [Vec<usize>; 2]> = BTreeMap::new();
    for number in numbers {
        let fact = &facts[*number];
        let Some(role) = role(commitment, fact).filter(|_| begins <= fact.from && fact.to <= ends) else { continue };
        let start = fact.from - fact.from.rem_euclid(commitment.slot.ms());
        slots.entry(start).or_default()[role].push(*number);
    }
    slots
}

/// What of a fact no commitment has covered yet. A fact is covered either by its GPU time or by its instance's, never by both.
fn left(coverage: &Coverage, all: &[Commitment], commitment: &Commitment, number: usize, fact: &Fact) -> i128 {
    let by = coverage.of_fact.get(&number).map_or(&[][..], Vec::as_slice);
    if by.iter().any(|(at, _)| all[*at].mig_profile.is_some() != commitment.mig_profile.is_some()) {
        return 0;
    }
    covered_of(commitment, fact) - by.iter().map(|(_, part)| part).sum::<i128>()
}

/// The part of the period in which a commitment holds.
fn valid(commitment: &Commitment, period: &Period) -> (i64, i64) {
    let begins = (i64::from(commitment.from) * 1_000).max(period.from);
    let ends = commitment.to.map_or(i64::MAX, |to| i64::from(to) * 1_000).min(period.to);
    (begins, ends.max(begins))
}

/// 0 for use that the commitment covers, 1 for idle time of the same GPUs, nothing for the rest.
fn role(commitment: &Commitment, fact: &Fact) -> Option<usize> {
    if commitment.mig_profile.as_ref().is_some_and(|profile| *profile != fact.device.mig_profile) {
        return None;
    }
    match fact.kind {
        OwnerKind::Workload if fact.owner.department == commitment.department => Some(0),
        OwnerKind::Idle => Some(1),
        _ => None,
    }
}

/// Lays a capacity over parts in their order: all of each if it is enough, else in proportion, in whole numbers that sum to it.
fn lay(capacity: i128, parts: &[i128]) -> Vec<i128> {
    let sum: i128 = parts.iter().sum();
    if sum <= capacity {
        return parts.to_vec();
    }
    let (capacity, sum) = (BigInt::from(capacity), BigInt::from(sum));
    let (mut before, mut laid) = (BigInt::zero(), 0_i128);
    let part = |part: &i128| {
        before += *part;
        let until = (&capacity * &before / &sum).to_i128().unwrap_or(laid);
        let part = until - laid;
        laid = until;
        part
    };
    parts.iter().map(part).collect()
}
