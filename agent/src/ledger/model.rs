//! The ledger against a model of it that is written otherwise: parts are fractions, and every piece is computed from what was
//! so at its beginning.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contador_schemas::owner::{Owner, OwnerKind};
use proptest::prelude::*;

use super::slices::{Board, Slices, weights};
use super::tick::holders;
use super::*;
use crate::owners::claim::Part;

const SECOND: Duration = Duration::from_secs(1);
const START: i64 = 1_790_000_000_000;
const GPU: &str = "GPU-1";

/// Who was given a device, and whose processes are on it with which use, percent.
#[derive(Clone, Debug, Default)]
struct Use {
    given: Vec<(u8, Option<u32>)>,
    processes: Vec<(u8, Option<u8>)>,
    utilization_ppm: Option<u32>,
}

/// What is so from a tick on.
#[derive(Clone, Debug, Default)]
struct State {
    gpu: Use,
    /// Of each instance: number, compute and memory slices.
    split: Option<Vec<(u8, u32, u32, Use)>>,
}

#[derive(Clone, Debug)]
struct Step {
    after_ms: i64,
    state: State,
    energy: (bool, u64),
    restart: bool,
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

fn state() -> impl Strategy<Value = State> {
    // 1g, 1g with twice the memory, 2g, 3g, 4g and 7g; layouts that no GPU has are among them.
    let profile = prop::sample::select(vec![(1, 1), (1, 2), (2, 2), (3, 4), (4, 4), (7, 8)]);
    let instances = prop::collection::btree_map(0_u8..5, (profile, uses()), 0..5);
    let instances = instances.prop_map(|all| {
        all.into_iter().map(|(number, ((compute, memory), used))| (number, compute, memory, used)).collect()
    });
    (uses(), prop::option::weighted(0.6, instances)).prop_map(|(gpu, split)| State { gpu, split })
}

fn step() -> impl Strategy<Value = Step> {
    let after = prop_oneof![
        8 => Just(1_000_i64),
        4 => 1_i64..5_000,
        2 => 5_000_i64..200_000,
        1 => Just(0_i64),
        1 => -5_000_i64..0,
        1 => -4_000_000_i64..0,
    ];
    let energy = (prop::bool::weighted(0.1), 0_u64..700_000);
    (after, state(), energy, prop::bool::weighted(0.1)).prop_map(|(after_ms, state, energy, restart)| Step {
        after_ms,
        state,
        energy,
        restart,
    })
}

fn owner(who: u8) -> Owner {
    Owner { department: who.to_string(), ..Owner::default() }
}

fn uuid(number: u8) -> String {
    format!("MIG-{number}")
}

fn held_by(used: &Use) -> Vec<Holder> {
    let owners: Vec<Owner> = (0..8).map(owner).collect();
    let of = |who: u8| &owners[usize::from(who)];
    let given = used.given.iter().map(|(who, ppm)| (ppm.map_or(Part::Even, Part::Ppm), of(*who)));
    holders(given, used.processes.iter().map(|(who, sm)| (of(*who), 1 << 20, sm.map(f64::from))))
}

fn tick_of(instant_ms: i64, counter: u64, state: &State) -> Tick {
    let split = state.split.as_ref().map(|all| {
        let slices = |(number, compute, memory, _): &(u8, u32, u32, Use)| Slices {
            gpu_instance: u32::from(*number),
            compute: Some(*compute),
            memory: Some(*memory),
        };
        let weights = weights(&all.iter().map(slices).collect::<Vec<_>>(), Board::default());
        let instance = |((number, _, _, used), weight): (&(u8, u32, u32, Use), u64)| Instance {
            device: uuid(*number),
            weight,
            holders: held_by(used),
            utilization_ppm: used.utilization_ppm,
        };
        all.iter().zip(weights).map(instance).collect()
    });
    Tick {
        device: GPU.into(),
        simulated: true,
        instant_ms,
        holders: held_by(&state.gpu),
        utilization_ppm: state.gpu.utilization_ppm,
        energy_mj: Some(counter),
        split,
    }
}

/// Largest remainder, as in a book: `numerators` are parts of `whole`.
fn divide(total: u64, numerators: &[u128], whole: u128, start_ms: i64) -> Vec<u64> {
    let takers: Vec<usize> = (0..numerators.len()).filter(|&at| numerators[at] > 0).collect();
    let mut parts: Vec<u64> =
        numerators.iter().map(|part| u64::try_from(u128::from(total) * part / whole).unwrap()).collect();
    let first = usize::try_from(start_ms).unwrap() % takers.len();
    let mut order: Vec<usize> = takers[first..].iter().chain(&takers[..first]).copied().collect();
    order.sort_by_key(|&at| std::cmp::Reverse(u128::from(total) * numerators[at] % whole));
    let left = usize::try_from(total - parts.iter().sum::<u64>()).unwrap();
    order[..left].iter().for_each(|&at| parts[at] += 1);
    parts
}

/// Share, time held and time without work, by device, start of the minute and owner.
type Books = BTreeMap<(String, i64, Owner), [u64; 3]>;

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

/// Books what a device has of a piece.
fn book(books: &mut Books, device: &str, (from, to): (i64, i64), total: u64, used: &Use, nobody: OwnerKind) {
    let minute = from.div_euclid(MINUTE_MS) * MINUTE_MS;
    let length = to.abs_diff(from);
    let mut add = |owner: Owner, share: u64, idle: u64| {
        let entry = books.entry((device.to_owned(), minute, owner)).or_default();
        entry.iter_mut().zip([share, length, idle]).for_each(|(sum, more)| *sum += more);
    };
    let (owners, idle, whole) = parts(used);
    if owners.is_empty() {
        if total > 0 || nobody != OwnerKind::Stranded {
            add(Owner::of_kind(nobody), total, 0);
        }
        return;
    }
    let numerators: Vec<u128> = owners.iter().map(|(_, part)| *part).chain([idle]).collect();
    let shares = divide(total, &numerators, whole, from);
    let unused = if used.utilization_ppm == Some(0) { length } else { 0 };
    for ((owner, _), share) in owners.into_iter().zip(&shares) {
        add(owner, *share, unused);
    }
    if shares[shares.len() - 1] > 0 {
        add(Owner::of_kind(OwnerKind::Idle), shares[shares.len() - 1], 0);
    }
}

/// A tick: its instant, the counter, what was so, and whether it came after a restart.
type Seen = (i64, u64, State, bool);

/// What was played, with each tick that is not ignored.
struct Played {
    ledger: Ledger,
    ticks: Vec<Seen>,
}

fn play(offset: i64, steps: &[Step]) -> Played {
    let (mut instant_ms, mut counter) = (START + offset, 5_000_000);
    let (mut ledger, mut ticks, mut restarted) = (Ledger::default(), Vec::<Seen>::new(), false);
    for step in steps {
        instant_ms += step.after_ms;
        counter = if step.energy.0 { step.energy.1 } else { counter + step.energy.1 };
        if step.restart {
            restarted = true;
            ledger = serde_json::from_slice(&serde_json::to_vec(&ledger).unwrap()).unwrap();
            ledger.resume();
        }
        ledger.tick(tick_of(instant_ms, counter, &step.state), SECOND);
        ledger.advance(instant_ms);
        if ticks.last().is_none_or(|(last, ..)| instant_ms > *last) {
            ticks.push((instant_ms, counter, step.state.clone(), std::mem::take(&mut restarted)));
        }
    }
    Played { ledger, ticks }
}

/// What the books must say of the minutes that are over.
fn expected(ticks: &[Seen]) -> Books {
    let mut books = Books::new();
    let begin = ticks[0].0 - ticks[0].0 % MINUTE_MS;
    let unseen = (begin, 0, State::default(), true);
    let all: Vec<_> = std::iter::once(&unseen).chain(ticks).collect();
    for (at, pair) in all.windows(2).enumerate() {
        let ((t1, _, state, _), (t2, _, _, restarted)) = (pair[0], pair[1]);
        let is_unmetered = at == 0 || *restarted || t2 - t1 > 5_000;
        let mut from = *t1;
        while from < *t2 {
            let to = ((from / MINUTE_MS + 1) * MINUTE_MS).min(*t2);
            let (span, length) = ((from, to), to.abs_diff(from));
            match &state.split {
                _ if is_unmetered => book(&mut books, GPU, span, length, &Use::default(), OwnerKind::Unmetered),
                None => book(&mut books, GPU, span, length, &state.gpu, OwnerKind::Idle),
                Some(split) => {
                    // In 56ths of the GPU.
                    let mut weights: Vec<u128> =
                        split.iter().map(|(_, compute, memory, _)| u128::from((compute * 8).max(memory * 7))).collect();
                    weights.push(56_u128.saturating_sub(weights.iter().sum()));
                    let totals = divide(length, &weights, weights.iter().sum(), from);
                    for ((number, _, _, used), total) in split.iter().zip(&totals) {
                        book(&mut books, &uuid(*number), span, *total, used, OwnerKind::Idle);
                    }
                    book(&mut books, GPU, span, totals[split.len()], &state.gpu, OwnerKind::Stranded);
                }
            }
            from = to;
        }
    }
    let open = ticks[ticks.len() - 1].0 / MINUTE_MS * MINUTE_MS;
    books.retain(|(_, minute, _), _| *minute < open);
    books
}

/// The rise of the counter until `at`, from the first tick on; after the last one it stays.
fn risen(ticks: &[Seen], at: i64) -> u64 {
    let rise = |pair: &[Seen]| {
        let ((t1, e1, ..), (t2, e2, ..)) = (&pair[0], &pair[1]);
        let rise = if e2 < e1 { *e2 } else { e2 - e1 };
        let passed = u128::from((at - t1).clamp(0, t2 - t1).unsigned_abs());
        u64::try_from(u128::from(rise) * passed / u128::from(t2.abs_diff(*t1))).unwrap()
    };
    ticks.windows(2).map(rise).sum()
}

proptest! {
    #[test]
    fn the_books_are_what_the_model_says(offset in 0_i64..60_000, steps in prop::collection::vec(step(), 1..120)) {
        let Played { ledger, ticks } = play(offset, &steps);
        let mut books = Books::new();
        let mut minutes: BTreeMap<i64, [u64; 3]> = BTreeMap::new();
        let mut closed = BTreeSet::new();
        for minute in ledger.pending() {
            prop_assert!(closed.insert((minute.device.clone(), minute.start_ms)), "closed twice: {minute:?}");
            let sums = minutes.entry(minute.start_ms).or_default();
            for account in &minute.accounts {
                sums.iter_mut()
                    .zip([account.share_ms, account.busy_ms, account.energy_mj])
                    .for_each(|(sum, more)| *sum += more);
                prop_assert!(account.share_ms <= account.held_ms && account.idle_ms <= account.held_ms);
                prop_assert!(account.held_ms <= 60_000);
                let key = (minute.device.clone(), minute.start_ms, account.owner.clone());
                books.insert(key, [account.share_ms, account.held_ms, account.idle_ms]);
            }
        }
        prop_assert_eq!(books, expected(&ticks));
        let mut start = ticks[0].0 - ticks[0].0 % MINUTE_MS;
        for (minute, [share, busy, energy]) in minutes {
            prop_assert_eq!(minute, start, "no minute is left out");
            start += MINUTE_MS;
            prop_assert_eq!(share, 60_000);
            prop_assert!(busy <= 60_000);
            prop_assert_eq!(energy, risen(&ticks, start) - risen(&ticks, minute));
        }
    }
}

fn used(given: &[(u8, Option<u32>)], processes: &[(u8, Option<u8>)], utilization_ppm: Option<u32>) -> Use {
    Use { given: given.to_vec(), processes: processes.to_vec(), utilization_ppm }
}

/// The closed minute after a minute of one tick a second, 10 J each, by device and owner.
fn minute(state_at: impl Fn(i64) -> State) -> BTreeMap<(String, String), Account> {
    let mut ledger = Ledger::default();
    let start = START - START % MINUTE_MS;
    for second in 0..=60 {
        ledger.tick(tick_of(start + second * 1_000, second.unsigned_abs() * 10_000, &state_at(second)), SECOND);
    }
    let accounts = ledger.pending().iter().flat_map(|minute| {
        minute.accounts.iter().map(|account| ((minute.device.clone(), account.owner.label()), account.clone()))
    });
    accounts.collect()
}

fn of<'a>(accounts: &'a BTreeMap<(String, String), Account>, device: &str, owner: &str) -> &'a Account {
    accounts.get(&(device.to_owned(), owner.to_owned())).unwrap_or_else(|| panic!("{device} {owner}: {accounts:?}"))
}

