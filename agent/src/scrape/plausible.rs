//! Whether an increase can be: its sum tells what its counts hide.

use super::memory::Came;
use super::taken::Reason;

/// What is to become of an increase.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It is taken, perhaps without some values.
    Taken(Came, Option<(Reason, u64)>),
    /// Its sum says other than its counts: it may have been read while they changed. The next scrape will tell.
    Doubtful,
    /// It can't be: so many values.
    Impossible(Reason, u64),
}

/// Judges an increase of a histogram with these bounds, all in the series's unit. `patient` when a doubtful one may wait
/// for the next scrape; `uptime` is how long the server has been running.
///
/// With `n` values in each bucket `(lo, hi]`, their sum lies between the sums of `n·lo` and `n·hi`, whatever they are. A
/// negative value shows as a sum that is too low. (A sum that is read before or after its counts is off by a few values in
/// one interval and by as much the other way in the next one, but it never falls.) The mean of the values in the highest
/// bucket is at least what all others leave of the sum; one that is longer than the server runs is no latency.
pub(super) fn judge(mut came: Came, bounds: &[f64], patient: bool, uptime: Option<f64>) -> Verdict {
    let values = came.counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
    if let Some(sum) = came.sum.filter(|_| values > 0) {
        let slack = slack(&came);
        let (least, most) = limits(&came.counts, bounds);
        if sum < -slack {
            return Verdict::Impossible(Reason::Sum, values);
        }
        if sum < least - slack || sum > most + slack {
            return if patient { Verdict::Doubtful } else { Verdict::Impossible(Reason::Sum, values) };
        }
    }
    let Some(uptime) = uptime else { return Verdict::Taken(came, None) };
    let mut dropped = 0;
    while let Some(top) = came.counts.iter().rposition(|count| *count > 0) {
        let n = came.counts[top];
        let lowest = top.checked_sub(1).and_then(|below| bounds.get(below)).copied().unwrap_or_default();
        let implied = came.sum.map_or(0.0, |sum| {
            let mut others = came.counts.clone();
            others[top] = 0;
            (sum - limits(&others, bounds).1) / float(n)
        });
        if lowest.max(implied) <= uptime {
            break;
        }
        came.counts[top] = 0;
        came.sum = None;
        dropped += n;
    }
    Verdict::Taken(came, (dropped > 0).then_some((Reason::Uptime, dropped)))
}

/// The least and the greatest sum that the counts allow.
fn limits(counts: &[u64], bounds: &[f64]) -> (f64, f64) {
    let mut limits = (0.0, 0.0);
    for (index, &n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
        let lo = index.checked_sub(1).and_then(|below| bounds.get(below)).copied().unwrap_or_default();
        let hi = bounds.get(index).copied().unwrap_or(f64::INFINITY);
        limits = (limits.0 + float(n) * lo, limits.1 + float(n) * hi);
    }
    limits
}

/// How far a sum may be off: servers add up floats, one by one, and some show few digits of them.
fn slack(came: &Came) -> f64 {
    came.magnitude * 1e-6 + f64::MIN_POSITIVE
}

#[expect(clippy::cast_precision_loss, reason = "counts are at most 2^53")]
fn float(n: u64) -> f64 {
    n as f64
}
