//! What a period must come to, exactly.

use contador::bill::commitments::{Agreements, Commitment, Slot};
use contador::bill::prices::{Basis, Energy, PriceBook, Rate};
use contador_schemas::owner::{Owner, OwnerKind};
use num_bigint::BigInt;

use super::fleet::Fleet;
use super::fraction::Fraction;
use super::row::{self, BUSY, CARBON, COST, EFFECTIVE, ENERGY, HELD, QUANTITY, Row, Rows, SITE, UNKNOWN, UNPRICED};
use super::watch::{self, Held, watch};
use super::{bytes, choose, nobody};

const ONE: i128 = 1_000_000_000_000;

fn hour() -> BigInt {
    BigInt::from(3_600_000) * ONE
}

fn kwh() -> BigInt {
    BigInt::from(3_600_000_000_i64)
}

/// `amount × part / whole`, rounded down.
fn floor(amount: i128, part: i128, whole: i128) -> i128 {
    if whole == 0 { 0 } else { (BigInt::from(amount) * part / whole).try_into().unwrap() }
}

/// The exact bill.
pub fn bill(fleet: &Fleet, book: &PriceBook, agreements: &Agreements) -> Rows {
    let mut held = watch(fleet, book, agreements);
    held.sort_by(|a, b| order(fleet, a).cmp(&order(fleet, b)));
    let mut oracle = Oracle { fleet, book, agreements, rows: Rows::new() };
    let covered = oracle.cover(&held);
    for (held, covered) in held.iter().zip(&covered) {
        oracle.held(held, covered);
    }
    let mut rows = oracle.rows;
    bytes::charge(&mut rows, fleet, book, agreements);
    nobody::share(&mut rows, &book.policy);
    nobody::percentages(&mut rows, book, fleet.period.from);
    rows
}

/// The order in which what is covered is laid end to end.
fn order<'a>(fleet: &'a Fleet, held: &Held) -> impl Ord + use<'a> {
    let (owner, centre) = &fleet.owners[held.who];
    let device = &fleet.devices[held.device];
    let claim = Some((held.held, held.allocated)).filter(|_| held.imported && held.session.is_some());
    (owner.kind, owner, centre, device, (held.from, held.to, held.session, held.imported, held.fraction, claim))
}

struct Oracle<'a> {
    fleet: &'a Fleet,
    book: &'a PriceBook,
    agreements: &'a Agreements,
    rows: Rows,
}