/// Half of the minute a 3g and a 1g, then one 7g: everything is booked by what was there.
#[test]
fn a_layout_that_changes_inside_a_minute_changes_the_pieces() {
    let three = (1, 3, 4, used(&[(1, None)], &[], Some(500_000)));
    let one = (2, 1, 1, used(&[], &[], Some(0)));
    let seven = (3, 7, 8, used(&[(2, Some(250_000))], &[], Some(0)));
    let accounts = minute(|second| State {
        gpu: Use::default(),
        split: Some(if second < 30 { vec![three.clone(), one.clone()] } else { vec![seven.clone()] }),
    });
    assert_eq!(accounts.len(), 5, "{accounts:?}");
    // Of each second: 500, 1000 / 7 and the rest of 1000, where the greatest remainder (6/7) is that of the 1g.
    let held = of(&accounts, "MIG-1", "1");
    assert_eq!((held.share_ms, held.held_ms, held.busy_ms, held.energy_mj), (15_000, 30_000, 7_500, 300_000));
    assert_eq!(held.idle_ms, 0);
    let idle = of(&accounts, "MIG-2", "idle");
    assert_eq!((idle.share_ms, idle.held_ms, idle.energy_mj), (30 * 143, 30_000, 0));
    let stranded = of(&accounts, GPU, "stranded");
    assert_eq!((stranded.share_ms, stranded.energy_mj), (30 * 357, 0));
    let quarter = of(&accounts, "MIG-3", "2");
    assert_eq!(
        (quarter.share_ms, quarter.held_ms, quarter.idle_ms, quarter.energy_mj),
        (7_500, 30_000, 30_000, 300_000)
    );
    assert_eq!(of(&accounts, "MIG-3", "idle").share_ms, 22_500);
}

