//! A model of the ledger that is written otherwise: all that was so is known, parts are exact fractions, and a minute is
//! summed up at the end.

use std::collections::BTreeMap;

use contador_schemas::owner::{Owner, OwnerKind};
use proptest::prelude::*;

use super::slices::{Board, Slices, weights};
use super::tick::holders;
use super::*;
use crate::owners::Identified;
use crate::owners::claim::Part;

/// Sums of fractions are known to this part of a unit, from below and from above.
const SCALE: u128 = 1_000_000_000;

/// Who was given a device, and whose processes are on it with which use, percent.
#[derive(Clone, Debug, Default)]
pub struct Use {
    pub given: Vec<(u8, Option<u32>)>,
    pub processes: Vec<(u8, Option<u8>)>,
    pub utilization_ppm: Option<u32>,
}

/// What is so from a tick on.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub gpu: Use,
    /// Of each instance: number, compute and memory slices.
    pub split: Option<Vec<(u8, u32, u32, Use)>>,
}

fn uses() -> impl Strategy<Value = Use> {
    let part =
        prop_oneof![3 => Just(None), 3 => (1_u32..400_000).prop_map(Some), 1 => (0_u32..=u32::MAX).prop_map(Some)];
    let given = prop::collection::vec((0_u8..6, part), 0..4);
    let processes = prop::collection::vec((0_u8..8, prop::option::of(0_u8..=100)), 0..4);
    let utilization = prop_oneof![Just(None), Just(Some(0)), (0_u32..=1_000_000).prop_map(Some)];
    (given, processes, utilization).prop_map(|(given, processes, utilization_ppm)| Use {
        given,
        processes,
        utilization_ppm,
    })
}

pub fn state() -> impl Strategy<Value = State> {
    // 1g, 1g with twice the memory, 2g, 3g, 4g and 7g; layouts that no GPU has are among them.
    let profile = prop::sample::select(vec![(1, 1), (1, 2), (2, 2), (3, 4), (4, 4), (7, 8)]);
    let instances = prop::collection::btree_map(0_u8..5, (profile, uses()), 0..5);
    let instances = instances.prop_map(|all| {
        all.into_iter().map(|(number, ((compute, memory), used))| (number, compute, memory, used)).collect()
    });
    (uses(), prop::option::weighted(0.6, instances)).prop_map(|(gpu, split)| State { gpu, split })
}

pub fn uuid(gpu: &str, number: u8) -> String {
    format!("MIG-{number} of {gpu}")
}

pub fn owner(who: u8) -> Owner {
    Owner { department: who.to_string(), ..Owner::default() }
}

fn held_by(used: &Use) -> Vec<Holder> {
    let owners: Vec<Identified> = (0..8).map(|who| owner(who).into()).collect();
    let of = |who: u8| &owners[usize::from(who)];
    let given = used.given.iter().map(|(who, ppm)| (ppm.map_or(Part::Even, Part::Ppm), of(*who)));
    holders(given, used.processes.iter().map(|(who, sm)| (of(*who), u64::from(*who) << 20, sm.map(f64::from))))
}

pub fn tick_of(device: &str, instant_ms: i64, energy_mj: Option<u64>, state: &State) -> Tick {
    let split = state.split.as_ref().map(|all| {
        let slices = |(number, compute, memory, _): &(u8, u32, u32, Use)| Slices {
            gpu_instance: u32::from(*number),
            compute: Some(*compute),
            memory: Some(*memory),
        };
        let weights = weights(&all.iter().map(slices).collect::<Vec<_>>(), Board::default());
        let instance = |((number, _, _, used), weight): (&(u8, u32, u32, Use), u64)| Instance {
            device: uuid(device, *number),
            weight,
            holders: held_by(used),
            utilization_ppm: used.utilization_ppm,
        };
        all.iter().zip(weights).map(instance).collect()
    });
    Tick {
        device: device.into(),
        simulated: true,
        instant_ms,
        holders: held_by(&state.gpu),
        utilization_ppm: state.gpu.utilization_ppm,
        energy_mj,
        split,
    }
}

/// What a timeline has taken in: an instant up to which time is booked, by how much the counter rose until then, what is so
/// from then on, and whether nobody looked before.
#[derive(Clone)]
struct Seen {
    instant_ms: i64,
    rise: u64,
    state: State,
    blind: bool,
}

