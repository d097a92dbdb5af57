//! How many GPUs the peaks of a service need, hour by hour of the week.
//!
//! `GPUs = ⌈peak × (1 + headroom) / requests a second of one GPU⌉`, in whole numbers and fractions: nothing is rounded before that.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};

use contador_schemas::quantile::Quantile;

use crate::bill::decimal::ONE;

/// Hours of a week.
pub const HOURS: usize = 168;

/// Requests of one window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Requests {
    /// Start of the window, Unix seconds.
    pub at: i64,
    /// Millionths of requests.
    pub millionths: i128,
}

/// Requests in windows of one length, one after another without a hole.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Length of the windows, seconds.
    pub window_s: u32,
    /// From the first to the last window with traffic; those without any between them too.
    pub windows: Vec<Requests>,
}

/// What counts as the peak of some windows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Peak {
    /// The window with most requests.
    Greatest,
    /// A quantile of the windows.
    Quantile(Quantile),
}

/// What one GPU must bear, and how much of it is kept free.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sizing {
    /// Requests a second of one GPU; positive.
    pub per_gpu: BigRational,
    /// What is added to the peak: a part of it, times `10^12`.
    pub headroom: i128,
}

/// What the peaks need.
#[derive(Clone, Debug, PartialEq)]
pub struct Needed {
    /// Requests a second at the peak.
    pub peak: BigRational,
    /// GPUs for it.
    pub gpus: u64,
    /// Requests a second in the window with most, and at p99.9 and the median of all windows.
    pub told: [BigRational; 3],
    /// GPUs for the peak of each hour of the week, from Monday at midnight; `None` where that was not in the time.
    pub by_hour: Vec<Option<u64>>,
}

impl Traffic {
    /// Of windows with traffic, whatever their order; those in between have none.
    pub fn of(window_s: u32, mut seen: Vec<Requests>) -> Self {
        seen.sort_by_key(|window| window.at);
        let mut windows: Vec<Requests> = Vec::with_capacity(seen.len());
        for window in seen {
            let next = |last: &Requests| last.at + i64::from(window_s);
            while let Some(at) = windows.last().map(next).filter(|at| *at < window.at) {
                windows.push(Requests { at, millionths: 0 });
            }
            windows.push(window);
        }
        Self { window_s, windows }
    }

    /// Requests a second at the peak of some windows; nothing of none.
    fn peak<'a>(&self, windows: impl Iterator<Item = &'a Requests>, peak: Peak) -> BigRational {
        let mut counts: Vec<i128> = windows.map(|window| window.millionths).collect();
        counts.sort_unstable();
        let count = match peak {
            Peak::Greatest => counts.last(),
            Peak::Quantile(quantile) => {
                let rank = quantile.rank(u64::try_from(counts.len()).unwrap_or(u64::MAX));
                counts.get(usize::try_from(rank).unwrap_or(usize::MAX).saturating_sub(1))
            }
        };
        let count = BigInt::from(count.copied().unwrap_or_default());
        BigRational::new(count, BigInt::from(1_000_000) * self.window_s)
    }
}

impl Sizing {
    /// GPUs for so many requests a second.
    pub fn gpus(&self, rate: &BigRational) -> u64 {
        let headroom = BigRational::new(BigInt::from(ONE) + self.headroom, ONE.into());
        if self.per_gpu.is_zero() {
            return u64::MAX;
        }
        (rate * headroom / &self.per_gpu).ceil().to_integer().to_u64().unwrap_or(u64::MAX)
    }
}

/// What traffic needs, with hours of the week in a time zone.
pub fn needed(traffic: &Traffic, sizing: &Sizing, peak: Peak, zone: &TimeZone) -> Needed {
    let mut hours: Vec<Vec<&Requests>> = vec![Vec::new(); HOURS];
    let mut last = (i64::MIN, 0);
    for window in &traffic.windows {
        // Zones differ by whole quarters of an hour.
        let quarter = window.at.div_euclid(900);
        if last.0 != quarter {
            last = (quarter, hour_of_week(window.at, zone));
        }
        hours[last.1].push(window);
    }
    let at = traffic.peak(traffic.windows.iter(), peak);
    let told = [Peak::Greatest, Peak::Quantile(Quantile::P999), Peak::Quantile(Quantile::P50)]
        .map(|peak| traffic.peak(traffic.windows.iter(), peak));
    let of_hour =
        |windows: Vec<&Requests>| (!windows.is_empty()).then(|| sizing.gpus(&traffic.peak(windows.into_iter(), peak)));
    Needed { gpus: sizing.gpus(&at), peak: at, told, by_hour: hours.into_iter().map(of_hour).collect() }
}

