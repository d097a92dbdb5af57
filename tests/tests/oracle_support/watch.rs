//! Looks at a fleet second by second, and notes who held what.
//!
//! What is metered counts where its minute begins, and minute by minute where use and allocation are compared; what was imported
//! counts in the second. What was seen is summed where nothing changes that a price depends on.

use std::collections::{BTreeSet, HashMap};

use contador::bill::commitments::{Agreements, Slot};
use contador::bill::prices::PriceBook;
use jiff::Timestamp;

use super::fleet::{Fleet, NOBODY};

const ONE: i128 = 1_000_000_000_000;

/// What one owner was seen to hold of a device, within one span and one session.
#[derive(Clone, Debug, Default)]
pub struct Held {
    pub who: usize,
    pub device: usize,
    /// The span, Unix milliseconds.
    pub from: i64,
    pub to: i64,
    pub imported: bool,
    pub fraction: bool,
    /// Start of the session, and how long it had lasted, milliseconds.
    pub session: Option<(i64, i64)>,
    /// Milliseconds.
    pub held: i64,
    /// GPU-milliseconds times `10^12`, all of these.
    pub allocated: i128,
    pub unknown: i128,
    pub busy: i128,
    pub greater: i128,
    pub instance: i128,
    /// Millijoules.
    pub energy: i128,
}

#[derive(Default)]
struct Minute {
    held: i64,
    second: i64,
    allocated: i64,
    busy: i64,
    is_known: bool,
    instance: i64,
    energy: i64,
}

#[derive(Default)]
struct Running {
    start: i64,
    minute: i64,
    lasted: i64,
}

/// Everything that was seen in the period.
pub fn watch(fleet: &Fleet, book: &PriceBook, agreements: &Agreements) -> Vec<Held> {
    let mut watch = Watch { fleet, book, agreements, ends: ends(fleet, book, agreements), seen: HashMap::new() };
    watch.metered();
    watch.imported();
    watch.seen.into_values().collect()
}

/// The instants at which something changes that any price depends on, or the local day; and the ends of the period.
pub fn ends(fleet: &Fleet, book: &PriceBook, agreements: &Agreements) -> BTreeSet<i64> {
    let (from, to) = (fleet.period.from, fleet.period.to);
    let mut ends = BTreeSet::new();
    ends.extend(book.rates.iter().map(|rate| rate.valid_from));
    ends.extend(book.energy.iter().map(|energy| energy.valid_from));
    ends.extend(book.storage.iter().map(|rate| rate.valid_from));
    ends.extend(book.network.iter().map(|rate| rate.valid_from));
    ends.extend(agreements.commitments.iter().map(|commitment| commitment.from));
    ends.extend(agreements.commitments.iter().filter_map(|commitment| commitment.to));
    let mut ends: BTreeSet<i64> = ends.into_iter().map(|second| i64::from(second) * 1_000).collect();
    // Days of every zone begin at a quarter of an hour.
    let mut at = from - from % 900_000;
    while at < to {
        if day(fleet, at) != day(fleet, at - 1) {
            ends.insert(at);
        }
        at += 900_000;
    }
    ends.retain(|at| from < *at && *at < to);
    ends.insert(from);
    ends.insert(to);
    ends
}

/// The local day of a Unix millisecond, in days since 1970.
pub fn day(fleet: &Fleet, at: i64) -> u16 {
    let date = Timestamp::from_millisecond(at).unwrap().to_zoned_datetime(fleet.period.zone.clone()).date();
    let epoch = jiff::civil::date(1970, 1, 1);
    date.since(epoch).unwrap().get_days().try_into().unwrap()
}

/// The span between two ends that an instant is in.
pub fn between(ends: &BTreeSet<i64>, at: i64) -> (i64, i64) {
    (*ends.range(..=at).next_back().unwrap(), *ends.range(at + 1..).next().unwrap())
}

struct Watch<'a> {
    fleet: &'a Fleet,
    book: &'a PriceBook,
    agreements: &'a Agreements,
    ends: BTreeSet<i64>,
    /// By owner, device, start of the span, session and allocation.
    seen: HashMap<(usize, usize, i64, Option<i64>, usize), Held>,
}

