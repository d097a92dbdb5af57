//! Since when running totals are watched.

use super::increase::span;
use crate::ingest::decode::histogram::Reading;

/// How long the table of totals keeps what is not written again, less a day, so that nothing is dropped before it is not
/// reckoned with any more.
const KEPT_NS: i64 = 13 * 86_400_000_000_000;

/// What was watched when a request came: a total that is not known, and whose run began since, was never counted.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Unix nanoseconds: what started before may have been counted before.
    since: i64,
    /// Nanoseconds from then until now.
    lasted: i64,
}

impl Watch {
    /// Totals are kept since `since`; it is `now`, both Unix nanoseconds.
    pub fn new(since: i64, now: i64) -> Self {
        let since = since.max(now.saturating_sub(KEPT_NS));
        Self { since, lasted: now.saturating_sub(since) }
    }

    /// The start of a run that was watched as a whole.
    pub(super) fn start_of(self, reading: &Reading) -> Option<i64> {
        span(reading).watched(self.since, self.lasted)
    }
}
