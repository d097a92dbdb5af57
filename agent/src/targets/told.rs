//! What the loop tells of this node at each tick: who holds its devices, and which pods are servers.

use std::sync::Arc;

use crate::ledger::Tick;
use crate::ledger::tick::Holder;
use crate::owners::Identified;
use crate::owners::claim::Snapshot;
use crate::owners::kubernetes::serving::Serving;
use crate::run::attribute::Claims;

/// What was told last.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Whether all was asked once: before, a server would be another one's than it is.
    pub is_known: bool,
    /// Who holds each device, and each MIG instance, by its UUID: as the ledger has it.
    pub held: Vec<(String, Vec<Identified>)>,
    /// Who was given which device.
    pub claims: Arc<Claims>,
    /// What each scheduler has told last.
    pub snapshots: Vec<Arc<Snapshot>>,
}

impl Told {
    /// Takes over who holds devices by these ticks; whether that is anything else than before. Of a device without a tick what
    /// was known goes on, as long as it is there.
    pub fn hold(&mut self, ticks: &[Tick], is_there: impl Fn(&str) -> bool) -> bool {
        let owners = |holders: &[Holder]| holders.iter().map(|holder| holder.owner.clone()).collect();
        let whole = ticks.iter().map(|tick| (tick.device.clone(), owners(&tick.holders)));
        let parts = ticks.iter().flat_map(|tick| tick.split.iter().flatten());
        let mut held: Vec<(String, Vec<Identified>)> =
            whole.chain(parts.map(|part| (part.device.clone(), owners(&part.holders)))).collect();
        let other = self.held.iter().filter(|(device, _)| !held.iter().any(|(known, _)| known == device));
        let other: Vec<_> = other.filter(|(device, _)| is_there(device)).cloned().collect();
        held.extend(other);
        held.sort_by(|(one, _), (other, _)| one.cmp(other));
        let is_new = held != self.held;
        self.held = held;
        is_new
    }

    /// Takes over what schedulers say; whether servers, or who was given what, are anything else than before.
    pub fn hear(&mut self, claims: &Arc<Claims>, snapshots: &[Arc<Snapshot>]) -> bool {
        let is_same = |(one, other): (&Arc<Snapshot>, &Arc<Snapshot>)| Arc::ptr_eq(&one.servers, &other.servers);
        let is_new = !Arc::ptr_eq(&self.claims, claims)
            || self.snapshots.len() != snapshots.len()
            || !self.snapshots.iter().zip(snapshots).all(is_same);
        self.claims = Arc::clone(claims);
        self.snapshots = snapshots.to_vec();
        is_new
    }

    /// Pods that say that they are to be scraped.
    pub fn servers(&self) -> impl Iterator<Item = &Serving> {
        self.snapshots.iter().flat_map(|told| told.servers.iter())
    }

    /// Whether the pod of this namespace and name was given a device.
    pub fn has_device(&self, namespace: &str, pod: &str) -> bool {
        self.claims.values().flatten().any(|(_, owner)| owner.namespace == namespace && owner.pod == pod)
    }
}
