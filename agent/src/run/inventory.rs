//! What the node is made of, kept over restarts, and every change of it as an event.
//!
//! [`Inventory::of`] takes what the devices are; [`changes`] compares two of them; [`InventoryLog`] keeps the last one in
//! `inventory` in the state directory. The file is replaced as a whole, after the events of its changes were kept: a kill in
//! between tells a change twice, and never hides one. A damaged file is said, and begun anew.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use contador_schemas::names;
use serde::{Deserialize, Serialize};

use crate::outbox::encode::infos::Event;
use crate::sensors::{Facts, GpuIdentity};

const MAGIC: &str = "contador-inventory";
const VERSION: u32 = 1;

/// Facts of the node: the same for each of its GPUs, and told once.
const OF_NODE: [&str; 4] = [names::HW_DRIVER_VERSION, names::NVML_VERSION, names::CUDA_VERSION, names::KERNEL_VERSION];

/// What a node is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// Facts of the node.
    node: Facts,
    /// Facts of each device, by UUID.
    devices: BTreeMap<String, Facts>,
    /// Whether devices that are not here are not there either.
    #[serde(skip)]
    complete: bool,
}

impl Inventory {
    /// The inventory of these devices; `complete` when none was left out because it does not answer.
    pub fn of<I: Borrow<GpuIdentity>>(devices: impl IntoIterator<Item = I>, complete: bool) -> Self {
        let mut inventory = Self { complete, ..Self::default() };
        for device in devices {
            let device = device.borrow();
            let mut facts = device.facts.clone();
            for fact in OF_NODE {
                if let Some(known) = facts.known(fact) {
                    inventory.node.set(fact, known.map(str::to_owned));
                    facts.forget(fact);
                }
            }
            facts.set(names::HW_MODEL, Some(device.name.clone()));
            facts.read(names::DEVICE_MEMORY, device.memory_total_bytes.clone());
            inventory.devices.insert(device.uuid.clone(), facts);
        }
        inventory
    }

    /// What is known now: what `newer` knows, and what was known before of what it does not.
    fn updated(&self, newer: &Self) -> Self {
        let mut inventory = self.clone();
        inventory.node.update(&newer.node);
        if newer.complete {
            inventory.devices.retain(|uuid, _| newer.devices.contains_key(uuid));
        }
        for (uuid, facts) in &newer.devices {
            inventory.devices.entry(uuid.clone()).or_default().update(facts);
        }
        inventory
    }

    /// Makes a fact of all devices unknown.
    fn forget(&mut self, fact: &str) {
        self.devices.values_mut().for_each(|facts| facts.forget(fact));
    }
}

/// An event for each difference of two inventories, seen at `now_ms` (Unix milliseconds): `inventory_changed` of a fact that
/// both know, with [`names::INVENTORY_FIELD`], [`names::INVENTORY_OLD`] and [`names::INVENTORY_NEW`]; `gpu_added` and
/// `gpu_removed` (`mig_added` and `mig_removed` of MIG instances) of a device. None is told as removed while the new
/// inventory is not complete.
pub fn changes(old: &Inventory, new: &Inventory, now_ms: i64) -> Vec<Event> {
    let mut events = differences(None, &old.node, &new.node, now_ms);
    for (uuid, facts) in &new.devices {
        match old.devices.get(uuid) {
            Some(before) => events.extend(differences(Some(uuid), before, facts, now_ms)),
            None => events.push(device_event("added", uuid, facts, now_ms)),
        }
    }
    let gone = old.devices.iter().filter(|(uuid, _)| new.complete && !new.devices.contains_key(*uuid));
    events.extend(gone.map(|(uuid, facts)| device_event("removed", uuid, facts, now_ms)));
    events
}

fn differences(device: Option<&String>, old: &Facts, new: &Facts, now_ms: i64) -> Vec<Event> {
    // The driver counts anew when a GPU comes or goes: an index is told, and is no property of a GPU.
    let changed = new.iter().filter(|(field, _)| *field != names::DEVICE_INDEX).filter_map(|(field, value)| {
        let before = old.known(field).filter(|before| *before != value)?;
        let of = device.map(|uuid| format!(" of {uuid}")).unwrap_or_default();
        let shown = |value: Option<&str>| value.map_or_else(|| "none".to_owned(), |value| format!("{value:?}"));
        let message = format!("{field}{of} changed from {} to {}", shown(before), shown(value));
        let mut event = Event::new(now_ms, "inventory_changed", message).with(names::INVENTORY_FIELD, field);
        for (name, value) in [(names::INVENTORY_OLD, before), (names::INVENTORY_NEW, value)] {
            if let Some(value) = value {
                event = event.with(name, value);
            }
        }
        Some(match device {
            Some(uuid) => event.of(uuid.as_str()),
            None => event,
        })
    });
    changed.collect()
}

