//! Dividing whole numbers so that the parts sum to them exactly: by weights, over time, and back to whole units.
//!
//! Within a minute, parts are kept as whole numbers of [`FINE`]; whole milliseconds and millijoules are made of them once,
//! when the minute is over, by a [`Rounding`]. So how often somebody looks, and who else is there, costs nobody anything.

use super::minute::MINUTE_MS;

/// How many parts of a millisecond, or of a millijoule, are counted until a minute is over.
pub const FINE: u128 = 1_000_000_000_000;

/// Divides `total` by `weights`: each part is less than 1 off, and who has weight 0 gets nothing. When all weights are 0 they
/// count as equal; without any there is nobody to give to, and the answer is empty. Weights whose sum has more than 64 bits
/// count by the first 64 of it.
pub fn apportion(total: u128, weights: &[u64]) -> Vec<u128> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let equal = u64::from(sum == 0);
    let sum = if equal == 1 { weights.len() as u128 } else { sum };
    let cut = (u128::BITS - sum.leading_zeros()).saturating_sub(u64::BITS);
    let Some(rest) = total.checked_rem(sum >> cut) else { return Vec::new() };
    let each = total / (sum >> cut);
    let (mut weight, mut given) = (0_u128, 0);
    let part = |&more: &u64| {
        weight += u128::from(more + equal);
        let edge = each * (weight >> cut) + rest * (weight >> cut) / (sum >> cut);
        edge - std::mem::replace(&mut given, edge)
    };
    weights.iter().map(part).collect()
}

/// `delta × elapsed / whole`, rounded down: how much of a counter's increase over `whole` milliseconds had come after
/// `elapsed` of them, if it rose evenly.
pub fn portion(delta: u64, elapsed_ms: i64, whole_ms: i64) -> u64 {
    let (Ok(elapsed), Ok(whole)) = (u128::try_from(elapsed_ms), u128::try_from(whole_ms)) else { return 0 };
    if elapsed >= whole {
        return delta;
    }
    u64::try_from(u128::from(delta) * elapsed / whole).unwrap_or(delta)
}

/// Makes whole units of the odd parts that are left of them, one after the other.
///
/// Each is rounded up or down, so that it is less than a unit off, and odd parts that sum to whole units get as many. Who is
/// rounded up depends on the minute: over `n` minutes of the same parts, each is less than `2 × (log2(n) + 1)` units off,
/// since the numbers of minutes, their bits reversed, are spread evenly (van der Corput's sequence).
#[derive(Clone, Copy, Debug)]
pub struct Rounding(u128);

impl Rounding {
    /// That of the minute that begins at `start_ms` (Unix milliseconds).
    pub fn of_minute(start_ms: i64) -> Self {
        let number = start_ms.div_euclid(MINUTE_MS).unsigned_abs();
        // A bit more, so that none is next to 0 or 1: what is whole but for a few parts of [`FINE`] becomes whole.
        Self((u128::from(number.reverse_bits() | 1 << 36) * FINE) >> u64::BITS)
    }

    /// Takes `odd` in, which is less than [`FINE`], and says whether there is a unit for it: 1 or 0.
    pub fn take(&mut self, odd: u64) -> u64 {
        self.0 += u128::from(odd);
        let unit = u64::from(self.0 >= FINE);
        self.0 -= u128::from(unit) * FINE;
        unit
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn weights_decide_and_zeros_count_as_equal() {
        assert_eq!(apportion(12, &[1, 0, 3]), [3, 0, 9]);
        assert_eq!(apportion(10, &[1, 1, 1]), [3, 3, 4]);
        assert_eq!(apportion(10, &[0, 0]), [5, 5]);
        assert!(apportion(10, &[]).is_empty());
    }

    #[test]
    fn a_counter_rises_evenly() {
        assert_eq!([0, 1, 2, 3, 4].map(|at| portion(10, at, 3)), [0, 3, 6, 10, 10]);
        assert_eq!((portion(10, -1, 3), portion(u64::MAX, 1, 2), portion(7, 0, 0)), (0, u64::MAX / 2, 7));
    }

    /// The number of a minute between 1970 and 2084.
    fn minute() -> impl Strategy<Value = i64> {
        0_i64..60_000_000
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_total(total: u64, weights in prop::collection::vec(any::<u64>(), 1..20)) {
            let total = u128::from(total) * FINE;
            prop_assert_eq!(apportion(total, &weights).iter().sum::<u128>(), total);
        }

        #[test]
        fn each_part_is_less_than_1_off(total: u64, weights in prop::collection::vec(0_u64..1 << 44, 1..20)) {
            let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
            prop_assume!(sum > 0);
            for (part, &weight) in apportion(total.into(), &weights).into_iter().zip(&weights) {
                let exact = u128::from(total) * u128::from(weight);
                prop_assert!((part * sum).abs_diff(exact) < sum, "{} of {}", part, weight);
            }
        }

        #[test]
        fn odd_parts_become_whole_units(number in minute(), weights in prop::collection::vec(0_u64..1 << 44, 1..20)) {
            let (mut rounding, mut units, mut odd) = (Rounding::of_minute(number * MINUTE_MS), 0, 0);
            for part in apportion(60_000 * FINE, &weights) {
                let part = u64::try_from(part % FINE).unwrap();
                let unit = rounding.take(part);
                prop_assert!(unit <= u64::from(part > 0));
                units += u128::from(unit) * FINE;
                odd += u128::from(part);
            }
            prop_assert_eq!(units, odd);
        }

        #[test]
        fn over_many_minutes_nobody_loses(first in minute(), count in 1_i64..3_000, odd in prop::collection::vec(0..FINE, 1..6)) {
            let mut units = vec![0_u128; odd.len()];
            for number in first..first + count {
                let mut rounding = Rounding::of_minute(number * MINUTE_MS);
                for (units, odd) in units.iter_mut().zip(&odd) {
                    *units += u128::from(rounding.take(u64::try_from(*odd).unwrap()));
                }
            }
            for (units, odd) in units.into_iter().zip(odd) {
                let off = (units * FINE).abs_diff(odd * u128::from(count.unsigned_abs()));
                prop_assert!(off < u128::from(2 * (count.ilog2() + 1)) * FINE, "{} in {}", off, count);
            }
        }
    }
}
