//! What the environments of a work's processes have said of it, for as long as it holds a device.
//!
//! Who was given a device is whom his processes there name, too ([`complete`]). They come and go; he is the same one before
//! and after them. So what was last said on a device of a work (a pod's container, or a job) goes on:
//!
//! - each of the fields that say who pays by itself, until a process there says something else, or several processes
//!   contradict each other. A process that says exactly what the rules say (`CONTADOR_OWNER_DEPARTMENT=unassigned`, where that is
//!   the default) can't be told from one that says nothing: what was said before goes on;
//! - also on the work's other devices, where nothing was said, as long as what was said on its devices is the same;
//! - while the work was given any device, or is suspended. An agent that is started anew knows of nothing that was said.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use contador_schemas::mapping::TARGETS;
use contador_schemas::owner::Owner;

use super::attribute::{Claims, Known, given_of};
use crate::ledger::tick::{Holder, Tick};
use crate::owners::Identified;
use crate::owners::claim::{Snapshot, complete, is_same_work, is_work_of, work_of};
use crate::owners::slurm::is_suspended;
use crate::sensors::GpuSample;

/// What was said of works, by what identifies each, on each device.
#[derive(Debug, Default)]
pub struct Said {
    works: HashMap<String, BTreeMap<String, Fields>>,
    /// The claims for which everything else was forgotten.
    claims: Arc<Claims>,
}

/// Fields of an owner, and what was said.
type Fields = BTreeMap<&'static str, String>;

impl Said {
    /// Takes what is said of those who hold the devices of `tick`, which was made of these samples; and says it of those who
    /// hold them without a process that says anything.
    pub fn keep(&mut self, tick: &mut Tick, sample: &GpuSample, instances: &[(&GpuSample, u64)], known: Known<'_>) {
        let is_split = tick.split.is_some();
        self.keep_of(sample, &mut tick.holders, is_split, known);
        for part in tick.split.iter_mut().flatten() {
            if let Some((instance, _)) = instances.iter().find(|(instance, _)| instance.uuid == part.device) {
                self.keep_of(instance, &mut part.holders, false, known);
            }
        }
    }

    /// Forgets what was said of works that hold nothing any more.
    pub fn forget(&mut self, claims: &Arc<Claims>, snapshots: &[Arc<Snapshot>]) {
        if Arc::ptr_eq(&self.claims, claims) {
            return;
        }
        self.claims = Arc::clone(claims);
        if self.works.is_empty() {
            return;
        }
        let suspended = snapshots.iter().flat_map(|told| told.works.values()).filter(|named| is_suspended(named));
        let given = claims.values().flatten().map(|(_, owner)| &**owner);
        let hold: HashSet<String> = given.chain(suspended.map(|named| &named.owner)).map(work).collect();
        self.works.retain(|work, _| hold.contains(work));
    }

    /// The same of one device. Of a GPU that is split, the processes on instances are those of the instances.
    fn keep_of(&mut self, sample: &GpuSample, holders: &mut [Holder], is_split: bool, known: Known<'_>) {
        let given = given_of(sample, known.claims);
        for holder in holders.iter_mut().filter(|holder| holder.part.is_some()) {
            let same = given.iter().find(|(_, by)| *by == holder.owner);
            let by = same.or_else(|| given.iter().find(|(_, by)| is_same_work(by, &holder.owner)));
            let Some((_, by)) = by else { continue };
            let work = work(by);
            if holder.owner == *by && !self.works.contains_key(&work) {
                continue;
            }
            let on_devices = self.works.entry(work).or_default();
            let mut with_said: Option<Owner> = None;
            for (place, (name, value)) in by.attributes().into_iter().enumerate() {
                if !TARGETS.contains(&name) {
                    continue;
                }
                let said = holder.owner.attributes()[place].1;
                if said != value {
                    remember(on_devices, &sample.uuid, name, said);
                } else if let Some(said) = recall(on_devices, &sample.uuid, name).map(str::to_owned) {
                    if is_disputed(sample, by, place, is_split, known) {
                        on_devices.get_mut(&sample.uuid).and_then(|fields| fields.remove(name));
                    } else {
                        with_said.get_or_insert_with(|| Owner::clone(&holder.owner)).set(name, &said);
                    }
                }
            }
            if let Some(owner) = with_said {
                holder.owner = owner.into();
            }
        }
        holders.sort_by_key(|holder| holder.owner.id());
    }
}

fn remember(on_devices: &mut BTreeMap<String, Fields>, device: &str, field: &'static str, value: &str) {
    if on_devices.get(device).and_then(|said| said.get(field)).is_some_and(|said| said == value) {
        return;
    }
    on_devices.entry(device.to_owned()).or_default().insert(field, value.to_owned());
}

/// What was said on this device, else on all of the work's others.
fn recall<'s>(on_devices: &'s BTreeMap<String, Fields>, device: &str, field: &str) -> Option<&'s str> {
    if let Some(said) = on_devices.get(device).and_then(|said| said.get(field)) {
        return Some(said);
    }
    let mut said = on_devices.values().filter_map(|said| said.get(field));
    let first = said.next()?;
    said.all(|other| other == first).then_some(first)
}

/// Whether processes of a work on a device say something of a field, of which nothing came: then they contradict each other.
fn is_disputed(sample: &GpuSample, by: &Identified, place: usize, is_split: bool, known: Known<'_>) -> bool {
    let processes = sample.processes.value().into_iter().flatten();
    let here = processes.filter(|process| !is_split || process.gpu_instance.is_none());
    let mut owners = here.filter_map(|process| known.owners.get(&process.pid)).filter(|owner| is_work_of(owner, by));
    owners.any(|owner| complete(by, &[owner]).attributes()[place].1 != by.attributes()[place].1)
}

/// What a work is known by here.
fn work(owner: &Owner) -> String {
    work_of(owner).join("\n")
}

#[cfg(test)]
mod tests;
