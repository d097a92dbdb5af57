//! Brings the tables to what this program knows: numbered statements, each once, in order.
//!
//! What was done is kept in `schema_migrations`, with a hash of each statement. A gap in it, a statement that was edited
//! after it ran, and a version that this program does not know are refused: going on would make tables that no version
//! of the program was tested with. Every statement is idempotent, so that a crash between a statement and its record is
//! repaired by running it again.

use std::time::Duration;

use clickhouse::{Client, Row};
use contador_schemas::migrations::{MIGRATIONS, Migration};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::Store;
use super::lock::Lock;

/// Longest wait for one statement.
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Why the tables could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// ClickHouse failed or did not answer.
    #[error("{what}")]
    Store {
        /// What was being done.
        what: String,
        /// What went wrong.
        #[source]
        source: clickhouse::error::Error,
    },
    /// A version is missing among those that ran.
    #[error(
        "schema_migrations of database {database} has version {found} but not {missing}, expected versions from 1 without \
         a gap; restore the row, or the database from a backup"
    )]
    Gap {
        /// The database.
        database: String,
        /// The version that is missing.
        missing: u32,
        /// The version that is there instead.
        found: u32,
    },
    /// A statement is not the one that ran.
    #[error(
        "migration {version} ({name}) ran in database {database} with hash {ran}, but this program's has {ours}; a released \
         migration is never edited"
    )]
    Edited {
        /// The database.
        database: String,
        /// Its number.
        version: u32,
        /// Its name.
        name: String,
        /// Hash of what ran.
        ran: String,
        /// Hash of what this program has.
        ours: String,
    },
    /// A newer program was here.
    #[error(
        "database {database} has schema version {found}, but this program knows only {known}: use a newer contador"
    )]
    Newer {
        /// The database.
        database: String,
        /// Its version.
        found: u32,
        /// The last version that this program knows.
        known: u32,
    },
    /// Somebody else migrates.
    #[error(
        "table schema_lock of database {database} is held by {holder} since {age} s; it is taken over after {after} s"
    )]
    Locked {
        /// The database.
        database: String,
        /// Who holds it.
        holder: String,
        /// For how many seconds.
        age: u64,
        /// After how many seconds it is taken over.
        after: u64,
    },
    /// The lock was lost on the way, because the statements took too long.
    #[error(
        "the schema lock of database {database} was held for over {after} s; what was done is recorded, run it again"
    )]
    LockLost {
        /// The database.
        database: String,
        /// How long it may be held, in seconds.
        after: u64,
    },
}

/// What was there, and what was done.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Versions that ran now.
    pub applied: Vec<u32>,
    /// The version that the database has now.
    pub version: u32,
}

/// A row of `schema_migrations`.
#[derive(Clone, Debug, Deserialize, Row)]
struct Ran {
    version: u32,
    name: String,
    hash: String,
}

/// Creates the database and runs what has not run yet. Two at once are safe: one waits for the other.
///
/// # Errors
/// [`MigrateError`].
pub async fn up(store: &Store) -> Result<Report, MigrateError> {
    steps(store, MIGRATIONS).await
}

/// As [`up`], with these migrations.
///
/// # Errors
/// [`MigrateError`].
pub async fn steps(store: &Store, migrations: &[Migration]) -> Result<Report, MigrateError> {
    // The database may not exist yet, so this one is said outside of it.
    let outside = store.client.clone().with_database("default");
    run(&outside, &format!("CREATE DATABASE IF NOT EXISTS `{}`", store.database)).await?;
    run(
        &store.client,
        "CREATE TABLE IF NOT EXISTS schema_migrations (version UInt32, name String, hash String, \
         applied_at DateTime64(3, 'UTC')) ENGINE = ReplacingMergeTree(applied_at) ORDER BY version",
    )
    .await?;
    let missing = pending(store, migrations).await?;
    if missing.is_empty() {
        return Ok(Report { applied: Vec::new(), version: last(migrations) });
    }
    let lock = Lock::take(store).await?;
    let done = apply(store, migrations, &lock).await;
    // Whatever happened, the lock is given back.
    let released = lock.release().await;
    let applied = done?;
    released?;
    Ok(Report { applied, version: last(migrations) })
}

/// Runs `missing` again, in order: their tables were there once and are not any more. When the whole database is gone, all are run.
///
/// # Errors
/// [`MigrateError`].
pub async fn restore(store: &Store, missing: &[&Migration]) -> Result<(), MigrateError> {
    up(store).await?;
    let lock = Lock::take(store).await?;
    let made = remake(store, missing, &lock).await;
    let released = lock.release().await;
    made?;
    released
}

