//! The last total of each series, and what came since then.

use contador_schemas::running::{Buckets, Since};
use serde::{Deserialize, Serialize};

use super::other::Turn;
use super::reading::Reading;

/// How much earlier than the last scrape, by another clock, a server that took over may seem to have started.
const CLOCK_SLACK_NS: u64 = 5_000_000_000;

/// Starts of processes that differ by less are one: kernels tell them in ticks of the clock.
const SAME_RUN_S: f64 = 1.0;

/// Starts of series that differ by less are one.
const SAME_SERIES_S: f64 = 0.001;

/// The last good total of a series.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Total {
    #[serde(with = "exact")]
    bounds: Vec<f64>,
    counts: Vec<u64>,
    #[serde(with = "exact")]
    sum: Option<f64>,
    #[serde(with = "exact")]
    created_s: Option<f64>,
    /// Start of the process that said it.
    #[serde(with = "exact")]
    run_s: Option<f64>,
    /// When it was said, Unix nanoseconds.
    pub at_ns: u64,
    /// When its series was last on a page, Unix nanoseconds.
    pub seen_ns: u64,
    /// Whether what came since then contradicts its sum.
    pub doubted: bool,
}

/// The instant of a scrape, and what is known of the server then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Unix nanoseconds.
    pub at_ns: u64,
    /// When its process started, in Unix seconds, by its own clock.
    pub run_s: Option<f64>,
    /// What started at or after this instant was watched from its start on.
    pub watched_ns: u64,
    /// What is new on this page began after this instant, if its family was whole on the page before.
    pub page_before_ns: Option<u64>,
    /// Whose the page is.
    pub turn: Turn,
}

/// What a total tells beside the one before.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// This came in between.
    Increase(Came),
    /// It can't be compared: from now on.
    BaseLine,
    /// It is another server's: from now on.
    Overlap,
}

/// What came between two totals.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Came {
    /// As in [`Reading`].
    pub counts: Vec<u64>,
    /// In the series's unit; `None` when unknown.
    pub sum: Option<f64>,
    /// Unix nanoseconds.
    pub start_ns: u64,
    /// Whether all of the total came since then.
    pub whole: bool,
    /// Whether a run ended in between.
    pub reset: bool,
    /// The greatest of the sums that were subtracted: how exact the difference can be.
    pub magnitude: f64,
}

impl Total {
    /// The total to remember.
    pub fn new(reading: &Reading, moment: &Moment) -> Self {
        let Reading { bounds, counts, sum, created_s } = reading.clone();
        let (run_s, at_ns) = (moment.run_s, moment.at_ns);
        Self { bounds, counts, sum, created_s, run_s, at_ns, seen_ns: at_ns, doubted: false }
    }

    /// Whether it says the same as `other`, whenever that was.
    pub fn is_like(&self, other: &Self) -> bool {
        let of = |total: &Self| (total.sum, total.created_s, total.run_s);
        self.bounds == other.bounds && self.counts == other.counts && of(self) == of(other)
    }

    /// Whether it says no start.
    pub fn is_without_start(&self) -> bool {
        self.created_s.is_none() && self.run_s.is_none()
    }

    /// Whether a later total has the same bounds, and has counted less.
    pub fn fell(&self, now: &Reading) -> bool {
        self.bounds == now.bounds && now.counts.iter().zip(&self.counts).any(|(now, before)| now < before)
    }

    /// Remembers that nothing came up to `at_ns`. The sum stays as it was: it can be ahead of the counts.
    pub fn nothing_came(&mut self, at_ns: u64) {
        (self.at_ns, self.doubted) = (at_ns, false);
    }
}

/// Whether a start is said of one of these totals: then that tells runs apart.
pub(super) fn says_start(before: Option<&Total>, now: &Reading) -> bool {
    now.created_s.is_some() || before.is_some_and(|before| !before.is_without_start())
}

/// What came since `before`. Without it, a series counts from its start when that was watched.
pub(super) fn since(before: Option<&Total>, now: &Reading, moment: &Moment) -> Step {
    let Some(before) = before else { return first(now, moment) };
    if let Some(start) = changed(before, now, moment) {
        // Two runs that overlap are two servers.
        if start.saturating_add(CLOCK_SLACK_NS) < before.at_ns {
            return Step::Overlap;
        }
        return whole(now, start.max(before.at_ns), true, moment);
    }
    if moment.turn == Turn::Other && before.bounds == now.bounds && !says_start(Some(before), now) {
        return Step::Overlap;
    }
    match buckets(&now.bounds, &now.counts).since(&buckets(&before.bounds, &before.counts)) {
        Since::Increase(increase) => Step::Increase(Came {
            counts: increase.counts().to_vec(),
            sum: now.sum.zip(before.sum).map(|(now, before)| now - before),
            start_ns: before.at_ns.min(moment.at_ns),
            whole: false,
            reset: false,
            magnitude: now.sum.unwrap_or_default().abs().max(before.sum.unwrap_or_default().abs()),
        }),
        Since::Fell => whole(now, before.at_ns, true, moment),
        Since::Relaid => Step::BaseLine,
    }
}

