//! Servers that answer at one address without saying when they began: each page may be of another one than the page before.
//!
//! Counts that fall are those of a server that began again, or of another one. The totals of before are remembered as a *course*.
//! A page is of the highest course that all its totals reach: no server falls, so that what is counted never exceeds what all of
//! them have served. Of totals that say no start:
//!
//! - The first fall counts as a new run, unless its totals are more than can have come since the page before, by the pace that was
//!   seen. A fall soon after another, or one that can't be a new run, is another server: a base line.
//! - While it is not known whether there is another server, a page that reaches the course of before is of either: it waits. When none
//!   has come back for a while, the server began again, and all counts; a page that falls behind one that waits tells of several.
//! - Where there are several, only what came between two pages of the same course in a row counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A second fall within this time, in nanoseconds, is another server.
const AGAIN_NS: u64 = 300_000_000_000;

/// When so many pages, and [`AGAIN_NS`], have passed since a fall, no other server has come back.
const PAGES: u32 = 20;

/// From so long after the page before on, in nanoseconds, any total can have come in between.
const LONG_NS: u64 = 600_000_000_000;

/// How long after the last fall courses are remembered, in nanoseconds.
const REMEMBER_NS: u64 = 6 * 3_600_000_000_000;

/// A new run has at most so many times what came at once before.
const GROWTH: u64 = 4;

/// So many values of each series can come at once, whatever was seen.
const FEW: u64 = 100;

/// Most courses that are remembered, beside that of the page before.
const MOST: usize = 4;

/// Nanoseconds of the unit of a pace.
const HOUR_NS: u64 = 3_600_000_000_000;

/// Totals of a server by the key of their series.
pub(super) type Course = BTreeMap<String, Vec<u64>>;

/// What is remembered of the servers at one address.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Courses {
    /// Those that the page before was not of; the last one was left last.
    others: Vec<Course>,
    /// When counts fell last, or came back to another course, Unix nanoseconds.
    fell_ns: Option<u64>,
    /// Pages since then.
    pages: u32,
    /// There is more than one server for sure.
    are_several: bool,
    /// The last page, when it waits.
    waits: Option<Course>,
    /// The most values that came in an hour, by any two pages; `None`: there were none to compare.
    pace: Option<u64>,
}

/// A total that says no start, and what was said before.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub key: String,
    pub before: Vec<u64>,
    pub now: Vec<u64>,
    /// Whether it counts for how much came: tokens do not.
    pub weighs: bool,
}

/// Whose a page is, by all of its totals.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Turn {
    /// The server's that the page before was of, as far as can be told. What fell began again.
    #[default]
    Same,
    /// Another one's.
    Other,
    /// It can be of either, and waits.
    Unsure,
}

impl Courses {
    /// Whose the page of `at_ns` is, with these totals, `age_ns` after the last one that did not wait (both in nanoseconds). `left` is the
    /// course of that one.
    pub fn turn(&mut self, pairs: &[Pair], at_ns: u64, age_ns: u64, left: impl FnOnce() -> Course) -> Turn {
        self.forget(at_ns, age_ns);
        let step = Step::of(pairs, age_ns);
        if let Some(waits) = self.waits.take_if(|waits| !reaches_all(pairs, waits)) {
            // It had left the course that it reached.
            (self.are_several, self.others) = (true, vec![waits]);
        }
        let highest = self.highest(pairs);
        let is_fall = step.fell > 0;
        let turn = match highest {
            Some((_, sum)) if !is_fall && sum <= step.before => Turn::Same,
            Some((place, _)) if is_fall || self.are_several => {
                self.others.remove(place);
                Turn::Other
            }
            Some(_) => Turn::Unsure,
            None if !is_fall => Turn::Same,
            None if self.is_new_run(&step, at_ns) => {
                self.others.clear();
                Turn::Same
            }
            None => {
                self.are_several = true;
                Turn::Other
            }
        };
        self.waits =
            (turn == Turn::Unsure).then(|| pairs.iter().map(|pair| (pair.key.clone(), pair.now.clone())).collect());
        if is_fall || turn == Turn::Other {
            (self.fell_ns, self.pages) = (Some(at_ns), 0);
            self.others.push(left());
            self.others.drain(..self.others.len().saturating_sub(MOST));
        } else if turn == Turn::Same {
            self.pace = self.pace.max(step.pace());
        }
        turn
    }

    /// Whether these are the same servers, however much they serve.
    pub fn is_like(&self, other: &Self) -> bool {
        let of = |courses: &Self| (courses.fell_ns, courses.are_several, courses.waits.is_some());
        of(self) == of(other) && self.others == other.others
    }

