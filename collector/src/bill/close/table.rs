//! Closed months in the store. Facts, lines and inputs are known by their hashes and are written first; a month is closed when its
//! invoice is there. So what a crash leaves is never read, and writing it again changes nothing.

use contador_schemas::rows::{Invoice, InvoiceFact, InvoiceInput, InvoiceLine, Table};

use super::{CloseError, Inputs, invoice, rows};
use crate::bill::StoreError;
use crate::bill::facts::Facts;
use crate::bill::import::write::insert;
use crate::bill::settle::Line;
use crate::store::Store;

/// Rows of one insert.
const BATCH: usize = 100_000;

/// Every invoice, oldest first.
///
/// # Errors
/// [`StoreError`].
pub async fn invoices(store: &Store) -> Result<Vec<Invoice>, StoreError> {
    let sql = "SELECT ?fields FROM invoices FINAL ORDER BY number, closed_at, hash";
    store.client.query(sql).fetch_all().await.map_err(StoreError::doing("read the invoices"))
}

async fn of<T: Table>(store: &Store, column: &str, id: &str) -> Result<Vec<T>, StoreError> {
    let sql = format!("SELECT ?fields FROM {} FINAL WHERE {column} = ? ORDER BY number", T::TABLE);
    store.client.query(&sql).bind(id).fetch_all().await.map_err(StoreError::doing("read an invoice"))
}

/// The lines of an invoice, which are those that were closed.
///
/// # Errors
/// [`CloseError::Damaged`] if they are not, [`CloseError::Store`].
pub async fn lines(store: &Store, of_invoice: &Invoice) -> Result<Vec<Line>, CloseError> {
    let found: Vec<InvoiceLine> = of(store, "lines", &of_invoice.lines).await?;
    let damaged = |what: String| CloseError::Damaged(format!("{}: {what}", invoice::named(of_invoice)));
    let hash = rows::hash_of_lines(&found).map_err(damaged)?;
    if hash != of_invoice.lines {
        return Err(damaged(format!("its {} lines in the store are not those that were closed", found.len())));
    }
    rows::to_lines(found).map_err(damaged)
}

/// The rows of an invoice's lines as they are in the store.
///
/// # Errors
/// [`StoreError`].
pub async fn line_rows(store: &Store, invoice: &Invoice) -> Result<Vec<InvoiceLine>, StoreError> {
    of(store, "lines", &invoice.lines).await
}

/// The facts of a snapshot, which are those that were stored.
///
/// # Errors
/// [`CloseError::Damaged`] if they are not, [`CloseError::Store`].
pub async fn facts(store: &Store, snapshot: &str) -> Result<Facts, CloseError> {
    let found: Vec<InvoiceFact> = of(store, "snapshot", snapshot).await?;
    let damaged = |what: String| CloseError::Damaged(format!("snapshot {snapshot}: {what}"));
    let hash = rows::hash_of_facts(&found).map_err(damaged)?;
    if hash != snapshot {
        return Err(damaged(format!("its {} facts in the store are not those that were closed", found.len())));
    }
    rows::to_facts(found).map_err(damaged)
}

/// What an invoice was rated with.
///
/// # Errors
/// [`CloseError::Damaged`] if it is not there as it was, [`CloseError::Store`].
pub async fn inputs(store: &Store, of_invoice: &Invoice) -> Result<Inputs, CloseError> {
    let sql = "SELECT ?fields FROM invoice_inputs FINAL WHERE id IN (?, ?, ?)";
    let Invoice { book, agreements, directory, .. } = of_invoice;
    let query = store.client.query(sql).bind(book).bind(agreements).bind(directory);
    let found: Vec<InvoiceInput> = query.fetch_all().await.map_err(StoreError::doing("read an invoice"))?;
    let damaged = |what| CloseError::Damaged(format!("{}: {what}", invoice::named(of_invoice)));
    Inputs::read(&found, [book, agreements, directory]).map_err(damaged)
}

/// Writes rows, some at a time.
///
/// # Errors
/// [`StoreError`].
pub async fn write<T: Table + Clone>(store: &Store, rows: &[T]) -> Result<(), StoreError> {
    for some in rows.chunks(BATCH) {
        insert(store, some.iter().cloned()).await.map_err(StoreError::doing("store the invoice"))?;
    }
    Ok(())
}
