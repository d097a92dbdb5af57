//! Dividing a whole number among holders so that the parts sum to it exactly.

/// Divides `total` by `weights` (largest remainder). Ties go by position, starting from position `rotation` modulo the
/// number of weights: with the start of the interval in milliseconds as `rotation`, who gets the odd millisecond moves on
/// by exactly as many places as the interval before gave out, so that equal holders get equal time, and the same
/// interval is always split in the same way. Who has weight 0 gets nothing and is not counted; when all weights are 0
/// they count as equal.
///
/// # Panics
/// Never for at least one weight; without any there is nobody to give to, and the answer is empty.
pub fn apportion(total: u64, weights: &[u64], rotation: u64) -> Vec<u64> {
    let count = weights.len();
    if count == 0 {
        return Vec::new();
    }
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let weight = |index: usize| if sum == 0 { 1 } else { u128::from(weights[index]) };
    let taking = (0..count).filter(|&index| weight(index) > 0).count();
    let sum = if sum == 0 { count as u128 } else { sum };
    let total = u128::from(total);
    let mut parts: Vec<u64> = Vec::with_capacity(count);
    let mut remainders: Vec<(u128, usize, usize)> = Vec::with_capacity(taking);
    let mut given = 0_u128;
    for index in 0..count {
        let exact = total * weight(index);
        let part = exact / sum;
        given += part;
        // A part is at most the total, which has 64 bits.
        parts.push(u64::try_from(part).unwrap_or(u64::MAX));
        if weight(index) > 0 {
            remainders.push((exact % sum, remainders.len(), index));
        }
    }
    let start = usize::try_from(rotation % taking as u64).unwrap_or(0);
    remainders.sort_by_key(|&(remainder, place, _)| (std::cmp::Reverse(remainder), (place + taking - start) % taking));
    let left = usize::try_from(total - given).unwrap_or(0);
    for &(_, _, index) in remainders.iter().take(left) {
        parts[index] += 1;
    }
    parts
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_odd_millisecond_goes_round() {
        let thirds: Vec<Vec<u64>> = (0..3).map(|second| apportion(1000, &[1, 1, 1], second * 1000)).collect();
        assert_eq!(thirds, [[334, 333, 333], [333, 334, 333], [333, 333, 334]]);
    }

    #[test]
    fn weights_decide_and_zeros_count_as_equal() {
        assert_eq!(apportion(10, &[1, 0, 3], 0), [3, 0, 7]);
        let halves: Vec<Vec<u64>> = (0..2).map(|turn| apportion(1, &[1, 0, 1], turn)).collect();
        assert_eq!(halves, [[1, 0, 0], [0, 0, 1]], "who gets nothing has no turn");
        assert_eq!(apportion(10, &[0, 0], 0), [5, 5]);
        assert_eq!(apportion(u64::MAX, &[u64::MAX, u64::MAX], 0), [1 << 63, (1 << 63) - 1]);
        assert!(apportion(10, &[], 0).is_empty());
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_total(total: u64, weights in prop::collection::vec(any::<u64>(), 1..20), rotation: u64) {
            let parts = apportion(total, &weights, rotation);
            prop_assert_eq!(parts.iter().map(|&part| u128::from(part)).sum::<u128>(), u128::from(total));
        }

        #[test]
        fn equal_holders_differ_by_no_more_than_a_millisecond(count in 1_usize..40, seconds in 1_u64..200) {
            let mut sums = vec![0_u64; count];
            for second in 0..seconds {
                for (sum, part) in sums.iter_mut().zip(apportion(1000, &vec![1; count], second * 1000)) {
                    *sum += part;
                }
            }
            prop_assert!(sums.iter().max().unwrap() - sums.iter().min().unwrap() <= 1);
        }
    }
}