#[test]
fn energy_goes_by_weight_where_activity_is_not_told_of_all() {
    let instance = |number: u8, utilization| (number, 3, 4, used(&[(number, None)], &[], utilization));
    for (one, two, energies) in [
        (Some(0), Some(0), [300_000, 300_000]),
        (Some(1_000_000), None, [300_000, 300_000]),
        (Some(600_000), Some(200_000), [450_000, 150_000]),
    ] {
        let accounts = minute(|_| State { gpu: Use::default(), split: Some(vec![instance(1, one), instance(2, two)]) });
        let found = [of(&accounts, "MIG-1", "1"), of(&accounts, "MIG-2", "2")].map(|account| account.energy_mj);
        assert_eq!(found, energies, "{one:?} {two:?}");
        assert_eq!(accounts.len(), 2, "two halves are the whole: {accounts:?}");
    }
    // Nothing was made of it: what it draws is nobody's.
    let bare = minute(|_| State { gpu: Use::default(), split: Some(Vec::new()) });
    assert_eq!((bare.len(), of(&bare, GPU, "stranded").energy_mj), (1, 600_000));
}

#[test]
fn who_was_given_nothing_has_what_he_uses_and_no_time() {
    let gpu = used(&[(1, None), (2, None)], &[(1, Some(20)), (3, Some(60))], Some(800_000));
    let accounts = minute(|_| State { gpu: gpu.clone(), split: None });
    let told = ["1", "2", "3"].map(|who| {
        let account = of(&accounts, GPU, who);
        [account.share_ms, account.busy_ms, account.energy_mj, account.memory_mib_ms]
    });
    assert_eq!(told, [[30_000, 12_000, 150_000, 60_000], [30_000, 0, 0, 0], [0, 36_000, 450_000, 60_000]]);
}

#[test]
fn held_but_idle_is_when_the_device_is_known_to_have_no_work() {
    let utilization = |second: i64| match second {
        0..20 => Some(0),
        20..30 => None,
        _ => Some(10_000),
    };
    let accounts = minute(|second| State { gpu: used(&[(1, None)], &[], utilization(second)), split: None });
    let held = of(&accounts, GPU, "1");
    assert_eq!((held.held_ms, held.idle_ms, held.busy_ms), (60_000, 20_000, 300));
    let nobody = minute(|_| State { gpu: used(&[], &[], Some(0)), split: None });
    assert_eq!((of(&nobody, GPU, "idle").held_ms, of(&nobody, GPU, "idle").idle_ms), (60_000, 0));
}
