//! Two servers behind one address that don't say when they began: each page may be of another one than the page before.
//!
//! Counts that fall are those of a server that began again, or of another one. What was said before they fell is remembered. When
//! all of a page's totals come back to that, within a minute and in one step that is far more than what came at once since they fell,
//! the page is of the server of before: no server makes up for all of its past between two scrapes. Then the totals of both are known, and each
//! page is told by them. A server that began again comes back in small steps, and all of it counts.

use serde::{Deserialize, Serialize};

/// Pages that are further apart, in nanoseconds, have no leaps: whatever came in between came in that time.
const SOON_NS: u64 = 60_000_000_000;

/// A step that is not more than so many times the greatest one since a fall is growth.
const GROWTH: u64 = 4;

/// What may be another server's total.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Other {
    counts: Vec<u64>,
    /// The greatest number of values that came at once since it was said.
    pace: u64,
}

/// A total that may be either's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rivals<'t> {
    /// What is remembered of the other server.
    pub other: &'t Other,
    /// What was said before this page.
    pub before: &'t [u64],
    /// How long before, in nanoseconds.
    pub age_ns: u64,
    /// What is said now.
    pub now: &'t [u64],
}

/// Whose a page is, by all of its totals.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Turn {
    /// The server's that the page before was of, as far as can be told.
    #[default]
    Same,
    /// The other one's.
    Other,
    /// The same, which has grown to where it was before it began again: there is no other.
    Grown,
}

/// What one total says of that.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stand {
    /// It is below the other one's: it can't be of that one.
    Below,
    /// It can be of either.
    Both,
    /// It is there by growth.
    Grown,
    /// It is there by a fall, or a leap.
    Back,
}

impl Other {
    /// The other one's total.
    pub fn new(counts: &[u64]) -> Self {
        Self { counts: counts.to_vec(), pace: 0 }
    }

    /// The same after the total of the server that is followed grew from `before` to `now`.
    pub fn after(&self, before: &[u64], now: &[u64]) -> Self {
        Self { counts: self.counts.clone(), pace: self.pace.max(sum(now).saturating_sub(sum(before))) }
    }
}

impl Rivals<'_> {
    fn stand(&self) -> Stand {
        let Self { other, before, age_ns, now } = *self;
        if !reaches(now, &other.counts) {
            return Stand::Below;
        }
        if !reaches(now, before) {
            return Stand::Back;
        }
        if reaches(before, &other.counts) {
            return Stand::Both;
        }
        let step = sum(now).saturating_sub(sum(before));
        let is_leap = age_ns <= SOON_NS && step > other.pace.saturating_mul(GROWTH);
        if is_leap { Stand::Back } else { Stand::Grown }
    }
}

impl Turn {
    /// Whose a page is that has these totals.
    pub fn of<'t>(totals: impl IntoIterator<Item = Rivals<'t>>) -> Self {
        let mut turn = Self::Same;
        for rivals in totals {
            turn = match rivals.stand() {
                Stand::Below => return Self::Same,
                Stand::Back => Self::Other,
                Stand::Grown if turn == Self::Same => Self::Grown,
                Stand::Grown | Stand::Both => turn,
            };
        }
        turn
    }
}

/// Whether a server that said `earlier` can say `later`.
pub(super) fn reaches(later: &[u64], earlier: &[u64]) -> bool {
    later.len() == earlier.len() && later.iter().zip(earlier).all(|(later, earlier)| later >= earlier)
}

fn sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}
