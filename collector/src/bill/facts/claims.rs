//! Claims: imported allocations of one GPU each, or of a part of it, that name the same device. Where they claim more than the whole of it
//! together, [`over_allocated`] tells how much; [`reduce`] makes them claim the whole of it, each in proportion.

use std::collections::BTreeMap;
use std::sync::Arc;

use clickhouse::Row;
use contador_schemas::owner::OwnerKind;
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use serde::Deserialize;
use uuid::Uuid;

use super::devices::{QUERY_BYTES, cut, device};
use super::part::Part;
use super::spans::{Spans, texts};
use super::{Device, Fact, Grain, Session};
use crate::bill::StoreError;
use crate::bill::apportion::split;
use crate::bill::decimal::ONE;
use crate::store::Store;

/// Which allocations are claims, as SQL.
pub(super) const CLAIMS: &str = "device != '' AND gpus = 1";

#[derive(Deserialize, Row)]
struct OverRow {
    device: String,
    excess: i128,
}

#[derive(Deserialize, Row)]
struct ClaimRow {
    #[serde(with = "clickhouse::serde::uuid")]
    owner: Uuid,
    device: String,
    node: String,
    gpu_model: String,
    part: i64,
    begins: i64,
    ends: i64,
    simulated: bool,
}

/// A claim to a device.
#[derive(Clone, Debug)]
struct Claim {
    owner: Uuid,
    device: Arc<Device>,
    /// Of the device, times `10^12`.
    part: i64,
    /// Unix milliseconds.
    begins: i64,
    /// Unix milliseconds, exclusive.
    ends: i64,
    simulated: bool,
}

/// The devices that are claimed more than whole at some instant of the spans, with the GPU time that is too much: GPU-milliseconds times
/// `10^12`. ClickHouse adds claims up along the time of each device.
pub(super) async fn over_allocated(store: &Store, spans: &Spans) -> Result<BTreeMap<String, i128>, StoreError> {
    let (from, to, touches) = (spans.from, spans.to, spans.touches());
    let sql = format!(
        "SELECT device, sum(toInt128(greatest(level - {ONE}, 0)) * length) AS excess FROM ( \
            SELECT device, arraySort(groupArrayArray([(held_from, part), (held_to, -part)])) AS changes, \
                arrayMap(change -> change.1, changes) AS times, \
                arrayCumSum(change -> change.2, changes) AS levels, \
                arrayPopFront(arrayDifference(arrayPushBack(times, times[-1]))) AS lengths \
            FROM ( \
                SELECT device, toInt64(toInt128(toDecimal128(fraction, 12) * {ONE})) AS part, \
                    greatest(toUnixTimestamp64Milli(start), toInt64({from})) AS held_from, \
                    least(toUnixTimestamp64Milli(`end`), toInt64({to})) AS held_to \
                FROM allocations FINAL WHERE {touches} AND {CLAIMS} \
            ) GROUP BY device \
         ) ARRAY JOIN levels AS level, lengths AS length \
         GROUP BY device HAVING excess > 0 \
         SETTINGS do_not_merge_across_partitions_select_final = 1"
    );
    let rows: Vec<OverRow> =
        store.client.query(&sql).fetch_all().await.map_err(StoreError::doing("add claims to devices up"))?;
    Ok(rows.into_iter().map(|row| (row.device, row.excess)).collect())
}

