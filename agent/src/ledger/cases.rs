//! Minutes of which everything is known by hand.

use contador_schemas::owner::Owner;

use super::model::{State, Use, tick_of};
use super::tick::holders;
use super::*;

pub const START: i64 = 1_790_000_000_000;
const SECOND: Duration = Duration::from_secs(1);
const GPU: &str = "GPU-1";

fn used(given: &[(u8, Option<u32>)], processes: &[(u8, Option<u8>)], utilization_ppm: Option<u32>) -> Use {
    Use { given: given.to_vec(), processes: processes.to_vec(), utilization_ppm }
}

/// The closed minute after a minute of one tick a second, 10 J each, by device and owner.
fn minute(state_at: impl Fn(i64) -> State) -> BTreeMap<(String, String), Account> {
    let mut ledger = Ledger::default();
    let start = START - START % MINUTE_MS;
    for second in 0..=60 {
        ledger.tick(
            tick_of(GPU, start + second * 1_000, Some(second.unsigned_abs() * 10_000), &state_at(second)),
            SECOND,
        );
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
    // Of 30 s: a half, a seventh (4285.7) and the rest (10714.3).
    let held = of(&accounts, "MIG-1 of GPU-1", "1");
    assert_eq!((held.share_ms, held.held_ms, held.busy_ms, held.energy_mj), (15_000, 30_000, 7_500, 300_000));
    assert_eq!(held.idle_ms, 0);
    let idle = of(&accounts, "MIG-2 of GPU-1", "idle");
    assert_eq!((idle.share_ms, idle.held_ms, idle.energy_mj), (4_286, 30_000, 0));
    let stranded = of(&accounts, GPU, "stranded");
    assert_eq!((stranded.share_ms, stranded.energy_mj), (10_714, 0));
    let quarter = of(&accounts, "MIG-3 of GPU-1", "2");
    assert_eq!(
        (quarter.share_ms, quarter.held_ms, quarter.idle_ms, quarter.energy_mj),
        (7_500, 30_000, 30_000, 300_000)
    );
    assert_eq!(of(&accounts, "MIG-3 of GPU-1", "idle").share_ms, 22_500);
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
        let found = [of(&accounts, "MIG-1 of GPU-1", "1"), of(&accounts, "MIG-2 of GPU-1", "2")]
            .map(|account| account.energy_mj);
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
    assert_eq!(told, [[30_000, 12_000, 150_000, 60_000], [30_000, 0, 0, 0], [0, 36_000, 450_000, 180_000]]);
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

fn tick(instant_ms: i64, holder: Option<&str>, energy_mj: u64) -> Tick {
    let owner = holder.map(|name| Owner { department: name.into(), ..Owner::default() }.into());
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
fn a_device_that_is_gone_is_closed_as_unmetered_for_a_day() {
    let mut ledger = Ledger::default();
    ledger.tick(tick(START, Some("research"), 0), SECOND);
    ledger.advance(START + CLOSE_AFTER_MS);
    assert!(ledger.pending().is_empty());
    ledger.advance(START + CLOSE_AFTER_MS + MINUTE_MS);
    assert_eq!(ledger.pending().len(), 61);
    for half_hour in 3..=120 {
        ledger.advance(START + half_hour * 30 * MINUTE_MS);
    }
    let starts = ledger.pending().iter().map(|minute| minute.start_ms - (START - START % MINUTE_MS));
    let (starts, count) = (starts.collect::<Vec<_>>(), ledger.pending().len());
    assert_eq!(starts, (0..1_440 + 60).map(|minute| minute * MINUTE_MS).take(count).collect::<Vec<_>>());
    assert!(count >= 1_440, "{count} minutes");
    assert!(ledger.pending().iter().all(|minute| minute.accounts.len() == 1));
    // It comes back: the minute that was open then is the last one before it.
    ledger.tick(tick(START + 60 * CLOSE_AFTER_MS, None, 0), SECOND);
    assert_eq!(ledger.pending().len(), count + 1);
}

#[test]
fn what_was_seen_last_is_remembered() {
    let mut ledger = Ledger::default();
    let name = |device: usize| format!("GPU-{device}");
    for (device, after) in (0..MAX_REMEMBERED + 2).zip(0..) {
        assert!(ledger.admit(&name(device), START + after));
        ledger.tick(Tick { device: name(device), ..tick(START + after, None, 0) }, SECOND);
    }
    ledger.advance(START);
    let remembered =
        |device| (ledger.timelines.contains_key(&name(device)), ledger.sampled.contains_key(&name(device)));
    assert_eq!(
        [0, 1, 2, MAX_REMEMBERED + 1].map(remembered),
        [(false, false), (false, false), (true, true), (true, true)]
    );
}

/// A GPU is not there for the moment in which the clock is a day, or three, ahead.
#[test]
fn a_clock_that_is_days_ahead_while_a_gpu_is_away_closes_nothing_twice() {
    for days in [1, 3] {
        let mut ledger = Ledger::default();
        let wrong = START + days * MAX_GAP_MS + 7 * MINUTE_MS;
        for (instant_ms, gpus) in [(START, 2), (START + 1_000, 2), (wrong, 1), (START + 2_000, 2)]
            .into_iter()
            .chain((3..200).map(|second| (START + second * 1_000, 2)))
        {
            for gpu in 0..gpus {
                let device = format!("GPU-{gpu}");
                // The sample and the ledger go together.
                let (ignored, is_admitted) = (ledger.ignored_ticks(), ledger.admit(&device, instant_ms));
                ledger.tick(Tick { device, ..tick(instant_ms, Some("research"), 0) }, SECOND);
                assert_eq!(is_admitted, ledger.ignored_ticks() == ignored, "GPU-{gpu} at {instant_ms}");
            }
            ledger.advance(instant_ms);
        }
        for gpu in ["GPU-0", "GPU-1"] {
            let starts = ledger.pending().iter().filter(|minute| minute.device == gpu).map(|minute| minute.start_ms);
            let starts: Vec<i64> = starts.collect();
            let once: std::collections::BTreeSet<&i64> = starts.iter().collect();
            assert_eq!(once.len(), starts.len(), "{gpu}: {starts:?}");
            // The minute of the moment, and those after the one in which the clock was set right.
            let minutes = [0, 2].map(|minute| START - START % MINUTE_MS + minute * MINUTE_MS);
            assert!(minutes.iter().all(|minute| starts.contains(minute)), "{gpu}: {starts:?}");
        }
    }
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

/// The clock is two days ahead for five minutes, is set right, and days later those five minutes really come; then it is set
/// back by two days, to minutes that were closed before.
#[test]
fn no_minute_is_closed_twice_by_a_clock_that_is_days_wrong() {
    let mut ledger = Ledger::default();
    let start = START - START % MINUTE_MS;
    let day = 24 * 60 * MINUTE_MS;
    let mut starts = Vec::new();
    let mut run = |from: i64, to: i64| {
        for instant_ms in (from..=to).step_by(60_000) {
            ledger.tick(tick(instant_ms, Some("research"), 0), SECOND * 60);
            ledger.advance(instant_ms);
        }
        ledger = serde_json::from_slice(&serde_json::to_vec(&ledger).unwrap()).unwrap();
        starts.extend(ledger.pending().iter().map(|minute| minute.start_ms));
        ledger.handed_on(usize::MAX);
    };
    let minute = |number: i64| start + number * MINUTE_MS;
    run(start, minute(3));
    run(minute(3) + 2 * day, minute(8) + 2 * day);
    run(minute(8), minute(30) + 2 * day);
    run(minute(20), minute(30));
    run(minute(30) + 2 * day, minute(35) + 2 * day);
    let once: std::collections::BTreeSet<i64> = starts.iter().copied().collect();
    assert_eq!(once.len(), starts.len(), "closed twice");
    // A clock that is set back by days begins at the next full minute.
    let missing: Vec<i64> = (0..2 * 1_440 + 35).filter(|number| !once.contains(&minute(*number))).collect();
    assert_eq!((missing, starts.len()), (vec![4, 5, 6, 7, 8], 2 * 1_440 + 30));
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

/// Seven instances of a seventh, of which two are shared by three, seen every 100 ms for half an hour and every 5 s for a day:
/// each has what is his to the millisecond, where ticks that are rounded each for itself would cost him up to 2 % and 0.04 %.
#[test]
fn nobody_loses_by_being_looked_at_often() {
    let three = [(1, Some(142_857)), (2, None), (3, None)];
    let instance = |number: u8| {
        let given = if number < 2 { &three[..] } else { &three[2..] };
        (number, 1, 1, used(given, &[], Some(333_333)))
    };
    let state = State { gpu: Use::default(), split: Some((0..7).map(instance).collect()) };
    let start = START - START % MINUTE_MS;
    for (interval_ms, minutes) in [(100_i64, 30_i64), (5_000, 1_440)] {
        let mut ledger = Ledger::default();
        let mut sums = BTreeMap::<(String, String), [u64; 3]>::new();
        for place in 0..=minutes * 60_000 / interval_ms {
            // 7 J every 100 ms, of which each instance has 1 J.
            let energy_mj = 70 * (place * interval_ms).unsigned_abs();
            ledger.tick(tick_of(GPU, start + place * interval_ms, Some(energy_mj), &state), SECOND * 5);
        }
        for minute in ledger.pending() {
            for account in &minute.accounts {
                let sum = sums.entry((minute.device.clone(), account.owner.label())).or_default();
                let of_minute = [account.share_ms, account.busy_ms, account.energy_mj];
                sum.iter_mut().zip(of_minute).for_each(|(sum, more)| *sum += more);
            }
        }
        assert_eq!(sums.len(), 2 * 3 + 5, "{sums:?}");
        for ((device, owner), [share, busy, energy]) in sums {
            let is_shared = device.starts_with("MIG-0") || device.starts_with("MIG-1");
            // Parts of 2,000,000, since two divide what was not requested.
            let part: u128 = match owner.as_str() {
                _ if !is_shared => 2_000_000,
                "1" => 2 * 142_857,
                _ => 1_000_000 - 142_857,
            };
            let all = u128::from((minutes * 60_000).unsigned_abs()) * part;
            let near = |found: u64, numerator: u128, denominator: u128| {
                // Odd units of so many minutes: see Rounding.
                let most = u128::from(2 * (minutes.ilog2() + 1));
                (u128::from(found) * denominator).abs_diff(numerator) < most * denominator
            };
            let told = format!("{device} {owner} at {interval_ms} ms: {share} {busy} {energy}");
            assert!(near(share, all, 7 * 2_000_000), "{told}");
            assert!(near(busy, all * 333_333, 7 * 2_000_000 * 1_000_000), "{told}");
            assert!(near(energy, all * 10, 2_000_000), "{told}");
        }
    }
}

/// A checkpoint as it was before parts, instances, time without work and odd parts: a minute that was half over.
#[test]
fn an_older_checkpoint_is_gone_on_with() {
    let start = START - START % MINUTE_MS;
    let owner = |who: &str| Owner { department: who.into(), ..Owner::default() };
    let (one, two) = (owner("1"), owner("2"));
    let holder = |of: &Owner| serde_json::json!({"id": of.id(), "owner": of, "memory_mib": 3, "sm_ppm": null});
    let account = |of: &Owner, energy: u64| {
        serde_json::json!({
            "owner": of, "held_ms": 30_000, "share_ms": 15_000, "busy_ms": 5_000,
            "memory_mib_ms": 90_000, "energy_mj": energy
        })
    };
    let old = serde_json::json!({
        "timelines": {GPU: {
            "simulated": true, "started": true, "covered_ms": start + 30_000, "last_seen_ms": start + 30_000,
            "interrupted": false, "holders": [holder(&one), holder(&two)], "utilization_ppm": 333_333,
            "energy_mj": 600_000,
            "minute": {
                "accounts": {one.id().to_string(): account(&one, 1), two.id().to_string(): account(&two, 2)},
                "busy_carry": 999_999
            }
        }},
        "pending": []
    });
    let mut ledger: Ledger = serde_json::from_value(old).unwrap();
    ledger.resume();
    let three = State { gpu: used(&[], &[(1, None), (2, None), (3, None)], None), split: None };
    for second in [31, 32, 60] {
        ledger.tick(tick_of(GPU, start + second * 1_000, Some(600_000 + second.unsigned_abs()), &three), SECOND * 10);
        // Odd parts of the minute survive a checkpoint.
        ledger = serde_json::from_slice(&serde_json::to_vec(&ledger).unwrap()).unwrap();
    }
    let [minute] = ledger.pending() else { panic!("one minute, not {:?}", ledger.pending()) };
    let told: BTreeMap<String, [u64; 2]> =
        minute.accounts.iter().map(|account| (account.owner.label(), [account.share_ms, account.energy_mj])).collect();
    // A second is unmetered; thirds of 29 s and of 29 mJ, 9,666.7 and 9.7, are rounded so that they sum up.
    assert_eq!(told["unmetered"], [1_000, 31]);
    for (who, share, energy) in [("1", 24_666, 10), ("2", 24_666, 11), ("3", 9_666, 9)] {
        assert!(
            (share..=share + 1).contains(&told[who][0]) && (energy..=energy + 1).contains(&told[who][1]),
            "{told:?}"
        );
    }
    assert_eq!(told.values().fold([0, 0], |sum, more| [sum[0] + more[0], sum[1] + more[1]]), [60_000, 3 + 60]);
}