fn device_event(what: &str, uuid: &str, facts: &Facts, now_ms: i64) -> Event {
    let kind = match (facts.get(names::HW_PARENT).is_some(), what) {
        (false, "added") => "gpu_added",
        (false, _) => "gpu_removed",
        (true, "added") => "mig_added",
        (true, _) => "mig_removed",
    };
    let model = facts.get(names::HW_MODEL).unwrap_or("unknown model");
    let event = Event::new(now_ms, kind, format!("{uuid} ({model}) was {what}")).of(uuid);
    match facts.get(names::DEVICE_PCI) {
        Some(address) => event.with(names::DEVICE_PCI, address),
        None => event,
    }
}

/// The last inventory, and its file.
#[derive(Debug)]
pub(super) struct InventoryLog {
    path: PathBuf,
    known: Option<Inventory>,
    unsaved: bool,
    /// Serial numbers are kept.
    serial_numbers: bool,
    /// Writing it fails; said once.
    failing: bool,
}

impl InventoryLog {
    /// The inventory that was left in `state_dir`; what is wrong with it is an event.
    pub(super) fn open(state_dir: &Path, serial_numbers: bool, events: &mut Vec<Event>, now_ms: i64) -> Self {
        let path = state_dir.join("inventory");
        let known = match load(&path) {
            Ok(known) => known,
            Err(reason) => {
                tracing::error!(reason, "the last inventory is ignored");
                events.push(Event::new(
                    now_ms,
                    "inventory_damaged",
                    format!("the last inventory was ignored: {reason}"),
                ));
                None
            }
        };
        Self { path, known, unsaved: false, serial_numbers, failing: false }
    }

    /// Compares the devices with what was known, and takes them over. At the first look ever there is nothing to say.
    pub(super) fn note<I: Borrow<GpuIdentity>>(
        &mut self,
        devices: impl IntoIterator<Item = I>,
        complete: bool,
        now_ms: i64,
    ) -> Vec<Event> {
        let seen = Inventory::of(devices, complete);
        let (events, mut now) = match &self.known {
            Some(before) => (changes(before, &seen, now_ms), before.updated(&seen)),
            None => (Vec::new(), seen),
        };
        if !self.serial_numbers {
            now.forget(names::HW_SERIAL);
        }
        now.complete = false;
        for event in &events {
            tracing::info!(kind = event.kind, message = event.message, "inventory");
        }
        self.unsaved |= self.known.as_ref() != Some(&now);
        self.known = Some(now);
        events
    }

    /// Writes the inventory, if it is another one than the file's. A disk that is full must not stop anything: it is tried
    /// again the next time.
    pub(super) async fn save(&mut self) {
        let Some(known) = self.known.as_ref().filter(|_| self.unsaved) else { return };
        let (path, bytes) = (self.path.clone(), encode(known));
        let stored = tokio::task::spawn_blocking(move || store(&path, &bytes?)).await;
        let stored = stored.unwrap_or_else(|error| Err(io::Error::other(error)));
        self.unsaved = stored.is_err();
        match (&stored, self.failing) {
            (Err(error), false) => tracing::warn!(%error, path = %self.path.display(), "cannot keep the inventory"),
            (Ok(()), true) => tracing::info!("no longer: cannot keep the inventory"),
            _ => {}
        }
        self.failing = stored.is_err();
    }
}

fn encode(inventory: &Inventory) -> io::Result<Vec<u8>> {
    let json = serde_json::to_string(inventory)?;
    Ok(format!("{MAGIC} {VERSION} {:08x}\n{json}\n", crc32fast::hash(json.as_bytes())).into_bytes())
}

/// The inventory in the file, if there is one; or what is wrong with it.
fn load(path: &Path) -> Result<Option<Inventory>, String> {
    let fault = |reason: &str| format!("{}: {reason}", path.display());
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fault(&error.to_string())),
    };
    let (head, json) = text.split_once('\n').ok_or_else(|| fault("cut short"))?;
    let [magic, version, sum] = head.split(' ').collect::<Vec<_>>()[..] else {
        return Err(fault("no inventory, expected contador-inventory with its version and checksum"));
    };
    let json = json.strip_suffix('\n').ok_or_else(|| fault("cut short"))?;
    if magic != MAGIC || version != VERSION.to_string() {
        return Err(fault(&format!("{magic} {version}: expected {MAGIC} {VERSION}")));
    }
    if sum != format!("{:08x}", crc32fast::hash(json.as_bytes())) {
        return Err(fault("its checksum is wrong"));
    }
    serde_json::from_str(json).map(Some).map_err(|error| fault(&error.to_string()))
}

fn store(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests;
