//! Price books in the store: each whole, so that a month can be rated again by the book that it was rated with.

use contador_schemas::rows::Price;

use super::{PriceBook, file};
use crate::bill::StoreError;
use crate::bill::document::store::{self, Kept};
use crate::store::Store;

/// Puts a book in force: over the one before, also where that was loaded by a clock that is ahead of this one.
///
/// # Errors
/// [`StoreError`].
pub async fn load(store: &Store, book: &PriceBook) -> Result<(), StoreError> {
    store::load::<Price>(store, book.canonical(), &book.currency).await
}

/// The book in force, if one was ever loaded.
///
/// # Errors
/// [`StoreError`].
pub async fn current(store: &Store) -> Result<Option<PriceBook>, StoreError> {
    store::current::<Price>(store).await?.map(|kept| store::says::<Price, _>(&kept, file::parse)).transpose()
}

/// The book of an id, whether it is in force or was once.
///
/// # Errors
/// [`StoreError`].
pub async fn by_id(store: &Store, id: &str) -> Result<Option<PriceBook>, StoreError> {
    store::by_id::<Price>(store, id).await?.map(|kept| store::says::<Price, _>(&kept, file::parse)).transpose()
}

/// All books that were ever loaded, the one in force first.
///
/// # Errors
/// [`StoreError`].
pub async fn all(store: &Store) -> Result<Vec<Kept>, StoreError> {
    store::all::<Price>(store).await
}
