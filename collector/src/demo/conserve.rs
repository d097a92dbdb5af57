//! Whether what was stored adds up: each GPU's minute, with those of its MIG instances, is held whole, and the energy of its
//! owners is what its own counter says, also where the agent was ended and started again within it. Computed from the stored
//! samples, not by the agent's code.

use std::collections::BTreeMap;

use clickhouse::Row as ClickHouseRow;
use serde::Deserialize;

use crate::store::Store;

/// One GPU's minute, summed over its owners and those of its MIG instances.
#[derive(Clone, ClickHouseRow, Debug, Deserialize, Eq, PartialEq)]
pub(super) struct Row {
    /// Device UUID.
    pub(super) device: String,
    /// Start of the minute, Unix seconds.
    pub(super) minute: u32,
    /// Sum of the owners' shares, milliseconds.
    pub(super) share_ms: u64,
    /// Sum of the owners' energy, millijoules.
    pub(super) energy_mj: u64,
    /// The part of the shares that is unmetered, milliseconds.
    pub(super) unmetered_ms: u64,
}

/// One stored sample of a device's energy counter.
#[derive(Clone, ClickHouseRow, Debug, Deserialize, Eq, PartialEq)]
pub(super) struct Reading {
    /// Device UUID.
    pub(super) device: String,
    /// Unix milliseconds.
    pub(super) ts: i64,
    /// Millijoules; `None` when it was not measured.
    pub(super) energy_mj: Option<u64>,
}

const ROWS: &str = "SELECT if(d.parent = '', toString(l.device), d.parent) AS device, l.minute AS minute,
    toUInt64(sum(l.share_ms)) AS share_ms, toUInt64(sum(l.energy_mj)) AS energy_mj,
    toUInt64(sumIf(l.share_ms, l.kind = 'unmetered')) AS unmetered_ms
FROM (SELECT * FROM ledger FINAL) AS l
LEFT JOIN (SELECT id, anyLast(parent) AS parent FROM devices GROUP BY id) AS d ON d.id = toString(l.device)
GROUP BY device, minute ORDER BY device, minute SETTINGS join_use_nulls = 0";

const READINGS: &str = "SELECT device, ts, energy_mj FROM gpu_samples FINAL ORDER BY device, ts";

/// What was looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Checked {
    /// What does not add up, a line each.
    pub(super) faults: Vec<String>,
    /// How many device-minutes there are.
    pub(super) minutes: usize,
    /// How often the agent was started again in one of them.
    pub(super) restarts: usize,
}

/// Checks all that is stored. `restarts`: when the agent had ended and was not yet started again, Unix milliseconds.
pub(super) async fn check(store: &Store, restarts: impl Iterator<Item = i64>) -> anyhow::Result<Checked> {
    let rows: Vec<Row> = store.client.query(ROWS).fetch_all().await?;
    let readings: Vec<Reading> = store.client.query(READINGS).fetch_all().await?;
    let mut checked = Checked { faults: faults(&rows, readings), minutes: rows.len(), restarts: 0 };
    for restart_ms in restarts {
        let (unseen, is_checked) = restarted(&rows, restart_ms);
        checked.faults.extend(unseen);
        checked.restarts += usize::from(is_checked);
    }
    Ok(checked)
}

/// What contradicts that no agent ran at an instant (Unix milliseconds), and whether there are rows of its minute.
fn restarted(rows: &[Row], at_ms: i64) -> (Vec<String>, bool) {
    let of_minute = || rows.iter().filter(|row| i64::from(row.minute) * 1_000 == at_ms - at_ms.rem_euclid(60_000));
    let seen = of_minute().filter(|row| row.unmetered_ms == 0).map(|Row { device, minute, .. }| {
        format!("{device}, minute {minute}: the agent was started again in it, and no part of it is unmetered")
    });
    (seen.collect(), of_minute().count() > 0)
}

