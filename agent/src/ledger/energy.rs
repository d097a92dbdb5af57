//! From what an energy counter says to how much it rose.
//!
//! - It rose by what it says now less what it said when it was read before. Where it could not be read, the next reading says
//!   it all.
//! - A counter that fell was reset (a driver reload), and what it says now is the rise.
//! - No GPU draws more than [`MAX_POWER_MW`]. What would be more since the last reading, be it a rise or what a reset counter
//!   says, is wrong: nothing is booked. When it goes on so for [`DOUBT_MS`], it is a new beginning, and rises from there.
//! - A counter that fell, and then goes on from what it said before the fall, more than it can have drawn since, was not reset:
//!   what it said between was wrong, and what was booked of it is taken off the next rises.
//! - After a clock that was set back nobody knows how long it took: then any rise and any reset is possible.

use serde::{Deserialize, Serialize};

/// More than any GPU draws, in milliwatts.
pub const MAX_POWER_MW: u64 = 10_000_000;

/// For how long, in milliseconds, readings that are not possible are not believed. As much is granted to each interval beyond
/// its length, since a reading is not of the very instant of its tick.
pub const DOUBT_MS: i64 = 60_000;

/// Most falls that are remembered.
const MAX_FALLS: usize = 4;

/// An energy counter in millijoules, as it was read last.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EnergyCounter {
    /// What it said, when that is known. The name is that of a checkpoint that is older than this type.
    energy_mj: Option<u64>,
    /// When that was, Unix milliseconds; 0: unknown.
    #[serde(default)]
    read_ms: i64,
    /// The last tick, with a reading or without, Unix milliseconds.
    #[serde(default)]
    seen_ms: i64,
    /// The clock was set back since the last reading.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_untimed: bool,
    /// When it said less than before, the latest one last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    falls: Vec<Fall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    doubt: Option<Doubt>,
    /// What was booked by mistake, and is not taken off yet.
    #[serde(default, skip_serializing_if = "is_nothing")]
    owed_mj: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_nothing(mj: &u64) -> bool {
    *mj == 0
}

/// That a counter says less than before.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
struct Fall {
    /// What it said before that.
    from_mj: u64,
    /// When it said that last, Unix milliseconds.
    read_ms: i64,
    /// What it rose by since then, with what it said first.
    booked_mj: u64,
}

/// Readings that are not possible.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
struct Doubt {
    since_ms: i64,
    first_mj: u64,
    last_mj: u64,
}

impl EnergyCounter {
    /// Says that there is a tick at `now_ms` (Unix milliseconds), also one that is not booked.
    pub fn pass(&mut self, now_ms: i64) {
        if now_ms < self.seen_ms {
            self.is_untimed = true;
        }
        self.seen_ms = now_ms;
    }

    /// Takes in a reading at `now_ms` (Unix milliseconds), millijoules; `None`: it could not be read. By how much it rose.
    pub fn read(&mut self, now_ms: i64, reading: Option<u64>) -> u64 {
        let Some(now) = reading else { return 0 };
        let rise = match self.energy_mj {
            None => Some(0),
            Some(before) => self.rise(now_ms, before, now),
        };
        let Some(rise) = rise else { return 0 };
        (self.energy_mj, self.read_ms, self.is_untimed, self.doubt) = (Some(now), now_ms, false, None);
        self.falls.iter_mut().for_each(|fall| fall.booked_mj = fall.booked_mj.saturating_add(rise));
        let taken = rise.min(self.owed_mj);
        self.owed_mj -= taken;
        rise - taken
    }