impl Oracle<'_> {
    fn owner(&self, held: &Held) -> &Owner {
        &self.fleet.owners[held.who].0
    }

    fn add(&mut self, row: &Row, measure: usize, above: impl Into<BigInt>, below: &BigInt) {
        row::add(&mut self.rows, row, measure, &Fraction::new(above, below));
    }

    /// By what is seen: which commitments cover how much of it. What they cost, and what is left of them, become lines.
    fn cover(&mut self, seen: &[Held]) -> Vec<Vec<(usize, i128)>> {
        let mut covered = vec![Vec::new(); seen.len()];
        let mut order: Vec<usize> = (0..self.agreements.commitments.len()).collect();
        order.sort_by_key(|at| (self.agreements.commitments[*at].from, self.agreements.commitments[*at].id.clone()));
        for at in order {
            let commitment = &self.agreements.commitments[at];
            let slot = if commitment.slot == Slot::Hour { 3_600_000 } else { 60_000 };
            let begins = (i64::from(commitment.from) * 1_000).max(self.fleet.period.from);
            let ends = commitment.to.map_or(i64::MAX, |to| i64::from(to) * 1_000).min(self.fleet.period.to);
            let mut start = begins - begins % slot;
            while begins < ends && start < ends {
                let (from, to) = (start.max(begins), ends.min(start + slot));
                self.slot(at, (from, to), seen, &mut covered);
                start += slot;
            }
        }
        covered
    }

    fn slot(&mut self, at: usize, (from, to): (i64, i64), seen: &[Held], covered: &mut [Vec<(usize, i128)>]) {
        let commitment = self.agreements.commitments[at].clone();
        let bought = i128::from(commitment.gpus) * i128::from(to - from) * ONE;
        let mut free = bought;
        for kind in [OwnerKind::Workload, OwnerKind::Idle] {
            let of = |number: &usize| {
                let held = &seen[*number];
                let (owner, device) = (self.owner(held), &self.fleet.devices[held.device]);
                owner.kind == kind
                    && (kind == OwnerKind::Idle || owner.department == commitment.department)
                    && device.gpu_model == commitment.gpu_model
                    && commitment.mig_profile.as_ref().is_none_or(|profile| *profile == device.mig_profile)
                    && (from..to).contains(&held.from)
            };
            let numbers: Vec<usize> = (0..seen.len()).filter(of).collect();
            let left = |number: &usize| self.left(&commitment, &seen[*number], &covered[*number]);
            let left: Vec<i128> = numbers.iter().map(left).collect();
            let all: i128 = left.iter().sum();
            let capacity = free.min(all);
            let mut before = 0;
            for (number, left) in numbers.into_iter().zip(left) {
                let part = floor(capacity, before + left, all) - floor(capacity, before, all);
                before += left;
                if part > 0 {
                    covered[number].push((at, part));
                }
            }
            free -= capacity;
            if kind == OwnerKind::Workload {
                self.commitment(&commitment, bought, free, from);
            }
        }
    }

    /// What no commitment has covered yet: each covers GPU time or time of instances, and nothing is covered by both.
    fn left(&self, commitment: &Commitment, held: &Held, covered: &[(usize, i128)]) -> i128 {
        let others = covered.iter().map(|(at, _)| &self.agreements.commitments[*at]);
        if others.clone().any(|other| other.mig_profile.is_some() != commitment.mig_profile.is_some()) {
            return 0;
        }
        let whole = if commitment.mig_profile.is_some() { held.instance } else { held.allocated };
        whole - covered.iter().map(|(_, part)| part).sum::<i128>()
    }

    fn commitment(&mut self, commitment: &Commitment, bought: i128, unused: i128, slot: i64) {
        let row = Row {
            department: commitment.department.clone(),
            category: "commitment".into(),
            item: commitment.id.clone(),
            model: commitment.gpu_model.clone(),
            profile: commitment.mig_profile.clone().unwrap_or_default(),
            price: Some(commitment.hourly),
            ..Row::default()
        };
        self.add(&row, QUANTITY, bought, &hour());
        self.add(&row, COST, BigInt::from(bought) * commitment.hourly, &(hour() * ONE));
        let row = Row { category: "unused".into(), day: Some(watch::day(self.fleet, slot)), ..row };
        self.add(&row, QUANTITY, unused, &hour());
        self.add(&row, EFFECTIVE, BigInt::from(unused) * commitment.hourly, &(hour() * ONE));
    }

    fn held(&mut self, held: &Held, covered: &[(usize, i128)]) {
        let owner = self.owner(held).clone();
        let workload = owner.kind == OwnerKind::Workload;
        let device = &self.fleet.devices[held.device];
        let consumption = choose::consumption(self.book, &owner, device, held.fraction);
        let rate = choose::rate(self.book, &owner, device, consumption, held.from).cloned();
        let energy = choose::energy(self.book, &device.node, held.from).cloned();
        let row = Row {
            kind: owner.kind,
            department: owner.department.clone(),
            project: owner.project.clone(),
            environment: owner.environment.clone(),
            centre: self.fleet.owners[held.who].1.to_string(),
            model: device.gpu_model.clone(),
            profile: device.mig_profile.clone(),
            consumption: if workload { consumption.as_str().to_owned() } else { String::new() },
            day: Some(watch::day(self.fleet, held.from)),
            imported: held.imported,
            ..Row::default()
        };
        let by_instance = covered.first().is_some_and(|(at, _)| self.agreements.commitments[*at].mig_profile.is_some());
        let whole = if by_instance { held.instance } else { held.allocated };
        let (mut until, mut told) = (0, [0; 4]);
        for (at, part) in covered {
            let commitment = self.agreements.commitments[*at].clone();
            let (category, item) = ("covered".into(), commitment.id.clone());
            let row = Row { category, item, price: Some(commitment.hourly), ..row.clone() };
            until += part;
            let lies = measures(held).map(|amount| floor(amount, until, whole));
            self.told(&row, lies, told, energy.as_ref());
            told = lies;
            self.add(&row, QUANTITY, *part, &hour());
            if workload {
                self.add(&row, EFFECTIVE, BigInt::from(*part) * commitment.hourly, &(hour() * ONE));
            }
        }
        if until < whole || covered.is_empty() {
            let hourly = rate.as_ref().map(|rate| rate.hourly);
            let row = Row { category: "usage".into(), price: hourly, ..row.clone() };
            self.told(&row, measures(held), told, energy.as_ref());
            if let Some(rate) = rate {
                let quantity = quantity(&rate, held, workload);
                let left = quantity - floor(quantity, until, whole);
                self.add(&row, QUANTITY, left, &hour());
                for measure in [COST, EFFECTIVE] {
                    self.add(&row, measure, BigInt::from(left) * rate.hourly, &(hour() * ONE));
                }
            } else {
                self.add(&row, UNPRICED, held.allocated - told[0], &hour());
            }
        }
        if let Some(energy) = energy.filter(|_| self.book.energy_is_a_line) {
            let row = Row { category: "energy".into(), price: Some(energy.tariff), ..row };
            let site = BigInt::from(held.energy) * energy.pue;
            self.add(&row, QUANTITY, site.clone(), &(kwh() * ONE));
            for measure in [COST, EFFECTIVE] {
                self.add(&row, measure, &site * energy.tariff, &(kwh() * ONE * ONE));
            }
        }
    }

    /// Adds what lies between two places of what was held.
    fn told(&mut self, row: &Row, until: [i128; 4], from: [i128; 4], price: Option<&Energy>) {
        let part = |at: usize| until[at] - from[at];
        self.add(row, HELD, part(0), &hour());
        self.add(row, BUSY, part(1), &hour());
        self.add(row, UNKNOWN, part(2), &hour());
        self.add(row, ENERGY, part(3), &kwh());
        if let Some(price) = price {
            let site = BigInt::from(part(3)) * price.pue;
            let carbon = &site * price.carbon_g_per_kwh.unwrap_or(0);
            self.add(row, SITE, site, &(kwh() * ONE));
            self.add(row, CARBON, carbon, &(kwh() * ONE * ONE));
        }
    }
}

