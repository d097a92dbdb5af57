//! Closing a month: its bill is frozen, and what comes later is corrected in the next open month.
//!
//! [`open`] makes the bill of a month that is not closed: its lines, what was adjusted by hand, and [`corrections`] of months that
//! are. [`closing`] refuses what cannot be closed, and stores the facts, the [`inputs`] (as documents), the lines and then the
//! [`invoice`], which is a link of a chain of hashes ([`mod@table`], [`rows`]). [`closed`] makes the bill of a closed month of its stored
//! lines, whatever is in force now, and [`replay`] proves that those are what the stored facts and inputs make.

pub mod closed;
pub mod closing;
pub mod corrections;
pub mod inputs;
pub mod invoice;
pub mod open;
pub mod replay;
pub mod rows;
pub mod table;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use contador_schemas::rows::Invoice;
use thiserror::Error;

use super::StoreError;
use super::adjust::{Claim, Kind};
use super::audit::AuditError;
use super::period::{self, Period, PeriodError};
use super::statement::BillError;
use crate::store::MigrateError;
pub use inputs::Inputs;

/// Why a month is not closed, or cannot be told as it was.
#[derive(Debug, Error)]
pub enum CloseError {
    /// There is nothing to price with.
    #[error("no prices: load a price book with contador prices load FILE")]
    NoPrices,
    /// The commitments in force are not in the currency of the price book.
    #[error("{0}")]
    Currencies(String),
    /// The month or the time zone is none.
    #[error(transparent)]
    Period(#[from] PeriodError),
    /// It is closed already.
    #[error("month {month} is closed already: invoice {number}, {hash}")]
    Already {
        /// The month.
        month: String,
        /// Its invoice.
        number: u32,
        /// Hash of that.
        hash: String,
    },
    /// It must not be closed as it is.
    #[error("month {month} cannot be closed: {why}")]
    Refused {
        /// The month.
        month: String,
        /// Why not, with the amounts.
        why: String,
    },
    /// What was stored at the close is not there, or not as it was.
    #[error("{0}; contador close --verify tells more")]
    Damaged(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else closes or migrates.
    #[error("cannot close the month")]
    Lock(#[from] MigrateError),
}

impl From<AuditError> for CloseError {
    fn from(error: AuditError) -> Self {
        match error {
            AuditError::Store(error) => Self::Store(error),
            AuditError::Lock(error) => Self::Lock(error),
        }
    }
}

impl From<BillError> for CloseError {
    fn from(error: BillError) -> Self {
        match error {
            BillError::NoPrices => Self::NoPrices,
            BillError::Currencies { .. } => Self::Currencies(error.to_string()),
            BillError::Store(error) => Self::Store(error),
            BillError::Closed(error) => error,
        }
    }
}

/// Whether a bill, or a department's part of it, may still change, and what the department says of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Status {
    /// It may change.
    #[default]
    Draft,
    /// It is closed.
    Closed,
    /// The department accepts it.
    Accepted,
    /// The department disputes it.
    Disputed,
}

impl Status {
    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Closed => "closed",
            Self::Accepted => "accepted",
            Self::Disputed => "disputed",
        }
    }
}

/// Where a bill stands.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Standing {
    /// The invoice, once the month is closed.
    pub invoice: Option<Invoice>,
    /// What departments say of it.
    pub claims: BTreeMap<String, Claim>,
    /// What is not in it though it should be: the month cannot be closed before that is settled.
    pub missing: Vec<String>,
}

impl Standing {
    /// The status of the bill, or of a department's part of it.
    pub fn status(&self, department: Option<&str>) -> Status {
        let claim = department.and_then(|department| self.claims.get(department));
        match (claim, &self.invoice) {
            (Some(claim), _) if claim.kind == Kind::Accept => Status::Accepted,
            (Some(_), _) => Status::Disputed,
            (None, Some(_)) => Status::Closed,
            (None, None) => Status::Draft,
        }
    }
}

/// The period of an invoice.
///
/// # Errors
/// [`CloseError::Period`] when this program does not know its time zone.
pub fn period_of(invoice: &Invoice) -> Result<Period, CloseError> {
    let zone = period::zone(&invoice.time_zone)?;
    Ok(Period { from: invoice.start_ms, to: invoice.end_ms, month: Some(invoice.month.clone()), zone })
}
