//! The last two totals of each series, as a request changes them, and as they were before it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use contador_schemas::runs::{Place, Runs, Untold};
use uuid::Uuid;

use super::journal::{Entry, Frame, Journal};
use super::point::{Reason, Total};

/// How far ahead of this host's clock a point may be, in nanoseconds: as far as the collector takes it.
const MOST_AHEAD_NS: u64 = 10 * 60 * 1_000_000_000;

/// Most series; those that were received least recently are forgotten.
const MAX_SERIES: usize = 20_000;

/// Most bytes of all series, about; likewise.
const MAX_BYTES: usize = 32 << 20;

/// What a total adds.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// This, and whether its source began again.
    Increase(Box<Total>, bool),
    /// Nothing.
    Nothing,
    /// It is the first of its series, or of a run whose start was not seen: what comes after it counts.
    BaseLine,
    /// It can't be told: what comes after it counts.
    Untold(Untold),
}

impl Taken {
    /// What a `later` total adds to an `earlier` one.
    fn between(earlier: &Total, later: &Total) -> Self {
        match later.since(earlier) {
            Ok(Some((increase, reset))) => Self::Increase(Box::new(increase), reset),
            Ok(None) => Self::Nothing,
            Err(why) => Self::Untold(why),
        }
    }
}

/// The last two totals of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The one before, which the last one's increase came after.
    pub before: Option<Total>,
    /// The last one.
    pub last: Total,
    /// Which runs it has ended.
    pub runs: Runs,
    /// When it was received, in an order.
    pub received: u64,
    /// Whether its key may have the node's name in it: it is of a former journal, and nothing came of it since.
    pub former: bool,
}

impl Series {
    /// Bytes that it takes, about.
    fn bytes(&self) -> usize {
        let ended = size_of_val(self.runs.ended());
        size_of::<Self>() + self.last.bytes() + self.before.as_ref().map_or(0, Total::bytes) + ended
    }
}

/// All series.
#[derive(Debug)]
pub struct Memory {
    series: HashMap<Uuid, Series>,
    /// Since when every series that is not remembered has not been seen, Unix nanoseconds.
    since: u64,
    receipts: u64,
    limit: usize,
    max_bytes: usize,
    /// Bytes of all series, about.
    bytes: usize,
    /// What this request has changed, as it was before.
    changed: HashMap<Uuid, Option<Series>>,
    since_before: u64,
}

impl Memory {
    /// A memory that begins at `since`, Unix nanoseconds.
    pub fn new(since: u64) -> Self {
        Self::with_limits(since, MAX_SERIES, MAX_BYTES)
    }

    /// The same of at most so many series and bytes.
    pub fn with_limits(since: u64, limit: usize, max_bytes: usize) -> Self {
        let (series, changed) = (HashMap::new(), HashMap::new());
        Self { series, since, receipts: 0, limit, max_bytes, bytes: 0, changed, since_before: since }
    }

    /// How many series are remembered.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// What was not seen before `now`, Unix nanoseconds, may have been.
    pub fn watch_from(&mut self, now: u64) {
        self.since = self.since.max(now);
        self.since_before = self.since;
    }

    /// Takes a frame of the journal.
    pub fn restore(&mut self, frame: &Frame) {
        self.since = self.since.max(frame.since);
        self.since_before = self.since;
        for key in frame.forgotten.iter().filter_map(|key| Uuid::from_slice(key).ok()) {
            self.put(key, None);
        }
        for (key, series) in frame.entries.iter().filter_map(Entry::read) {
            self.receipts = self.receipts.max(series.received);
            self.put(key, Some(series));
        }
    }

    /// Has a series be this, or not be remembered; what it was.
    fn put(&mut self, key: Uuid, series: Option<Series>) -> Option<Series> {
        self.bytes += series.as_ref().map_or(0, Series::bytes);
        let old = match series {
            Some(series) => self.series.insert(key, series),
            None => self.series.remove(&key),
        };
        self.bytes -= old.as_ref().map_or(0, Series::bytes);
        old
    }

    /// Whether there is a series of this key.
    pub fn knows(&self, key: Uuid) -> bool {
        self.series.contains_key(&key)
    }

    /// Has the series of the key `former`, when it is of a former journal, be known by this `key`.
    pub fn rename(&mut self, former: Uuid, key: Uuid) {
        if self.series.get(&former).is_none_or(|series| !series.former) {
            return;
        }
        if let Some(old) = self.put(former, None) {
            self.put(key, Some(Series { former: false, ..old.clone() }));
            self.changed.entry(former).or_insert(Some(old));
            self.changed.entry(key).or_insert(None);
        }
    }