/// Minutes without a hole between them: from when on, and what was seen in them.
#[derive(Clone)]
pub struct Run {
    begin_ms: i64,
    seen: Vec<Seen>,
}

impl Run {
    fn covered_ms(&self) -> i64 {
        self.seen.last().map_or(self.begin_ms, |last| last.instant_ms)
    }

    /// Nobody looks until `instant_ms`.
    fn miss(&mut self, instant_ms: i64, rise: u64) {
        self.seen.push(Seen { instant_ms, rise, state: State::default(), blind: true });
    }
}

/// What is known of a device, and whether nobody looks until its next tick.
#[derive(Clone, Default)]
pub struct Known {
    pub runs: Vec<Run>,
    counter: Option<u64>,
    last_seen_ms: i64,
    pub blind: bool,
}

impl Known {
    pub fn tick(&mut self, instant_ms: i64, reading: Option<u64>, state: &State) {
        let covered_ms = self.runs.last().map_or(i64::MIN, Run::covered_ms);
        if self.runs.is_empty() {
            self.begin(minute(instant_ms));
        } else if instant_ms < covered_ms - MAX_GAP_MS {
            // What was before is of a clock that was wrong.
            *self = Self { runs: std::mem::take(&mut self.runs), last_seen_ms: instant_ms, ..Self::default() };
            return self.begin(minute(instant_ms) + MINUTE_MS);
        } else if instant_ms <= covered_ms {
            self.last_seen_ms = self.last_seen_ms.max(instant_ms);
            return;
        }
        self.last_seen_ms = instant_ms;
        let mut rise = match (self.counter, reading) {
            (Some(before), Some(now)) if now >= before => now - before,
            (Some(_), Some(now)) => now,
            _ => 0,
        };
        self.counter = reading.or(self.counter);
        let mut blind = std::mem::take(&mut self.blind);
        if covered_ms != i64::MIN && instant_ms - covered_ms > MAX_GAP_MS {
            let risen = |at: i64| {
                let part = u128::from(rise) * u128::from(at.abs_diff(covered_ms));
                u64::try_from(part / u128::from(instant_ms.abs_diff(covered_ms))).unwrap()
            };
            let last = rise - risen(minute(instant_ms));
            let first = risen(minute(covered_ms) + MINUTE_MS);
            self.skip(minute(instant_ms), first);
            (rise, blind) = (last, true);
        }
        let seen = Seen { instant_ms, rise, state: state.clone(), blind };
        self.runs.last_mut().unwrap().seen.push(seen);
    }

    /// Without a tick for an hour its minutes are over, for a day.
    pub fn advance(&mut self, now_ms: i64) {
        let Some(run) = self.runs.last_mut() else { return };
        let (covered_ms, end) = (run.covered_ms(), minute(now_ms));
        if covered_ms - self.last_seen_ms > MAX_GAP_MS || now_ms - covered_ms <= CLOSE_AFTER_MS || end <= covered_ms {
            return;
        }
        match end - covered_ms > MAX_GAP_MS {
            true => self.skip(end, 0),
            false => run.miss(end, 0),
        }
        self.blind = true;
    }

    fn begin(&mut self, begin_ms: i64) {
        self.runs.push(Run { begin_ms, seen: Vec::new() });
    }

    /// The minute that is open is the last one before a hole until `begin_ms`.
    fn skip(&mut self, begin_ms: i64, rise: u64) {
        let run = self.runs.last_mut().unwrap();
        run.miss(minute(run.covered_ms()) + MINUTE_MS, rise);
        self.begin(begin_ms);
    }
}

fn minute(ms: i64) -> i64 {
    ms / MINUTE_MS * MINUTE_MS
}

/// What one owner must have of a minute: share, busy time and energy from below and from above, and time held, time without
/// work and memory.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub parts: [(u128, u128); 3],
    pub whole: [u64; 3],
}

/// By device, start of the minute and owner.
pub type Books = BTreeMap<(String, i64, Owner), Expected>;

/// A fraction of something: numerator and denominator.
type Fraction = (u128, u128);

/// A piece of time of a device: from when to when, its part of that time, and its energy.
#[derive(Clone, Copy)]
struct Span {
    from: i64,
    to: i64,
    share: Fraction,
    energy: Fraction,
}

