//! The roll-ups, and which of their windows have everything that was stored.
//!
//! A level is clean up to its watermark: it has every window that ends at or before it, with all rows that were stored
//! before it. Rows that were stored later make their windows dirty there until the next pass, for all series: a pass leaves out
//! the whole window. What is not clean is read from a finer level, in the end from the rows themselves, so that no answer depends
//! on the roll-ups being in time.

use std::collections::BTreeMap;

use clickhouse::Row;
use serde::Deserialize;

use super::sql;
use crate::store::Store;

/// A table of roll-ups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Level {
    /// The table.
    pub table: &'static str,
    /// The table that it is made from.
    pub source: &'static str,
    /// Length of its windows.
    pub seconds: u32,
}

/// From the finest to the coarsest; each length is a multiple of the one before.
pub const LEVELS: [Level; 3] = [
    Level { table: "latency_5m", source: "latency", seconds: 300 },
    Level { table: "latency_1h", source: "latency_5m", seconds: 3_600 },
    Level { table: "latency_1d", source: "latency_1h", seconds: 86_400 },
];

/// How far watermarks stay behind ClickHouse's clock, in seconds. A row is stored under the time at which its insert
/// began, and is seen when it has ended: an insert is given up after at most 610 s, and then sent again. A row of a running total
/// is put right by a collector that was slow for up to 15 minutes, by an insert that takes 30 s at most: then it may count less.
pub const MARGIN_SECONDS: u32 = 960;

/// `[from, to)` in Unix seconds.
pub type Span = (u32, u32);

/// What is clean.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Clean {
    /// Watermark of each level, Unix milliseconds; 0 before its first pass.
    pub watermarks: [i64; LEVELS.len()],
    /// Windows of five minutes with rows that are newer than a watermark: when the newest of them was stored, Unix
    /// milliseconds.
    pub dirty: BTreeMap<u32, i64>,
}

/// Which spans are read from which table.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cover {
    /// From the rows.
    pub rows: Vec<Span>,
    /// From each level.
    pub levels: [Vec<Span>; LEVELS.len()],
}

impl Clean {
    /// What is clean in `[from, to)`.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub async fn read(store: &Store, (from, to): Span) -> clickhouse::error::Result<Self> {
        let watermarks = watermarks(store).await?;
        let Some(least) = watermarks.iter().copied().filter(|watermark| *watermark > 0).min() else {
            return Ok(Self::default());
        };
        let clean_to = seconds(watermarks.iter().copied().max().unwrap_or(0)).min(to);
        let sql = format!(
            "SELECT toUInt32(intDiv(toUInt32(window), 300) * 300) AS w, toUnixTimestamp64Milli(max(stored)) AS newest \
             FROM latency WHERE window >= toDateTime({from}, 'UTC') AND window < toDateTime({clean_to}, 'UTC') \
             AND stored >= fromUnixTimestamp64Milli({least}, 'UTC') GROUP BY w"
        );
        let dirty: Vec<(u32, i64)> = sql::settings(store.client.query(&sql)).fetch_all().await?;
        Ok(Self { watermarks, dirty: dirty.into_iter().collect() })
    }

    /// Spans that together are `[from, to)`, each from the coarsest level that has it. A level whose windows would reach
    /// over the steps' ends is not used.
    pub fn cover(&self, (from, to): Span, step: Option<u32>) -> Cover {
        let mut cover = Cover::default();
        let mut left = vec![(from, to)];
        for (level, seconds) in LEVELS.iter().map(|level| level.seconds).enumerate().rev() {
            if step.is_some_and(|step| step % seconds != 0) {
                continue;
            }
            let dirty = self.dirty_at(level, seconds);
            let mut finer = Vec::new();
            for span in left {
                split(
                    span,
                    seconds,
                    self::seconds(self.watermarks[level]),
                    &dirty,
                    &mut cover.levels[level],
                    &mut finer,
                );
            }
            left = finer;
        }
        cover.rows = left;
        cover
    }

    /// Starts of the level's dirty windows, ascending.
    fn dirty_at(&self, level: usize, seconds: u32) -> Vec<u32> {
        let newer = self.dirty.iter().filter(|(_, newest)| **newest >= self.watermarks[level]);
        let mut starts: Vec<u32> = newer.map(|(window, _)| window - window % seconds).collect();
        starts.dedup();
        starts
    }
}

/// Splits a span into whole clean windows and the rest.
pub(crate) fn split(
    (from, to): Span,
    seconds: u32,
    clean_to: u32,
    dirty: &[u32],
    clean: &mut Vec<Span>,
    rest: &mut Vec<Span>,
) {
    let push = |spans: &mut Vec<Span>, (from, to): Span| match spans.last_mut() {
        _ if from >= to => {}
        Some(last) if last.1 == from => last.1 = to,
        _ => spans.push((from, to)),
    };
    let end = to.min(clean_to);
    let end = end - end % seconds;
    let Some(begin) = from.checked_next_multiple_of(seconds).filter(|begin| *begin < end) else {
        return push(rest, (from, to));
    };
    push(rest, (from, begin));
    let mut at = begin;
    let first = dirty.partition_point(|window| *window < begin);
    for &window in dirty.iter().skip(first).take_while(|window| **window < end) {
        push(clean, (at, window));
        push(rest, (window, window + seconds));
        at = window + seconds;
    }
    push(clean, (at, end));
    push(rest, (end, to));
}

