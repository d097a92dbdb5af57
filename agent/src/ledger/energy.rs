//! From what an energy counter says to how much it rose.
//!
//! - It rose by what it says now less what it said when it was read before. Where it could not be read, the next reading says
//!   it all.
//! - A counter that fell was reset (a driver reload), and what it says now is the rise.
//! - A counter that fell, and then says at least what it said before the fall although no GPU could have drawn that much
//!   since ([`MAX_POWER_MW`]), was not reset: what it said between was wrong, and what was booked of it is taken off the next
//!   rises.

use serde::{Deserialize, Serialize};

/// More than any GPU draws, in milliwatts.
pub const MAX_POWER_MW: u64 = 10_000_000;

/// An energy counter in millijoules, as it was read last.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct EnergyCounter {
    /// What it said, when that is known. The name is that of a checkpoint that is older than this type.
    energy_mj: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fell: Option<Fall>,
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
    /// When it said less first, Unix milliseconds.
    at_ms: i64,
    /// What it rose by since then, with what it said first.
    booked_mj: u64,
}

impl EnergyCounter {
    /// Takes in a reading at `now_ms` (Unix milliseconds), millijoules; `None`: it could not be read. By how much it rose.
    pub fn read(&mut self, now_ms: i64, reading: Option<u64>) -> u64 {
        let Some(now) = reading else { return 0 };
        let Some(before) = self.energy_mj.replace(now) else { return 0 };
        let rise = self.rise(now_ms, before, now);
        let taken = rise.min(self.owed_mj);
        self.owed_mj -= taken;
        rise - taken
    }

    fn rise(&mut self, now_ms: i64, before: u64, now: u64) -> u64 {
        if let Some(fall) = self.fell.take_if(|fall| now >= fall.from_mj) {
            let possible = now_ms.abs_diff(fall.at_ms).saturating_mul(MAX_POWER_MW / 1_000);
            if now > possible {
                self.owed_mj = self.owed_mj.saturating_add(fall.booked_mj);
                return now - fall.from_mj;
            }
        }
        let rise = now.checked_sub(before).unwrap_or_else(|| {
            self.fell.get_or_insert(Fall { from_mj: before, at_ms: now_ms, booked_mj: 0 });
            now
        });
        if let Some(fall) = &mut self.fell {
            fall.booked_mj = fall.booked_mj.saturating_add(rise);
        }
        rise
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: i64 = 1_790_000_040_000;

    /// The rises of a counter that is read once a second.
    fn rises(readings: &[Option<u64>]) -> Vec<u64> {
        let mut counter = EnergyCounter::default();
        readings.iter().zip(0..).map(|(reading, second)| counter.read(START + second * 1_000, *reading)).collect()
    }

    #[test]
    fn a_reset_is_no_fault_and_a_wrong_reading_is_no_reset() {
        let life = 5_000_000_000;
        // A reload: what it says is the rise; an hour later it may say what it said before.
        assert_eq!(rises(&[Some(life), Some(300), Some(900), None, Some(1_700)]), [0, 300, 600, 0, 800]);
        let mut counter = EnergyCounter::default();
        let at = [(0, life), (1, 700_000), (3_601, life + 5)];
        let found = at.map(|(second, mj)| counter.read(START + second * 1_000, Some(mj)));
        assert_eq!(found, [0, 700_000, life + 5 - 700_000]);
        // It once says nothing, or something wrong, and goes on.
        assert_eq!(rises(&[Some(life), Some(0), Some(life + 600), Some(life + 900)]), [0, 0, 600, 300]);
        assert_eq!(rises(&[Some(life), Some(200), Some(50), None, Some(life + 600)]), [0, 200, 50, 0, 350]);
        // More was booked than it rose by.
        assert_eq!(rises(&[Some(life), Some(900), Some(life), Some(life + 1_000)]), [0, 900, 0, 100]);
    }

    proptest! {
        #[test]
        fn wrong_readings_add_nothing(
            steps in prop::collection::vec((0_u64..700_000, prop::option::weighted(0.2, 0_u64..1_000)), 1..40),
        ) {
            let life = 50_000_000_000;
            let (mut truth, mut readings) = (life, vec![Some(life)]);
            for (rise, wrong) in steps {
                truth += rise;
                readings.push(Some(wrong.unwrap_or(truth)));
            }
            // Enough to have all of what was booked by mistake be taken off.
            truth += 1_000_000;
            readings.push(Some(truth));
            prop_assert_eq!(rises(&readings).iter().sum::<u64>(), truth - life);
        }
    }
}