    /// Takes a total of the series `key`, received at `now`, Unix nanoseconds. The first one counts from its start only when that
    /// was watched, by this host's clock and by the sender's.
    ///
    /// A point of a run that seems older is refused until [`Runs::place`] has it take over.
    ///
    /// # Errors
    /// [`Reason`]; nothing has changed then.
    pub fn take(&mut self, key: Uuid, total: Total, now: u64) -> Result<Taken, Reason> {
        // It would hide the right ones that come after it, and the collector would refuse what came up to then.
        if total.time() > now.saturating_add(MOST_AHEAD_NS) {
            return Err(Reason::Time);
        }
        let signed = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        let Some(Series { before, last, runs, .. }) = self.series.get_mut(&key) else {
            let watched = total.span().watched(signed(self.since), signed(now.saturating_sub(self.since)));
            let before = watched.map(|start| total.zero(start.cast_unsigned()));
            let taken = match &before {
                None => Taken::BaseLine,
                Some(zero) => Taken::between(zero, &total),
            };
            self.change(key, before, total, Runs::default());
            return Ok(taken);
        };
        let place = runs.place(total.span(), last.span(), signed(now));
        let follow = || {
            let mut runs = runs.clone();
            runs.follow(total.span(), last.span());
            runs
        };
        match place {
            Place::Follows => {}
            Place::Known => return Ok(Taken::Nothing),
            Place::Refused => return Err(Reason::OutOfOrder),
            Place::TakesOver => {
                let runs = follow();
                self.change(key, None, total, runs);
                return Ok(Taken::BaseLine);
            }
        }
        if total.time() > last.time() {
            let (taken, runs) = (Taken::between(last, &total), follow());
            let last = last.clone();
            self.change(key, Some(last), total, runs);
            return Ok(taken);
        }
        if total.time() == last.time() {
            if total.buckets() != last.buckets() {
                return Err(Reason::Conflicting);
            }
            // The same row again, in case the answer was lost. That it could not be told is counted already.
            return Ok(match before.as_ref().map(|before| Taken::between(before, last)) {
                None | Some(Taken::Untold(_)) => Taken::Nothing,
                Some(taken) => taken,
            });
        }
        let later = before.as_ref().filter(|before| before.time() >= total.time()).unwrap_or(last);
        if later.contains(&total) { Ok(Taken::Nothing) } else { Err(Reason::OutOfOrder) }
    }

    fn change(&mut self, key: Uuid, before: Option<Total>, last: Total, runs: Runs) {
        self.receipts += 1;
        let old = self.put(key, Some(Series { before, last, runs, received: self.receipts, former: false }));
        self.changed.entry(key).or_insert(old);
        self.forget();
    }

    /// Forgets the series that were received least recently, when there is too much; the watch begins again.
    fn forget(&mut self) {
        if self.series.len() <= self.limit && self.bytes <= self.max_bytes {
            return;
        }
        let (limit, max_bytes) = (self.limit - self.limit / 8, self.max_bytes - self.max_bytes / 8);
        let mut oldest: Vec<(u64, Uuid)> = self.series.iter().map(|(key, series)| (series.received, *key)).collect();
        oldest.sort_unstable();
        for (_, key) in oldest {
            if self.series.len() <= limit && self.bytes <= max_bytes {
                break;
            }
            if let Some(series) = self.put(key, None) {
                self.since = self.since.max(series.last.time() + 1);
                self.changed.entry(key).or_insert(Some(series));
            }
        }
    }

    /// What this request has changed, with what is handed on of it; `None` when that is nothing.
    pub fn changes(&self, payload: &[u8]) -> Option<Frame> {
        if self.changed.is_empty() {
            return None;
        }
        let mut frame = Frame { since: self.since, payload: payload.to_vec(), ..Frame::default() };
        for key in self.changed.keys() {
            match self.series.get(key) {
                Some(series) => frame.entries.push(Entry::of(*key, series)),
                None => frame.forgotten.push(key.as_bytes().to_vec()),
            }
        }
        Some(frame)
    }

    /// Everything, when the journal has become long.
    pub fn snapshot_when(&self, journal: &Mutex<Journal>) -> Option<Frame> {
        let is_long = journal.lock().unwrap_or_else(PoisonError::into_inner).is_long();
        is_long.then(|| self.snapshot())
    }

    /// Everything.
    pub fn snapshot(&self) -> Frame {
        let entries = self.series.iter().map(|(key, series)| Entry::of(*key, series)).collect();
        Frame { since: self.since, entries, ..Frame::default() }
    }

    /// What this request has changed is on disk.
    pub fn settle(&mut self) {
        self.changed.clear();
        self.since_before = self.since;
    }

    /// As it was before this request.
    pub fn undo(&mut self) {
        for (key, old) in std::mem::take(&mut self.changed) {
            self.put(key, old);
        }
        self.since = self.since_before;
    }
}