/// The claims to these devices as parts, reduced where they are too much.
pub(super) async fn reduced(
    store: &Store,
    spans: &Spans,
    grain: &Grain,
    devices: &[String],
) -> Result<Vec<Part>, StoreError> {
    let sql = format!(
        "SELECT owner, device, toString(node) AS node, toString(gpu_model) AS gpu_model, \
            toInt64(toInt128(toDecimal128(fraction, 12) * {ONE})) AS part, toUnixTimestamp64Milli(start) AS begins, \
            toUnixTimestamp64Milli(`end`) AS ends, simulated \
         FROM allocations FINAL WHERE {} AND {CLAIMS} AND device IN ({}) ORDER BY device, start, id \
         SETTINGS do_not_merge_across_partitions_select_final = 1",
        spans.touches(),
        texts(devices),
    );
    let failed = || StoreError::doing("read claims to devices");
    let query = store.client.query(&sql).with_setting("max_query_size", QUERY_BYTES);
    let mut rows = query.fetch::<ClaimRow>().map_err(failed())?;
    let (mut parts, mut claims) = (Vec::new(), Vec::<Claim>::new());
    while let Some(row) = rows.next().await.map_err(failed())? {
        if claims.last().is_some_and(|last| last.device.id != row.device) {
            parts.extend(reduce(&std::mem::take(&mut claims), spans, grain));
        }
        let ClaimRow { owner, part, begins, ends, simulated, .. } = row;
        let device = Arc::new(device(row.device, row.node, &row.gpu_model, String::new()));
        claims.push(Claim { owner, device, part, begins, ends, simulated });
    }
    parts.extend(reduce(&claims, spans, grain));
    Ok(parts)
}

/// Parts of the claims to one device, whose order decides who has what is left of a rounding.
fn reduce(claims: &[Claim], spans: &Spans, grain: &Grain) -> Vec<Part> {
    let cuts: Vec<(Spans, bool)> = claims
        .iter()
        .map(|claim| {
            let (step, by_session) = cut(grain, &claim.device.gpu_model);
            (spans.by(step), by_session)
        })
        .collect();
    let mut starts: Vec<usize> = (0..claims.len()).collect();
    starts.sort_by_key(|at| claims[*at].begins);
    let mut starts = starts.into_iter().peekable();
    let (mut active, mut now) = (Vec::<usize>::new(), spans.from);
    let mut parts: BTreeMap<(usize, i64), Part> = BTreeMap::new();
    loop {
        while let Some(at) = starts.next_if(|at| claims[*at].begins <= now) {
            active.push(at);
        }
        active.retain(|at| claims[*at].ends > now);
        active.sort_unstable();
        let next = starts.peek().map(|at| claims[*at].begins);
        let ends = active.iter().map(|at| claims[*at].ends.min(cuts[*at].0.end(now)));
        let Some(until) = ends.chain(next).min().map(|until| until.min(spans.to)).filter(|until| *until > now) else {
            return parts.into_values().collect();
        };
        for (at, units) in active.iter().zip(held(claims, &active, until - now)) {
            let from = cuts[*at].0.start(now);
            let part = parts.entry((*at, from)).or_insert_with(|| part(&claims[*at], &cuts[*at], spans, from));
            let fact = &mut part.fact;
            fact.held += until - now;
            fact.allocated += units;
            fact.unknown += units;
            fact.greater += units;
            if fact.is_partition() {
                fact.instance += units;
            }
        }
        now = until;
    }
}

/// What each of the active claims holds for so many milliseconds: what it claims, or its part of the whole device.
fn held(claims: &[Claim], active: &[usize], length: i64) -> Vec<i128> {
    let of = |at: &usize| i128::from(claims[*at].part);
    if active.iter().map(of).sum::<i128>() <= ONE {
        return active.iter().map(|at| of(at) * i128::from(length)).collect();
    }
    let weights: Vec<BigInt> = active.iter().map(|at| BigInt::from(of(at))).collect();
    let whole = BigInt::from(ONE) * length;
    split(&whole, &weights).iter().map(|units| units.to_i128().unwrap_or_default()).collect()
}

