//! Who held what.

use clickhouse::Row;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::owner::Owner;

/// One device, one UTC minute, one owner.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct LedgerRow {
    /// Start of the minute, Unix seconds.
    pub minute: u32,
    /// Device UUID.
    pub device: String,
    /// [`Owner::id`].
    #[serde(with = "clickhouse::serde::uuid")]
    pub owner: Uuid,
    /// [`crate::owner::OwnerKind::as_str`].
    pub kind: String,
    /// Host name.
    pub node: String,
    /// Milliseconds in which the owner held any part of the device.
    pub held_ms: u32,
    /// Its part of the minute: over the owners of a GPU and of its MIG instances, these sum to 60,000.
    pub share_ms: u32,
    /// Its part of the milliseconds in which the device was busy.
    pub busy_ms: u32,
    /// MiB held times milliseconds.
    pub memory_mib_ms: u64,
    /// Its part of the energy, millijoules.
    pub energy_mj: u64,
    /// Requests served.
    pub requests: u64,
    /// Whether the device is a simulated one.
    pub simulated: bool,
    /// Of `held_ms`, milliseconds in which the device had no work: its utilisation was known, and 0.
    pub idle_ms: u32,
}

/// What an owner id means.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Row, Serialize)]
pub struct OwnerRow {
    /// [`Owner::id`].
    #[serde(with = "clickhouse::serde::uuid")]
    pub id: Uuid,
    /// [`crate::owner::OwnerKind::as_str`].
    pub kind: String,
    /// See [`Owner::environment`].
    pub environment: String,
    /// See [`Owner::cluster`].
    pub cluster: String,
    /// See [`Owner::namespace`].
    pub namespace: String,
    /// See [`Owner::pod`].
    pub pod: String,
    /// See [`Owner::container`].
    pub container: String,
    /// See [`Owner::job`].
    pub job: String,
    /// See [`Owner::user`].
    pub user: String,
    /// See [`Owner::department`].
    pub department: String,
    /// See [`Owner::project`].
    pub project: String,
    /// See [`Owner::experiment`].
    pub experiment: String,
    /// See [`Owner::service`].
    pub service: String,
    /// See [`Owner::model`].
    pub model: String,
    /// See [`Owner::command`].
    pub command: String,
}

impl From<&Owner> for OwnerRow {
    fn from(owner: &Owner) -> Self {
        let owner = owner.clone();
        Self {
            id: owner.id(),
            kind: owner.kind.as_str().to_owned(),
            environment: owner.environment,
            cluster: owner.cluster,
            namespace: owner.namespace,
            pod: owner.pod,
            container: owner.container,
            job: owner.job,
            user: owner.user,
            department: owner.department,
            project: owner.project,
            experiment: owner.experiment,
            service: owner.service,
            model: owner.model,
            command: owner.command,
        }
    }
}
