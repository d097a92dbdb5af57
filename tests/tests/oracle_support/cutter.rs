//! The facts that the rating engine is given: rows of minutes and allocations, cut where the engine asks for it, and summed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use contador::bill::commitments::Agreements;
use contador::bill::facts::{Fact, Facts, Grain, Item, OtherFact, Session};
use contador::bill::prices::PriceBook;
use contador::bill::statement;
use contador_schemas::owner::OwnerKind;

use super::fleet::{Fleet, Import};

const ONE: i128 = 1_000_000_000_000;

/// Facts of the fleet's period.
pub fn facts(fleet: &Fleet, book: &PriceBook, agreements: &Agreements) -> Facts {
    let cutter = Cutter { fleet, grain: statement::grain(book, agreements, &fleet.period) };
    let mut facts = Facts { facts: cutter.metered(), ..Facts::default() };
    facts.facts.extend(cutter.imported());
    facts.other = cutter.other();
    facts
}

struct Cutter<'a> {
    fleet: &'a Fleet,
    grain: Grain,
}

/// A row of the ledger: who held what of a device in a minute.
#[derive(Default)]
struct Minute {
    seconds: u64,
    share: i64,
    busy: i64,
    idle: i64,
    instance: i64,
    energy: i64,
}

impl Cutter<'_> {
    /// The span that an instant lies in, for a model.
    fn span(&self, at: i64, model: &str) -> (i64, i64) {
        let period = &self.fleet.period;
        let from = self.grain.cuts.iter().rev().find(|cut| **cut <= at).copied().unwrap_or(period.from);
        let to = self.grain.cuts.iter().find(|cut| **cut > at).copied().unwrap_or(period.to);
        let slot = match (self.grain.by_minute.contains(model), self.grain.by_hour.contains(model)) {
            (true, _) => 60_000,
            (_, true) => 3_600_000,
            _ => return (from, to),
        };
        let start = at - at.rem_euclid(slot);
        (from.max(start), to.min(start + slot))
    }

    fn is_by_session(&self, model: &str) -> bool {
        self.grain.all_by_session || self.grain.by_session.contains(model)
    }

    fn blank(&self, who: usize, device: usize, (from, to): (i64, i64)) -> Fact {
        let (owner, centre) = &self.fleet.owners[who];
        Fact {
            kind: owner.kind,
            owner: Arc::clone(owner),
            cost_centre: Arc::clone(centre),
            device: Arc::clone(&self.fleet.devices[device]),
            from,
            to,
            ..Fact::default()
        }
    }

    fn rows(&self) -> BTreeMap<(usize, usize, i64), Minute> {
        let mut rows: BTreeMap<(usize, usize, i64), Minute> = BTreeMap::new();
        for part in &self.fleet.parts {
            let mut from = part.from;
            while from < part.to {
                let minute = from - from % 60;
                let to = part.to.min(minute + 60);
                let is_known = self.fleet.is_known(part.device, minute);
                let row = rows.entry((part.device, part.who, minute)).or_default();
                row.share += part.share * (to - from);
                row.instance += part.instance * (to - from);
                for second in from..to {
                    row.seconds |= 1 << (second - minute);
                    row.energy += self.fleet.energy(part, second);
                    let busy = if is_known { self.fleet.busy(part, second) } else { 0 };
                    row.busy += busy;
                    row.idle += if is_known && busy == 0 { 1_000 } else { 0 };
                }
                from = to;
            }
        }
        rows
    }

    fn metered(&self) -> Vec<Fact> {
        let period = &self.fleet.period;
        let mut facts: BTreeMap<(usize, usize, i64, Option<i64>), Fact> = BTreeMap::new();
        // Start of the session, its last minute, and how long it has held the device.
        let mut sessions: HashMap<(usize, usize), (i64, i64, i64)> = HashMap::new();
        for ((device, who, minute), row) in self.rows() {
            let held = i64::from(row.seconds.count_ones()) * 1_000;
            let (start, last, lasted) = sessions.entry((device, who)).or_insert((minute, minute, 0));
            if minute > *last + 60 {
                (*start, *lasted) = (minute, 0);
            }
            *last = minute;
            let (start, before) = (*start * 1_000, *lasted);
            *lasted += held;
            let at = minute * 1_000;
            if at < period.from || at >= period.to {
                continue;
            }
            let model = &self.fleet.devices[device].gpu_model;
            let span = self.span(at, model);
            let blank = self.blank(who, device, span);
            let by_session = self.is_by_session(model) && blank.kind == OwnerKind::Workload;
            let session = by_session.then_some(Session { start, before });
            let key = (device, who, span.0, by_session.then_some(start));
            let fact = facts.entry(key).or_insert(Fact { session, ..blank });
            let is_unknown = row.busy == 0 && row.idle == 0;
            fact.held += held;
            fact.allocated += i128::from(row.share) * ONE;
            fact.unknown += if is_unknown { i128::from(row.share) * ONE } else { 0 };
            fact.busy += i128::from(row.busy) * ONE;
            fact.greater += i128::from(if is_unknown { row.share } else { row.share.max(row.busy) }) * ONE;
            fact.instance += i128::from(row.instance) * ONE;
            fact.energy_mj += i128::from(row.energy);
        }
        facts.into_values().collect()
    }

    fn imported(&self) -> Vec<Fact> {
        let mut facts: Vec<Fact> = Vec::new();
        for import in &self.fleet.imports {
            let device = &self.fleet.devices[import.device];
            let period = &self.fleet.period;
            let (mut at, end) = ((import.from * 1_000).max(period.from), (import.to * 1_000).min(period.to));
            while at < end {
                let span = self.span(at, &device.gpu_model);
                let until = end.min(span.1);
                let is_own = self.is_by_session(&device.gpu_model);
                facts.push(self.claim(import, span, until - at, is_own));
                at = until;
            }
        }
        facts
    }

    fn claim(&self, import: &Import, span: (i64, i64), held: i64, is_own: bool) -> Fact {
        let start = import.from * 1_000;
        let before = (span.0 - start).max(0);
        let allocated = i128::from(held) * import.gpus * import.fraction;
        let is_part = !self.fleet.devices[import.device].mig_profile.is_empty();
        Fact {
            imported: true,
            fraction: import.fraction < ONE,
            held,
            allocated,
            unknown: allocated,
            greater: allocated,
            instance: if is_part { allocated } else { 0 },
            session: is_own.then_some(Session { start, before }),
            ..self.blank(import.who, import.device, span)
        }
    }

    fn other(&self) -> Vec<OtherFact> {
        let mut facts = Vec::new();
        for bytes in &self.fleet.bytes {
            let period = &self.fleet.period;
            let (mut at, end) = ((bytes.from * 1_000).max(period.from), (bytes.to * 1_000).min(period.to));
            while at < end {
                let (from, to) = self.span(at, "");
                let until = end.min(to);
                let (owner, centre) = &self.fleet.owners[bytes.who];
                let times = if bytes.item == Item::Storage { until - at } else { (until - at) / 1_000 };
                facts.push(OtherFact {
                    item: bytes.item,
                    class: bytes.class.into(),
                    owner: Arc::clone(owner),
                    cost_centre: Arc::clone(centre),
                    from,
                    to,
                    quantity: bytes.bytes * i128::from(times),
                    simulated: false,
                });
                at = until;
            }
        }
        facts
    }
}
