//! Parsed allocations to the store: the owners first, so that no allocation is ever without its owner.

use contador_schemas::rows::Table;

use super::{Parsed, known};
use crate::bill::StoreError;
use crate::store::Store;

/// Stores a parsed file with one insert a table, and returns when the store has acknowledged the rows. What the store knows
/// better is left out of it.
///
/// # Errors
/// [`StoreError`] when the store refuses them. Writing the same again is then harmless.
pub async fn write(store: &Store, parsed: &mut Parsed) -> Result<(), StoreError> {
    known::settle(store, parsed).await?;
    insert(store, parsed.owners()).await.map_err(StoreError::doing("store the owners"))?;
    insert(store, parsed.allocations()).await.map_err(StoreError::doing("store the allocations"))
}

/// Writes rows to their table with one insert, and returns when the store has acknowledged them.
pub(in crate::bill) async fn insert<T: Table>(
    store: &Store,
    rows: impl ExactSizeIterator<Item = T>,
) -> Result<(), clickhouse::error::Error> {
    if rows.len() == 0 {
        return Ok(());
    }
    // A file may span more years than ClickHouse lets one insert span partitions by default.
    let insert = store.client.insert::<T>(T::TABLE).await?;
    let mut insert = insert.with_setting("max_partitions_per_insert_block", "0");
    for row in rows {
        insert.write(&row).await?;
    }
    insert.end().await
}