fn part(claim: &Claim, (cut, by_session): &(Spans, bool), spans: &Spans, from: i64) -> Part {
    let session = Session { start: claim.begins, before: (from - claim.begins).max(0) };
    let fact = Fact {
        kind: OwnerKind::Workload,
        device: Arc::clone(&claim.device),
        from,
        to: cut.end(from),
        imported: true,
        simulated: claim.simulated,
        fraction: i128::from(claim.part) < ONE,
        session: by_session.then_some(session),
        // It is counted where it begins in the period.
        rows: u64::from(cut.start(claim.begins.max(spans.from)) == from),
        ..Fact::default()
    };
    Part { id: claim.owner, fact, ..Part::default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim(owner: u128, part: i64, begins: i64, ends: i64) -> Claim {
        let device = Arc::new(Device { id: "GPU-1".to_owned(), ..Device::default() });
        Claim { owner: Uuid::from_u128(owner), device, part, begins, ends, simulated: false }
    }

    const HALF: i64 = 500_000_000_000;

    #[test]
    fn claims_are_reduced_only_while_they_are_too_much() {
        // 0 to 10 s one half; 10 to 20 s a half and a whole, 1.5; 20 to 30 s a whole.
        let claims = [claim(1, HALF, 0, 20_000), claim(2, 2 * HALF, 10_000, 40_000)];
        let parts = reduce(&claims, &Spans::new(0, 30_000, &[15_000], 0), &Grain::default());
        let told: Vec<_> = parts
            .iter()
            .map(|part| (part.id.as_u128(), part.fact.from, part.fact.held, part.fact.allocated, part.fact.rows))
            .collect();
        let expected = [
            // 10,000 × 0.5 + 5,000 × 0.5 / 1.5; the larger rest is its own: it is rounded up.
            (1, 0, 15_000, 5_000 * ONE + 5_000 * ONE / 3 + 1, 1),
            (1, 15_000, 5_000, 5_000 * ONE / 3 + 1, 0),
            (2, 0, 5_000, 10_000 * ONE / 3, 1),
            (2, 15_000, 15_000, 10_000 * ONE / 3 + 10_000 * ONE, 0),
        ];
        assert_eq!(told, expected);
    }

    proptest! {
        /// No device is held more than whole, nobody has more than was claimed, and where the claims fit nothing changes.
        #[test]
        fn reduced_claims_fill_the_device_and_no_more(
            claims in prop::collection::vec((1i64..=2 * HALF, 0i64..1_000, 1i64..1_000), 1..12),
            cuts in prop::collection::btree_set(101i64..899, 0..4),
        ) {
            let claims: Vec<Claim> =
                (0..).zip(claims).map(|(at, (part, begins, length))| claim(at, part, begins, begins + length)).collect();
            let cuts: Vec<i64> = cuts.into_iter().collect();
            let spans = Spans::new(100, 900, &cuts, 0);
            let parts = reduce(&claims, &spans, &Grain::default());
            // Millisecond by millisecond.
            let (mut whole, mut of) = (0, vec![0; claims.len()]);
            for at in 100..900 {
                let active = |claim: &&Claim| claim.begins <= at && at < claim.ends;
                let level: i128 = claims.iter().filter(active).map(|claim| i128::from(claim.part)).sum();
                whole += level.min(ONE);
                for (sum, claim) in of.iter_mut().zip(&claims).filter(|(_, claim)| active(claim)) {
                    *sum += 1;
                    prop_assert!(i128::from(claim.part) <= level);
                }
            }
            prop_assert_eq!(parts.iter().map(|part| part.fact.allocated).sum::<i128>(), whole);
            for (at, (held, claim)) in of.into_iter().zip(&claims).enumerate() {
                let id = Uuid::from_u128(at as u128);
                let mine = || parts.iter().filter(|part| part.id == id);
                prop_assert_eq!(mine().map(|part| part.fact.held).sum::<i64>(), held);
                let units: i128 = mine().map(|part| part.fact.allocated).sum();
                prop_assert!(units <= i128::from(claim.part) * i128::from(held));
                prop_assert_eq!(mine().map(|part| part.fact.rows).sum::<u64>(), u64::from(held > 0));
                prop_assert!(mine().all(|part| spans.start(part.fact.from) == part.fact.from));
            }
        }
    }
}