impl Watch<'_> {
    fn span(&self, at: i64, device: usize) -> (i64, i64) {
        let model = &self.fleet.devices[device].gpu_model;
        let (mut from, mut to) = between(&self.ends, at);
        for commitment in self.agreements.commitments.iter().filter(|commitment| commitment.gpu_model == *model) {
            let slot = if commitment.slot == Slot::Hour { 3_600_000 } else { 60_000 };
            from = from.max(at - at % slot);
            to = to.min(at - at % slot + slot);
        }
        (from, to)
    }

    /// Whether sessions of the model are billed in some unit.
    fn is_by_session(&self, device: usize) -> bool {
        let model = &self.fleet.devices[device].gpu_model;
        let rates = self.book.rates.iter().filter(|rate| rate.gpu_model == *model || rate.gpu_model == "*");
        rates.clone().any(|rate| rate.increment_ms > 1 || rate.minimum_ms > 0)
    }

    fn metered(&mut self) {
        for device in 0..self.fleet.devices.len() {
            let mut running: HashMap<usize, Running> = HashMap::new();
            let mut minute: Vec<(usize, Minute)> = Vec::new();
            let parts: Vec<_> = self.fleet.parts.iter().filter(|part| part.device == device).collect();
            if parts.is_empty() {
                continue;
            }
            for second in self.fleet.first..self.fleet.last {
                let is_known = self.fleet.is_known(device, second - second % 60);
                for part in parts.iter().filter(|part| part.from <= second && second < part.to) {
                    let place = minute.iter().position(|(who, _)| *who == part.who).unwrap_or(minute.len());
                    if place == minute.len() {
                        minute.push((part.who, Minute { is_known, ..Minute::default() }));
                    }
                    let row = &mut minute[place].1;
                    if row.second != second {
                        row.held += 1_000;
                        row.second = second;
                    }
                    row.allocated += part.share;
                    row.instance += part.instance;
                    row.energy += self.fleet.energy(part, second);
                    if is_known {
                        row.busy += self.fleet.busy(part, second);
                    }
                }
                if second % 60 == 59 {
                    for (who, row) in minute.drain(..) {
                        self.minute(device, who, second - 59, &row, running.entry(who).or_default());
                    }
                }
            }
        }
    }

    fn minute(&mut self, device: usize, who: usize, minute: i64, row: &Minute, running: &mut Running) {
        if running.minute + 60 != minute {
            *running = Running { start: minute, ..Running::default() };
        }
        running.minute = minute;
        let session = (running.start * 1_000, running.lasted);
        running.lasted += row.held;
        let at = minute * 1_000;
        if at < self.fleet.period.from || at >= self.fleet.period.to {
            return;
        }
        let (from, to) = self.span(at, device);
        let session = Some(session).filter(|_| who < NOBODY && self.is_by_session(device));
        let key = (who, device, from, session.map(|(start, _)| start), 0);
        let blank = Held { who, device, from, to, session, ..Held::default() };
        let held = self.seen.entry(key).or_insert(blank);
        let units = |ms: i64| i128::from(ms) * ONE;
        held.held += row.held;
        held.allocated += units(row.allocated);
        held.instance += units(row.instance);
        held.energy += i128::from(row.energy);
        if row.is_known {
            held.busy += units(row.busy);
            held.greater += units(row.busy.max(row.allocated));
        } else {
            held.unknown += units(row.allocated);
            held.greater += units(row.allocated);
        }
    }

    fn imported(&mut self) {
        for (number, import) in self.fleet.imports.iter().enumerate() {
            let by_session = self.is_by_session(import.device);
            let is_part = !self.fleet.devices[import.device].mig_profile.is_empty();
            let fraction = import.fraction < ONE;
            let mut held = Held::default();
            for second in import.from..import.to {
                let at = second * 1_000;
                if at < self.fleet.period.from || at >= self.fleet.period.to {
                    continue;
                }
                if at >= held.to {
                    self.keep(std::mem::take(&mut held), number);
                    let (from, to) = self.span(at, import.device);
                    let start = import.from * 1_000;
                    let session = by_session.then_some((start, (from - start).max(0)));
                    let (who, device) = (import.who, import.device);
                    held = Held { who, device, from, to, imported: true, fraction, session, ..Held::default() };
                }
                let units = 1_000 * import.gpus * import.fraction;
                held.held += 1_000;
                held.allocated += units;
                held.unknown += units;
                held.greater += units;
                held.instance += if is_part { units } else { 0 };
            }
            self.keep(held, number);
        }
    }

    fn keep(&mut self, held: Held, number: usize) {
        if held.held == 0 {
            return;
        }
        // Where sessions do not matter, what one owner holds of one device is one; parts of devices are told from whole ones.
        let number = if held.session.is_some() { number + 3 } else { 1 + usize::from(held.fraction) };
        let key = (held.who, held.device, held.from, held.session.map(|(start, _)| start), number);
        match self.seen.get_mut(&key) {
            None => _ = self.seen.insert(key, held),
            Some(same) => {
                same.held += held.held;
                same.allocated += held.allocated;
                same.unknown += held.unknown;
                same.greater += held.greater;
                same.instance += held.instance;
            }
        }
    }
}