fn measures(held: &Held) -> [i128; 4] {
    [held.allocated, held.busy, held.unknown, held.energy]
}

/// What a rate is multiplied with: GPU-milliseconds times `10^12`, or those of an instance.
fn quantity(rate: &Rate, held: &Held, workload: bool) -> i128 {
    let by_instance = rate.mig_profile.as_deref().is_some_and(|profile| profile != "*");
    let basis = if workload { rate.basis } else { Basis::Allocated };
    let of_gpu = match basis {
        Basis::Allocated => held.allocated,
        Basis::Used => held.busy + held.unknown,
        Basis::Greater => held.greater,
    };
    let used = if by_instance { floor(held.instance, of_gpu, held.allocated) } else { of_gpu };
    let Some((_, before)) = held.session.filter(|_| workload) else { return used };
    let billed = billed(rate, before + held.held) - billed(rate, before);
    used + i128::from(billed - held.held) * (used / i128::from(held.held))
}

/// What a session is billed for after so many milliseconds.
fn billed(rate: &Rate, lasted: i64) -> i64 {
    let increment = i64::from(rate.increment_ms.max(1));
    let mut billed = lasted - lasted % increment;
    if billed < lasted {
        billed += increment;
    }
    if lasted == 0 { 0 } else { billed.max(i64::from(rate.minimum_ms)) }
}
