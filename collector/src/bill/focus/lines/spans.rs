//! When a line's charges accrued, and in which months they are billed.

use jiff::Timestamp;
use jiff::civil::Date;
use num_bigint::BigInt;

use super::what::What;
use crate::bill::apportion;
use crate::bill::decimal::Millionths;
use crate::bill::directory;
use crate::bill::focus::check::month;
use crate::bill::period::{Period, midnight};
use crate::bill::rate::Key;
use crate::bill::settle::{Amounts, Line};
use crate::bill::statement::Statement;

/// A charge period inside a billing period, or, of a correction, before it. Unix milliseconds of whole seconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Span {
    pub billing: [i64; 2],
    pub charge: [i64; 2],
    /// Whether it is of an earlier month, which is closed.
    pub is_correction: bool,
}

/// The months of its zone that a period lies in.
pub(super) fn months(period: &Period) -> Vec<[i64; 2]> {
    let mut months = Vec::new();
    let mut at = period.from;
    while let Some((start, end)) = month(at, &period.zone).filter(|_| at < period.to) {
        months.push([start, end]);
        at = end;
    }
    months
}

/// The spans of a line: one, or for what has no day one a month.
pub(super) fn of(line: &Line, what: &What<'_>, statement: &Statement, months: &[[i64; 2]]) -> Vec<Span> {
    let period = &statement.period;
    let billing = months.last().copied().unwrap_or([period.from, period.to]);
    if let Some(charge) = origin(&line.key, period).filter(|charge| charge[1] <= billing[0]) {
        return vec![Span { billing, charge, is_correction: true }];
    }
    let mut whole = day(&line.key, period).unwrap_or([period.from, period.to]);
    if let What::Purchase(id) = what
        && let Some(commitment) = statement.agreements.commitments.iter().find(|commitment| commitment.id == *id)
    {
        let ends = commitment.to.map_or(i64::MAX, |to| i64::from(to) * 1_000);
        whole = clip(whole, [i64::from(commitment.from) * 1_000, ends]).unwrap_or(whole);
    }
    let whole = clip(whole, [period.from, period.to]).unwrap_or([period.from, period.to]);
    let in_month = |billing: &[i64; 2]| clip(whole, *billing).map(|[from, to]| (*billing, from, to));
    let second = |(billing, from, to): ([i64; 2], i64, i64)| Span {
        billing,
        charge: [from - from.rem_euclid(1_000), to + (-to).rem_euclid(1_000)],
        is_correction: false,
    };
    months.iter().filter_map(in_month).map(second).collect()
}

fn clip([from, to]: [i64; 2], [first, last]: [i64; 2]) -> Option<[i64; 2]> {
    let clipped = [from.max(first), to.min(last)];
    (clipped[0] < clipped[1]).then_some(clipped)
}

fn day(key: &Key, period: &Period) -> Option<[i64; 2]> {
    let date = directory::date(key.day?);
    Some([midnight(date, &period.zone)?, midnight(date.tomorrow().ok()?, &period.zone)?])
}

/// The day, or else the month, that a correction is of.
fn origin(key: &Key, period: &Period) -> Option<[i64; 2]> {
    let first: Date = format!("{}-01", key.origin_month.as_deref()?).parse().ok()?;
    let (from, to) = month(midnight(first, &period.zone)?, &period.zone)?;
    Some(day(key, period).and_then(|day| clip(day, [from, to])).unwrap_or([from, to]))
}

/// The month that an instant is in, such as `2026-10`.
pub(super) fn month_name(at: i64, period: &Period) -> Option<String> {
    let date = period.zone.to_datetime(Timestamp::from_millisecond(at).ok()?).date();
    Some(date.strftime("%Y-%m").to_string())
}

/// The amounts of a line over its spans, by time, so that they sum to them.
pub(super) fn split(amounts: &Amounts, spans: &[Span]) -> Vec<Amounts> {
    if let [_] = spans {
        return vec![amounts.clone()];
    }
    let weights: Vec<BigInt> = spans.iter().map(|span| BigInt::from(span.charge[1] - span.charge[0])).collect();
    let mut parts = vec![Amounts::default(); spans.len()];
    for (measure, whole) in amounts.all().into_iter().enumerate() {
        for (part, share) in parts.iter_mut().zip(apportion::split(&whole.0, &weights)) {
            *part.all_mut()[measure] = Millionths(share);
        }
    }
    parts
}