    /// By how much it rose; `None` when that is not possible.
    fn rise(&mut self, now_ms: i64, before: u64, now: u64) -> Option<u64> {
        if self.is_untimed {
            self.falls.clear();
        } else if let Some(rise) = self.recovered(now_ms, now) {
            return Some(rise);
        }
        let possible = if self.is_untimed { u64::MAX } else { possible_mj(self.read_ms, now_ms) };
        match now.checked_sub(before) {
            Some(rise) if rise <= possible => Some(rise),
            None if now <= possible => {
                self.falls.push(Fall { from_mj: before, read_ms: self.read_ms, booked_mj: 0 });
                self.falls.drain(..self.falls.len().saturating_sub(MAX_FALLS));
                Some(now)
            }
            _ => self.doubted(now_ms, now),
        }
    }

    /// The rise from what the counter said before it fell, when it goes on from there although it can't have come there.
    fn recovered(&mut self, now_ms: i64, now: u64) -> Option<u64> {
        let goes_on = |fall: &Fall| {
            let possible = possible_mj(fall.read_ms, now_ms);
            now > possible && now.checked_sub(fall.from_mj).is_some_and(|rise| rise <= possible)
        };
        let place = self.falls.iter().rposition(goes_on)?;
        let Fall { from_mj, booked_mj, .. } = self.falls[place];
        self.falls.truncate(place);
        self.owed_mj = self.owed_mj.saturating_add(booked_mj);
        Some(now - from_mj)
    }

    /// Takes in what is not possible: by how much it rose, when that has gone on for long.
    fn doubted(&mut self, now_ms: i64, now: u64) -> Option<u64> {
        let new = Doubt { since_ms: now_ms, first_mj: now, last_mj: now };
        let doubt = self.doubt.get_or_insert(new);
        if now < doubt.last_mj || now - doubt.last_mj > possible_mj(doubt.since_ms, now_ms) {
            *doubt = new;
        }
        doubt.last_mj = now;
        let rise = (now_ms - doubt.since_ms >= DOUBT_MS).then_some(now - doubt.first_mj)?;
        self.falls.clear();
        Some(rise)
    }
}

