//! One insert: split by partitions, with time limits, and with a word on what a failure means.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use clickhouse::{Client, error::Error};

use crate::ingest::rows::Stored;

/// Most partitions of one insert. ClickHouse refuses an insert into more than 100 as a whole (code 252).
const MOST_PARTITIONS: usize = 50;

/// Longest wait for room in a socket.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Codes of faults that lie in the rows or in the table's definition, so that the same rows fail again.
const PERMANENT: &[u32] = &[
    6,   // CANNOT_PARSE_TEXT
    16,  // NO_SUCH_COLUMN_IN_TABLE
    27,  // CANNOT_PARSE_INPUT_ASSERTION_FAILED
    33,  // CANNOT_READ_ALL_DATA
    43,  // ILLEGAL_TYPE_OF_ARGUMENT
    53,  // TYPE_MISMATCH
    70,  // CANNOT_CONVERT_TYPE
    117, // INCORRECT_DATA
    349, // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
    407, // DECIMAL_OVERFLOW
    469, // VIOLATED_CONSTRAINT
];

/// What a failed insert means.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It may succeed later; the rows may even be there.
    Retry(String),
    /// ClickHouse will never take these rows.
    Refused(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(message) | Self::Refused(message) => formatter.write_str(message),
        }
    }
}

/// Inserts `rows`, by as few statements as partitions allow.
pub(super) async fn insert<T: Stored>(client: &Client, rows: &[&T], timeout: Duration) -> Result<(), Fault> {
    let mut partitions: BTreeMap<i64, Vec<&T>> = BTreeMap::new();
    for row in rows {
        partitions.entry(row.partition()).or_default().push(row);
    }
    let partitions: Vec<Vec<&T>> = partitions.into_values().collect();
    for some in partitions.chunks(MOST_PARTITIONS) {
        statement(client, some, timeout).await?;
    }
    Ok(())
}

async fn statement<T: Stored>(client: &Client, partitions: &[Vec<&T>], timeout: Duration) -> Result<(), Fault> {
    let first = attempt(client, partitions, timeout).await;
    let Err(Error::SchemaMismatch(_)) = first else { return first.map_err(classify) };
    // The table may have been altered since its columns were asked for.
    client.clear_cached_metadata().await;
    attempt(client, partitions, timeout).await.map_err(classify)
}

async fn attempt<T: Stored>(client: &Client, partitions: &[Vec<&T>], timeout: Duration) -> Result<(), Error> {
    let work = async {
        let insert = client.insert::<T>(T::TABLE).await?;
        let mut insert = insert.with_timeouts(Some(SEND_TIMEOUT), Some(timeout));
        for row in partitions.iter().flatten() {
            insert.write(row).await?;
        }
        insert.end().await
    };
    // The question for the table's columns has no time limit of its own.
    tokio::time::timeout(timeout + SEND_TIMEOUT, work).await.unwrap_or(Err(Error::TimedOut))
}

fn classify(error: Error) -> Fault {
    let message = error.to_string();
    let refused = match &error {
        Error::SchemaMismatch(_) | Error::Custom(_) | Error::SequenceMustHaveLength => true,
        Error::BadResponse(text) => code(text).is_some_and(|code| PERMANENT.contains(&code)),
        _ => false,
    };
    if refused { Fault::Refused(message) } else { Fault::Retry(message) }
}

/// The number in ClickHouse's `Code: N. DB::Exception: …`.
fn code(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("Code: ")?;
    rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_the_rows_are_told_from_faults_of_the_server() {
        let refused = Error::BadResponse("Code: 469. DB::Exception: Constraint `c` is violated".into());
        assert!(matches!(classify(refused), Fault::Refused(_)));
        let busy = Error::BadResponse("Code: 252. DB::Exception: Too many parts".into());
        assert!(matches!(classify(busy), Fault::Retry(_)));
        assert!(matches!(classify(Error::TimedOut), Fault::Retry(_)));
    }
}
