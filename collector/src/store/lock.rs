//! Who may change the tables: whoever could create the table `schema_lock`.
//!
//! `CREATE TABLE` without `IF NOT EXISTS` succeeds for one of many. Its comment says who holds it and since when, by
//! ClickHouse's clock. A lock that is older than [`STALE_SECONDS`] belongs to a program that has died, since a holder
//! stops before that: its successor is the one who can create `schema_lock_<time of the stale lock>`, finds the stale lock
//! unchanged, and drops it.

use std::time::Duration;

use super::Store;
use super::migrate::{MigrateError, run, timed};

/// How long a lock may be held, in seconds.
pub const STALE_SECONDS: u64 = 90;

/// A holder begins no further statement after this time, so that its last one ends before the lock is stale.
const HOLD_SECONDS: u64 = 45;

/// How long to wait for another holder, in seconds.
const PATIENCE: Duration = Duration::from_secs(120);

const TABLE_ALREADY_EXISTS: &str = "Code: 57.";

/// The lock, held.
pub struct Lock {
    store: Store,
    holder: String,
}

/// What the comment of a lock says.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    comment: String,
    holder: String,
    since: u64,
    now: u64,
}

impl Lock {
    /// Takes the lock, after waiting for others.
    ///
    /// # Errors
    /// [`MigrateError::Locked`] when somebody else holds it for too long, [`MigrateError::Store`].
    pub async fn take(store: &Store) -> Result<Self, MigrateError> {
        let holder = format!("contador-{}-{}", std::process::id(), uuid::Uuid::new_v4());
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let now = now(store).await?;
            let create = format!("CREATE TABLE schema_lock (x UInt8) ENGINE = Memory COMMENT '{holder} {now}'");
            match run(&store.client, &create).await {
                Ok(()) => return Ok(Self { store: store.clone(), holder }),
                Err(MigrateError::Store { source, .. }) if source.to_string().contains(TABLE_ALREADY_EXISTS) => {}
                Err(error) => return Err(error),
            }
            if let Some(held) = held(store).await? {
                let age = held.now.saturating_sub(held.since);
                if age > STALE_SECONDS {
                    take_over(store, &held).await?;
                } else if tokio::time::Instant::now() > deadline {
                    let (database, holder) = (store.database.clone(), held.holder);
                    return Err(MigrateError::Locked { database, holder, age, after: STALE_SECONDS });
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Takes the lock, does the work and gives it back, whatever became of the work.
    ///
    /// # Errors
    /// Those of the work, and those of the lock.
    pub async fn hold<T, E: From<MigrateError>>(
        store: &Store,
        work: impl AsyncFnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let lock = Self::take(store).await?;
        let done = work(&lock).await;
        let released = lock.release().await;
        let done = done?;
        released?;
        Ok(done)
    }

    /// Makes sure that the lock is still this one's, and young enough for one more statement.
    ///
    /// # Errors
    /// [`MigrateError::LockLost`], [`MigrateError::Store`].
    pub async fn check(&self) -> Result<(), MigrateError> {
        let ours = held(&self.store)
            .await?
            .is_some_and(|held| held.holder == self.holder && held.now.saturating_sub(held.since) <= HOLD_SECONDS);
        if ours {
            return Ok(());
        }
        Err(MigrateError::LockLost { database: self.store.database.clone(), after: HOLD_SECONDS })
    }

    /// Gives the lock back, unless somebody else has taken it over.
    ///
    /// # Errors
    /// [`MigrateError::Store`].
    pub async fn release(self) -> Result<(), MigrateError> {
        if held(&self.store).await?.is_some_and(|held| held.holder == self.holder) {
            run(&self.store.client, "DROP TABLE IF EXISTS schema_lock SYNC").await?;
        }
        Ok(())
    }
}

async fn now(store: &Store) -> Result<u64, MigrateError> {
    let query = store.client.query("SELECT toUInt64(toUnixTimestamp(now()))");
    timed("asking for the time", query.fetch_one()).await
}

async fn held(store: &Store) -> Result<Option<Held>, MigrateError> {
    let query = store
        .client
        .query(
            "SELECT comment, toUInt64(toUnixTimestamp(now())) FROM system.tables WHERE database = ? AND name = 'schema_lock'",
        )
        .bind(&store.database);
    let found: Option<(String, u64)> = timed("reading schema_lock", query.fetch_optional()).await?;
    Ok(found.map(|(comment, now)| {
        let (holder, since) = comment.rsplit_once(' ').unwrap_or((comment.as_str(), "0"));
        Held { holder: holder.to_owned(), since: since.parse().unwrap_or_default(), now, comment: comment.clone() }
    }))
}

/// Drops a stale lock, if this program is the one that may.
async fn take_over(store: &Store, stale: &Held) -> Result<(), MigrateError> {
    let right = format!("schema_lock_{}", stale.since);
    match run(&store.client, &format!("CREATE TABLE {right} (x UInt8) ENGINE = Memory")).await {
        Ok(()) => {}
        Err(MigrateError::Store { source, .. }) if source.to_string().contains(TABLE_ALREADY_EXISTS) => return Ok(()),
        Err(error) => return Err(error),
    }
    tracing::warn!(holder = stale.holder, since = stale.since, "taking over a stale schema lock");
    let unchanged = held(store).await?.is_some_and(|held| held.comment == stale.comment);
    let dropped = if unchanged { run(&store.client, "DROP TABLE IF EXISTS schema_lock SYNC").await } else { Ok(()) };
    run(&store.client, &format!("DROP TABLE IF EXISTS {right} SYNC")).await?;
    dropped
}