/// More than any GPU draws between two instants, millijoules.
fn possible_mj(from_ms: i64, to_ms: i64) -> u64 {
    let ms = to_ms.saturating_sub(from_ms).max(0).saturating_add(DOUBT_MS);
    ms.unsigned_abs().saturating_mul(MAX_POWER_MW / 1_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: i64 = 1_790_000_040_000;

    /// Of a counter that has counted for long.
    const LIFE: u64 = 50_000_000_000;

    /// The rises of a counter that is read at these seconds.
    fn rises_at(readings: &[(i64, Option<u64>)]) -> Vec<u64> {
        let mut counter = EnergyCounter::default();
        let read = |&(second, reading): &(i64, Option<u64>)| {
            counter.pass(START + second * 1_000);
            counter.read(START + second * 1_000, reading)
        };
        readings.iter().map(read).collect()
    }

    fn rises(readings: &[u64]) -> Vec<u64> {
        let each: Vec<_> = readings.iter().zip(0..).map(|(reading, second)| (second, Some(*reading))).collect();
        rises_at(&each)
    }

    #[test]
    fn a_reset_is_no_fault() {
        assert_eq!(rises_at(&[(0, Some(LIFE)), (1, Some(300)), (2, None), (3, Some(900))]), [0, 300, 0, 600]);
        // Hours later it says what it said before, and more.
        let hours = [(0, Some(LIFE)), (1, Some(700_000)), (36_001, Some(LIFE - 5)), (36_002, Some(LIFE + 5))];
        assert_eq!(rises_at(&hours), [0, 700_000, LIFE - 700_005, 10]);
        // It was reset while nobody read, and has nearly come there again.
        let away = [(0, Some(1_810_000_000)), (3_600, Some(1_800_000_000)), (3_630, Some(1_815_000_000))];
        assert_eq!(rises_at(&away), [0, 1_800_000_000, 15_000_000]);
    }

    #[test]
    fn a_wrong_reading_is_no_reset_and_no_rise() {
        assert_eq!(rises(&[LIFE, 0, LIFE + 600, LIFE + 900]), [0, 0, 600, 300]);
        assert_eq!(rises(&[LIFE, 200, 50, LIFE + 600]), [0, 200, 50, 350]);
        // More was booked than it rose by.
        assert_eq!(rises(&[LIFE, 900, LIFE, LIFE + 1_000]), [0, 900, 0, 100]);
        // A little less, and much more.
        assert_eq!(rises(&[LIFE, LIFE - 1, LIFE + 600]), [0, 0, 600]);
        assert_eq!(rises(&[LIFE, 9 * LIFE, LIFE + 600, LIFE + 700]), [0, 0, 600, 100]);
        // After a reset, too.
        let reload = [(0, Some(LIFE)), (1, Some(0)), (7_201, Some(3_600_000_000)), (7_202, Some(0))];
        let after = [(7_203, Some(3_600_001_300)), (7_204, Some(3_600_001_900))];
        assert_eq!(rises_at(&[&reload[..], &after].concat()), [0, 0, 3_600_000_000, 0, 1_300, 600]);
    }

    #[test]
    fn what_goes_on_is_believed() {
        for begin in [LIFE / 2, 9 * LIFE] {
            let mut readings = vec![LIFE];
            readings.extend((0..100).map(|second| begin + second * 500));
            let rises = rises(&readings);
            // The first 60 s at once, when they are over.
            let first = rises.iter().position(|rise| *rise > 0).unwrap();
            assert_eq!((first, rises[first], rises.iter().sum::<u64>()), (61, 60 * 500, 99 * 500));
        }
    }

    #[test]
    fn a_clock_that_is_set_back_hides_no_energy() {
        let mut counter = EnergyCounter::default();
        counter.pass(START);
        assert_eq!(counter.read(START, Some(LIFE)), 0);
        // An hour is waited for: ticks are not booked.
        counter.pass(START - 3_600_000);
        counter.pass(START - 1_000);
        counter.pass(START + 1_000);
        assert_eq!(counter.read(START + 1_000, Some(LIFE + 2_520_000_000)), 2_520_000_000);
        counter.pass(START + 2_000);
        assert_eq!(counter.read(START + 2_000, Some(9 * LIFE)), 0, "and it is timed again");
    }

    proptest! {
        #[test]
        fn wrong_readings_add_nothing(
            steps in prop::collection::vec((0_u64..700_000, prop::option::weighted(0.2, (0_u8..3, 0_u64..1_000))), 1..40),
        ) {
            let (mut truth, mut readings) = (LIFE, vec![LIFE]);
            for (rise, wrong) in steps {
                truth += rise;
                readings.push(match wrong {
                    None => truth,
                    Some((0, low)) => low,
                    Some((1, less)) => LIFE - 1 - less * 1_000_000,
                    Some((_, more)) => LIFE * (2 + more),
                });
            }
            // Enough to have all of what was booked by mistake be taken off.
            truth += 1_000_000;
            readings.push(truth);
            prop_assert_eq!(rises(&readings).iter().sum::<u64>(), truth - LIFE);
        }

        #[test]
        fn resets_beside_wrong_readings_are_resets(
            steps in prop::collection::vec((0_u64..700_000, 0_u8..12), 1..60),
        ) {
            let (mut told, mut sum, mut readings) = (LIFE, 0, vec![LIFE]);
            for (rise, what) in steps {
                // What nobody has read before a reset is not known.
                let rise = if what == 1 || what == 2 { 0 } else { rise };
                // Of a young counter, that may not be seen.
                told = if what == 0 && told >= LIFE { rise } else { told + rise };
                sum += rise;
                readings.push(match what {
                    // Of a young counter, that may be another reset.
                    1 if told >= LIFE => 0,
                    2 => LIFE * 7,
                    _ => told,
                });
            }
            readings.push(told);
            prop_assert_eq!(rises(&readings).iter().sum::<u64>(), sum);
        }
    }
}
