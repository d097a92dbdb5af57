//! When a server is scraped, and by which instant its rows are called.
//!
//! Each server has its place in the interval, by its id: so a node's servers are not asked all at once, and each of them once
//! in each window of latencies, whatever the agent's start was. Places are in the middle of the interval, so that an answer that
//! takes its time is still of the same window.

use std::time::Duration;

use uuid::Uuid;

/// First and last place in the interval, in thousandths of it.
const PLACES: (u64, u64) = (100, 700);

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// How long to wait at `now_ms` (Unix milliseconds) until the server of this id is due.
pub fn wait(id: Uuid, interval: Duration, now_ms: i64) -> Duration {
    let interval_ms = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1);
    let (first, last) = PLACES;
    let place = first + id.as_u64_pair().0 % (last - first);
    let place_ms = interval_ms * i64::try_from(place).unwrap_or(0) / 1_000;
    let passed = (now_ms - place_ms).rem_euclid(interval_ms);
    Duration::from_millis(u64::try_from(interval_ms - passed).unwrap_or(1))
}

/// The instant of a scrape, Unix nanoseconds: the clock's millisecond, and in the places below it which scrape of the server
/// it is. So no two scrapes of a server ever have one instant, also when the clock is set back: a million of them would have to
/// lie in between.
pub fn instant_ns(now_ms: i64, scrapes: u64) -> u64 {
    u64::try_from(now_ms).unwrap_or(0).saturating_mul(MS).saturating_add(scrapes % MS)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_window_has_its_scrape() {
        for (interval, times) in [(10_000, 1), (5_000, 2), (1_000, 10)] {
            for number in 0..200_u128 {
                let id = Uuid::from_u128(number << 64 | number);
                let mut now_ms = 1_790_000_000_123;
                let mut windows = std::collections::BTreeMap::new();
                for _ in 0..20 * times {
                    now_ms += i64::try_from(wait(id, Duration::from_millis(interval), now_ms).as_millis()).unwrap();
                    *windows.entry(now_ms / 10_000).or_insert(0) += 1;
                    // There is time for an answer.
                    assert!((now_ms + i64::try_from(interval / 10).unwrap()) / 10_000 == now_ms / 10_000);
                }
                let whole: Vec<i32> = windows.values().skip(1).rev().skip(1).copied().collect();
                assert!(whole.iter().all(|count| *count == times), "{whole:?}");
            }
        }
    }

    #[test]
    fn servers_are_spread() {
        let waits: HashSet<Duration> = (0..100_u32)
            .map(|number| wait(Uuid::new_v5(&Uuid::NAMESPACE_URL, &number.to_le_bytes()), Duration::from_secs(10), 0))
            .collect();
        assert!(waits.len() > 80, "{}", waits.len());
    }

    #[test]
    fn an_instant_is_never_that_of_another_scrape() {
        assert_eq!(instant_ns(1_790_000_000_123, 7), 1_790_000_000_123_000_007);
        // The clock was set back to the very same millisecond, and before the epoch.
        assert_ne!(instant_ns(5, 7), instant_ns(5, 8));
        assert_eq!(instant_ns(-5, 7), 7);
    }
}
