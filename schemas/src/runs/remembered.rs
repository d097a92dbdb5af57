//! What is remembered of a series' runs beside the one that counts, so that none of them counts twice.
//!
//! A run begins after the totals of the one before. So a point that seems older than the last total is, as a rule, one that came
//! late, and what it counts is counted. But a clock that is set back makes a run that seems older, too, and so does the end
//! of the newer one of two sources that nothing tells apart. Such a run takes the place of the newer one when nothing has come
//! of that for five minutes, while its own times went on as fast as the receiver's clock: old data that are sent once more
//! come all at once, or are points that were taken before. From its point on it counts; what it had counted until then is
//! not known to be new.

use super::Span;

/// For how long nothing may come of a run before one that seems older takes its place, in nanoseconds.
pub const QUIET_NS: i64 = 300_000_000_000;

/// How much a source's times may go faster or slower than the receiver's clock in that time, in nanoseconds.
pub const DRIFT_NS: i64 = 30_000_000_000;

/// Most runs that are remembered; those that ended first are forgotten.
const MOST_ENDED: usize = 8;

/// Most runs that wait to take over; the one of which nothing has come for longest is forgotten.
const MOST_RIVALS: usize = 4;

/// A run whose place another one has taken: what it said up to then is counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ended {
    /// Start of the run, Unix nanoseconds.
    pub start: i64,
    /// Time of its last total, Unix nanoseconds.
    pub time: i64,
}

/// What is remembered of a series' runs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Runs {
    ended: Vec<Ended>,
    /// Of different starts.
    rivals: Vec<Rival>,
}

/// A run whose points are refused since they seem older.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Rival {
    start: i64,
    /// Time of its first point.
    time: i64,
    /// When that was received.
    received: i64,
    /// When its last point was received.
    seen: i64,
    /// The last total of the run that counts, at that time.
    beside: Span,
}

/// What a point is to the last total of its series.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// It is of the same run, or begins one after it.
    Follows,
    /// It is of a run that has ended, from before its end: what it counts is counted.
    Known,
    /// It seems older.
    Refused,
    /// It seems older, and its run counts from here on: the point is a base line.
    TakesOver,
}

impl Runs {
    /// With these runs, in the order in which they ended.
    pub fn new(mut ended: Vec<Ended>) -> Self {
        ended.drain(..ended.len().saturating_sub(MOST_ENDED));
        Self { ended, rivals: Vec::new() }
    }

    /// The runs that have ended, in that order.
    pub fn ended(&self) -> &[Ended] {
        &self.ended
    }

    /// What the point at `span`, received at `now`, Unix nanoseconds, is to the `last` total.
    pub fn place(&mut self, span: Span, last: Span, now: i64) -> Place {
        let Some(start) = span.start.filter(|start| last.start != Some(*start)) else { return Place::Follows };
        let ended = self.ended.iter().find(|ended| ended.start == start);
        if ended.is_some_and(|ended| span.time <= ended.time) {
            return Place::Known;
        }
        let is_later = span.time > last.time && last.start.is_none_or(|last| start > last);
        if ended.is_none() && is_later {
            return Place::Follows;
        }
        self.rivals.retain(|rival| rival.beside == last);
        let rival = Rival { start, time: span.time, received: now, seen: now, beside: last };
        if self.waited(rival) >= QUIET_NS { Place::TakesOver } else { Place::Refused }
    }

    /// For how long a run has waited to take over, whose point this is, by its own times and by the receiver's clock.
    fn waited(&mut self, point: Rival) -> i64 {
        if let Some(rival) = self.rivals.iter_mut().find(|rival| rival.start == point.start) {
            let (gone, waited) = (point.time - rival.time, point.received - rival.received);
            if (gone - waited).abs() <= DRIFT_NS {
                rival.seen = point.received;
                return gone.min(waited);
            }
            // It waits anew.
            *rival = point;
            return 0;
        }
        self.rivals.retain(|rival| point.received - rival.seen <= QUIET_NS);
        if self.rivals.len() < MOST_RIVALS {
            self.rivals.push(point);
        }
        0
    }

