//! Aborted requests: they would have taken longer, nobody knows how long.
//!
//! A server that counts them beside its histogram adds `n` values to it of which nothing is known. One whose histogram holds
//! them, too, with the time until they were aborted, has `n` values too many that are too short; which ones is not said. The
//! `n` lowest are taken out then, and `n` unknown ones put in their place: no quantile's upper end is too low that way,
//! whichever they were.

use contador_schemas::cells::{Cell, Cells};
use serde::{Deserialize, Serialize};

use super::presets::{Identity, Preset};
use super::taken::Increase;

/// What requests as a whole took.
pub(super) const REQUESTS: &str = "request_duration";

/// Aborted requests of one source.
#[derive(Clone, Debug)]
pub(super) struct Aborted {
    pub preset: Option<Preset>,
    pub identity: Identity,
    pub n: u64,
    pub start_ns: u64,
    /// Whether the histogram holds them, too.
    pub inside: bool,
}

/// Latencies that have a value for each request that ended, by what they time and where they are among all.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub preset: Option<Preset>,
    /// As its preset has it.
    pub meant: String,
    /// The model and the part of the server, as its preset has them: a user may have other labels say them.
    pub model: String,
    pub source: Vec<(String, String)>,
    pub place: usize,
}

/// Puts `aborted` among the latencies of whole requests; what these are called where there are none is given.
pub(super) fn censor(
    latencies: &mut Vec<Increase>,
    ended: &[Ended],
    aborted: &Aborted,
    (metric, named): (&str, Identity),
    end_ns: u64,
) {
    let Aborted { preset, identity, mut n, start_ns, inside } = aborted.clone();
    if inside {
        n = take_out(latencies, ended, (preset, REQUESTS), (&identity.model, &identity.source), n);
    }
    if n > 0 {
        let Identity { model, route, attributes, source } = named;
        let bare = Increase {
            metric: metric.to_owned(),
            model,
            route,
            attributes,
            source,
            cells: Cells::default(),
            sum_us: None,
            start_ns: start_ns.min(end_ns),
            end_ns,
            reset: false,
            censored: true,
        };
        put(latencies, unknown(bare, n));
    }
}

/// Has `n` of the values of `meant` be of aborted requests, as far as there are; how many there are not. Those of the same part of
/// the server come first. A phase has none of what another part of it has aborted, where parts are told apart.
pub(super) fn take_out(
    latencies: &mut Vec<Increase>,
    ended: &[Ended],
    (preset, meant): (Option<Preset>, &str),
    (model, source): (&str, &[(String, String)]),
    mut n: u64,
) -> u64 {
    let of_model = |one: &&Ended| one.preset == preset && one.meant == meant && one.model == model;
    let is_own = |one: &Ended| one.source == source;
    let mut those: Vec<&Ended> = ended.iter().filter(of_model).collect();
    let is_told_apart = ended.iter().any(|one| one.preset == preset && one.model == model && is_own(one));
    if meant != REQUESTS && is_told_apart {
        those.retain(|one| is_own(one));
    }
    those.sort_by_key(|one| !is_own(one));
    for place in those.into_iter().map(|one| one.place) {
        let Some(latency) = latencies.get_mut(place) else { continue };
        let moved = take_lowest(latency, n);
        n -= moved;
        let row = unknown(latency.clone(), moved);
        put(latencies, row);
    }
    n
}

/// Adds a row of aborted requests to that of the same series, where there is one.
fn put(latencies: &mut Vec<Increase>, row: Option<Increase>) {
    let Some(row) = row.filter(|row| row.cells.count() > 0) else { return };
    let same = |other: &&mut Increase| {
        other.censored
            && (&other.metric, &other.model, &other.route, &other.attributes, &other.source)
                == (&row.metric, &row.model, &row.route, &row.attributes, &row.source)
    };
    match latencies.iter_mut().find(same) {
        Some(other) => {
            // The counts of one scrape fit.
            let _ = other.cells.merge(&row.cells);
            other.start_ns = other.start_ns.min(row.start_ns);
        }
        None => latencies.push(row),
    }
}

/// Takes the `n` lowest values out, as far as there are; how many these were.
fn take_lowest(latency: &mut Increase, n: u64) -> u64 {
    let mut left = n;
    let kept = latency.cells.as_slice().iter().map(|cell| {
        let taken = cell.n.min(left);
        left -= taken;
        Cell { n: cell.n - taken, ..*cell }
    });
    let kept = Cells::new(kept.collect::<Vec<_>>()).unwrap_or_default();
    let taken = latency.cells.count() - kept.count();
    if taken > 0 {
        latency.cells = kept;
        latency.sum_us = None;
    }
    taken
}

/// `n` values of which nothing is known.
fn unknown(like: Increase, n: u64) -> Option<Increase> {
    let cells = Cells::new([Cell { lo: 0.0, hi: f64::INFINITY, n }]).ok()?;
    Some(Increase { cells, sum_us: None, reset: false, censored: true, ..like })
}

/// Requests that are counted nowhere when they are aborted: those that got a first token, and neither ended nor are open.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Unseen {
    started: u64,
    finished: u64,
    /// At least so many had been aborted.
    least: i64,
    /// So many are counted.
    counted: i64,
    at_ns: u64,
}

/// Totals of one page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Open {
    /// Requests that got a first token.
    pub started: u64,
    /// Requests that ended.
    pub finished: u64,
    /// Requests that run or wait: perhaps without a first token yet.
    pub open: u64,
    /// Whether the requests that ended are counted from a start that was watched.
    pub whole: bool,
}

impl Unseen {
    /// What a page tells, and how many more were aborted, since when. They are only counted when two scrapes agree, since a
    /// page can be read while a request ends.
    pub fn next(before: Option<&Self>, now: Open, at_ns: u64) -> (Self, Option<(u64, u64)>) {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let Open { started, finished, open, whole } = now;
        let missing = signed(started).saturating_sub(signed(finished));
        let least = missing.saturating_sub(signed(open));
        let mut unseen = Self { started, finished, least, counted: 0, at_ns };
        let Some(before) = before else {
            // Any of those that are missing may have been aborted before.
            unseen.counted = if whole { 0 } else { missing.max(0) };
            return (unseen, None);
        };
        if whole || started < before.started || finished < before.finished {
            return (unseen, None);
        }
        let surely = least.min(before.least);
        // Of those that were missing at first, the ones that have ended since were not aborted: no more can have been than are
        // missing still, by either of two scrapes.
        let were_missing = signed(before.started).saturating_sub(signed(before.finished));
        let counted = before.counted.min(missing.max(were_missing).max(0));
        unseen.counted = counted.max(surely);
        let more = u64::try_from(unseen.counted - counted).ok().filter(|more| *more > 0);
        (unseen, more.map(|more| (more, before.at_ns.min(at_ns))))
    }
}
