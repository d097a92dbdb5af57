//! What must hold of every ledger, whatever happens: devices are many, ticks come late or not at all, layouts and owners change,
//! the agent is killed and started again, and the clock is set, also by days.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contador_schemas::owner::OwnerKind;
use proptest::prelude::*;

use super::cases::START;
use super::checkpoint::{Loaded, encode};
use super::model::{Expected, Known, State, expected, is_near, state, tick_of};
use super::*;

#[derive(Clone, Copy, Debug)]
enum Counter {
    Rises(u64),
    Resets(u64),
    Untold,
}

/// When the agent is killed in a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kill {
    BeforeTheCheckpoint,
    BeforeTheHandOn,
    AfterTheHandOn,
}

#[derive(Clone, Debug)]
struct Step {
    /// After how many intervals, and milliseconds.
    after: (i64, i64),
    /// What is seen of each device; `None`: it has no tick.
    seen: Vec<Option<(State, Counter)>>,
    /// How many minutes the spool takes.
    room: usize,
    kill: Option<Kill>,
}

fn step(devices: usize) -> impl Strategy<Value = Step> {
    let after = prop_oneof![
        16 => Just((1, 0)),
        8 => (0_i64..5, 1_i64..1_000),
        4 => (0_i64..1, 5_000_i64..200_000),
        1 => (0_i64..1, 3_500_000_i64..8_000_000),
        2 => Just((0, 0)),
        2 => (0_i64..1, -5_000_i64..0),
        2 => (0_i64..1, -4_000_000_i64..0),
        1 => (0_i64..1, 80_000_000_i64..400_000_000),
        1 => (0_i64..1, -400_000_000_i64..-80_000_000),
    ];
    let counter = prop_oneof![
        8 => (0_u64..700_000).prop_map(Counter::Rises),
        1 => (0_u64..9_000).prop_map(Counter::Resets),
        2 => Just(Counter::Untold),
    ];
    let seen = prop::collection::vec(prop::option::weighted(0.9, (state(), counter)), devices);
    let kill = prop::sample::select(vec![Kill::BeforeTheCheckpoint, Kill::BeforeTheHandOn, Kill::AfterTheHandOn]);
    let room = prop_oneof![3 => Just(usize::MAX), 1 => 0_usize..3];
    (after, seen, room, prop::option::weighted(0.15, kill)).prop_map(|(after, seen, room, kill)| Step {
        after,
        seen,
        room,
        kill,
    })
}

/// One to three devices and many steps, or 16 devices and some.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![
        9 => (1_usize..4).prop_flat_map(|devices| prop::collection::vec(step(devices), 1..60)),
        1 => prop::collection::vec(step(16), 1..12),
    ]
}

fn gpu(number: usize) -> String {
    format!("GPU-{number}")
}

/// An agent that is killed.
#[derive(Default)]
struct Agent {
    ledger: Ledger,
    /// The ledger as its file has it.
    stored: Option<Ledger>,
    outbox: BTreeMap<(String, i64), ClosedMinute>,
}

impl Agent {
    /// Keeps a tick as a node does, with a spool that takes so many minutes; whether it was kept.
    fn keep(&mut self, room: usize, kill: Option<Kill>) -> bool {
        if kill == Some(Kill::BeforeTheCheckpoint) {
            self.restart();
            return false;
        }
        self.stored = Some(self.ledger.clone());
        if kill == Some(Kill::BeforeTheHandOn) {
            self.restart();
            return true;
        }
        for minute in self.ledger.pending().iter().take(room) {
            let before = self.outbox.insert((minute.device.clone(), minute.start_ms), minute.clone());
            assert!(before.is_none_or(|before| before == *minute), "another content: {minute:?}");
        }
        let left: Vec<ClosedMinute> = self.ledger.pending().iter().skip(room).cloned().collect();
        self.ledger.handed_on(room.min(self.ledger.pending().len()));
        assert_eq!(self.ledger.pending(), left);
        if kill == Some(Kill::AfterTheHandOn) {
            self.restart();
        }
        true
    }

    fn restart(&mut self) {
        let Some(stored) = &self.stored else { return self.ledger = Ledger::default() };
        let dir = tempfile::tempdir().unwrap();
        let file = CheckpointFile::new(dir.path());
        file.store(&encode(stored, [&b"samples"[..]].into_iter()).unwrap(), false).unwrap();
        let Loaded::Ledger(ledger, _) = file.load().unwrap() else { panic!("a checkpoint was stored") };
        self.ledger = *ledger;
    }
}

