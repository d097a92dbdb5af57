//! Which times a point may have: not ahead of the collector's clock, and not so old that its table would drop it at once.

use contador_schemas::names::{self, Group, MetricName};

use super::reject::Reason;

/// How far ahead of the collector's clock a sender's may go, in nanoseconds. A point from further ahead would hide the
/// right ones of a running total that come after it, and samples would be told of a time that has not been. An agent's
/// ledger, events, latencies and what was served are taken all the same: their sender has forgotten them once they are refused, and
/// a wrong time can be mended, a lost minute can't.
const MOST_AHEAD_NS: i64 = 10 * 60 * 1_000_000_000;

const DAY_NS: i64 = 86_400_000_000_000;

/// Days that samples, latencies and other numbers are kept: the `TTL` of their tables.
const SAMPLE_DAYS: u32 = 14;

/// Days that events are kept.
const EVENT_DAYS: u32 = 400;

/// Days that the ledger and what was served are kept, without the leap days that its three years have. What tells of owners and devices has no
/// `TTL`, and is of no use for longer.
const LEDGER_DAYS: u32 = 3 * 365;

/// The time by the collector's clock, Unix nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(pub i64);

impl Clock {
    /// Whether a point of `metric` (`None`: not one of contador's own) may have this time.
    ///
    /// # Errors
    /// [`Reason::Time`] for the future, [`Reason::TooOld`] for what its table would drop.
    pub(super) fn check(self, time: i64, metric: Option<&MetricName>) -> Result<(), Reason> {
        let days = match metric.map(|metric| (metric.group, metric.name)) {
            Some((Group::Info, names::EVENT)) => EVENT_DAYS,
            Some((Group::Ledger | Group::Info | Group::Served, _)) => LEDGER_DAYS,
            _ => SAMPLE_DAYS,
        };
        let kept_anyway = metric
            .is_some_and(|metric| matches!(metric.group, Group::Ledger | Group::Info | Group::Latency | Group::Served));
        if !kept_anyway && time > self.0.saturating_add(MOST_AHEAD_NS) {
            Err(Reason::Time)
        } else if time < self.0.saturating_sub(i64::from(days) * DAY_NS) {
            Err(Reason::TooOld)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use contador_schemas::migrations::MIGRATIONS;

    use super::*;

    #[test]
    fn what_is_kept_for_long_enough_is_what_the_tables_keep() {
        for migration in MIGRATIONS.iter().filter(|migration| migration.makes_a_table()) {
            let kept = migration.sql.lines().find_map(|line| line.strip_prefix("TTL "));
            let days = kept.and_then(|kept| kept.split_once("INTERVAL ")).map(|(_, interval)| interval);
            let expected = match migration.name {
                "gpu_samples" | "storage_samples" | "node_samples" | "latency" | "latency_totals" | "metrics" => {
                    Some(SAMPLE_DAYS)
                }
                "events" | "latency_5m" | "latency_1h" | "latency_1d" => Some(EVENT_DAYS),
                "ledger" | "ledger_hours" | "served" => {
                    assert_eq!(days, Some("3 YEAR"));
                    continue;
                }
                _ => None,
            };
            assert_eq!(days.map(str::to_owned), expected.map(|days| format!("{days} DAY")), "{}", migration.name);
        }
    }

    #[test]
    fn a_time_is_neither_ahead_nor_older_than_its_table_keeps() {
        let now = 1_790_000_000_000_000_000;
        let clock = Clock(now);
        assert_eq!(clock.check(now + 599_000_000_000, None), Ok(()));
        assert_eq!(clock.check(now + 601_000_000_000, None), Err(Reason::Time));
        assert_eq!(clock.check(now - 13 * DAY_NS, None), Ok(()));
        assert_eq!(clock.check(now - 15 * DAY_NS, None), Err(Reason::TooOld));
        // Milliseconds and microseconds that are taken for nanoseconds.
        assert_eq!(clock.check(now / 1_000_000, None), Err(Reason::TooOld));
        assert_eq!(clock.check(now / 1_000, None), Err(Reason::TooOld));
        let ledger = names::metric(names::LEDGER_HELD);
        assert_eq!(clock.check(now - 1_000 * DAY_NS, ledger), Ok(()));
        assert_eq!(clock.check(now - 1_100 * DAY_NS, ledger), Err(Reason::TooOld));
        assert_eq!(clock.check(now - 399 * DAY_NS, names::metric(names::EVENT)), Ok(()));
        assert_eq!(clock.check(now - 401 * DAY_NS, names::metric(names::EVENT)), Err(Reason::TooOld));
        assert_eq!(clock.check(now / 1_000, names::metric(names::DEVICE_INFO)), Err(Reason::TooOld));
        // What an agent could not send again.
        for name in [names::LEDGER_HELD, names::OWNER_INFO, names::EVENT, names::LATENCY] {
            assert_eq!(clock.check(now + DAY_NS, names::metric(name)), Ok(()), "{name}");
        }
    }
}
