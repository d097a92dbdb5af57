//! What must hold of every ledger, over random ticks, restarts and clocks.

use std::collections::BTreeMap;
use std::time::Duration;

use contador_schemas::owner::{Owner, OwnerKind};
use proptest::prelude::*;

use super::*;
use crate::ledger::tick::holders;

const SECOND: Duration = Duration::from_secs(1);
const START: i64 = 1_790_000_000_000;

#[derive(Clone, Debug)]
struct Step {
    after_ms: i64,
    holders: Vec<(u8, u64, Option<u8>)>,
    utilization_ppm: Option<u32>,
    energy: Energy,
    restart: bool,
}

#[derive(Clone, Debug)]
enum Energy {
    Rises(u64),
    Resets(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let after = prop_oneof![
        8 => Just(1000_i64),
        4 => 1_i64..5_000,
        2 => 5_000_i64..200_000,
        1 => Just(0_i64),
        1 => -5_000_i64..0,
    ];
    let holder = (0_u8..4, 0_u64..1 << 36, prop::option::of(0_u8..=100));
    let energy =
        prop_oneof![9 => (0_u64..700_000).prop_map(Energy::Rises), 1 => (0_u64..9_000).prop_map(Energy::Resets)];
    (after, prop::collection::vec(holder, 0..5), prop::option::of(0_u32..=1_000_000), energy, prop::bool::weighted(0.1))
        .prop_map(|(after_ms, holders, utilization_ppm, energy, restart)| Step {
            after_ms,
            holders,
            utilization_ppm,
            energy,
            restart,
        })
}

fn ticks(offset: i64, steps: &[Step]) -> Vec<(Tick, bool)> {
    let mut instant_ms = START + offset;
    let mut counter = 5_000_000_u64;
    steps
        .iter()
        .map(|step| {
            instant_ms += step.after_ms;
            counter = match step.energy {
                Energy::Rises(by) => counter + by,
                Energy::Resets(to) => to,
            };
            let owner = |who: u8| Owner { department: who.to_string(), ..Owner::default() };
            let processes: Vec<_> =
                step.holders.iter().map(|(who, bytes, sm)| (owner(*who), *bytes, sm.map(f64::from))).collect();
            let tick = Tick {
                device: "GPU-1".into(),
                simulated: true,
                instant_ms,
                holders: holders([], processes.iter().map(|(owner, bytes, sm)| (owner, *bytes, *sm))),
                utilization_ppm: step.utilization_ppm,
                energy_mj: Some(counter),
                split: None,
            };
            (tick, step.restart)
        })
        .collect()
}

fn play(ticks: &[(Tick, bool)], restarts: bool) -> Ledger {
    let mut ledger = Ledger::default();
    for (tick, restart) in ticks {
        if restarts && *restart {
            let bytes = serde_json::to_vec(&ledger).unwrap();
            ledger = serde_json::from_slice(&bytes).unwrap();
            ledger.resume();
        }
        ledger.tick(tick.clone(), SECOND);
        ledger.advance(tick.instant_ms);
    }
    ledger
}

/// The counter at instant `at`, by the formula that a checker applies to stored samples: later minus earlier, with resets
/// counted from 0. As a sum since the first tick.
fn energy_until(ticks: &[Tick], at: i64) -> u64 {
    let mut sum = 0;
    for pair in ticks.windows(2) {
        let (t1, t2) = (pair[0].instant_ms, pair[1].instant_ms);
        let (e1, e2) = (pair[0].energy_mj.unwrap(), pair[1].energy_mj.unwrap());
        let rise = if e2 < e1 { e2 } else { e2 - e1 };
        if at >= t2 {
            sum += rise;
        } else if at > t1 {
            sum += u64::try_from(i128::from(rise) * i128::from(at - t1) / i128::from(t2 - t1)).unwrap();
        }
    }
    sum
}

/// The ticks that a timeline does not ignore.
fn effective(ticks: &[(Tick, bool)]) -> Vec<Tick> {
    let mut last = i64::MIN;
    let mut kept = Vec::new();
    for (tick, _) in ticks {
        if tick.instant_ms > last {
            last = tick.instant_ms;
            kept.push(tick.clone());
        }
    }
    kept
}

proptest! {
    #[test]
    fn every_closed_minute_conserves(
        offset in 0_i64..60_000,
        steps in prop::collection::vec(step(), 1..150),
        restarts: bool,
    ) {
        let ticks = ticks(offset, &steps);
        let ledger = play(&ticks, restarts);
        let effective = effective(&ticks);
        let first = effective[0].instant_ms;
        let mut expected_start = first - first % MINUTE_MS;
        for minute in ledger.pending() {
            prop_assert_eq!(minute.start_ms, expected_start, "each minute once, in order");
            expected_start += MINUTE_MS;
            let share: u64 = minute.accounts.iter().map(|account| account.share_ms).sum();
            prop_assert_eq!(share, 60_000);
            let busy: u64 = minute.accounts.iter().map(|account| account.busy_ms).sum();
            prop_assert!(busy <= 60_000);
            let energy: u64 = minute.accounts.iter().map(|account| account.energy_mj).sum();
            let end = minute.start_ms + MINUTE_MS;
            prop_assert_eq!(energy, energy_until(&effective, end) - energy_until(&effective, minute.start_ms));
            for account in &minute.accounts {
                prop_assert!(account.share_ms <= account.held_ms && account.held_ms <= 60_000);
            }
        }
        let last = effective[effective.len() - 1].instant_ms;
        prop_assert_eq!(expected_start, last - last % MINUTE_MS, "every minute that is over is closed");
    }

    #[test]
    fn a_restart_changes_nothing_but_its_hole(
        offset in 0_i64..60_000,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let ticks = ticks(offset, &steps);
        let (whole, holed) = (play(&ticks, false), play(&ticks, true));
        prop_assert_eq!(whole.pending().len(), holed.pending().len());
        let unmetered = Owner::of_kind(OwnerKind::Unmetered);
        for (whole, holed) in whole.pending().iter().zip(holed.pending()) {
            let by_owner: BTreeMap<&Owner, &Account> =
                whole.accounts.iter().map(|account| (&account.owner, account)).collect();
            let hole = |minute: &ClosedMinute| {
                minute.accounts.iter().find(|account| account.owner == unmetered).map_or(0, |account| account.share_ms)
            };
            if hole(whole) == hole(holed) {
                prop_assert_eq!(whole, holed);
            }
            for account in holed.accounts.iter().filter(|account| account.owner != unmetered) {
                let same = by_owner[&account.owner];
                prop_assert!(account.share_ms <= same.share_ms && account.energy_mj <= same.energy_mj);
                prop_assert!(account.held_ms <= same.held_ms && account.memory_mib_ms <= same.memory_mib_ms);
            }
        }
    }
}

fn tick(instant_ms: i64, holder: Option<&str>, energy_mj: u64) -> Tick {
    let owner = holder.map(|name| Owner { department: name.into(), ..Owner::default() });
    Tick {
        device: "GPU-1".into(),
        simulated: false,
        instant_ms,
        holders: holders([], owner.iter().map(|owner| (owner, 3 << 20, Some(50.0)))),
        utilization_ppm: Some(500_000),
        energy_mj: Some(energy_mj),
        split: None,
    }
}

#[test]
fn no_instant_goes_out_twice_and_ledger_and_samples_agree() {
    let mut ledger = Ledger::default();
    let mut admitted = Vec::new();
    let mut booked = Vec::new();
    let days = 3 * MAX_GAP_MS;
    for after in [0, 1_000, 500, 1_000, -9_000, 2_000, -days, -days + 1_000, -days + MINUTE_MS + 1_000] {
        let ignored = ledger.ignored_ticks();
        if ledger.admit("GPU-1", START + after) {
            admitted.push(after);
        }
        ledger.tick(tick(START + after, None, 0), SECOND);
        if ledger.ignored_ticks() == ignored {
            booked.push(after);
        }
    }
    assert_eq!(admitted, [0, 1_000, 2_000, -days + MINUTE_MS + 1_000]);
    assert_eq!(admitted, booked);
    // A restart changes nothing of that.
    let mut again: Ledger = serde_json::from_slice(&serde_json::to_vec(&ledger).unwrap()).unwrap();
    assert!(!again.admit("GPU-1", START - days + 2_000) && again.admit("host", START));
}

#[test]
fn a_minute_is_held_from_the_first_tick_on() {
    let mut ledger = Ledger::default();
    let minute = START - START % MINUTE_MS;
    // Unmetered for 2 s, then held for 28 s, then idle for 30 s; 10 mJ a millisecond.
    for second in 2..=60 {
        let holder = (second < 30).then_some("research");
        ledger.tick(tick(minute + second * 1000, holder, 7 + second.unsigned_abs() * 10_000), SECOND);
    }
    let [closed] = ledger.pending() else { panic!("one minute, not {:?}", ledger.pending()) };
    let of = |label: &str| closed.accounts.iter().find(|account| account.owner.label() == label).unwrap();
    let (held, idle, unmetered) = (of("research"), of("idle"), of("unmetered"));
    assert_eq!((held.held_ms, held.share_ms, held.busy_ms), (28_000, 28_000, 14_000));
    assert_eq!((held.memory_mib_ms, held.energy_mj), (84_000, 280_000));
    assert_eq!((idle.share_ms, idle.energy_mj), (30_000, 300_000));
    assert_eq!((unmetered.share_ms, unmetered.energy_mj), (2_000, 0));
}

#[test]
fn a_device_that_is_gone_is_closed_as_unmetered_and_then_forgotten() {
    let mut ledger = Ledger::default();
    ledger.tick(tick(START, Some("research"), 0), SECOND);
    ledger.advance(START + CLOSE_AFTER_MS);
    assert!(ledger.pending().is_empty());
    ledger.advance(START + CLOSE_AFTER_MS + MINUTE_MS);
    assert_eq!(ledger.pending().len(), 61);
    assert!(ledger.pending().iter().all(|minute| minute.accounts.len() == 1));
    ledger.advance(START + MAX_GAP_MS + 1);
    assert_eq!(ledger.covered_ms("GPU-1"), None);
}

#[test]
fn days_of_absence_close_the_open_minute_and_begin_anew() {
    let mut ledger = Ledger::default();
    ledger.tick(tick(START, Some("research"), 0), SECOND);
    ledger.tick(tick(START + 3 * MAX_GAP_MS, Some("research"), 0), SECOND);
    ledger.tick(tick(START + 3 * MAX_GAP_MS + 1, Some("research"), 0), SECOND);
    let starts: Vec<i64> = ledger.pending().iter().map(|minute| minute.start_ms).collect();
    assert_eq!(starts, [START - START % MINUTE_MS]);
}

#[test]
fn a_clock_set_back_a_little_is_waited_for_and_set_back_by_days_begins_anew() {
    let mut ledger = Ledger::default();
    ledger.tick(tick(START, None, 0), SECOND);
    ledger.tick(tick(START - 2_000, None, 0), SECOND);
    assert_eq!((ledger.covered_ms("GPU-1"), ledger.ignored_ticks()), (Some(START), 1));
    ledger.tick(tick(START + 1_000, None, 0), SECOND);
    assert_eq!(ledger.covered_ms("GPU-1"), Some(START + 1_000));
    let earlier = START - 2 * MAX_GAP_MS;
    ledger.tick(tick(earlier, None, 0), SECOND);
    assert_eq!(ledger.covered_ms("GPU-1"), Some(earlier - earlier % MINUTE_MS + MINUTE_MS));
}
