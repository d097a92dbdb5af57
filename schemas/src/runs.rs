//! Runs of a source, as its running totals tell them by their starts and times.
//!
//! A source counts from a start on, and begins again from 0 when it is started again. What came between two totals is then
//! not always their difference: [`Span::after`] says what a later total is to an earlier one, and [`After::and`] what came,
//! with the counts as [`crate::running`] compares them. [`Runs`] knows which runs have ended, and which one counts when
//! one comes that seems older.

mod remembered;

use crate::running::{Buckets, Since};

pub use remembered::{Ended, Place, Runs};

/// How much earlier than the last point of the run before, by another clock, a run may seem to start, in nanoseconds.
pub const CLOCK_SLACK_NS: i64 = 5_000_000_000;

/// Since when, and until when, a total counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span {
    /// Start of the run, Unix nanoseconds; `None` when the source does not say it.
    pub start: Option<i64>,
    /// Time of the total, Unix nanoseconds.
    pub time: i64,
}

/// What a later total is to an earlier one, by their starts alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum After {
    /// Of the same run, as far as is said.
    SameRun,
    /// Of a run that began after the earlier one.
    NewRun,
    /// Of a run that began before the earlier one ended: two sources that nothing tells apart.
    Overlap,
}

/// What came between two totals.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    /// This.
    Increase(Buckets),
    /// The source began again, and the later total came since.
    Reset,
    /// It can't be told. Counting begins anew with the later total.
    Untold(Untold),
}

/// Why it can't be told what came between two totals.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Untold {
    /// The layouts of the buckets can't be compared.
    Buckets,
    /// The runs overlap.
    Overlap,
}

impl Untold {
    /// Its name in counters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Buckets => "buckets",
            Self::Overlap => "overlap",
        }
    }
}

impl Span {
    /// What this total is to the `earlier` one.
    pub fn after(self, earlier: Self) -> After {
        match (earlier.start, self.start) {
            (Some(before), Some(now)) if now == before => After::SameRun,
            (Some(_), Some(now)) if now.saturating_add(CLOCK_SLACK_NS) < earlier.time => After::Overlap,
            (Some(_), Some(_)) => After::NewRun,
            // It says its start since it began again, if that fits.
            (None, Some(now)) if now >= earlier.time => After::NewRun,
            _ => After::SameRun,
        }
    }

    /// Since when what came after the `earlier` total came: since its start, when the source began again and says it.
    pub fn came_since(self, earlier: Self, reset: bool) -> i64 {
        let start = self.start.filter(|_| reset).unwrap_or(earlier.time);
        start.max(earlier.time).min(self.time)
    }

    /// The start of a run that was watched as a whole for `lasted` nanoseconds from `since`, Unix nanoseconds, on: by the
    /// watcher's clock it began since, and by the source's own clock it is no older than the watch. The first alone would
    /// count a total twice when the source's clock is ahead.
    pub fn watched(self, since: i64, lasted: i64) -> Option<i64> {
        let start = self.start?;
        let run = self.time.saturating_sub(start);
        (start >= since && run > 0 && run <= lasted).then_some(start)
    }
}

impl After {
    /// What came, when `since` compares the counts, which is only asked for within a run.
    pub fn and(self, since: impl FnOnce() -> Since) -> Came {
        match self {
            Self::NewRun => Came::Reset,
            Self::Overlap => Came::Untold(Untold::Overlap),
            Self::SameRun => match since() {
                Since::Increase(increase) => Came::Increase(increase),
                Since::Fell => Came::Reset,
                Since::Relaid => Came::Untold(Untold::Buckets),
            },
        }
    }
}

