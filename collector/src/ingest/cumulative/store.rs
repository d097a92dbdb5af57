//! `latency_totals`: what every collector knows of running totals.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use clickhouse::{Client, error::Error};
use contador_schemas::rows::{LatencyTotal, Table};
use uuid::Uuid;

use super::chain::Chain;
use super::record;

/// Most totals that one query asks for: some 80 KB of text, of the 256 KiB that ClickHouse reads of a statement.
const CHUNK: usize = 2_000;

/// How long another collector may take from writing points to writing rows of them: the longest time limit of an insert is
/// less.
pub(super) const STALLED: Duration = Duration::from_secs(900);

/// When what must be kept for ever was written: as late as a `DateTime` can tell its end.
const FOR_EVER: u32 = u32::MAX - 31 * 86_400;

/// What was read.
#[derive(Debug, Default)]
pub struct Stored {
    /// What each collector knows, by total.
    pub(super) chains: HashMap<Uuid, Vec<Known>>,
    /// Totals of which something is known that can't be read.
    pub(super) lost: HashSet<Uuid>,
    /// Since when totals are kept, Unix nanoseconds.
    pub(super) since: i64,
}

/// What one collector knows of a total.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) chain: Chain,
    /// Whether it is another collector that may still be at work on it.
    pub(super) fresh: bool,
}

/// The table, as one collector reads and writes it.
pub struct Totals {
    client: Client,
    timeout: Duration,
    /// This collector, from its start to its end.
    writer: Uuid,
    version: AtomicU64,
    /// When this collector began, Unix nanoseconds.
    began: i64,
    /// Since when totals are kept, as it was told last; 0 before.
    since: AtomicI64,
}

impl Totals {
    /// The table as a collector that began `now`, Unix nanoseconds, sees it. An answer may take `timeout`.
    pub fn new(client: &Client, timeout: Duration, now: i64) -> Self {
        let version = AtomicU64::new(u64::try_from(now).unwrap_or_default());
        let writer = Uuid::new_v4();
        Self { client: client.clone(), timeout, writer, version, began: now, since: AtomicI64::new(0) }
    }

    /// Says who writes `records`, and when: `now`, Unix nanoseconds.
    pub fn sign(&self, records: &mut [LatencyTotal], now: i64) {
        let now = u64::try_from(now).unwrap_or_default();
        let next = |last: u64| now.max(last + 1);
        let version = next(
            self.version
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)))
                .unwrap_or_default(),
        );
        let written = u32::try_from(now / 1_000_000_000).unwrap_or(u32::MAX);
        for record in records {
            (record.writer, record.version, record.written) = (self.writer, version, written);
        }
    }

    /// What is known of `totals`; of those that are remembered here, only what others know. `now` in Unix nanoseconds.
    ///
    /// # Errors
    /// ClickHouse's, and [`Error::TimedOut`].
    pub async fn read(&self, totals: &[(Uuid, bool)], now: i64) -> Result<Stored, Error> {
        let work = async {
            let mut stored = Stored::default();
            for part in totals.chunks(CHUNK) {
                self.part(part, now, &mut stored).await?;
            }
            if stored.since == 0 {
                stored.since = self.begin(now).await?;
            }
            self.since.store(stored.since, Ordering::Relaxed);
            Ok(stored)
        };
        tokio::time::timeout(self.timeout, work).await.unwrap_or(Err(Error::TimedOut))
    }

    async fn part(&self, totals: &[(Uuid, bool)], now: i64, stored: &mut Stored) -> Result<(), Error> {
        let list = |remembered: bool| {
            totals.iter().filter(|(_, is)| *is == remembered).fold(String::new(), |mut list, (total, _)| {
                let _ = write!(list, "'{total}',");
                list
            })
        };
        // The nil UUID tells since when.
        let sql = format!(
            "SELECT ?fields FROM latency_totals WHERE total IN ({}'{}') OR (total IN ({}'{}') AND writer != '{}') \
             ORDER BY version DESC LIMIT 1 BY total, writer",
            list(false),
            Uuid::nil(),
            list(true),
            Uuid::nil(),
            self.writer
        );
        for row in self.client.query(&sql).fetch_all::<LatencyTotal>().await? {
            if row.total.is_nil() {
                stored.since = row.ts;
            } else if let Some(chain) = record::chain(&row) {
                let age = Duration::from_secs(u64::try_from(now / 1_000_000_000 - i64::from(row.written)).unwrap_or(0));
                let fresh = row.writer != self.writer && age < STALLED;
                stored.chains.entry(row.total).or_default().push(Known { chain, fresh });
            } else {
                tracing::warn!(total = %row.total, "a running total that is encoded in another way is not read");
                stored.lost.insert(row.total);
            }
        }
        Ok(())
    }

    /// Writes that totals are kept since this collector began, or since `now` when it had been told otherwise: the table was
    /// lost then, with what was counted before.
    async fn begin(&self, now: i64) -> Result<i64, Error> {
        let since = if self.since.load(Ordering::Relaxed) == 0 { self.began } else { now };
        // Of several, the earliest is kept, and for ever.
        let version = u64::MAX - u64::try_from(since).unwrap_or_default();
        let row =
            LatencyTotal { ts: since, acknowledged: since, version, written: FOR_EVER, ..LatencyTotal::default() };
        let mut insert = self.client.insert::<LatencyTotal>(LatencyTotal::TABLE).await?;
        insert.write(&row).await?;
        insert.end().await?;
        Ok(since)
    }
}
