//! Rows that their table will never take, kept so that they can be looked at and sent again: each is one object that
//! ClickHouse reads as `JSONEachRow`.

use std::time::Duration;

use clickhouse::Client;
use contador_schemas::rows::DeadLetter;
use serde_json::Value;
use uuid::Uuid;

use super::insert::{Fault, insert};
use crate::ingest::rows::Stored;

impl Stored for DeadLetter {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.row.len() + self.error.len()
    }
}

/// Name space of the ids: the same row of the same table is one letter, however often it comes.
const NAMESPACE: Uuid = Uuid::from_u128(0x5a3c_7a55_8e0f_4d58_9f0e_5a1d_0c0e_7a03);

/// Writes rows, each with what ClickHouse said of it, into `dead_letters`.
pub(super) async fn keep<T: Stored>(client: &Client, rows: &[(&T, &str)], timeout: Duration) -> Result<(), Fault> {
    let now = jiff::Timestamp::now().as_millisecond();
    let letters: Result<Vec<DeadLetter>, serde_json::Error> = rows
        .iter()
        .map(|(row, error)| {
            let row = json(row)?;
            let id = Uuid::new_v5(&NAMESPACE, format!("{}\n{row}", T::TABLE).as_bytes());
            Ok(DeadLetter { id, ts: now, target: T::TABLE.to_owned(), error: (*error).to_owned(), row })
        })
        .collect();
    let letters = letters.map_err(|error| Fault::Retry(error.to_string()))?;
    insert(client, &letters.iter().collect::<Vec<_>>(), timeout).await
}

/// The row as `JSONEachRow` reads it. JSON has no infinity, which upper edges may be, and a map is an object.
fn json<T: serde::Serialize>(row: &T) -> Result<String, serde_json::Error> {
    let mut row = serde_json::to_value(row)?;
    if let Some(Value::Array(edges)) = row.get_mut("hi") {
        edges.iter_mut().filter(|edge| edge.is_null()).for_each(|edge| *edge = Value::from("inf"));
    }
    if let Some(attributes) = row.get_mut("attributes") {
        let pairs: Vec<(String, String)> = serde_json::from_value(attributes.take())?;
        *attributes = pairs.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
    }
    Ok(row.to_string())
}

#[cfg(test)]
mod tests {
    use contador_schemas::rows::Latency;

    use super::*;

    #[test]
    fn an_infinite_edge_and_attributes_are_kept() {
        let row = Latency {
            hi: vec![1.5, f64::INFINITY],
            attributes: vec![("a".to_owned(), "b".to_owned())],
            ..Latency::default()
        };
        let told: Value = serde_json::from_str(&json(&row).unwrap()).unwrap();
        assert_eq!((&told["hi"], &told["sum_us"]), (&serde_json::json!([1.5, "inf"]), &Value::Null));
        assert_eq!(told["attributes"], serde_json::json!({"a": "b"}));
    }
}
