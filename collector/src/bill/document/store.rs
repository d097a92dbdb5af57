//! Documents in the store: each whole under its id, and the one that was loaded last is in force.

use contador_schemas::rows::{Commitments, Price, Table};
use jiff::Timestamp;
use nix::unistd::{Uid, User};

use super::{Refused, write};
use crate::bill::StoreError;
use crate::bill::import::write::insert;
use crate::store::Store;

/// A document in the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kept {
    /// Hash of the document.
    pub id: String,
    /// TOML in canonical form.
    pub document: String,
    /// ISO 4217.
    pub currency: String,
    /// Unix milliseconds.
    pub loaded_at: i64,
    /// User and host.
    pub loaded_by: String,
}

/// Rows that are documents.
pub trait Row: Table + Into<Kept> + From<Kept> {
    /// What one is called.
    const CALLED: &'static str;
    /// Reading them.
    const READ: &'static str;
    /// Writing one.
    const STORE: &'static str;
}

macro_rules! documents {
    ($($row:ident, $name:literal);* $(;)?) => {$(
        impl Row for $row {
            const CALLED: &'static str = $name;
            const READ: &'static str = concat!("read the ", $name);
            const STORE: &'static str = concat!("store the ", $name);
        }

        impl From<Kept> for $row {
            fn from(Kept { id, document, currency, loaded_at, loaded_by }: Kept) -> Self {
                Self { id, document, currency, loaded_at, loaded_by }
            }
        }

        impl From<$row> for Kept {
            fn from($row { id, document, currency, loaded_at, loaded_by }: $row) -> Self {
                Self { id, document, currency, loaded_at, loaded_by }
            }
        }
    )*};
}

documents! {
    Price, "price book";
    Commitments, "commitments";
}

/// Puts a document in force: over the one before, also where that was loaded by a clock that is ahead of this one.
///
/// # Errors
/// [`StoreError`].
pub async fn load<R: Row>(store: &Store, canonical: String, currency: &str) -> Result<(), StoreError> {
    let sql = format!("SELECT toUnixTimestamp64Milli(max(loaded_at)) FROM {}", R::TABLE);
    let last: i64 = store.client.query(&sql).fetch_one().await.map_err(StoreError::doing(R::READ))?;
    let row = Kept {
        id: write::id(&canonical),
        document: canonical,
        currency: currency.to_owned(),
        loaded_at: Timestamp::now().as_millisecond().max(last.saturating_add(1)),
        loaded_by: loaded_by(),
    };
    insert(store, std::iter::once(R::from(row))).await.map_err(StoreError::doing(R::STORE))
}

/// The document in force, if one was ever loaded.
///
/// # Errors
/// [`StoreError`].
pub async fn current<R: Row>(store: &Store) -> Result<Option<Kept>, StoreError> {
    let sql = format!("SELECT ?fields FROM {} FINAL ORDER BY loaded_at DESC, id LIMIT 1", R::TABLE);
    let row: Option<R> = store.client.query(&sql).fetch_optional().await.map_err(StoreError::doing(R::READ))?;
    row.map(whole).transpose()
}

/// The document of an id, whether it is in force or was once.
///
/// # Errors
/// [`StoreError`].
pub async fn by_id<R: Row>(store: &Store, id: &str) -> Result<Option<Kept>, StoreError> {
    let sql = format!("SELECT ?fields FROM {} FINAL WHERE id = ?", R::TABLE);
    let query = store.client.query(&sql).bind(id);
    let row: Option<R> = query.fetch_optional().await.map_err(StoreError::doing(R::READ))?;
    row.map(whole).transpose()
}

/// All documents, the one in force first.
///
/// # Errors
/// [`StoreError`].
pub async fn all<R: Row>(store: &Store) -> Result<Vec<Kept>, StoreError> {
    let sql = format!("SELECT ?fields FROM {} FINAL ORDER BY loaded_at DESC, id", R::TABLE);
    let rows: Vec<R> = store.client.query(&sql).fetch_all().await.map_err(StoreError::doing(R::READ))?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// A document that is still what its id says.
fn whole<R: Row>(row: R) -> Result<Kept, StoreError> {
    let kept: Kept = row.into();
    let hash = write::id(&kept.document);
    if hash == kept.id {
        return Ok(kept);
    }
    let why = format!("its hash is {hash}");
    Err(StoreError::Altered { what: R::CALLED, id: kept.id, why })
}

/// Reads what a document says.
///
/// # Errors
/// [`StoreError::Altered`] where that is refused.
pub fn says<R: Row, T>(kept: &Kept, parse: impl FnOnce(&str, &str) -> Result<T, Refused>) -> Result<T, StoreError> {
    let altered = |why: Refused| StoreError::Altered { what: R::CALLED, id: kept.id.clone(), why: why.to_string() };
    parse(R::CALLED, &kept.document).map_err(altered)
}

/// User and host of this process.
fn loaded_by() -> String {
    let uid = Uid::effective();
    let user = User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
    format!("{user}@{}", rustix::system::uname().nodename().to_string_lossy())
}