/// The start of what is told, Unix nanoseconds, when it is another one than that of `before`.
fn changed(before: &Total, now: &Reading, moment: &Moment) -> Option<u64> {
    match (started(before.created_s, now.created_s, SAME_SERIES_S), moment.run_s) {
        (Some(created), _) => Some(created),
        // It says its start only now.
        (None, Some(run)) if before.run_s.is_none() => nanoseconds(run).filter(|run| *run >= before.at_ns),
        (None, run) => started(before.run_s, run, SAME_RUN_S),
    }
}

/// What a series tells that was not there before.
fn first(now: &Reading, moment: &Moment) -> Step {
    let known = |start_s: f64| nanoseconds(start_s).filter(|start| *start <= moment.at_ns);
    if let Some(start) = now.created_s.and_then(known) {
        return if start >= moment.watched_ns { whole(now, start, false, moment) } else { Step::BaseLine };
    }
    match (moment.run_s.and_then(known).filter(|start| *start >= moment.watched_ns), moment.page_before_ns) {
        (run, Some(page)) => whole(now, page.max(run.unwrap_or_default()), false, moment),
        (Some(run), None) => whole(now, run, false, moment),
        (None, None) => Step::BaseLine,
    }
}

fn whole(now: &Reading, start_ns: u64, reset: bool, moment: &Moment) -> Step {
    Step::Increase(Came {
        counts: now.counts.clone(),
        sum: now.sum,
        start_ns: start_ns.min(moment.at_ns),
        whole: true,
        reset,
        magnitude: now.sum.unwrap_or_default().abs(),
    })
}

/// The new start, when it is another one.
fn started(before_s: Option<f64>, now_s: Option<f64>, same_s: f64) -> Option<u64> {
    let (before, now) = before_s.zip(now_s)?;
    if (now - before).abs() > same_s { nanoseconds(now) } else { None }
}

/// Unix nanoseconds of Unix seconds.
fn nanoseconds(seconds: f64) -> Option<u64> {
    if !(seconds > 0.0 && seconds < 9e9) {
        return None;
    }
    // Apart, since a product of both has no room for single nanoseconds.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and less than 64 bits hold")]
    let parts = (seconds.trunc() as u64, (seconds.fract() * 1e9) as u64);
    Some(parts.0 * 1_000_000_000 + parts.1)
}

fn buckets(bounds: &[f64], counts: &[u64]) -> Buckets {
    Buckets::Explicit { bounds: bounds.to_vec(), counts: counts.to_vec(), whole: false }
}

/// Floats as text, since JSON's may be off by a bit when they are read.
pub(super) mod exact {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Floats that can be kept.
    pub trait Floats: Sized {
        fn each(&self) -> impl Iterator<Item = f64>;
        fn gather(floats: Vec<f64>) -> Self;
    }

    impl Floats for Vec<f64> {
        fn each(&self) -> impl Iterator<Item = f64> {
            self.as_slice().iter().copied()
        }
        fn gather(floats: Vec<f64>) -> Self {
            floats
        }
    }

    impl Floats for Option<f64> {
        fn each(&self) -> impl Iterator<Item = f64> {
            self.as_ref().into_iter().copied()
        }
        fn gather(floats: Vec<f64>) -> Self {
            floats.first().copied()
        }
    }

    pub fn serialize<F: Floats, S: Serializer>(floats: &F, serializer: S) -> Result<S::Ok, S::Error> {
        let text: Vec<String> = floats.each().map(|float| float.to_string()).collect();
        text.join(" ").serialize(serializer)
    }

    pub fn deserialize<'de, F: Floats, D: Deserializer<'de>>(deserializer: D) -> Result<F, D::Error> {
        let text = String::deserialize(deserializer)?;
        let floats: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
        floats.map(F::gather).map_err(|_| D::Error::custom(format!("floats are {text:?}, expected numbers")))
    }
}
