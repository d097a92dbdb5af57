//! The last points of one running total, as one collector knows them.
//!
//! The row of a point is what came since the point before it, so rows depend on which points are known. Rules:
//!
//! - Up to the *acknowledged* point, rows are known to be stored, but for those of `odd` links. All others are written by
//!   whoever works on the total next: the same rows again, or other ones in their places, since a row's key has the point's
//!   time.
//! - What two collectors know is put together by [`Chain::merge`]. A point that only one of them knew of gets its place;
//!   the rows of it and of the point after it are written then, even when they say that nothing came (`odd` links): somebody
//!   may have counted from another point. A link that is odd to one of them is odd to both, since either may end before it
//!   has written the row.
//! - A run that seems older than the last point is refused until [`Runs::place`] has it take over, and until the rows of the
//!   one before are written. A chain of a new *epoch* begins then with its point, whatever the times before were: of two
//!   epochs, the later one is what is known. Points that another collector was at work on then are lost to it
//!   ([`Work::overtaken`](super::Work::overtaken)).
//! - Points stay as long as another collector may still write rows of them, so that those can be put right, within
//!   [`LONGEST_KEPT_NS`] and some bytes.

use contador_schemas::rows::Latency;
use contador_schemas::runs::{Place, Runs, Untold};

use super::increase::{Between, between, contains, nothing, span, zero};
use super::store::STALLED;
use super::watch::Watch;
use crate::ingest::decode::histogram::Reading;
use crate::ingest::decode::latency::Identity;
use crate::ingest::decode::reject::Reason;

/// Most points of a chain that are not acknowledged; further ones are asked for again when those are written.
pub(super) const LONGEST_CHAIN: usize = 64;

/// Acknowledged points that are kept while others may work on them, however many bytes they take.
const LEAST_KEPT: usize = 16;

/// A point, and what is known of its row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) reading: Reading,
    /// Whether a row of it may be stored that counts from another point.
    pub(super) odd: bool,
}

impl Link {
    /// Bytes that it takes in memory.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.reading.buckets.bytes()
    }
}

/// Points of one running total, in ascending order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Chain {
    pub(super) links: Vec<Link>,
    /// Index of the last acknowledged point.
    pub(super) acknowledged: usize,
    /// Whether the first point is where counting began; otherwise others came before it.
    pub(super) whole: bool,
    /// How often a run that seemed older has taken over.
    pub(super) epoch: u32,
    /// Which runs have ended.
    pub(super) runs: Runs,
    /// Times of the points whose rows were written once more last. They may seem odd again, as long as what a collector left
    /// that has ended says otherwise.
    pub(super) put_right: Vec<i64>,
}

/// What became of a point that is taken.
#[derive(Debug, PartialEq)]
pub(super) enum Taken {
    /// It was known, or what it counts was.
    Known,
    /// It is in the chain.
    Added,
    /// Likewise, and it can't be told what came since the point before it.
    Anew(Untold),
}

/// How long acknowledged points are kept at most: a collector that is slow has taken its point up to [`STALLED`] ago, and the
/// one before that point may be older.
const LONGEST_KEPT_NS: i64 = 2 * STALLED.as_secs().cast_signed() * 1_000_000_000;

/// Why a point is not taken.
#[derive(Debug, PartialEq)]
pub(super) enum Refused {
    /// Too many before it are not acknowledged.
    Full,
    /// It contradicts what is known.
    Rejected(Reason),
}

impl Chain {
    /// Takes one point, received at `now`, Unix nanoseconds.
    pub(super) fn take(
        &mut self,
        identity: &Identity,
        reading: Reading,
        watch: Watch,
        now: i64,
    ) -> Result<Taken, Refused> {
        let Some(Link { reading: last, .. }) = self.links.last() else {
            self.begin(reading, watch);
            return Ok(Taken::Added);
        };
        match self.runs.place(span(&reading), span(last), now) {
            Place::Follows => {}
            Place::Known => return Ok(Taken::Known),
            // Rows of the run before are written first, so that none of them is lost.
            Place::TakesOver if self.is_settled() => {
                self.turn(reading);
                return Ok(Taken::Added);
            }
            Place::TakesOver | Place::Refused => return Err(Refused::Rejected(Reason::OutOfOrder)),
        }
        if reading.time > last.time {
            if self.unacknowledged() >= LONGEST_CHAIN {
                return Err(Refused::Full);
            }
            let came = between(identity, last, &reading).map_err(Refused::Rejected)?;
            self.runs.follow(span(&reading), span(last));
            self.links.push(Link { reading, odd: false });
            return Ok(if let Between::Untold(why) = came { Taken::Anew(why) } else { Taken::Added });
        }
        match self.links.iter().find(|link| link.reading.time >= reading.time).map(|link| &link.reading) {
            Some(known) if known.time > reading.time && contains(known, &reading) => Ok(Taken::Known),
            Some(known) if known.time == reading.time && known.buckets == reading.buckets => Ok(Taken::Known),
            Some(known) if known.time == reading.time => Err(Refused::Rejected(Reason::Conflicting)),
            _ => Err(Refused::Rejected(Reason::OutOfOrder)),
        }
    }

    /// The first point of all: counts from its start when that was watched, and is a base line otherwise.
    fn begin(&mut self, reading: Reading, watch: Watch) {
        if let Some(start) = watch.start_of(&reading) {
            self.links.push(Link { reading: zero(&reading, start), odd: false });
        }
        self.links.push(Link { reading, odd: false });
        (self.acknowledged, self.whole) = (0, true);
    }