/// Who has what part of a device: parts of `whole`, by the order of owners' ids, and idle's at the end.
fn parts(used: &Use) -> (Vec<(Owner, u128)>, u128, u128) {
    let mut parts: BTreeMap<u8, Option<Option<u64>>> = BTreeMap::new();
    for (who, ppm) in &used.given {
        let before = parts.get(who).copied().flatten().flatten();
        let sum = match (before, ppm) {
            (None, None) => None,
            (one, other) => Some((one.unwrap_or(0) + u64::from(other.unwrap_or(0))).min(u64::from(u32::MAX))),
        };
        parts.insert(*who, Some(sum));
    }
    let nobody_was_given = used.given.is_empty();
    for (who, _) in &used.processes {
        parts.entry(*who).or_insert(nobody_was_given.then_some(None));
    }
    let requested: u128 = parts.values().flatten().flatten().map(|ppm| u128::from(*ppm)).sum();
    let evens = parts.values().flatten().filter(|ppm| ppm.is_none()).count() as u128;
    let million = 1_000_000_u128;
    let (whole, idle) = match (evens, requested) {
        (0, requested) if requested <= million => (million, million - requested),
        (0, requested) => (requested, 0),
        (evens, requested) if requested < million => (million * evens, 0),
        _ => (parts.values().flatten().count() as u128, 0),
    };
    let numerator = |part: Option<Option<u64>>| match part {
        None => 0,
        Some(_) if evens > 0 && requested >= million => 1,
        Some(Some(ppm)) => u128::from(ppm) * evens.max(1),
        Some(None) => million - requested,
    };
    let mut all: Vec<(Owner, u128)> = parts.into_iter().map(|(who, part)| (owner(who), numerator(part))).collect();
    all.sort_by_key(|(owner, _)| owner.id());
    (all, idle, whole)
}

/// Who uses a device how much, in the order of [`parts`]: parts of the sum.
fn used_by(used: &Use, owners: &[(Owner, u128)]) -> (Vec<u128>, u128) {
    let percents = |who: &Owner| {
        let own = used.processes.iter().filter(|(process, _)| owner(*process) == *who);
        own.map(|(_, percent)| percent.map(u128::from)).sum::<Option<u128>>()
    };
    let measured: Option<Vec<u128>> = owners.iter().map(|(owner, _)| percents(owner)).collect();
    let by_part: Vec<u128> = owners.iter().map(|(_, part)| *part).collect();
    let mut uses = measured.filter(|uses| uses.iter().sum::<u128>() > 0).unwrap_or(by_part);
    if uses.iter().sum::<u128>() == 0 {
        uses.fill(1);
    }
    let sum = uses.iter().sum();
    (uses, sum)
}

fn times((one, of): Fraction, (other, whole): Fraction) -> Fraction {
    (one * other, of * whole)
}

/// Books what a device has of a piece.
fn book(books: &mut Books, device: &str, span: Span, used: &Use, nobody: OwnerKind) {
    let minute = minute(span.from);
    let length = span.to.abs_diff(span.from);
    let mut add = |owner: Owner, parts: [Fraction; 3], whole: [u64; 2]| {
        let expected = books.entry((device.to_owned(), minute, owner)).or_default();
        for ((low, high), (part, of)) in expected.parts.iter_mut().zip(parts) {
            *low += part * SCALE / of;
            *high += (part * SCALE).div_ceil(of);
        }
        let more = [length, whole[0], whole[1]];
        expected.whole.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    };
    let busy = times(span.share, (used.utilization_ppm.unwrap_or(0).into(), 1_000_000));
    let (owners, idle, whole) = parts(used);
    if owners.is_empty() {
        if span.share.0 > 0 || nobody != OwnerKind::Stranded {
            add(Owner::of_kind(nobody), [span.share, busy, span.energy], [0, 0]);
        }
        return;
    }
    let (uses, of) = used_by(used, &owners);
    let unused = if used.utilization_ppm == Some(0) { length } else { 0 };
    for ((who, part), part_used) in owners.iter().zip(uses) {
        let mib: u64 = (0..8).filter(|who_else| owner(*who_else) == *who).map(u64::from).sum();
        let processes = used.processes.iter().filter(|(process, _)| owner(*process) == *who).count() as u64;
        let by_use = (part_used, of);
        let parts = [times(span.share, (*part, whole)), times(busy, by_use), times(span.energy, by_use)];
        add(who.clone(), parts, [unused, mib * processes * length]);
    }
    if idle > 0 && span.share.0 > 0 {
        add(Owner::of_kind(OwnerKind::Idle), [times(span.share, (idle, whole)), (0, 1), (0, 1)], [0, 0]);
    }
}