impl Came {
    /// Whether the later total tells all that the earlier one does. Otherwise what that counted would be lost if it were
    /// left out.
    pub fn contains_the_earlier(&self) -> bool {
        matches!(self, Self::Increase(_))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(start: impl Into<Option<i64>>, time: i64) -> Span {
        Span { start: start.into(), time }
    }

    #[test]
    fn l7_another_start_is_another_run_when_it_is_after_the_last_point() {
        let earlier = span(100, 1_000);
        for (later, after) in [
            (span(100, 2_000), After::SameRun),
            (span(1_500, 2_000), After::NewRun),
            (span(None, 2_000), After::SameRun),
        ] {
            assert_eq!(later.after(earlier), after, "{later:?}");
        }
        // Of a source that has not said when it began.
        assert_eq!(span(1_000, 2_000).after(span(None, 1_000)), After::NewRun);
        assert_eq!(span(999, 2_000).after(span(None, 1_000)), After::SameRun);
        // Clocks may differ by 5 s.
        let earlier = span(0, 60_000_000_000);
        assert_eq!(span(55_000_000_000, 70_000_000_000).after(earlier), After::NewRun);
        assert_eq!(span(54_999_999_999, 70_000_000_000).after(earlier), After::Overlap);
    }

    #[test]
    fn what_came_came_since_the_later_of_start_and_point_before() {
        let earlier = span(100, 1_000);
        assert_eq!(span(100, 2_000).came_since(earlier, false), 1_000);
        assert_eq!(span(1_500, 2_000).came_since(earlier, true), 1_500);
        assert_eq!(span(900, 2_000).came_since(earlier, true), 1_000);
        assert_eq!(span(None, 2_000).came_since(earlier, true), 1_000);
        // No interval begins after its end.
        assert_eq!(span(900, 950).came_since(earlier, true), 950);
    }

    #[test]
    fn l8_a_run_is_watched_by_both_clocks() {
        assert_eq!(span(100, 150).watched(100, 50), Some(100));
        for unwatched in [span(99, 150), span(100, 151), span(100, 100), span(None, 150)] {
            assert_eq!(unwatched.watched(100, 50), None, "{unwatched:?}");
        }
    }

    fn counts(counts: [u64; 3]) -> Buckets {
        Buckets::Explicit { bounds: vec![1.0, 2.0], counts: counts.to_vec(), whole: false }
    }

    /// Values counted in each bucket, whether the source begins again before that, and whether it sends its total then.
    fn any_step() -> impl Strategy<Value = ([u64; 3], bool, bool)> {
        ([0..9_u64, 0..9, 0..9], prop::bool::weighted(0.2), any::<bool>())
    }

    proptest! {
        #[test]
        fn what_came_adds_up_to_what_was_counted_in_all_runs(steps in prop::collection::vec(any_step(), 0..60)) {
            let (mut start, mut time) = (1_000_000_000_000, 1_000_000_000_000);
            let (mut counted, mut all, mut came) = ([0; 3], [0; 3], [0; 3]);
            let mut last = (span(start, start), counts(counted));
            let mut send = |span: Span, now: [u64; 3]| {
                let later = (span, counts(now));
                let told = later.0.after(last.0).and(|| later.1.since(&last.1));
                let increase = match &told {
                    Came::Increase(increase) => increase.counts().to_vec(),
                    Came::Reset => now.to_vec(),
                    Came::Untold(_) => panic!("{told:?}"),
                };
                came.iter_mut().zip(increase).for_each(|(came, more)| *came += more);
                last = later;
            };
            for (more, again, sends) in steps {
                time += 1_000_000_000;
                if again {
                    // What it had counted by its end is sent.
                    send(span(start, time), counted);
                    time += 1_000_000_000;
                    (start, counted) = (time, [0; 3]);
                    time += 1;
                }
                for (index, more) in more.into_iter().enumerate() {
                    counted[index] += more;
                    all[index] += more;
                }
                if sends {
                    send(span(start, time), counted);
                }
            }
            send(span(start, time + 1), counted);
            prop_assert_eq!(came, all);
        }

        #[test]
        fn only_runs_that_say_other_starts_are_others(
            before in prop::option::of(0..100_i64), now in prop::option::of(0..100_i64), time in 0..100_i64, more in 1..100_i64,
        ) {
            let (earlier, later) = (span(before, time), span(now, time + more));
            match later.after(earlier) {
                After::SameRun => prop_assert!(before.is_none() || now.is_none() || before == now),
                After::NewRun | After::Overlap => prop_assert!(now.is_some() && before != now),
            }
            prop_assert_eq!(earlier.after(earlier), After::SameRun);
            let since = later.came_since(earlier, true);
            prop_assert!(since >= time && since <= later.time);
        }
    }
}