    /// Whether a total of this instant is of the server that the page before was of. One that was not shown since counts fell is of
    /// the run before, unless there are several servers.
    pub fn is_current(&self, total_ns: u64) -> bool {
        self.are_several || self.fell_ns.is_none_or(|fell| total_ns >= fell)
    }

    /// Forgets courses when they tell nothing any more.
    fn forget(&mut self, at_ns: u64, age_ns: u64) {
        let Some(fell_ns) = self.fell_ns else { return };
        self.pages = self.pages.saturating_add(1);
        let passed = at_ns.saturating_sub(fell_ns);
        let is_one = !self.are_several && passed > AGAIN_NS && (self.pages > PAGES || age_ns >= LONG_NS);
        if is_one || passed > REMEMBER_NS {
            *self = Self { pace: self.pace, ..Self::default() };
        }
    }

    /// The highest of the other courses that all totals reach: its place, and its sum.
    fn highest(&self, pairs: &[Pair]) -> Option<(usize, u64)> {
        // What a course does not show is as it was on the page before.
        let of = |course: &Course, pair: &Pair| sum(course.get(&pair.key).unwrap_or(&pair.before));
        let weight = |course: &Course| {
            pairs.iter().filter(|pair| pair.weighs).map(|pair| of(course, pair)).fold(0, u64::saturating_add)
        };
        let reached = self.others.iter().enumerate().filter(|(_, course)| reaches_all(pairs, course));
        reached.map(|(place, course)| (place, weight(course))).max_by_key(|(_, sum)| *sum)
    }

    /// Whether totals that fell can be those of a server that began again since the page before.
    fn is_new_run(&self, step: &Step, at_ns: u64) -> bool {
        let is_again = self.are_several || self.fell_ns.is_some_and(|fell| at_ns.saturating_sub(fell) <= AGAIN_NS);
        let most = |pace| step.at(pace).saturating_mul(GROWTH).saturating_add(FEW.saturating_mul(step.fell));
        !is_again && (step.age_ns >= LONG_NS || self.pace.is_none_or(|pace| step.anew <= most(pace)))
    }
}

/// All totals of a page, and of the page before.
#[derive(Clone, Copy, Debug)]
struct Step {
    before: u64,
    now: u64,
    series: u64,
    /// How many of the series fell, of any weight, and what they say now.
    fell: u64,
    anew: u64,
    age_ns: u64,
}

impl Step {
    fn of(pairs: &[Pair], age_ns: u64) -> Self {
        let add = |step: Self, pair: &Pair| {
            let fell = !reaches(&pair.now, &pair.before);
            let (before, now) = if pair.weighs { (sum(&pair.before), sum(&pair.now)) } else { (0, 0) };
            Self {
                before: step.before.saturating_add(before),
                now: step.now.saturating_add(now),
                series: step.series + u64::from(pair.weighs),
                fell: step.fell + u64::from(fell),
                anew: step.anew.saturating_add(if fell { now } else { 0 }),
                age_ns,
            }
        };
        pairs.iter().fold(Self { before: 0, now: 0, series: 0, fell: 0, anew: 0, age_ns }, add)
    }

    /// Values in an hour; `None` for pages of one instant, or of none that can be compared.
    fn pace(&self) -> Option<u64> {
        let is_told = self.age_ns > 0 && self.series > 0;
        is_told.then(|| scaled(self.now.saturating_sub(self.before), HOUR_NS, self.age_ns))
    }

    /// What comes between its two pages at this pace.
    fn at(&self, pace: u64) -> u64 {
        // A whole value is as little as can come.
        scaled(pace, self.age_ns, HOUR_NS).saturating_add(1)
    }
}

/// `n` × `by` / `of`.
fn scaled(n: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(n) * u128::from(by) / u128::from(of.max(1))).unwrap_or(u64::MAX)
}

/// Whether a server that said `earlier` can say `later`.
fn reaches(later: &[u64], earlier: &[u64]) -> bool {
    later.len() == earlier.len() && later.iter().zip(earlier).all(|(later, earlier)| later >= earlier)
}

/// Whether totals can be later ones of this course; false when they have none in common.
fn reaches_all(pairs: &[Pair], course: &Course) -> bool {
    let mut both = pairs.iter().filter_map(|pair| Some((pair, course.get(&pair.key)?))).peekable();
    both.peek().is_some() && both.all(|(pair, counts)| reaches(&pair.now, counts))
}

fn sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}
