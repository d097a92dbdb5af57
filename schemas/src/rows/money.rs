//! What is imported, and what it is priced with.

use clickhouse::Row;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Digits after the point of [`Allocation::fraction`].
pub const ALLOCATION_FRACTION_SCALE: u32 = 12;

/// GPUs that one owner held from `start` to `end`, as imported.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct Allocation {
    /// Of the content.
    #[serde(with = "clickhouse::serde::uuid")]
    pub id: Uuid,
    /// Unix milliseconds.
    pub start: i64,
    /// Unix milliseconds, exclusive.
    pub end: i64,
    /// Host name.
    pub node: String,
    /// Device UUID, if known.
    pub device: String,
    /// Model as the driver names it.
    pub gpu_model: String,
    /// How many GPUs.
    pub gpus: u32,
    /// Part of each GPU, above 0 and up to 1, times `10^12` ([`ALLOCATION_FRACTION_SCALE`]).
    pub fraction: i64,
    /// [`crate::owner::Owner::id`].
    #[serde(with = "clickhouse::serde::uuid")]
    pub owner: Uuid,
    /// Name of the file.
    pub source: String,
    /// Line in the file, from 1.
    pub line: u64,
    /// Whether the allocation was generated as a sample.
    pub simulated: bool,
}

/// A price book as it was loaded.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct Price {
    /// Hash of the document: SHA-256, hexadecimal.
    pub id: String,
    /// TOML in canonical form.
    pub document: String,
    /// ISO 4217.
    pub currency: String,
    /// Unix milliseconds.
    pub loaded_at: i64,
    /// User and host.
    pub loaded_by: String,
}

/// Commitments and budgets as they were loaded.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct Commitments {
    /// Hash of the document: SHA-256, hexadecimal.
    pub id: String,
    /// TOML in canonical form.
    pub document: String,
    /// ISO 4217.
    pub currency: String,
    /// Unix milliseconds.
    pub loaded_at: i64,
    /// User and host.
    pub loaded_by: String,
}

/// The department and the cost centre that a project belongs to from a day on.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct DirectoryEntry {
    /// Hash of the directory that the entry is from.
    pub version: String,
    /// The project.
    pub project: String,
    /// First day, in days since 1970.
    pub valid_from: u16,
    /// The day after the last one, in days since 1970; `None`: until the next entry of the project.
    pub valid_to: Option<u16>,
    /// The department.
    pub department: String,
    /// The cost centre; empty if it has none.
    pub cost_centre: String,
    /// How many entries the directory has.
    pub entries: u32,
    /// Unix milliseconds.
    pub loaded_at: i64,
}
