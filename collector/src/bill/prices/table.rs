//! The price book in the store: a loaded book replaces the one before as a whole, and the one loaded last is in force.

use contador_schemas::rows::Price;
use jiff::Timestamp;

use super::{PriceBook, Rate};
use crate::bill::StoreError;
use crate::bill::import::write::insert;
use crate::store::Store;

/// Puts a book in force.
///
/// # Errors
/// [`StoreError`].
pub async fn load(store: &Store, book: &PriceBook) -> Result<(), StoreError> {
    let (id, loaded_at) = (book.id(), Timestamp::now().as_millisecond());
    let row = |rate: &Rate| Price {
        book: id.clone(),
        gpu_model: rate
            .mig_profile
            .as_ref()
            .map_or_else(|| rate.gpu_model.clone(), |profile| format!("{} MIG {profile}", rate.gpu_model)),
        valid_from: rate.valid_from,
        rate: rate.hourly,
        currency: book.currency.clone(),
        loaded_at,
    };
    let rows: Vec<Price> = book.rates.iter().map(row).collect();
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
    book.rates.extend(rows.iter().map(|row| Rate::named(&row.gpu_model, row.valid_from, row.rate)));
    book.rates.sort_by(|a, b| a.key().cmp(&b.key()));
    Ok(Some(book))
}
