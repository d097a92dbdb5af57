//! Adjustments in the store: rows are only ever added, under the lock of the schema, and amounts only to months that are open.

use contador_schemas::rows::{Adjustment, Invoice};
use jiff::Timestamp;
use thiserror::Error;

use super::{Entry, Kind, shown};
use crate::bill::audit::{self, AuditError};
use crate::bill::close;
use crate::bill::import::write::insert;
use crate::bill::period::next_month;
use crate::bill::{StoreError, prices};
use crate::store::lock::Lock;
use crate::store::{MigrateError, Store};

/// Why nothing was entered.
#[derive(Debug, Error)]
pub enum AdjustError {
    /// The month cannot be changed any more.
    #[error("month {month} is closed (invoice {number}): enter it for {open}, with --of {month}")]
    Closed {
        /// The month.
        month: String,
        /// Its invoice.
        number: u32,
        /// The first month that it can go into.
        open: String,
    },
    /// There is no currency.
    #[error("no price book is in force, and so no currency; load one with contador prices load FILE")]
    NoPrices,
    /// There is nothing of that id.
    #[error("adjustment {0:?}: there is none of that id; contador adjust --list shows them")]
    Unknown(String),
    /// It is taken back already, or takes back another one.
    #[error("adjustment {0} cannot be withdrawn: {1}")]
    Settled(String, &'static str),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else writes.
    #[error("cannot enter the adjustment")]
    Lock(#[from] MigrateError),
}

impl From<AuditError> for AdjustError {
    fn from(error: AuditError) -> Self {
        match error {
            AuditError::Store(error) => Self::Store(error),
            AuditError::Lock(error) => Self::Lock(error),
        }
    }
}

/// The rows of a month, or of all, by month and time.
///
/// # Errors
/// [`StoreError`].
pub async fn read(store: &Store, month: Option<&str>) -> Result<Vec<Adjustment>, StoreError> {
    let sql = "SELECT ?fields FROM adjustments FINAL WHERE ? = '' OR month = ? ORDER BY month, at, id";
    let month = month.unwrap_or_default();
    let query = store.client.query(sql).bind(month).bind(month);
    query.fetch_all().await.map_err(StoreError::doing("read the adjustments"))
}

/// Enters something, and tells its row; the flag is false if it was there already.
///
/// # Errors
/// [`AdjustError`].
pub async fn enter(store: &Store, entry: &Entry) -> Result<(Adjustment, bool), AdjustError> {
    Lock::hold(store, async |_| enter_locked(store, entry, None).await).await
}

/// Takes an amount back by the opposite one in a month, and tells its row.
///
/// # Errors
/// [`AdjustError`].
pub async fn withdraw(store: &Store, id: &str, month: &str) -> Result<(Adjustment, bool), AdjustError> {
    Lock::hold(store, async |_| {
        let all = read(store, None).await?;
        let of = all.iter().find(|row| row.id == id).ok_or_else(|| AdjustError::Unknown(id.to_owned()))?;
        let settled = |why| AdjustError::Settled(id.to_owned(), why);
        if of.amount == 0 {
            return Err(settled("it changes no amount; use --resolve"));
        }
        if !of.withdraws.is_empty() {
            return Err(settled("it is a withdrawal itself"));
        }
        if all.iter().any(|row| row.withdraws == id && row.month != month) {
            return Err(settled("it is withdrawn already"));
        }
        let entry = Entry {
            month: month.to_owned(),
            department: of.department.clone(),
            project: of.project.clone(),
            kind: if of.amount < 0 { Kind::Charge } else { Kind::Credit },
            amount: -of.amount,
            reason: format!("withdraws {id}: {}", of.reason),
            origin_month: if of.month == month { of.origin_month.clone() } else { of.month.clone() },
            line: of.line.clone(),
            reference: of.reference.clone(),
            withdraws: id.to_owned(),
        };
        // Of the currency that was entered, whatever the book in force is in.
        enter_locked(store, &entry, Some(of.currency.clone())).await
    })
    .await
}

async fn enter_locked(store: &Store, entry: &Entry, of: Option<String>) -> Result<(Adjustment, bool), AdjustError> {
    let invoices = close::table::invoices(store).await?;
    let mut currency = String::new();
    if entry.kind.is_amount() {
        open(&invoices, &entry.month)?;
        currency = match of {
            Some(currency) => currency,
            None => prices::table::current(store).await?.ok_or(AdjustError::NoPrices)?.currency,
        };
    }
    let row = entry.row(&currency, Timestamp::now().as_millisecond(), &audit::who());
    if let Some(known) = read(store, Some(&entry.month)).await?.into_iter().find(|known| known.id == row.id) {
        return Ok((known, false));
    }
    insert(store, [row.clone()].into_iter()).await.map_err(StoreError::doing("store the adjustment"))?;
    let amount = if entry.kind.is_amount() { format!("{} {currency}, ", shown(row.amount)) } else { String::new() };
    let details = format!("{amount}{}, adjustment {}", entry.reason, row.id);
    audit::append(store, entry.kind.as_str(), &format!("{} {}", entry.month, entry.department), &details).await?;
    Ok((row, true))
}

/// Whether a month still takes amounts: it comes after the last one that is closed.
fn open(invoices: &[Invoice], month: &str) -> Result<(), AdjustError> {
    let Some(last) = invoices.last() else { return Ok(()) };
    if month > last.month.as_str() {
        return Ok(());
    }
    let of = invoices.iter().find(|invoice| invoice.month == month).unwrap_or(last);
    Err(AdjustError::Closed { month: month.to_owned(), number: of.number, open: next_month(&last.month) })
}
