//! Parts of SQL that plans share: the spans of a period, the slots within them, and what was held in each.

use crate::bill::decimal::ONE;

/// `[from, to)`, Unix milliseconds.
pub type Span = (i64, i64);

/// A minute, milliseconds.
pub const MINUTE_MS: i64 = 60_000;

/// The model of the whole GPU, of a driver's name that may be that of a MIG instance.
const WHOLE_GPU: &str = "replaceRegexpOne(toString(model), '^(.*) MIG .*$', '\\\\1')";

/// The spans between instants inside a period, each moved to the next whole minute, since that is what the ledger tells.
pub fn spans((from, to): Span, cuts: impl IntoIterator<Item = i64>) -> Vec<Span> {
    let minute = |at: i64| at + (-at).rem_euclid(MINUTE_MS);
    let mut ends: Vec<i64> = cuts.into_iter().map(minute).filter(|at| from < *at && *at < to).collect();
    ends.push(to);
    ends.sort_unstable();
    ends.dedup();
    let starts = std::iter::once(from).chain(ends.iter().copied());
    starts.zip(ends.iter().copied()).collect()
}

/// Whole numbers as a ClickHouse array. As text they take little of a query, however many they are.
fn numbers(numbers: impl Iterator<Item = i64>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("arrayMap(number -> toInt64(number), splitByChar(',', '{}'))", numbers.join(","))
}

/// The starts of spans.
fn starts(spans: &[Span]) -> String {
    numbers(spans.iter().map(|span| span.0))
}

/// The end of the span that begins at the column `since`.
fn until(spans: &[Span]) -> String {
    format!("arrayElement({}, indexOf({}, since))", numbers(spans.iter().map(|span| span.1)), starts(spans))
}

/// How long the part of the slot `slot` is that lies in the span `since`, milliseconds.
pub fn length(spans: &[Span], slot_ms: i64) -> String {
    format!("least({}, slot + {slot_ms}) - greatest(since, slot)", until(spans))
}

/// The condition under which ledger rows lie in these spans, of which there is at least one.
fn in_minutes(spans: &[Span]) -> String {
    let from = spans.first().map_or(0, |span| span.0).div_euclid(1_000);
    let to = spans.last().map_or(0, |span| span.1).div_euclid(1_000);
    format!("minute >= toDateTime({from}, 'UTC') AND minute < toDateTime({to}, 'UTC')")
}

/// The span of a ledger row.
pub fn since(spans: &[Span]) -> String {
    format!("roundDown(toInt64(toUnixTimestamp(minute)) * 1000, {})", starts(spans))
}

/// What is known of a row's device: `value` is of `gpu_model`, `profile` and `bytes`. Device ids are of low cardinality, so that it is
/// looked up once a device and not once a row, which a join would do.
pub fn of_device(value: &str, otherwise: &str) -> String {
    let known = |wanted: &str| {
        format!(
            "(SELECT arrayMap(pair -> pair.{wanted}, arraySort(groupArray((id, {value})))) FROM ( \
                SELECT id, {WHOLE_GPU} AS gpu_model, profile, bytes FROM ( \
                    SELECT id, anyLast(model) AS model, anyLast(mig_profile) AS profile, max(memory_bytes) AS bytes FROM devices GROUP BY id \
                    UNION ALL SELECT '', '', '', 0 \
                )))"
        )
    };
    format!("transform(device, {}, {}, {otherwise})", known("1"), known("2"))
}

/// `columns` of the rows of the ledger in these spans for which `condition`.
pub fn ledger(spans: &[Span], columns: &str, condition: &str) -> String {
    format!("SELECT {} AS since, {columns} FROM ledger FINAL WHERE {} AND {condition}", since(spans), in_minutes(spans))
}

/// The parts of imported allocations that lie in these spans, for which `condition`: owner, model, GPUs, part of each (times
/// `10^12`), `since`, and `begins` and `ends` in Unix milliseconds.
pub fn allocations(spans: &[Span], condition: &str) -> String {
    let (from, to) = (spans.first().map_or(0, |span| span.0), spans.last().map_or(0, |span| span.1));
    let ends = numbers(spans.iter().map(|span| span.1));
    format!(
        "SELECT owner, {WHOLE_GPU} AS gpu_model, gpus, of_each, simulated, span.1 AS since, \
            greatest(first, span.1) AS begins, least(last, span.2) AS ends \
         FROM ( \
            SELECT owner, gpu_model AS model, gpus, toInt128(toDecimal128(fraction, 12) * {ONE}) AS of_each, simulated, \
                toUnixTimestamp64Milli(start) AS first, toUnixTimestamp64Milli(`end`) AS last, \
                arrayJoin(arrayFilter(span -> span.1 < last AND span.2 > first, arrayZip({}, {ends}))) AS span \
            FROM allocations FINAL \
            WHERE start < fromUnixTimestamp64Milli(toInt64({to})) AND `end` > fromUnixTimestamp64Milli(toInt64({from})) \
                AND {condition} \
         )",
        starts(spans),
    )
}

/// What was held in each slot (whose length divides an hour, or is one), a row for each minute or allocation: columns `owner`, `kind`,
/// `gpu_model`, `since`, `slot` (its start, Unix milliseconds), `part` (GPU-milliseconds times `10^12`) and `made_up`.
pub fn held(spans: &[Span], slot_ms: i64, condition: &str) -> String {
    let ledger = ledger(
        spans,
        &format!(
            "owner, kind, {} AS gpu_model, intDiv(toInt64(toUnixTimestamp(minute)) * 1000, {slot_ms}) * {slot_ms} AS slot, \
             toInt128(share_ms) * {ONE} AS part, simulated AS made_up",
            of_device("gpu_model", "''")
        ),
        &format!("kind IN ('workload', 'unattributed', 'unmetered') AND {condition}"),
    );
    let allocations = allocations(spans, condition);
    format!(
        "SELECT owner, kind, gpu_model, since, slot, part, made_up FROM ({ledger}) \
         UNION ALL \
         SELECT owner, toLowCardinality('workload') AS kind, toLowCardinality(gpu_model) AS gpu_model, since, slot, \
            toInt128(least(ends, slot + {slot_ms}) - greatest(begins, slot)) * gpus * of_each AS part, simulated AS made_up \
         FROM ( \
            SELECT owner, gpu_model, gpus, of_each, simulated, since, begins, ends, toInt64(arrayJoin( \
                range(toUInt64(intDiv(begins, {slot_ms}) * {slot_ms}), toUInt64(ends), toUInt64({slot_ms})))) AS slot \
            FROM ({allocations}) \
         )"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut_at_whole_minutes_inside_the_period() {
        assert_eq!(spans((0, 600_000), []), [(0, 600_000)]);
        assert_eq!(
            spans((0, 600_000), [300_001, 0, 600_000, 120_000, 359_999]),
            [(0, 120_000), (120_000, 360_000), (360_000, 600_000)]
        );
    }
}
