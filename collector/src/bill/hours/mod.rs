//! The ledger by the hour: sums that a bill of a month reads instead of every row.
//!
//! [`mod@pass`] sums the hours that have changed, [`job`] does that now and then in `contador serve`. [`clean`] tells which hours have everything
//! that was stored; all others, those in which something came since too, are read from the rows, so no bill depends on the hours being there.

pub mod job;
pub mod pass;

use crate::latency::levels::{MARGIN_SECONDS, split};
use crate::store::Store;

/// The table.
const TABLE: &str = "ledger_hours";

/// An hour, seconds.
const HOUR: u32 = 3_600;

/// `[from, to)` in Unix seconds.
pub type Span = (u32, u32);

/// What is read from where: hours first, rows second.
pub(in crate::bill) type Cover = (Vec<Span>, Vec<Span>);

/// Which hours of a time can be read as such, and what must be read from rows: hours that have a row from after the last pass,
/// and those in which one of `cuts` (Unix milliseconds, in order) lies.
pub(in crate::bill) async fn clean(store: &Store, (from, to): Span, cuts: &[i64]) -> clickhouse::error::Result<Cover> {
    let (_, watermark, now) = pass::last(store).await?;
    // A watermark that is ahead of ClickHouse's clock, since that was set back, is taken back with it.
    let watermark = watermark.min(now - i64::from(MARGIN_SECONDS) * 1_000).max(0);
    let mut rest = Vec::new();
    let mut hours = Vec::new();
    if watermark == 0 {
        return Ok((hours, vec![(from, to)]));
    }
    let sql = format!(
        "SELECT DISTINCT toUInt32(intDiv(toUInt32(minute), {HOUR}) * {HOUR}) AS hour FROM ledger \
         WHERE minute >= toDateTime({from}, 'UTC') AND minute < toDateTime({to}, 'UTC') \
         AND stored >= fromUnixTimestamp64Milli(toInt64({watermark}))"
    );
    let mut dirty: Vec<u32> = store.client.query(&sql).fetch_all().await?;
    let inside = cuts.iter().filter(|cut| *cut % (i64::from(HOUR) * 1_000) != 0);
    dirty.extend(inside.filter_map(|cut| u32::try_from(cut.div_euclid(1_000)).ok()).map(|at| at - at % HOUR));
    dirty.sort_unstable();
    dirty.dedup();
    let clean_to = u32::try_from(watermark / 1_000).unwrap_or(u32::MAX);
    split((from, to), HOUR, clean_to, &dirty, &mut hours, &mut rest);
    Ok((hours, rest))
}

/// The condition that a column lies in one of these spans.
pub(in crate::bill) fn within(column: &str, spans: &[Span]) -> String {
    let of =
        |(from, to): &Span| format!("{column} >= toDateTime({from}, 'UTC') AND {column} < toDateTime({to}, 'UTC')");
    let spans: Vec<String> = spans.iter().map(of).collect();
    format!("({})", spans.join(" OR "))
}