/// The hour of the week of a Unix second, from Monday at midnight.
pub fn hour_of_week(second: i64, zone: &TimeZone) -> usize {
    let local = Timestamp::from_second(second).unwrap_or_default().to_zoned_datetime(zone.clone());
    let hour = i32::from(local.weekday().to_monday_zero_offset()) * 24 + i32::from(local.hour());
    usize::try_from(hour).unwrap_or_default() % HOURS
}

impl Needed {
    /// GPUs of the hour of the week that needs fewest, of those that were in the time.
    pub fn floor(&self) -> u64 {
        self.by_hour.iter().flatten().min().copied().unwrap_or_default()
    }

    /// GPU-hours of a week with as many GPUs as each hour needs; hours that were not in the time need as many as the peak.
    pub fn week(&self) -> u64 {
        self.by_hour.iter().map(|gpus| gpus.unwrap_or(self.gpus)).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizing(per_gpu: i64, percent: i128) -> Sizing {
        Sizing { per_gpu: BigRational::from(BigInt::from(per_gpu)), headroom: percent * ONE / 100 }
    }

    fn rate(requests: i64, seconds: i64) -> BigRational {
        BigRational::new(requests.into(), seconds.into())
    }

    #[test]
    fn five_thousand_requests_a_second_at_two_hundred_a_gpu_need_thirty_with_a_fifth_to_spare() {
        assert_eq!(sizing(200, 20).gpus(&rate(5_000, 1)), 30);
        // One request more in a minute is one GPU more, and one less is still thirty.
        assert_eq!(sizing(200, 20).gpus(&rate(300_001, 60)), 31);
        assert_eq!(sizing(200, 20).gpus(&rate(299_999, 60)), 30);
        assert_eq!(sizing(200, 0).gpus(&rate(5_000, 1)), 25);
        assert_eq!(sizing(200, 20).gpus(&BigRational::zero()), 0);
        // 0.1 + 0.2 is not 0.3 in binary: 3 × 1.1 / 1.1 is 3.
        assert_eq!(sizing(11, 10).gpus(&rate(30, 1)), 3);
    }

    #[test]
    fn peaks_are_of_all_windows_and_of_hours_of_the_week() {
        // Monday 2026-11-30 00:00 UTC: an hour with 100 a second, a silent one, and one with 300 in one of its minutes.
        let monday = 1_795_996_800;
        assert_eq!(hour_of_week(monday, &TimeZone::UTC), 0);
        let mut seen: Vec<Requests> =
            (0..60).map(|minute| Requests { at: monday + minute * 60, millionths: 6_000_000_000 }).collect();
        seen.push(Requests { at: monday + 7_200 + 600, millionths: 18_000_000_000 });
        seen.reverse();
        let traffic = Traffic::of(60, seen);
        assert_eq!(traffic.windows.len(), 131);
        let told = needed(&traffic, &sizing(50, 20), Peak::Greatest, &TimeZone::UTC);
        assert_eq!((told.gpus, &told.by_hour[..4]), (8, &[Some(3), Some(0), Some(8), None][..]));
        assert_eq!(told.told[1..], [rate(300, 1), rate(0, 1)]);
        assert_eq!((told.floor(), told.week()), (0, 3 + 8 + 165 * 8));
        let usual = needed(&traffic, &sizing(50, 20), Peak::Quantile(Quantile::P99), &TimeZone::UTC);
        // The 130th of 131 windows.
        assert_eq!((usual.peak, usual.gpus), (rate(100, 1), 3));
        // In Kathmandu, 5:45 ahead, the first minutes are Monday's sixth hour.
        let there = TimeZone::get("Asia/Kathmandu").unwrap();
        assert_eq!(needed(&traffic, &sizing(50, 20), Peak::Greatest, &there).by_hour[5], Some(3));
    }

    proptest! {
        #[test]
        fn gpus_are_enough_and_one_less_is_not(requests in 1..1_000_000_i64, seconds in 1..100_i64, per_gpu in 1..10_000_i64, percent in 0..300_i128) {
            let gpus = sizing(per_gpu, percent).gpus(&rate(requests, seconds));
            let wanted = i128::from(requests) * (100 + percent);
            let borne = |gpus: u64| i128::from(gpus) * i128::from(per_gpu) * i128::from(seconds) * 100;
            prop_assert!(borne(gpus) >= wanted && borne(gpus - 1) < wanted);
        }
    }
}