/// Plays the steps; what was handed on, and what was to be known of each device.
fn play(offset: i64, interval_ms: i64, steps: &[Step]) -> (BTreeMap<(String, i64), ClosedMinute>, Vec<Known>) {
    let interval = Duration::from_millis(interval_ms.unsigned_abs());
    let devices = steps[0].seen.len();
    let (mut agent, mut instant_ms) = (Agent::default(), START + offset);
    // More than a reset counter reaches in these steps: what it says is not what it said before.
    let (mut known, mut counters) = (vec![Known::default(); devices], vec![5_000_000_000_u64; devices]);
    let mut jumps = 0;
    for step in steps {
        let after = step.after.0 * interval_ms + step.after.1;
        jumps += usize::from(after.abs() > 40_000_000);
        // A timeline remembers so many runs of minutes.
        instant_ms += if jumps > 6 { after % 40_000_000 } else { after };
        let before = known.clone();
        for (device, seen) in step.seen.iter().enumerate() {
            let Some((state, counter)) = seen else { continue };
            let reading = match counter {
                Counter::Rises(by) => Some(counters[device] + by),
                Counter::Resets(to) => Some(*to),
                Counter::Untold => None,
            };
            counters[device] = reading.unwrap_or(counters[device]);
            agent.ledger.tick(tick_of(&gpu(device), instant_ms, reading, state), interval);
            known[device].tick(instant_ms, reading, state);
        }
        agent.ledger.advance(instant_ms);
        known.iter_mut().for_each(|known| known.advance(instant_ms));
        if !agent.keep(step.room, step.kill) {
            known = before;
        }
        if step.kill.is_some() {
            known.iter_mut().for_each(|known| known.blind = true);
        }
    }
    agent.keep(usize::MAX, None);
    (agent.outbox, known)
}

proptest! {
    #[test]
    fn the_books_are_what_the_model_says(
        offset in 0_i64..60_000,
        interval_ms in prop::sample::select(vec![100_i64, 1_000, 10_000, 60_000]),
        steps in steps(),
    ) {
        let (outbox, known) = play(offset, interval_ms, &steps);
        let mut left: BTreeSet<&(String, i64)> = outbox.keys().collect();
        for (device, known) in known.iter().enumerate() {
            let device = gpu(device);
            let (mut books, energies) = expected(&device, &known.runs, (5 * interval_ms).max(5_000));
            for (minute, expected_energy) in energies {
                let of_gpu = |(name, start): &&(String, i64)| *start == minute && name.ends_with(&device);
                let keys: Vec<&(String, i64)> = outbox.keys().filter(of_gpu).collect();
                let (mut share, mut energy) = (0, 0);
                for key in keys {
                    prop_assert!(left.remove(key));
                    let (mut device_share, mut device_busy) = (0, 0);
                    for account in &outbox[key].accounts {
                        let told = books.remove(&(key.0.clone(), minute, account.owner.clone()));
                        let Some(Expected { parts, whole }) = told else { panic!("not to be there: {key:?} {account:?}") };
                        let found = [account.share_ms, account.busy_ms, account.energy_mj];
                        let near = found.iter().zip(parts).all(|(found, part)| is_near(*found, part));
                        prop_assert!(near, "{parts:?} {key:?} {account:?}");
                        prop_assert_eq!([account.held_ms, account.idle_ms, account.memory_mib_ms], whole, "{:?}", account);
                        prop_assert!(account.idle_ms <= account.held_ms && account.share_ms <= account.held_ms);
                        prop_assert!(account.held_ms <= 60_000 && account.odd == [0; 3]);
                        device_share += account.share_ms;
                        device_busy += account.busy_ms;
                        energy += account.energy_mj;
                    }
                    prop_assert!(device_busy <= device_share, "{:?}", outbox[key]);
                    share += device_share;
                }
                prop_assert_eq!((share, energy), (60_000, expected_energy), "{} at {}", device, minute);
            }
            // Nobody's time of less than a millisecond has no row.
            for (key, Expected { parts, .. }) in books {
                let nobody = matches!(key.2.kind, OwnerKind::Idle | OwnerKind::Stranded);
                prop_assert!(nobody && parts.iter().all(|part| is_near(0, *part)), "left out: {key:?} {parts:?}");
            }
        }
        prop_assert!(left.is_empty(), "of no minute that is over: {left:?}");
    }
}