/// What of `rows` contradicts the minute's length or the `readings` of the energy counters (ascending by device and time).
fn faults(rows: &[Row], readings: Vec<Reading>) -> Vec<String> {
    let mut counters: BTreeMap<String, Vec<(i64, u64)>> = BTreeMap::new();
    for reading in readings {
        if let Some(energy) = reading.energy_mj {
            counters.entry(reading.device).or_default().push((reading.ts, energy));
        }
    }
    let risen: BTreeMap<String, Vec<(i64, u64)>> =
        counters.into_iter().map(|(device, counter)| (device, risen(&counter))).collect();
    let mut faults = Vec::new();
    for row in rows {
        let Row { device, minute, share_ms, energy_mj, .. } = row;
        if *share_ms != 60_000 {
            faults.push(format!("{device}, minute {minute}: the shares sum to {share_ms} ms, expected 60000"));
        }
        let start = i64::from(*minute) * 1000;
        let expected = risen.get(device).and_then(|counter| {
            let end = energy_at(counter, start + 60_000)?;
            Some(end - energy_at(counter, start)?)
        });
        match expected {
            Some(expected) if expected != *energy_mj => faults.push(format!(
                "{device}, minute {minute}: the owners drew {energy_mj} mJ, the device's counter says {expected}"
            )),
            None if *energy_mj != 0 => faults.push(format!(
                "{device}, minute {minute}: the owners drew {energy_mj} mJ, and no stored sample covers the minute"
            )),
            _ => {}
        }
    }
    faults
}

/// Energy since the first reading; a counter that falls was restarted, and its new value is the increase.
fn risen(counter: &[(i64, u64)]) -> Vec<(i64, u64)> {
    let mut sum = 0;
    let mut last = None;
    counter
        .iter()
        .map(|&(ts, energy)| {
            sum += match last {
                Some(last) if energy >= last => energy - last,
                Some(_) => energy,
                None => 0,
            };
            last = Some(energy);
            (ts, sum)
        })
        .collect()
}

/// Energy at the instant `at` (Unix milliseconds): on the straight line between the two readings around it, rounded down;
/// the first reading's before it. `None` after the last reading.
fn energy_at(risen: &[(i64, u64)], at: i64) -> Option<u64> {
    let next = risen.partition_point(|(ts, _)| *ts < at);
    let &(after, high) = risen.get(next)?;
    let Some(&(before, low)) = next.checked_sub(1).and_then(|index| risen.get(index)) else {
        return Some(high);
    };
    let part = u128::from(high - low) * u128::from(at.abs_diff(before)) / u128::from(after.abs_diff(before));
    u64::try_from(part).ok().map(|part| low + part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(ts: i64, energy_mj: u64) -> Reading {
        Reading { device: "GPU-a".into(), ts, energy_mj: Some(energy_mj) }
    }

    fn row(minute: u32, share_ms: u64, energy_mj: u64) -> Row {
        Row { device: "GPU-a".into(), minute, share_ms, energy_mj, unmetered_ms: 0 }
    }

    #[test]
    fn a_minute_that_adds_up_has_no_fault() {
        // 1 W from 30 s into minute 60 on: 30 J in it; then a restart of the counter at 125 s.
        let readings = vec![reading(90_000, 5_000), reading(120_500, 35_500), reading(125_000, 4_000)];
        assert_eq!(faults(&[row(60, 60_000, 30_000)], readings.clone()), Vec::<String>::new());
        assert_eq!(
            faults(&[row(60, 59_999, 30_001)], readings),
            [
                "GPU-a, minute 60: the shares sum to 59999 ms, expected 60000",
                "GPU-a, minute 60: the owners drew 30001 mJ, the device's counter says 30000"
            ]
        );
    }

    #[test]
    fn a_minute_in_which_no_agent_ran_has_something_unmetered() {
        let rows = [Row { unmetered_ms: 700, ..row(120, 60_000, 0) }, row(180, 60_000, 0)];
        assert_eq!(restarted(&rows, 120_000), (vec![], true));
        assert_eq!(restarted(&rows, 119_999), (vec![], false), "its minute is still open");
        let fault = "GPU-a, minute 180: the agent was started again in it, and no part of it is unmetered".to_owned();
        assert_eq!(restarted(&rows, 239_999), (vec![fault], true));
    }

    #[test]
    fn energy_without_a_sample_is_a_fault() {
        assert_eq!(faults(&[row(60, 60_000, 1)], vec![]).len(), 1);
        assert_eq!(faults(&[row(60, 60_000, 0)], vec![]).len(), 0);
    }

    #[test]
    fn a_restarted_counter_adds_its_new_value() {
        let sum = risen(&[(0, 100), (1000, 250), (2000, 40)]);
        assert_eq!(sum, [(0, 0), (1000, 150), (2000, 190)]);
        assert_eq!(energy_at(&sum, 1500), Some(170));
        assert_eq!(energy_at(&sum, -5), Some(0));
        assert_eq!(energy_at(&sum, 2001), None);
    }
}
