//! Who held what, by the controller's times and by the kernel: an account that knows nothing of the agent.
//!
//! **How exact it is.** The controller tells whole seconds: what it did at `T` happened in `[T, T + 1 s)`. The node does it later,
//! by as long as Slurm needs to start, freeze or end processes; how long that is here is measured, by a time that the job itself
//! writes or by what the kernel shows. So each change has an earliest and a latest instant. The agent looks within each tick, and
//! books what it sees from the tick's instant on. It can't see a change in a tick that ended before the earliest instant, and sees
//! it in any that begins after the latest one. A part of a device is whole milliseconds in each tick, so that it may be one off in
//! each. Nothing else is allowed for.

use std::collections::{BTreeMap, BTreeSet};

/// Milliseconds in a minute.
pub const MINUTE_MS: i64 = 60_000;

/// By so much the clock that the controller reads may be behind, in milliseconds: a tick of the kernel's.
const COARSE_MS: i64 = 10;

/// When something changed, Unix milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub earliest: i64,
    pub latest: i64,
}

impl Change {
    /// The controller did it in this second, and it was so at the latest then.
    pub fn of(second: i64, latest: i64) -> Self {
        assert!(second <= latest, "the controller says {second}, and it was so at {latest}");
        Self { earliest: second, latest }
    }

    /// It was not so yet, and the controller knew it in this second.
    pub fn known(earliest: i64, second: i64) -> Self {
        let latest = second + 1_000 + COARSE_MS;
        assert!(earliest <= latest, "not so at {earliest}, and the controller says {second}");
        Self { earliest, latest }
    }
}

/// What a job held.
#[derive(Debug)]
pub struct Held {
    pub job: String,
    /// Minor numbers.
    pub devices: BTreeSet<u32>,
    /// How much of each, in millionths.
    pub ppm: i64,
    /// From when to when.
    pub spans: Vec<(Change, Change)>,
}

/// When a tick began and ended, Unix milliseconds.
pub type Ticks = [(i64, i64)];

/// The instants from which on a change may be booked: the first and the last one.
fn booked(change: Change, ticks: &Ticks) -> (i64, i64) {
    let first = ticks.iter().find(|(_, ended)| *ended >= change.earliest);
    let last = ticks.iter().find(|(began, _)| *began >= change.latest);
    (first.expect("a tick at the change").0, last.expect("a tick after the change").0)
}

/// The least and the most milliseconds that each job has of a device in a minute, where the agent's clock shows `offset_ms` more.
pub fn account(all: &[Held], ticks: &Ticks, offset_ms: i64) -> BTreeMap<(i64, u32, String), (i64, i64)> {
    let mut found = BTreeMap::new();
    for held in all {
        for (from, until) in &held.spans {
            let (from, until) = (booked(*from, ticks), booked(*until, ticks));
            let (from, until) = ((from.0 + offset_ms, from.1 + offset_ms), (until.0 + offset_ms, until.1 + offset_ms));
            let mut minute = from.0 - from.0.rem_euclid(MINUTE_MS);
            while minute < until.1 {
                let within = |from: i64, until: i64| (until.min(minute + MINUTE_MS) - from.max(minute)).max(0);
                let is_in = |(began, _): &&(i64, i64)| (from.0..until.1).contains(&(began + offset_ms));
                let rounded = if held.ppm == 1_000_000 { 0 } else { ticks.iter().filter(is_in).count() };
                let rounded = i64::try_from(rounded).unwrap();
                for device in &held.devices {
                    let of = found.entry((minute, *device, held.job.clone())).or_insert((0, 0));
                    of.0 += (within(from.1, until.0) * held.ppm / 1_000_000 - rounded).max(0);
                    of.1 += within(from.0, until.1) * held.ppm / 1_000_000 + rounded;
                }
                minute += MINUTE_MS;
            }
        }
    }
    found
}
