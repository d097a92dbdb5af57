//! Everything else: events, and numbers of any name.

use clickhouse::Row;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Something that happened once.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct Event {
    /// Unix milliseconds.
    pub ts: i64,
    /// The same for every copy of the same event.
    #[serde(with = "clickhouse::serde::uuid")]
    pub id: Uuid,
    /// Host name.
    pub node: String,
    /// Device UUID, or empty.
    pub device: String,
    /// What kind of event, such as `agent_started`.
    pub kind: String,
    /// For people.
    pub message: String,
    /// For programs.
    pub attributes: Vec<(String, String)>,
}

/// One number of one series at one instant.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Row, Serialize)]
pub struct Metric {
    /// Unix nanoseconds.
    pub ts: i64,
    /// Unix nanoseconds.
    pub start_ts: Option<i64>,
    /// [`crate::series::series_id`] of the name and all attributes.
    #[serde(with = "clickhouse::serde::uuid")]
    pub series: Uuid,
    /// Metric name.
    pub name: String,
    /// UCUM unit.
    pub unit: String,
    /// `gauge`, `sum_cumulative` or `sum_delta`.
    pub instrument: String,
    /// Whether the sum only rises.
    pub monotonic: bool,
    /// `service.name`.
    pub service: String,
    /// `host.name`.
    pub node: String,
    /// All attributes, the resource's too, by name.
    pub attributes: Vec<(String, String)>,
    /// `None`: the sender says that there was no value.
    pub value: Option<f64>,
    /// The exact value of a whole number.
    pub value_int: Option<i64>,
}

/// A row that its table refused for ever.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct DeadLetter {
    /// Of the table and the row.
    #[serde(with = "clickhouse::serde::uuid")]
    pub id: Uuid,
    /// Unix milliseconds.
    pub ts: i64,
    /// The table that refused it.
    pub target: String,
    /// What ClickHouse said.
    pub error: String,
    /// The row as JSON.
    pub row: String,
}