/// Books a piece of a GPU that is split, for its instances and itself.
fn book_split(books: &mut Books, device: &str, span: Span, split: &[(u8, u32, u32, Use)], used: &Use) {
    // In 56ths of the GPU.
    let weight = |(_, compute, memory, _): &(u8, u32, u32, Use)| u128::from((compute * 8).max(memory * 7));
    let mut shares: Vec<u128> = split.iter().map(weight).collect();
    let rest = 56_u128.saturating_sub(shares.iter().sum());
    let rest_is_held = !used.given.is_empty() || !used.processes.is_empty();
    let rest_draws = if split.is_empty() || rest_is_held { rest } else { 0 };
    let works = |instance: &(u8, u32, u32, Use)| Some(weight(instance) * u128::from(instance.3.utilization_ppm?));
    let working: Option<Vec<u128>> = split.iter().map(works).collect();
    let working = working.filter(|all| rest_draws == 0 && all.iter().sum::<u128>() > 0);
    let mut draws = working.unwrap_or_else(|| shares.clone());
    shares.push(rest);
    draws.push(rest_draws);
    let (all, drawn): (u128, u128) = (shares.iter().sum(), draws.iter().sum());
    let part = |place: usize| Span {
        share: times(span.share, (shares[place], all)),
        energy: times(span.energy, (draws[place], drawn)),
        ..span
    };
    for (place, (number, _, _, used)) in split.iter().enumerate() {
        book(books, &uuid(device, *number), part(place), used, OwnerKind::Idle);
    }
    book(books, device, part(split.len()), used, OwnerKind::Stranded);
}

/// What the books must say of a device's minutes that are over, and the energy of each of these minutes. A minute that comes
/// twice is what it was at first.
pub fn expected(device: &str, runs: &[Run], limit_ms: i64) -> (Books, BTreeMap<i64, u64>) {
    let (mut books, mut energies) = (Books::new(), BTreeMap::new());
    for run in runs {
        let (mut more, mut energies_of_run) = expected_of_run(device, run, limit_ms);
        more.retain(|(_, minute, _), _| !energies.contains_key(minute));
        energies_of_run.retain(|minute, _| !energies.contains_key(minute));
        books.append(&mut more);
        energies.append(&mut energies_of_run);
    }
    (books, energies)
}

fn expected_of_run(device: &str, run: &Run, limit_ms: i64) -> (Books, BTreeMap<i64, u64>) {
    let (mut books, mut energies) = (Books::new(), BTreeMap::new());
    let unseen = Seen { instant_ms: run.begin_ms, rise: 0, state: State::default(), blind: true };
    let all: Vec<&Seen> = std::iter::once(&unseen).chain(&run.seen).collect();
    for (at, pair) in all.windows(2).enumerate() {
        let (t1, state, Seen { instant_ms: t2, rise, blind, .. }) = (pair[0].instant_ms, &pair[0].state, pair[1]);
        let is_unmetered = at == 0 || *blind || t2 - t1 > limit_ms;
        let risen = |at: i64| u128::from(*rise) * u128::from(at.abs_diff(t1)) / u128::from(t2.abs_diff(t1));
        let mut from = t1;
        while from < *t2 {
            let to = (minute(from) + MINUTE_MS).min(*t2);
            let energy = risen(to) - risen(from);
            *energies.entry(minute(from)).or_default() += u64::try_from(energy).unwrap();
            let span = Span { from, to, share: (to.abs_diff(from).into(), 1), energy: (energy, 1) };
            match &state.split {
                _ if is_unmetered => book(&mut books, device, span, &Use::default(), OwnerKind::Unmetered),
                None => book(&mut books, device, span, &state.gpu, OwnerKind::Idle),
                Some(split) => book_split(&mut books, device, span, split, &state.gpu),
            }
            from = to;
        }
    }
    let open = minute(run.covered_ms());
    books.retain(|(_, minute, _), _| *minute < open);
    energies.retain(|minute, _| *minute < open);
    (books, energies)
}

/// Whether a whole number is less than one off: but for what is lost below [`SCALE`].
pub fn is_near(found: u64, (low, high): (u128, u128)) -> bool {
    let found = u128::from(found) * SCALE;
    found < high + SCALE + 1 && low < found + SCALE + 1
}