/// The watermark of each level, Unix milliseconds, 0 before its first pass. One that is ahead of ClickHouse's clock, since that was set back, is
/// taken back with it.
pub(super) async fn watermarks(store: &Store) -> clickhouse::error::Result<[i64; LEVELS.len()]> {
    #[derive(Deserialize, Row)]
    struct Told {
        level: String,
        watermark: i64,
        now: i64,
    }
    let sql = "SELECT toString(level) AS level, toUnixTimestamp64Milli(argMax(watermark, pass)) AS watermark, \
               toUnixTimestamp64Milli(now64(3)) AS now FROM rollups GROUP BY level";
    let told: Vec<Told> = store.client.query(sql).fetch_all().await?;
    Ok(LEVELS.map(|level| {
        let found = told.iter().find(|told| told.level == level.table);
        found.map_or(0, |told| told.watermark.min(told.now - i64::from(MARGIN_SECONDS) * 1_000).max(0))
    }))
}

/// Whole seconds of Unix milliseconds, rounded down.
pub(super) fn seconds(millis: i64) -> u32 {
    u32::try_from(millis.div_euclid(1_000)).unwrap_or(if millis < 0 { 0 } else { u32::MAX })
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_days_hours_and_five_minutes_are_taken_where_they_are_clean() {
        let day = 1_800_057_600;
        assert_eq!(day % 86_400, 0);
        let watermark = i64::from(day + 2 * 86_400 + 3_700) * 1_000;
        let mut clean = Clean { watermarks: [watermark; 3], dirty: BTreeMap::new() };
        let cover = clean.cover((day - 3_610, day + 2 * 86_400 + 4_000), None);
        let expected = Cover {
            rows: vec![(day - 3_610, day - 3_600), (day + 2 * 86_400 + 3_600, day + 2 * 86_400 + 4_000)],
            levels: [
                vec![],
                vec![(day - 3_600, day), (day + 2 * 86_400, day + 2 * 86_400 + 3_600)],
                vec![(day, day + 2 * 86_400)],
            ],
        };
        assert_eq!(cover, expected);
        // A late row in the second day: its day, its hour and its five minutes are read finer.
        clean.dirty.insert(day + 86_400 + 7_200, watermark);
        let cover = clean.cover((day, day + 2 * 86_400), None);
        assert_eq!(cover.levels[2], [(day, day + 86_400)]);
        assert_eq!(cover.levels[1], [(day + 86_400, day + 86_400 + 7_200), (day + 86_400 + 10_800, day + 2 * 86_400)]);
        assert_eq!(cover.levels[0], [(day + 86_400 + 7_500, day + 86_400 + 10_800)]);
        assert_eq!(cover.rows, [(day + 86_400 + 7_200, day + 86_400 + 7_500)]);
        // Steps of ten minutes can't be made of hours.
        let cover = clean.cover((day, day + 7_200), Some(600));
        assert_eq!(cover, Cover { levels: [vec![(day, day + 7_200)], vec![], vec![]], ..Cover::default() });
        // Nothing was rolled up yet.
        let cover = Clean::default().cover((day, day + 7_200), None);
        assert_eq!(cover, Cover { rows: vec![(day, day + 7_200)], ..Cover::default() });
    }

    proptest! {
        #[test]
        fn a_cover_is_exact_and_only_of_clean_windows(
            from in 0..400_000_u32,
            length in 1..400_000_u32,
            watermarks in [0..900_000_i64, 0..900_000, 0..900_000],
            dirty in btree_map(0..2_600_u32, 0..900_000_i64, 0..12),
            step in prop_oneof![Just(None), Just(Some(10)), Just(Some(300)), Just(Some(7_200)), Just(Some(86_400))],
        ) {
            let watermarks = watermarks.map(|seconds| seconds * 1_000);
            let dirty: BTreeMap<u32, i64> = dirty.into_iter().map(|(index, at)| (index * 300, at * 1_000)).collect();
            let clean = Clean { watermarks, dirty };
            let cover = clean.cover((from, from + length), step);
            let mut all: Vec<Span> = cover.levels.iter().flatten().chain(&cover.rows).copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all.first().map(|span| span.0), Some(from));
            prop_assert_eq!(all.last().map(|span| span.1), Some(from + length));
            for pair in all.windows(2) {
                prop_assert_eq!(pair[0].1, pair[1].0, "neither a gap nor a second time");
            }
            for (index, spans) in cover.levels.iter().enumerate() {
                let seconds = LEVELS[index].seconds;
                for &(begin, end) in spans {
                    prop_assert!(begin % seconds == 0 && end % seconds == 0);
                    prop_assert!(step.is_none_or(|step| step % seconds == 0));
                    prop_assert!(i64::from(end) * 1_000 <= clean.watermarks[index]);
                    let newest = clean.dirty.range(begin..end).map(|(_, at)| *at).max();
                    prop_assert!(newest.is_none_or(|newest| newest < clean.watermarks[index]));
                }
            }
        }
    }
}
