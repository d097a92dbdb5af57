//! Sessions: runs of minutes without a hole in which an owner held a device. ClickHouse makes runs within a span, [`chain`] puts
//! those together that touch, and [`look_back`] finds when the sessions began that ran when the period did.

use std::collections::HashMap;

use uuid::Uuid;

use super::Session;
use super::devices::{Class, Devices, QUERY_BYTES, few};
use super::gaps;
use super::ledger::{GREATER, HOLDS, SumRow, UNKNOWN};
use super::part::Part;
use super::spans::Spans;
use crate::bill::StoreError;
use crate::store::Store;

const DAY_MS: i64 = 86_400_000;

/// How far the beginning of a session is looked for: 13 months. One that is older counts as if it had begun then.
pub(super) const LOOK_BACK_MS: i64 = 400 * DAY_MS;

/// How much of that is read at once.
const WINDOW_MS: i64 = 32 * DAY_MS;

/// Runs of minutes of each owner and device within each span, as parts; those of unmetered time that was given are not among them.
pub(super) async fn runs(
    store: &Store,
    spans: &Spans,
    class: &Class,
    devices: &mut Devices,
) -> Result<Vec<Part>, StoreError> {
    let sql = runs_sql(spans, class);
    let failed = || StoreError::doing("read the sessions of the ledger");
    let query = store.client.query(&sql).with_setting("max_query_size", QUERY_BYTES);
    let mut rows = query.fetch::<SumRow>().map_err(failed())?;
    let mut parts = Vec::new();
    while let Some(row) = rows.next().await.map_err(failed())? {
        parts.push(row.part(spans, devices));
    }
    Ok(parts)
}

fn runs_sql(spans: &Spans, class: &Class) -> String {
    let (in_minutes, since, only) = (spans.in_minutes(), spans.of_minute(), class.only());
    let sum = |column: u8| format!("arraySum(row -> row.{column}, run)");
    format!(
        "SELECT 'workload' AS kind, owner, device_id AS device, a_node AS node, since, \
            toInt64(run[1].1) * 1000 AS first, toInt64(run[-1].1 + 60) * 1000 AS until, \
            toInt64({held}) AS held, {share} AS share, {unknown} AS unknown, {busy} AS busy, {greater} AS greater, \
            {memory} AS memory, {energy} AS energy, toUInt64(length(run)) AS rows, is_simulated AS simulated \
         FROM ( \
            SELECT owner, toString(device) AS device_id, toString(max(node)) AS a_node, {since} AS since, \
                arraySort(groupArray((toUInt32(minute), toUInt64(held_ms), toUInt64(share_ms), toUInt64({UNKNOWN}), \
                    toUInt64(busy_ms), toUInt64({GREATER}), memory_mib_ms, energy_mj))) AS all_rows, \
                arrayMap(row -> row.1, all_rows) AS minutes, \
                arraySplit((row, before) -> row.1 != before + 60, all_rows, arrayPushFront(arrayPopBack(minutes), 0)) AS runs, \
                toBool(max(simulated)) AS is_simulated \
            FROM ledger FINAL WHERE {in_minutes} AND {only} AND {HOLDS} \
            GROUP BY owner, device, since \
         ) ARRAY JOIN runs AS run \
         SETTINGS do_not_merge_across_partitions_select_final = 1",
        held = sum(2),
        share = sum(3),
        unknown = sum(4),
        busy = sum(5),
        greater = sum(6),
        memory = sum(7),
        energy = sum(8),
    )
}

