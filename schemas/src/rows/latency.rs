//! What services answered, how much and how fast.

use clickhouse::Row;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One export of one source for one series: cells in microseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Row, Serialize)]
pub struct Latency {
    /// Start of the 10 s window, Unix seconds ([`crate::series::window_of`]).
    pub window: u32,
    /// Start of the interval that the counts cover, Unix nanoseconds; equal to `ts` when unknown.
    pub start_ts: i64,
    /// End of that interval, Unix nanoseconds.
    pub ts: i64,
    /// [`crate::series::series_id`] of service, model, metric, route, environment, device, owner and `attributes`.
    #[serde(with = "clickhouse::serde::uuid")]
    pub series: Uuid,
    /// [`crate::series::series_id`] of the attributes that name the replica: who measured.
    #[serde(with = "clickhouse::serde::uuid")]
    pub source: Uuid,
    /// `service.name`.
    pub service: String,
    /// Machine-learning model.
    pub model: String,
    /// What was timed: `request_duration`, `time_to_first_token`, ….
    pub metric: String,
    /// Route or operation.
    pub route: String,
    /// `deployment.environment.name`.
    pub environment: String,
    /// Host that served.
    pub node: String,
    /// Device that served.
    pub device: String,
    /// Owner that served, or the nil UUID.
    #[serde(with = "clickhouse::serde::uuid")]
    pub owner: Uuid,
    /// Every other attribute, by name.
    pub attributes: Vec<(String, String)>,
    /// Lower edges, microseconds.
    pub lo: Vec<f64>,
    /// Upper edges, microseconds, `+inf` when unknown.
    pub hi: Vec<f64>,
    /// Values in each cell.
    pub n: Vec<u64>,
    /// Sum of `n`.
    pub count: u64,
    /// Sum of the values, microseconds.
    pub sum_us: Option<f64>,
    /// How many of the values are lower bounds only.
    pub censored: u64,
    /// Whether the source restarted in this interval.
    pub reset: bool,
    /// Whether the values come from a simulation.
    pub simulated: bool,
}

/// What one source counted for one service, model and owner in one interval. `None` in a count: the source does not tell it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct Served {
    /// Start of the 10 s window, Unix seconds ([`crate::series::window_of`]).
    pub window: u32,
    /// Start of the interval that the counts cover, Unix nanoseconds; equal to `ts` when unknown.
    pub start_ts: i64,
    /// End of that interval, Unix nanoseconds.
    pub ts: i64,
    /// [`crate::series::series_id`] of the attributes that name the replica: who counted.
    #[serde(with = "clickhouse::serde::uuid")]
    pub source: Uuid,
    /// `service.name`.
    pub service: String,
    /// Machine-learning model.
    pub model: String,
    /// `deployment.environment.name`.
    pub environment: String,
    /// Host that served.
    pub node: String,
    /// Device that served.
    pub device: String,
    /// Owner that served, or the nil UUID.
    #[serde(with = "clickhouse::serde::uuid")]
    pub owner: Uuid,
    /// Requests that were answered to their end.
    pub requests: Option<u64>,
    /// Requests that ended before they were answered.
    pub aborted: Option<u64>,
    /// Tokens of prompts.
    pub input_tokens: Option<u64>,
    /// Tokens that were generated.
    pub output_tokens: Option<u64>,
    /// Whether the counts come from a simulation.
    pub simulated: bool,
}

/// What one collector knows of one running total.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct LatencyTotal {
    /// [`crate::series::total_id`] of series and source. The nil UUID: since when totals are kept.
    #[serde(with = "clickhouse::serde::uuid")]
    pub total: Uuid,
    /// The collector.
    #[serde(with = "clickhouse::serde::uuid")]
    pub writer: Uuid,
    /// Greater in what the writer knew later.
    pub version: u64,
    /// When it was written, Unix seconds.
    pub written: u32,
    /// [`Latency::series`].
    #[serde(with = "clickhouse::serde::uuid")]
    pub series: Uuid,
    /// [`Latency::source`].
    #[serde(with = "clickhouse::serde::uuid")]
    pub source: Uuid,
    /// Time of the last point, Unix nanoseconds.
    pub ts: i64,
    /// Time of the last point whose row is known to be stored, Unix nanoseconds.
    pub acknowledged: i64,
    /// The points, as the collector encodes them.
    #[serde(with = "bytes")]
    pub points: Vec<u8>,
}

/// Bytes in a column of type `String`.
mod bytes {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_byte_buf(Bytes)
    }

    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Self::Value, E> {
            Ok(bytes)
        }
    }
}
