//! Who held the demo's GPUs: every owner in the ledger, by kind and name.

use clickhouse::Row as ClickHouseRow;
use serde::{Deserialize, Serialize};

use crate::store::Store;

/// One owner, over all minutes and devices.
#[derive(Clone, ClickHouseRow, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Held {
    /// `pod`, `job`, `process`, or who else it is: `idle`, `stranded`, `unattributed`, `unmetered`.
    pub kind: String,
    /// Its name, and who pays; empty for the kinds that are nobody's.
    pub name: String,
    /// GPU time, milliseconds.
    pub share_ms: u64,
    /// How long a device that it held had no work, milliseconds.
    pub idle_ms: u64,
}

const OWNERS: &str = "SELECT
    toString(multiIf(l.kind != 'workload', l.kind, o.pod != '', 'pod', o.job != '', 'job', 'process')) AS kind,
    multiIf(l.kind != 'workload', '', arrayStringConcat(arrayFilter(part -> part != '', [
        if(o.pod = '', '', concat(o.namespace, '/', o.pod)), o.job, o.department, o.project, o.experiment,
        if(o.department = '', o.command, '')]), ' ')) AS name,
    toUInt64(sum(l.share_ms)) AS share_ms, toUInt64(sum(l.idle_ms)) AS idle_ms
FROM (SELECT * FROM ledger FINAL) AS l LEFT JOIN (SELECT * FROM owners FINAL) AS o ON o.id = l.owner
GROUP BY kind, name ORDER BY indexOf(['process', 'job', 'pod', 'idle', 'stranded', 'unattributed', 'unmetered'], kind), name";

/// All owners, workloads first.
pub(super) async fn held(store: &Store) -> anyhow::Result<Vec<Held>> {
    Ok(store.client.query(OWNERS).fetch_all().await?)
}

/// A line for people.
impl std::fmt::Display for Held {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |ms: u64| format!("{}.{}", ms / 1_000, ms % 1_000 / 100);
        write!(out, "{:<13}{:>9} s  {}", self.kind, seconds(self.share_ms), self.name)?;
        if self.kind != "idle" && self.idle_ms > 0 {
            write!(out, "  (without work for {} s)", seconds(self.idle_ms))?;
        }
        Ok(())
    }
}
