//! What owner ids mean.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::OwnerRow;
use uuid::Uuid;

use super::devices::QUERY_BYTES;
use crate::bill::StoreError;
use crate::store::Store;

/// Owners asked for at once: an id takes 39 bytes of a query.
const OWNERS_A_QUERY: usize = 50_000;

/// What these owner ids mean; those without a meaning are left out.
pub(in crate::bill) async fn owners(
    store: &Store,
    ids: BTreeSet<Uuid>,
) -> Result<HashMap<Uuid, Arc<Owner>>, StoreError> {
    let failed = || StoreError::doing("read the owners");
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let mut names = HashMap::with_capacity(ids.len());
    for some in ids.chunks(OWNERS_A_QUERY) {
        let list: Vec<String> = some.iter().map(|id| format!("'{id}'")).collect();
        let sql = format!("SELECT ?fields FROM owners FINAL WHERE id IN ({})", list.join(","));
        let query = store.client.query(&sql).with_setting("max_query_size", QUERY_BYTES);
        let mut rows = query.fetch::<OwnerRow>().map_err(failed())?;
        while let Some(row) = rows.next().await.map_err(failed())? {
            names.insert(row.id, Arc::new(owner(row)));
        }
    }
    Ok(names)
}

fn owner(row: OwnerRow) -> Owner {
    Owner {
        kind: OwnerKind::parse(&row.kind).unwrap_or(OwnerKind::Unattributed),
        environment: row.environment,
        cluster: row.cluster,
        namespace: row.namespace,
        pod: row.pod,
        container: row.container,
        job: row.job,
        user: row.user,
        department: row.department,
        project: row.project,
        experiment: row.experiment,
        service: row.service,
        model: row.model,
        command: row.command,
    }
}
