//! Gaps: minutes in which nobody was looking, between two in which somebody was.
//!
//! [`find`] cuts the unmetered time of a device into gaps, [`mod@ask`] asks the store who held the device in the minutes at their
//! ends, and [`give`] gives the time of those with the same workloads at both ends to them. A gap of more than a day is nobody's:
//! so what a gap is does not depend on the period that is asked for, and a look of a day over its ends is enough.

mod ask;
mod give;

pub(super) use ask::given;

/// A minute, milliseconds.
const MINUTE_MS: i64 = 60_000;

/// The longest gap that is given to somebody, in whole minutes.
const LONGEST: i64 = 24 * 60;

/// How far over the ends of a period gaps are looked for.
pub(super) const MARGIN_MS: i64 = (LONGEST + 2) * MINUTE_MS;

/// Unmetered time of a device in one minute.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Blind {
    /// Start of the minute, Unix milliseconds.
    minute: i64,
    /// How much of it was unmetered, milliseconds.
    held: i64,
    /// The device's share of that, milliseconds.
    share: i64,
    /// Millijoules.
    energy: i64,
}

impl Blind {
    /// Whether somebody was looking for a part of the minute.
    const fn is_partly_metered(&self) -> bool {
        self.held < MINUTE_MS
    }
}

/// Consecutive minutes with unmetered time, and the minutes, in order, that tell whose it is: those at its ends and those within that
/// are partly metered. Between two of these lies a gap; if there is only one, the gap lies within that minute.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Run<'a> {
    rows: &'a [Blind],
    anchors: Vec<i64>,
}

/// The runs of the unmetered minutes of a device, which are in order.
fn find(rows: &[Blind]) -> Vec<Run<'_>> {
    rows.chunk_by(|one, next| one.minute + MINUTE_MS == next.minute)
        .map(|rows| {
            let mut anchors: Vec<i64> =
                rows.iter().filter(|row| row.is_partly_metered()).map(|row| row.minute).collect();
            if let Some(first) = rows.first().filter(|row| !row.is_partly_metered()) {
                anchors.insert(0, first.minute - MINUTE_MS);
            }
            if let Some(last) = rows.last().filter(|row| !row.is_partly_metered()) {
                anchors.push(last.minute + MINUTE_MS);
            }
            Run { rows, anchors }
        })
        .collect()
}

/// Whether a gap between two minutes is short enough to be somebody's.
const fn is_short(before: i64, after: i64) -> bool {
    after - before <= (LONGEST + 1) * MINUTE_MS
}