    /// The point at `span` has taken the place of the `last` total.
    pub fn follow(&mut self, span: Span, last: Span) {
        let Some(start) = last.start.filter(|start| span.start.is_some_and(|now| now != *start)) else { return };
        self.rivals.clear();
        self.ended.retain(|ended| ended.start != start && Some(ended.start) != span.start);
        self.ended.push(Ended { start, time: last.time });
        self.ended.drain(..self.ended.len().saturating_sub(MOST_ENDED));
    }

    /// Adds what another receiver remembers of the same series. In which order runs ended, only their times tell then.
    pub fn join(&mut self, other: &Self) {
        for theirs in &other.ended {
            match self.ended.iter_mut().find(|ours| ours.start == theirs.start) {
                Some(ours) => ours.time = ours.time.max(theirs.time),
                None => self.ended.push(*theirs),
            }
        }
        self.ended.sort_by_key(|ended| ended.time);
        self.ended.drain(..self.ended.len().saturating_sub(MOST_ENDED));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const T: i64 = 1_700_000_000 * SECOND;

    fn span(start: i64, time: i64) -> Span {
        Span { start: Some(T + start * SECOND), time: T + time * SECOND }
    }

    #[test]
    fn a_run_that_seems_older_counts_when_the_newer_one_is_quiet_for_five_minutes() {
        let mut runs = Runs::default();
        // The clock was an hour ahead.
        let last = span(3_600, 3_700);
        for at in (200..500).step_by(10) {
            assert_eq!(runs.place(span(150, at), last, T + (at + 2) * SECOND), Place::Refused, "{at}");
        }
        assert_eq!(runs.place(span(150, 500), last, T + 502 * SECOND), Place::TakesOver);
        runs.follow(span(150, 500), last);
        // What comes late of the other run was counted; and it does not begin again from 0 when it goes on.
        assert_eq!(runs.place(span(3_600, 3_700), span(150, 500), T + 503 * SECOND), Place::Known);
        assert_eq!(runs.place(span(3_600, 3_710), span(150, 500), T + 503 * SECOND), Place::Refused);
        // One that begins after it follows at once, though before the one that ended.
        assert_eq!(runs.place(span(600, 610), span(150, 500), T + 612 * SECOND), Place::Follows);
    }

    #[test]
    fn a_newer_run_that_goes_on_keeps_its_place() {
        let mut runs = Runs::default();
        for at in 0..100 {
            let last = span(100, 200 + at * 60);
            assert_eq!(runs.place(span(50, 210 + at * 60), last, T + (211 + at * 60) * SECOND), Place::Refused);
        }
    }

    #[test]
    fn a_run_with_times_before_the_last_total_waits_as_well() {
        // A service that ran for long, whose clock is set back by an hour when it is started again.
        let (mut runs, last) = (Runs::default(), span(-900_000, 3_600));
        assert_eq!(runs.place(span(10, 20), last, T + 20 * SECOND), Place::Refused);
        assert_eq!(runs.place(span(10, 320), last, T + 320 * SECOND), Place::TakesOver);
        // And so does an end of two that nothing tells apart.
        let mut runs = Runs::default();
        runs.follow(span(20, 30), span(10, 29));
        assert_eq!(runs.place(span(10, 29), span(20, 30), T + 40 * SECOND), Place::Known);
        assert_eq!(runs.place(span(10, 40), span(20, 30), T + 40 * SECOND), Place::Refused);
        assert_eq!(runs.place(span(10, 340), span(20, 30), T + 340 * SECOND), Place::TakesOver);
    }

    #[test]
    fn sources_that_do_not_say_a_start_follow() {
        let unknown = Span { start: None, time: T };
        let mut runs = Runs::default();
        assert_eq!(runs.place(unknown, span(1, 2), T), Place::Follows);
        assert_eq!(runs.place(span(1, 2), unknown, T), Place::Follows);
        runs.follow(span(1, 2), unknown);
        assert!(runs.ended().is_empty());
    }

    #[test]
    fn the_last_eight_ends_are_remembered_by_whoever_knows_them() {
        let mut runs = Runs::default();
        for run in 0..20 {
            runs.follow(span(10 * run + 10, 10 * run + 11), span(10 * run, 10 * run + 5));
        }
        assert_eq!(runs.ended().len(), 8);
        assert_eq!(runs.ended()[7], Ended { start: T + 190 * SECOND, time: T + 195 * SECOND });
        let mut other = Runs::new(vec![Ended { start: T + 190 * SECOND, time: T + 199 * SECOND }]);
        other.join(&runs);
        assert_eq!((other.ended().len(), other.ended()[7].time), (8, T + 199 * SECOND));
    }

    #[test]
    fn what_receivers_know_together_are_the_runs_that_ended_last() {
        let ends = |numbers: std::ops::Range<i64>| {
            let run = |number: i64| Ended { start: T + 10 * number * SECOND, time: T + (10 * number + 5) * SECOND };
            Runs::new(numbers.map(run).collect())
        };
        // One of them was not asked since the run 8 began.
        let mut runs = ends(4..12);
        runs.join(&ends(0..8));
        assert_eq!(runs.ended(), ends(4..12).ended());
        let mut runs = ends(0..8);
        runs.join(&ends(4..12));
        assert_eq!(runs.ended(), ends(4..12).ended());
        runs.follow(span(130, 131), span(120, 125));
        assert_eq!(runs.ended(), ends(5..13).ended());
    }

    #[test]
    fn runs_that_come_by_turns_wait_each_by_itself() {
        let (mut runs, last) = (Runs::default(), span(3_600, 3_700));
        let mut place = |start: i64, at: i64| runs.place(span(start, at), last, T + at * SECOND);
        for at in (200..500).step_by(10) {
            for start in [110, 120, 130, 140] {
                assert_eq!(place(start, at), Place::Refused, "{start} at {at}");
            }
        }
        assert_eq!(place(130, 500), Place::TakesOver);
        // A fifth one takes nobody's place, until nothing has come of one for so long.
        for (start, at, expected) in [
            (150, 501, Place::Refused),
            (140, 502, Place::TakesOver),
            (120, 503, Place::TakesOver),
            (150, 802, Place::Refused),
            (150, 1_102, Place::TakesOver),
        ] {
            assert_eq!(place(start, at), expected, "{start} at {at}");
        }
        runs.follow(span(120, 503), last);
        assert_eq!(runs.place(span(110, 505), span(120, 503), T + 505 * SECOND), Place::Refused);
    }

    #[test]
    fn of_many_that_come_by_turns_one_takes_over() {
        let (mut runs, last) = (Runs::default(), span(3_600, 3_700));
        let rounds = (0..30).flat_map(|minute| (0..9).map(move |run| (110 + run, 200 + 60 * minute + run)));
        let mut places = rounds.map(|(start, at)| runs.place(span(start, at), last, T + at * SECOND));
        assert!(places.any(|place| place == Place::TakesOver));
    }

    proptest! {
        /// Points that were taken, sent again in any order and at any time, are never taken for a new run.
        #[test]
        fn what_was_taken_never_takes_over(
            restarts in prop::collection::vec(1..2_000_i64, 1..8),
            again in prop::collection::vec((any::<prop::sample::Index>(), 0..600_i64), 1..60),
        ) {
            let (mut runs, mut last, mut taken) = (Runs::default(), span(0, 10), vec![span(0, 10)]);
            for lasted in restarts {
                let began = last.time + SECOND;
                for time in [began + SECOND, began + lasted * SECOND] {
                    let next = Span { start: Some(began), time };
                    if next.time > last.time {
                        prop_assert_eq!(runs.place(next, last, time), Place::Follows);
                        runs.follow(next, last);
                        (last, taken) = (next, [taken, vec![next]].concat());
                    }
                }
            }
            let mut now = last.time;
            for (which, later) in again {
                now += later * SECOND;
                let point = taken[which.index(taken.len())];
                let place = runs.place(point, last, now);
                prop_assert_eq!(place, if point.start == last.start { Place::Follows } else { Place::Known });
            }
        }

        /// Of runs that nobody knows any more, points that were kept somewhere and come faster than they were made.
        #[test]
        fn what_comes_faster_than_it_was_made_never_takes_over(
            points in prop::collection::vec((1..600_i64, 0..30_i64), 1..100),
        ) {
            let (mut runs, last) = (Runs::default(), span(1_000_000, 1_000_100));
            let (mut time, mut now) = (0, 2_000_000);
            for (gone, waited) in points {
                time += gone.max(waited + 31);
                now += waited;
                prop_assert_eq!(runs.place(span(-5, time), last, T + now * SECOND), Place::Refused);
            }
        }
    }
}