/// Puts runs that touch together into sessions, a part for each span of a session.
pub(super) fn chain(mut runs: Vec<Part>) -> Vec<Part> {
    runs.sort_by(|a, b| {
        let order = |part: &Part| (part.id, part.first, part.fact.from);
        a.fact.device.id.cmp(&b.fact.device.id).then_with(|| order(a).cmp(&order(b)))
    });
    let mut parts: Vec<Part> = Vec::with_capacity(runs.len());
    // Where the session ends that the last part is of.
    let mut end = i64::MIN;
    for mut run in runs {
        let last = parts
            .last_mut()
            .filter(|last| (&last.fact.device.id, last.id) == (&run.fact.device.id, run.id) && run.first <= end);
        let Some(last) = last else {
            end = run.end;
            run.fact.session = Some(Session { start: run.first, before: 0 });
            parts.push(run);
            continue;
        };
        end = end.max(run.end);
        if last.fact.from == run.fact.from {
            last.add(&run);
            continue;
        }
        let session = last.fact.session.unwrap_or_default();
        run.fact.session = Some(Session { before: session.before + last.fact.held, ..session });
        parts.push(run);
    }
    parts
}

/// Gives sessions that were running at the first minute of the period the beginning that they had before it.
pub(super) async fn look_back(
    store: &Store,
    spans: &Spans,
    gaps_too: bool,
    parts: &mut [Part],
    devices: &mut Devices,
) -> Result<(), StoreError> {
    let first_minute = spans.from + (-spans.from).rem_euclid(60_000);
    let running = |part: &Part| part.fact.session.is_some_and(|session| session.start == first_minute);
    let mut begun: HashMap<(String, Uuid), Session> = HashMap::new();
    for part in parts.iter().filter(|part| running(part)) {
        begun.insert((part.fact.device.id.clone(), part.id), Session { start: first_minute, before: 0 });
    }
    for some in few(begun.keys().map(|(device, _)| device.clone()).collect()) {
        let mut to = first_minute;
        let mut length = DAY_MS;
        let mut looked_for = some;
        while !looked_for.is_empty() && to > first_minute - LOOK_BACK_MS {
            let from = (to - length).max(first_minute - LOOK_BACK_MS).max(0);
            let window = Spans::new(from, to, &[], 0);
            let class = Class::of_sessions(std::mem::take(&mut looked_for));
            let mut held = runs(store, &window, &class, devices).await?;
            if gaps_too {
                held.extend(gaps::given(store, &window, &class, devices).await?);
            }
            looked_for = extend(&mut begun, chain(held), (from, to));
            (to, length) = (from, (2 * length).min(WINDOW_MS));
        }
    }
    for part in parts.iter_mut().filter(|part| running(part)) {
        let found = begun.get(&(part.fact.device.id.clone(), part.id));
        if let (Some(session), Some(found)) = (part.fact.session.as_mut(), found) {
            *session = Session { start: found.start, before: session.before + found.before };
        }
    }
    Ok(())
}