    /// Begins the next epoch: only what comes after `reading` counts.
    fn turn(&mut self, reading: Reading) {
        let mut runs = std::mem::take(&mut self.runs);
        if let Some(Link { reading: last, .. }) = self.links.last() {
            runs.follow(span(&reading), span(last));
        }
        let links = vec![Link { reading, odd: false }];
        let epoch = self.epoch.saturating_add(1);
        *self = Self { links, acknowledged: 0, whole: true, epoch, runs, put_right: Vec::new() };
    }

    /// Whether there is only a point from which counting begins.
    pub(super) fn is_base_line(&self) -> bool {
        self.whole && self.links.len() == 1
    }

    /// The rows of all points of which they are not known to be stored.
    pub(super) fn rows(&self, identity: &Identity) -> Vec<Latency> {
        let links = self.links.windows(2).enumerate().map(|(at, pair)| {
            let [earlier, later] = pair else { return None };
            if at < self.acknowledged && !later.odd {
                return None;
            }
            let row = between(identity, &earlier.reading, &later.reading).ok().and_then(Between::row);
            let none = || nothing(identity, earlier.reading.time, later.reading.time).ok();
            row.or_else(|| later.odd.then(none).flatten())
        });
        links.flatten().collect()
    }

    /// Whether any row is to be written.
    pub(super) fn is_pending(&self) -> bool {
        self.unacknowledged() > 0 || self.first_odd().is_some()
    }

    /// How many points there are whose rows are not known to be stored, but for odd ones.
    pub(super) fn unacknowledged(&self) -> usize {
        self.links.len().saturating_sub(self.acknowledged + 1)
    }

    /// Whether all rows are stored, and those of odd links were written once more.
    fn is_settled(&self) -> bool {
        let mut odd = self.links.iter().skip(1).filter(|link| link.odd);
        self.unacknowledged() == 0 && odd.all(|link| self.put_right.contains(&link.reading.time))
    }

    /// The first link whose row is to be written once more.
    fn first_odd(&self) -> Option<usize> {
        self.links.iter().skip(1).position(|link| link.odd).map(|at| at + 1)
    }

    /// Says that all rows are stored. The last link stays, so that a point before it can be told from one that came in
    /// between, and all points from the time `keep` on: the last ones of them, when they take more than `most_bytes` or
    /// [`LONGEST_KEPT_NS`].
    pub(super) fn acknowledge(&mut self, keep: Option<i64>, most_bytes: usize) {
        self.acknowledged = self.links.len().saturating_sub(1);
        self.put_right = self.links.iter().filter(|link| link.odd).map(|link| link.reading.time).collect();
        let before = |time: i64| self.links.partition_point(|link| link.reading.time < time);
        let fit = self.links.iter().rev().scan(0, |bytes, link| {
            *bytes += link.bytes();
            (*bytes <= most_bytes).then_some(())
        });
        let first = self.links.len() - fit.count();
        let oldest = self.links.last().map_or(0, |last| last.reading.time.saturating_sub(LONGEST_KEPT_NS));
        let wanted = keep
            .map_or(usize::MAX, |keep| before(keep.max(oldest)))
            .max(first.min(self.acknowledged.saturating_sub(LEAST_KEPT)));
        let done = self.acknowledged.saturating_sub(1).min(wanted);
        self.links.drain(..done);
        self.acknowledged -= done;
        self.whole &= done == 0;
        self.links.iter_mut().for_each(|link| link.odd = false);
    }

    /// Puts together what is known here and what another collector knows; whether that adds a point.
    pub(super) fn merge(&mut self, mut other: Self) -> bool {
        if other.links.is_empty() {
            return false;
        }
        let known: Vec<i64> = self.links.iter().map(|link| link.reading.time).collect();
        self.runs.join(&other.runs);
        if self.epoch > other.epoch {
            return false;
        }
        if self.epoch < other.epoch {
            other.runs.join(&self.runs);
            *self = other;
            return self.links.iter().any(|link| !known.contains(&link.reading.time));
        }
        // Whoever acknowledged more knows better what was counted.
        if self.acknowledged_time() < other.acknowledged_time() {
            std::mem::swap(self, &mut other);
            std::mem::swap(&mut self.runs, &mut other.runs);
            std::mem::swap(&mut self.put_right, &mut other.put_right);
        }
        let mut before = None;
        for link in &other.links {
            self.add(link, before);
            before = Some(link.reading.time);
        }
        self.links.iter().any(|link| !known.contains(&link.reading.time))
    }

    /// Adds a point of another chain, where it came after the one at `before`.
    fn add(&mut self, link: &Link, before: Option<i64>) {
        let found = self.links.binary_search_by_key(&link.reading.time, |known| known.reading.time);
        let here = |at: usize| at.checked_sub(1).and_then(|at| self.links.get(at)).map(|known| known.reading.time);
        match found {
            // Counted, or contained in what was.
            Err(0) if !self.whole => {}
            Err(at) => {
                let odd = link.odd || here(at) != before || at <= self.acknowledged;
                self.links.insert(at, Link { reading: link.reading.clone(), odd });
                if let Some(next) = self.links.get_mut(at + 1) {
                    next.odd = true;
                }
                self.acknowledged += usize::from(at <= self.acknowledged);
            }
            // Its row may be written, or may just be being written, from another point than here.
            Ok(at) => self.links[at].odd |= link.odd || (at > 0 && before.is_some() && here(at) != before),
        }
    }

    /// The time of the first point from which rows may still be written.
    pub(super) fn counts_from(&self) -> Option<i64> {
        let first = self.first_odd().map_or(self.acknowledged, |odd| self.acknowledged.min(odd - 1));
        self.links.get(first).map(|link| link.reading.time)
    }

    /// The time up to which rows are known to be stored.
    fn acknowledged_time(&self) -> Option<i64> {
        self.links.get(self.acknowledged).map(|link| link.reading.time)
    }
}
