//! What the demo did, as one JSON object or as lines for people.

use serde::Serialize;

use super::owners::Held;
use crate::store::Store;

/// The last line of `contador demo --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Version of the embedded ClickHouse engine.
    pub engine_version: String,
    /// Whether the GPUs, pods and jobs were simulated. The bill's fleet always is a generated sample.
    pub simulated: bool,
    /// Rows stored.
    pub gpu_samples: u64,
    /// Rows stored.
    pub storage_samples: u64,
    /// Rows stored.
    pub latency_rows: u64,
    /// Rows stored.
    pub ledger_rows: u64,
    /// Median of the milliseconds from a sample's instant until a query saw it; `null` when none was seen.
    pub sample_visible_ms_p50: Option<i64>,
    /// The greatest of them.
    pub sample_visible_ms_max: Option<i64>,
    /// Last month's bill of the sample fleet, a decimal.
    pub bill_total: String,
    /// Its currency, ISO 4217.
    pub bill_currency: String,
    /// The bill of this run, for people.
    #[serde(skip)]
    pub run_bill: String,
    /// Who held the GPUs in this run.
    pub owners: Vec<Held>,
    /// How often the agent was ended and started again in the middle of a minute that was checked.
    pub agent_restarts: usize,
    /// Whether every stored device-minute and the bill add up exactly; `false` too when no full minute was stored.
    pub conserved: bool,
}

/// How many different rows a table holds.
pub(super) async fn count(store: &Store, table: &str) -> anyhow::Result<u64> {
    Ok(store.client.query(&format!("SELECT count() FROM {table} FINAL")).fetch_one().await?)
}

/// The engine's version.
pub(super) async fn engine_version(store: &Store) -> anyhow::Result<String> {
    Ok(store.client.query("SELECT version()").fetch_one().await?)
}

impl std::fmt::Display for Summary {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gpus = if self.simulated { " (simulated GPUs)" } else { "" };
        let held = if self.simulated { " (simulated GPUs, pods and jobs)" } else { "" };
        let visible = match (self.sample_visible_ms_p50, self.sample_visible_ms_max) {
            (Some(median), Some(max)) => format!("{median} ms median, {max} ms at most"),
            _ => "no sample was seen".to_owned(),
        };
        writeln!(out, "ClickHouse engine      {}", self.engine_version)?;
        writeln!(out, "GPU samples            {}{gpus}", self.gpu_samples)?;
        writeln!(out, "storage samples        {}", self.storage_samples)?;
        writeln!(out, "latency rows           {}", self.latency_rows)?;
        writeln!(out, "ledger rows            {}", self.ledger_rows)?;
        writeln!(out, "visible after          {visible}")?;
        writeln!(out, "last month's bill      {} {} (sample fleet)", self.bill_total, self.bill_currency)?;
        if !self.owners.is_empty() {
            writeln!(out, "GPU time in the ledger{held}")?;
        }
        for owner in &self.owners {
            writeln!(out, "  {owner}")?;
        }
        if !self.owners.is_empty() {
            writeln!(out, "bill of this run\n\n{}", self.run_bill)?;
        }
        writeln!(out, "agent restarts         {} in the middle of a minute that was checked", self.agent_restarts)?;
        let conserved = match (self.conserved, self.ledger_rows) {
            (true, _) => "yes",
            (false, 0) => "not checked: no minute of the ledger was closed",
            (false, _) => "no",
        };
        write!(out, "everything adds up     {conserved}")
    }
}
