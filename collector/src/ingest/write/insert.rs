//! One insert: with time limits, and with a word on what a failure means.

use std::fmt;
use std::time::Duration;

use clickhouse::{Client, error::Error};

use crate::ingest::rows::Stored;

/// Longest wait for room in a socket.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Codes of faults that lie in the rows, so that the same rows fail again.
const REFUSED: &[u32] = &[
    6,   // CANNOT_PARSE_TEXT
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

/// Codes of faults that lie in the tables: somebody changed them, and may change them back.
const SCHEMA: &[u32] = &[
    16, // NO_SUCH_COLUMN_IN_TABLE
    60, // UNKNOWN_TABLE
    81, // UNKNOWN_DATABASE
];

/// What a failed insert means.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It may succeed later; the rows may even be there.
    Retry(String),
    /// The table is not as it must be. It may succeed when that is repaired.
    Schema(String),
    /// ClickHouse will never take these rows.
    Refused(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(message) | Self::Schema(message) | Self::Refused(message) => formatter.write_str(message),
        }
    }
}

/// Inserts `rows`. What fails because of the rows or of the table is tried once more with the table's columns asked for
/// again: the client remembers them, and a change of the table looks like a fault of the rows then.
pub(super) async fn insert<T: Stored>(client: &Client, rows: &[&T], timeout: Duration) -> Result<(), Fault> {
    match part(client, rows, timeout).await {
        Err(Fault::Schema(_) | Fault::Refused(_)) => {
            client.clear_cached_metadata().await;
            part(client, rows, timeout).await
        }
        done => done,
    }
}

/// As [`insert`], once.
pub(super) async fn part<T: Stored>(client: &Client, rows: &[&T], timeout: Duration) -> Result<(), Fault> {
    let work = async {
        let insert = client.insert::<T>(T::TABLE).await?;
        let mut insert = insert.with_timeouts(Some(SEND_TIMEOUT), Some(timeout));
        for row in rows {
            insert.write(row).await?;
        }
        insert.end().await
    };
    // The question for the table's columns has no time limit of its own.
    let done = tokio::time::timeout(timeout + SEND_TIMEOUT, work).await.unwrap_or(Err(Error::TimedOut));
    done.map_err(classify)
}

fn classify(error: Error) -> Fault {
    let message = error.to_string();
    match &error {
        Error::SchemaMismatch(_) => Fault::Schema(message),
        Error::Custom(_) | Error::SequenceMustHaveLength => Fault::Refused(message),
        Error::BadResponse(text) => match code(text) {
            Some(code) if SCHEMA.contains(&code) => Fault::Schema(message),
            Some(code) if REFUSED.contains(&code) => Fault::Refused(message),
            _ => Fault::Retry(message),
        },
        _ => Fault::Retry(message),
    }
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
    fn faults_of_the_rows_are_told_from_faults_of_the_table_and_of_the_server() {
        let fault = |text: &str| classify(Error::BadResponse(text.to_owned()));
        assert!(matches!(fault("Code: 469. DB::Exception: Constraint `c` is violated"), Fault::Refused(_)));
        assert!(matches!(fault("Code: 252. DB::Exception: Too many parts"), Fault::Retry(_)));
        for code in [16, 60, 81] {
            assert!(matches!(fault(&format!("Code: {code}. DB::Exception: x")), Fault::Schema(_)));
        }
        assert!(matches!(classify(Error::SchemaMismatch("x".to_owned())), Fault::Schema(_)));
        assert!(matches!(classify(Error::TimedOut), Fault::Retry(_)));
    }
}