/// Extends sessions that begin at the end of a window by what it has of them; the devices of those that began before it, too.
fn extend(begun: &mut HashMap<(String, Uuid), Session>, parts: Vec<Part>, (from, to): (i64, i64)) -> Vec<String> {
    let mut on = Vec::new();
    for part in parts.into_iter().filter(|part| part.end >= to) {
        let Some(known) = begun.get_mut(&(part.fact.device.id.clone(), part.id)) else { continue };
        let Some(session) = part.fact.session.filter(|_| known.start == to) else { continue };
        *known = Session { start: session.start, before: known.before + session.before + part.fact.held };
        if session.start == from && from > 0 {
            on.push(part.fact.device.id.clone());
        }
    }
    on
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use contador_schemas::owner::OwnerKind;
    use proptest::prelude::*;

    use super::*;
    use crate::bill::facts::{Device, Fact};

    fn run(owner: u128, minutes: std::ops::Range<i64>, span: i64) -> Part {
        let held = (minutes.end - minutes.start) * 60_000;
        let device = Arc::new(Device { id: "GPU-1".to_owned(), ..Device::default() });
        let from = minutes.start.div_euclid(span) * span * 60_000;
        let fact = Fact { kind: OwnerKind::Workload, device, from, to: from + span * 60_000, held, ..Fact::default() };
        Part { id: Uuid::from_u128(owner), first: minutes.start * 60_000, end: minutes.end * 60_000, fact }
    }

    fn told(parts: &[Part]) -> Vec<(u128, i64, i64, i64, i64)> {
        let of = |part: &Part| {
            let session = part.fact.session.unwrap();
            (
                part.id.as_u128(),
                part.fact.from / 60_000,
                session.start / 60_000,
                session.before / 60_000,
                part.fact.held / 60_000,
            )
        };
        parts.iter().map(of).collect()
    }

    #[test]
    fn a_session_goes_on_over_the_end_of_a_span_and_ends_at_a_hole() {
        // Spans of ten minutes: 5..10 and 10..12 are one session, 13..14 another in the same span.
        let parts = chain(vec![run(1, 13..14, 10), run(1, 10..12, 10), run(1, 5..10, 10), run(2, 12..13, 10)]);
        assert_eq!(told(&parts), [(1, 0, 5, 0, 5), (1, 10, 5, 5, 2), (1, 10, 13, 0, 1), (2, 10, 12, 0, 1)]);
    }

    #[test]
    fn given_time_fills_the_hole_also_where_it_shares_a_minute() {
        let mut given = run(1, 12..14, 10);
        given.fact.held = 90_000;
        let parts = chain(vec![run(1, 10..13, 10), run(1, 13..15, 10), given]);
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].fact.held, 3 * 60_000 + 90_000 + 2 * 60_000);
    }

    #[test]
    fn a_session_of_before_the_period_is_extended_as_far_as_it_goes() {
        let key = ("GPU-1".to_owned(), Uuid::from_u128(1));
        let mut begun = HashMap::from([(key.clone(), Session { start: 40 * 60_000, before: 0 })]);
        let window = |from: i64, to: i64| (from * 60_000, to * 60_000);
        // Another session of the same owner in the window is not it.
        let parts = chain(vec![run(1, 21..25, 100), run(1, 30..40, 100), run(2, 20..40, 100)]);
        assert_eq!(extend(&mut begun, parts, window(20, 40)), [] as [&str; 0]);
        assert_eq!(begun[&key], Session { start: 30 * 60_000, before: 10 * 60_000 });

        let mut begun = HashMap::from([(key.clone(), Session { start: 40 * 60_000, before: 0 })]);
        assert_eq!(extend(&mut begun, chain(vec![run(1, 20..40, 100)]), window(20, 40)), ["GPU-1"]);
        assert_eq!(extend(&mut begun, chain(vec![run(1, 5..20, 100)]), window(0, 20)), [] as [&str; 0]);
        assert_eq!(begun[&key], Session { start: 5 * 60_000, before: 35 * 60_000 });
    }

    proptest! {
        /// Whatever the spans, sessions are the runs of the minutes that were held, and their parts lie end to end.
        #[test]
        fn sessions_are_runs_of_minutes(held in prop::collection::vec(any::<bool>(), 1..90), span in 1i64..40) {
            let minutes: Vec<i64> = (0..).zip(&held).filter(|(_, held)| **held).map(|(at, _)| at).collect();
            let mut runs: Vec<Part> = minutes.iter().map(|at| run(1, *at..*at + 1, span)).collect();
            runs.reverse();
            let mut expected: Vec<(i64, i64)> = Vec::new();
            for at in minutes {
                match expected.last_mut() {
                    Some((start, length)) if *start + *length == at => *length += 1,
                    _ => expected.push((at, 1)),
                }
            }
            let mut found: Vec<(i64, i64)> = Vec::new();
            for (_, _, start, before, held) in told(&chain(runs)) {
                match found.last_mut() {
                    Some((last, length)) if *last == start => {
                        prop_assert_eq!(*length, before);
                        *length += held;
                    }
                    _ => {
                        prop_assert_eq!(before, 0);
                        found.push((start, held));
                    }
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
