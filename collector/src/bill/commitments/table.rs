//! Commitments and budgets in the store: each set of them whole, and the one that was loaded last is in force.

use contador_schemas::rows::Commitments;

use super::{Agreements, file};
use crate::bill::StoreError;
use crate::bill::document::store::{self, Kept};
use crate::store::Store;

/// Puts agreements in force: over those before, also where they were loaded by a clock that is ahead of this one.
///
/// # Errors
/// [`StoreError`].
pub async fn load(store: &Store, agreements: &Agreements) -> Result<(), StoreError> {
    store::load::<Commitments>(store, agreements.canonical(), &agreements.currency).await
}

/// The agreements in force, if any were ever loaded.
///
/// # Errors
/// [`StoreError`].
pub async fn current(store: &Store) -> Result<Option<Agreements>, StoreError> {
    store::current::<Commitments>(store)
        .await?
        .map(|kept| store::says::<Commitments, _>(&kept, file::parse))
        .transpose()
}

/// The agreements of an id, whether they are in force or were once.
///
/// # Errors
/// [`StoreError`].
pub async fn by_id(store: &Store, id: &str) -> Result<Option<Agreements>, StoreError> {
    store::by_id::<Commitments>(store, id)
        .await?
        .map(|kept| store::says::<Commitments, _>(&kept, file::parse))
        .transpose()
}

/// All agreements that were ever loaded, those in force first.
///
/// # Errors
/// [`StoreError`].
pub async fn all(store: &Store) -> Result<Vec<Kept>, StoreError> {
    store::all::<Commitments>(store).await
}