async fn remake(store: &Store, missing: &[&Migration], lock: &Lock) -> Result<(), MigrateError> {
    for migration in missing {
        lock.check().await?;
        run(&store.client, migration.sql).await?;
        tracing::warn!(table = migration.table(), migration = migration.name, "a missing table was made again");
    }
    Ok(())
}

/// The migrations that have not run in the database, in order; nothing is changed.
///
/// # Errors
/// [`MigrateError`].
pub async fn pending<'a>(store: &Store, migrations: &'a [Migration]) -> Result<Vec<&'a Migration>, MigrateError> {
    let exists: u64 = timed(
        "asking for schema_migrations",
        store
            .client
            .clone()
            .with_database("default")
            .query("SELECT count() FROM system.tables WHERE database = ? AND name = 'schema_migrations'")
            .bind(&store.database)
            .fetch_one(),
    )
    .await?;
    if exists == 0 {
        return Ok(migrations.iter().collect());
    }
    let ran: Vec<Ran> = timed(
        "reading schema_migrations",
        store.client.query("SELECT version, name, hash FROM schema_migrations FINAL ORDER BY version").fetch_all(),
    )
    .await?;
    compare(&store.database, &ran, migrations)
}

fn compare<'a>(database: &str, ran: &[Ran], migrations: &'a [Migration]) -> Result<Vec<&'a Migration>, MigrateError> {
    let database = database.to_owned();
    if let Some(newest) = ran.last().filter(|newest| newest.version > last(migrations)) {
        return Err(MigrateError::Newer { database, found: newest.version, known: last(migrations) });
    }
    for (ran, expected) in ran.iter().zip(migrations) {
        if ran.version != expected.version {
            return Err(MigrateError::Gap { database, missing: expected.version, found: ran.version });
        }
        let ours = hash(expected);
        if ran.hash != ours {
            let (version, name, ran) = (ran.version, ran.name.clone(), ran.hash.clone());
            return Err(MigrateError::Edited { database, version, name, ran, ours });
        }
    }
    Ok(migrations.iter().skip(ran.len()).collect())
}

async fn apply(store: &Store, migrations: &[Migration], lock: &Lock) -> Result<Vec<u32>, MigrateError> {
    let mut applied = Vec::new();
    // Asked again: another program may have done some of it while this one waited for the lock.
    for migration in pending(store, migrations).await? {
        lock.check().await?;
        run(&store.client, migration.sql).await?;
        let record = store
            .client
            .query("INSERT INTO schema_migrations (version, name, hash, applied_at) SELECT ?, ?, ?, now64(3)")
            .bind(migration.version)
            .bind(migration.name)
            .bind(hash(migration));
        timed(&format!("recording migration {}", migration.version), record.execute()).await?;
        tracing::info!(version = migration.version, name = migration.name, "migrated");
        applied.push(migration.version);
    }
    Ok(applied)
}

fn last(migrations: &[Migration]) -> u32 {
    migrations.last().map_or(0, |migration| migration.version)
}

/// SHA-256 of a migration's statement, in hexadecimal.
pub fn hash(migration: &Migration) -> String {
    Sha256::digest(migration.sql.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs one statement that answers nothing.
pub(super) async fn run(client: &Client, sql: &str) -> Result<(), MigrateError> {
    let first_line = sql.lines().find(|line| !line.starts_with("--")).unwrap_or_default();
    timed(first_line, client.query_raw(sql).execute()).await
}

pub(super) async fn timed<T>(
    what: &str,
    work: impl Future<Output = clickhouse::error::Result<T>>,
) -> Result<T, MigrateError> {
    let done = tokio::time::timeout(STATEMENT_TIMEOUT, work).await.unwrap_or(Err(clickhouse::error::Error::TimedOut));
    done.map_err(|source| MigrateError::Store { what: what.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(version: u32) -> Ran {
        let migration = MIGRATIONS.iter().find(|migration| migration.version == version);
        Ran { version, name: "x".into(), hash: migration.map_or_else(String::new, hash) }
    }

    #[test]
    fn what_has_not_run_is_pending() {
        let pending = compare("d", &[ran(1), ran(2)], MIGRATIONS).unwrap();
        assert_eq!(pending.len(), MIGRATIONS.len() - 2);
        assert_eq!(pending[0].version, 3);
    }

    #[test]
    fn gaps_edits_and_newer_versions_are_refused() {
        let message = |ran: &[Ran]| compare("d", ran, MIGRATIONS).unwrap_err().to_string();
        assert!(message(&[ran(1), ran(3)]).starts_with("schema_migrations of database d has version 3 but not 2"));
        assert!(
            message(&[Ran { hash: "0".into(), ..ran(1) }]).starts_with("migration 1 (x) ran in database d with hash 0")
        );
        assert!(message(&[ran(1), ran(5_000)]).starts_with("database d has schema version 5000"));
    }
}
