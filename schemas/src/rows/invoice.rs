//! Months that are closed, and what was done by hand.

use clickhouse::Row;
use serde::{Deserialize, Serialize};

/// Digits after the point of amounts of lines.
pub const AMOUNT_SCALE: u32 = 6;

/// A closed month.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct Invoice {
    /// From 1, without a gap.
    pub number: u32,
    /// Such as `2026-10`.
    pub month: String,
    /// IANA name.
    pub time_zone: String,
    /// Unix milliseconds.
    pub start_ms: i64,
    /// Unix milliseconds, exclusive.
    pub end_ms: i64,
    /// ISO 4217.
    pub currency: String,
    /// Of all lines, millionths of a currency unit ([`AMOUNT_SCALE`]).
    pub total: i128,
    /// Version of the program that closed it.
    pub version: String,
    /// Id of the price book among the inputs.
    pub book: String,
    /// Id of the commitments among the inputs.
    pub agreements: String,
    /// Id of the directory among the inputs; empty if there was none.
    pub directory: String,
    /// Hash of the month's adjustments.
    pub adjustments: String,
    /// Hash of the facts.
    pub facts: String,
    /// Hash of the lines.
    pub lines: String,
    /// Earlier months that it corrects, each with the hash of the facts that its corrections were made of.
    pub corrected: Vec<(String, String)>,
    /// Unix milliseconds of ClickHouse's clock: rows that were stored up to here are in the facts, later ones may not be.
    pub seen_at: i64,
    /// JSON: what the facts were made of.
    pub counts: String,
    /// Hash of the invoice before; empty of the first.
    pub previous: String,
    /// Unix milliseconds.
    pub closed_at: i64,
    /// Who closed it.
    pub closed_by: String,
    /// What was noted.
    pub note: String,
    /// Hash of all of the above.
    pub hash: String,
}

/// A line of an invoice.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct InvoiceLine {
    /// Hash of all lines of the invoice.
    pub lines: String,
    /// In the order of the invoice, from 0.
    pub number: u32,
    /// [`crate::owner::OwnerKind::as_str`] of who pays.
    pub payer: String,
    /// Department that pays.
    pub department: String,
    /// What it is charged for.
    pub category: String,
    /// What tells lines of one category apart.
    pub item: String,
    /// [`crate::owner::OwnerKind::as_str`] of whose it is.
    pub owner_kind: String,
    /// Attributes of the owner that are known, in canonical order.
    pub owner: Vec<(String, String)>,
    /// Cost centre.
    pub cost_centre: String,
    /// Model of the whole GPU.
    pub gpu_model: String,
    /// Profile of a MIG instance.
    pub mig_profile: String,
    /// Consumption model; empty if there is none.
    pub consumption: String,
    /// Times `10^12` of a currency unit.
    pub unit_price: Option<i128>,
    /// Days since 1970.
    pub day: Option<u16>,
    /// Month that it corrects; empty for its own.
    pub origin_month: String,
    /// Whether it was imported.
    pub imported: bool,
    /// Whether it was generated.
    pub simulated: bool,
    /// Millionths, as all amounts here.
    pub gpu_hours: i128,
    /// Quantity that is priced.
    pub quantity: i128,
    /// GPU-hours without a price.
    pub unpriced: i128,
    /// GPU-hours in which it was busy.
    pub busy: i128,
    /// GPU-hours of unknown use.
    pub unknown: i128,
    /// kWh of the devices.
    pub energy: i128,
    /// kWh of the site.
    pub site_energy: i128,
    /// Grams of CO2 equivalent.
    pub carbon: i128,
    /// Billed.
    pub cost: i128,
    /// With commitments spread over their use.
    pub effective: i128,
}

/// A fact that an invoice was rated from. The order of rows is that of their fields.
#[derive(Clone, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Row, Serialize)]
pub struct InvoiceFact {
    /// Hash of all facts of the snapshot.
    pub snapshot: String,
    /// In order, from 0.
    pub number: u32,
    /// `gpu`, `storage` or `network`.
    pub item: String,
    /// Class of storage or network.
    pub class: String,
    /// [`crate::owner::OwnerKind::as_str`] of the time.
    pub kind: String,
    /// Attributes of the owner that are known, in canonical order.
    pub owner: Vec<(String, String)>,
    /// [`crate::owner::OwnerKind::as_str`] of the owner.
    pub owner_kind: String,
    /// Cost centre.
    pub cost_centre: String,
    /// Device UUID, if known.
    pub device: String,
    /// Host name.
    pub node: String,
    /// Model of the whole GPU.
    pub gpu_model: String,
    /// Profile of a MIG instance.
    pub mig_profile: String,
    /// Unix milliseconds.
    pub start_ms: i64,
    /// Unix milliseconds, exclusive.
    pub end_ms: i64,
    /// Whether it was imported.
    pub imported: bool,
    /// Whether it was generated.
    pub simulated: bool,
    /// Whether it is a part of a device by request.
    pub fraction: bool,
    /// Milliseconds.
    pub held: i64,
    /// GPU-milliseconds times `10^12`, and so are the next four.
    pub allocated: i128,
    /// Of unknown use.
    pub unknown: i128,
    /// Busy.
    pub busy: i128,
    /// The greater of both, minute by minute.
    pub greater: i128,
    /// Of the MIG instance.
    pub instance: i128,
    /// MiB times milliseconds.
    pub memory_mib_ms: i128,
    /// Millijoules.
    pub energy_mj: i128,
    /// Start of the session, Unix milliseconds.
    pub session_start: Option<i64>,
    /// Milliseconds of the session before.
    pub session_before: Option<i64>,
    /// Of storage: bytes times milliseconds; of network: bytes.
    pub quantity: i128,
    /// Rows of the store that it sums.
    pub rows: u64,
}

/// What an invoice was rated with.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct InvoiceInput {
    /// `book`, `agreements` or `directory`.
    pub kind: String,
    /// SHA-256 of the document.
    pub id: String,
    /// The whole of it.
    pub document: String,
}

/// A credit or a charge by hand, or what a department says of its bill.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct Adjustment {
    /// Hash of what it says.
    pub id: String,
    /// In whose bill it is, such as `2026-10`.
    pub month: String,
    /// Whose.
    pub department: String,
    /// Of which project; empty for the department as a whole.
    pub project: String,
    /// `credit`, `charge`, `dispute`, `accept` or `resolve`.
    pub kind: String,
    /// Millionths of a currency unit ([`AMOUNT_SCALE`]); negative is a credit.
    pub amount: i128,
    /// ISO 4217.
    pub currency: String,
    /// Why.
    pub reason: String,
    /// Month that it is for, where that is another one.
    pub origin_month: String,
    /// Line of a bill that it is for.
    pub line: String,
    /// Number of a ticket or a document.
    pub reference: String,
    /// Id of the one that it takes back.
    pub withdraws: String,
    /// Unix milliseconds.
    pub at: i64,
    /// Who did it.
    pub who: String,
}

/// Who did what.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct Audit {
    /// From 1, without a gap.
    pub number: u64,
    /// Unix milliseconds.
    pub at: i64,
    /// Who.
    pub who: String,
    /// Did what.
    pub action: String,
    /// To what.
    pub subject: String,
    /// What else is to be known.
    pub details: String,
    /// Hash of the row before; empty of the first.
    pub previous: String,
    /// Hash of all of the above.
    pub hash: String,
}
