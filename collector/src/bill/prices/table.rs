//! The price book in the store: a loaded book replaces the one before as a whole, and the one loaded last is in force.

use contador_schemas::rows::Price;
use jiff::Timestamp;

use super::PriceBook;
use crate::bill::StoreError;
use crate::bill::import::write::insert;
use crate::store::Store;

/// Puts a book in force.
///
/// # Errors
/// [`StoreError`].
pub async fn load(store: &Store, book: &PriceBook) -> Result<(), StoreError> {
    let (id, loaded_at) = (book.id(), Timestamp::now().as_millisecond());
    let row = |(gpu_model, valid_from, rate): (&str, u32, i128)| Price {
        book: id.clone(),
        gpu_model: gpu_model.to_owned(),
        valid_from,
        rate,
        currency: book.currency.clone(),
        loaded_at,
    };
    let rows: Vec<Price> = book.rates().map(row).collect();
    insert(store, rows.into_iter()).await.map_err(StoreError::doing("store the price book"))
}

/// The book in force, if one was ever loaded.
///
/// # Errors
/// [`StoreError`].
pub async fn current(store: &Store) -> Result<Option<PriceBook>, StoreError> {
    let sql = "SELECT book, gpu_model, valid_from, rate, currency, loaded_at FROM prices FINAL \
               WHERE book = (SELECT argMax(book, (loaded_at, book)) FROM prices)";
    let rows: Vec<Price> =
        store.client.query(sql).fetch_all().await.map_err(StoreError::doing("read the price book"))?;
    let Some(first) = rows.first() else { return Ok(None) };
    let mut book = PriceBook::new(first.currency.clone());
    for row in &rows {
        book.add(row.gpu_model.clone(), row.valid_from, row.rate);
    }
    Ok(Some(book))
}
