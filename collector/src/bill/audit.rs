//! The audit log: who did what to prices, imports and closed months, and when.
//!
//! Rows are only ever added, under the lock of the schema, so that they are one chain: each has the hash of the one before, and a
//! row that is changed, taken out or put in later is found by [`faults`]. What was done is written after it was done.

use std::path::Path;

use contador_schemas::rows::Audit;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::StoreError;
use super::import::write::insert;
use super::prices::hex;
use crate::store::lock::Lock;
use crate::store::{MigrateError, Store};

/// Why nothing was added to the audit log.
#[derive(Debug, Error)]
pub enum AuditError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else writes to it.
    #[error("cannot write to the audit log")]
    Lock(#[from] MigrateError),
}

/// Adds to the log what was done.
///
/// # Errors
/// [`AuditError`]; what was done is done.
pub async fn record(store: &Store, action: &str, subject: &str, details: &str) -> Result<(), AuditError> {
    Lock::hold(store, async |_| Ok(append(store, action, subject, details).await?)).await
}

/// The same for who holds the lock.
///
/// # Errors
/// [`StoreError`].
pub async fn append(store: &Store, action: &str, subject: &str, details: &str) -> Result<(), StoreError> {
    let sql = "SELECT ?fields FROM audit FINAL ORDER BY number DESC, hash LIMIT 1";
    let last: Option<Audit> =
        store.client.query(sql).fetch_optional().await.map_err(StoreError::doing("read the audit log"))?;
    let (number, previous) = last.map_or((0, String::new()), |last| (last.number, last.hash));
    let mut row = Audit {
        number: number + 1,
        at: Timestamp::now().as_millisecond(),
        who: who(),
        action: action.to_owned(),
        subject: subject.to_owned(),
        details: details.to_owned(),
        previous,
        hash: String::new(),
    };
    row.hash = hash(&row);
    insert(store, [row].into_iter()).await.map_err(StoreError::doing("write to the audit log"))
}

/// The whole log, oldest first.
///
/// # Errors
/// [`StoreError`].
pub async fn all(store: &Store) -> Result<Vec<Audit>, StoreError> {
    let sql = "SELECT ?fields FROM audit FINAL ORDER BY number, at, hash";
    store.client.query(sql).fetch_all().await.map_err(StoreError::doing("read the audit log"))
}

/// What is wrong with the chain: nothing, if nobody has touched it. That its last rows are there cannot be told from it alone.
pub fn faults(log: &[Audit]) -> Vec<String> {
    let mut faults = Vec::new();
    let (mut number, mut previous) = (0, "");
    for row in log {
        if row.number != number + 1 {
            faults.push(format!("entry {}: expected number {}", row.number, number + 1));
        }
        if row.previous != previous {
            faults.push(format!("entry {}: previous is {:?}, expected {previous:?}", row.number, row.previous));
        }
        let expected = hash(row);
        if row.hash != expected {
            faults.push(format!("entry {}: hash is {}, expected {expected} by what it says", row.number, row.hash));
        }
        (number, previous) = (row.number, &row.hash);
    }
    faults
}

/// Hash of everything that a row says.
fn hash(row: &Audit) -> String {
    let texts = [&row.who, &row.action, &row.subject, &row.details, &row.previous];
    let texts: String = texts.iter().map(|text| format!("{}:{text}\n", text.len())).collect();
    hex(&Sha256::digest(format!("contador audit 1\n{} {}\n{texts}", row.number, row.at)))
}

/// Who works here: `CONTADOR_USER`, else the user and the host of the operating system.
pub fn who() -> String {
    if let Some(who) = std::env::var("CONTADOR_USER").ok().filter(|who| !who.trim().is_empty()) {
        return who.trim().to_owned();
    }
    let id = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string(Path::new("/etc/passwd")).unwrap_or_default();
    let user = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, of) = (fields.next()?, fields.nth(1)?);
        (of.parse() == Ok(id)).then(|| name.to_owned())
    });
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{}@{host}", user.unwrap_or_else(|| format!("uid {id}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Vec<Audit> {
        let mut log: Vec<Audit> = Vec::new();
        for (number, action) in (1..).zip(["prices load", "import", "close"]) {
            let previous = log.last().map(|row| row.hash.clone()).unwrap_or_default();
            let mut row = Audit { number, at: 7, action: action.into(), previous, ..Audit::default() };
            row.hash = hash(&row);
            log.push(row);
        }
        log
    }

    #[test]
    fn a_row_that_is_changed_taken_out_or_put_in_is_found() {
        assert_eq!(faults(&log()), [""; 0]);
        let mut changed = log();
        changed[1].subject = "other.csv".into();
        let expected = hash(&changed[1]);
        assert_eq!(
            faults(&changed),
            [format!("entry 2: hash is {}, expected {expected} by what it says", log()[1].hash)]
        );
        changed[1].hash = expected;
        assert!(faults(&changed)[0].starts_with("entry 3: previous is"), "{:?}", faults(&changed));
        let mut out = log();
        out.remove(1);
        assert_eq!(faults(&out)[0], "entry 3: expected number 2");
        let mut twice = log();
        twice.insert(1, log()[1].clone());
        assert!(!faults(&twice).is_empty());
    }

    #[test]
    fn texts_that_run_together_differ() {
        let row = |subject: &str, details: &str| Audit {
            subject: subject.into(),
            details: details.into(),
            ..Audit::default()
        };
        assert_ne!(hash(&row("a", "bc")), hash(&row("ab", "c")));
    }
}
