//! Rows that their table will never take, kept so that they can be looked at and sent again.

use std::time::Duration;

use clickhouse::Client;
use contador_schemas::rows::DeadLetter;
use uuid::Uuid;

use super::insert::{Fault, insert};
use crate::ingest::rows::Stored;

impl Stored for DeadLetter {
    fn partition(&self) -> i64 {
        0
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.row.len() + self.error.len()
    }
}

/// Name space of the ids: the same row of the same table is one letter, however often it comes.
const NAMESPACE: Uuid = Uuid::from_u128(0x5a3c_7a55_8e0f_4d58_9f0e_5a1d_0c0e_7a03);

/// Writes `rows` as JSON into `dead_letters`.
pub(super) async fn keep<T: Stored>(client: &Client, rows: &[T], error: &str, timeout: Duration) -> Result<(), Fault> {
    let now = jiff::Timestamp::now().as_millisecond();
    let letters: Result<Vec<DeadLetter>, serde_json::Error> = rows
        .iter()
        .map(|row| {
            let row = serde_json::to_string(row)?;
            let id = Uuid::new_v5(&NAMESPACE, format!("{}\n{row}", T::TABLE).as_bytes());
            Ok(DeadLetter { id, ts: now, target: T::TABLE.to_owned(), error: error.to_owned(), row })
        })
        .collect();
    let letters = letters.map_err(|error| Fault::Retry(error.to_string()))?;
    insert(client, &letters.iter().collect::<Vec<_>>(), timeout).await
}
