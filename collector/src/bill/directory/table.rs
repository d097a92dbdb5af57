//! The directory in the store: the one that was loaded last is in force, as a whole.

use contador_schemas::rows::DirectoryEntry;
use jiff::Timestamp;

use super::{Directory, Entry};
use crate::bill::StoreError;
use crate::bill::import::write::insert;
use crate::store::Store;

/// Puts a directory in force: over the one before, also where that was loaded by a clock that is ahead of this one. One that was
/// only stored in part, since the store failed, is not in force.
///
/// # Errors
/// [`StoreError`].
pub async fn load(store: &Store, directory: &Directory) -> Result<(), StoreError> {
    let sql = "SELECT toUnixTimestamp64Milli(max(loaded_at)) FROM directory";
    let last: i64 = store.client.query(sql).fetch_one().await.map_err(StoreError::doing("read the directory"))?;
    let (version, loaded_at) = (directory.id(), Timestamp::now().as_millisecond().max(last.saturating_add(1)));
    let entries: Vec<_> = directory.entries().collect();
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    let rows = entries.into_iter().map(|(project, valid_from, entry, _)| DirectoryEntry {
        version: version.clone(),
        project: project.to_owned(),
        valid_from,
        valid_to: entry.until,
        department: entry.department.to_string(),
        cost_centre: entry.cost_centre.to_string(),
        entries: count,
        loaded_at,
    });
    insert(store, rows).await.map_err(StoreError::doing("store the directory"))
}

/// The directory in force, if one was ever loaded.
///
/// # Errors
/// [`StoreError`].
pub async fn current(store: &Store) -> Result<Option<Directory>, StoreError> {
    let failed = || StoreError::doing("read the directory");
    let sql = "SELECT ?fields FROM directory FINAL WHERE version GLOBAL IN ( \
                  SELECT version FROM ( \
                     SELECT version, max(loaded_at) AS loaded, max(entries) AS whole, count() AS stored \
                     FROM directory FINAL GROUP BY version \
                  ) WHERE stored = whole ORDER BY loaded DESC, version LIMIT 1 \
               )";
    let mut rows = store.client.query(sql).fetch::<DirectoryEntry>().map_err(failed())?;
    let mut directory: Option<Directory> = None;
    while let Some(row) = rows.next().await.map_err(failed())? {
        let entry =
            Entry { until: row.valid_to, department: row.department.into(), cost_centre: row.cost_centre.into() };
        directory.get_or_insert_default().add(row.project.into(), row.valid_from, entry);
    }
    Ok(directory)
}
