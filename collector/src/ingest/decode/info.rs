//! Points that are rows by themselves: what an owner id means, what a device is, what happened.

use std::collections::BTreeMap;

use contador_schemas::names::{self, DEVICE_FACTS, MetricName, OWNER_ATTRIBUTES};
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::{ByColumn as _, Device, Event, OwnerRow, Slot};
use uuid::Uuid;

use super::Point;
use super::reject::Reason;

/// Each fact once.
#[derive(Default)]
pub(super) struct Facts {
    owners: BTreeMap<Uuid, OwnerRow>,
    devices: Vec<Device>,
    events: Vec<Event>,
}

impl Facts {
    pub(super) fn add(&mut self, metric: &MetricName, point: &Point<'_>) -> Result<(), Reason> {
        match metric.name {
            names::OWNER_INFO => {
                let owner = owner(point)?;
                self.owners.insert(owner.id, owner);
            }
            names::DEVICE_INFO => self.devices.push(device(point)?),
            names::EVENT => self.events.push(event(point)?),
            _ => return Err(Reason::Shape),
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> (Vec<OwnerRow>, Vec<Device>, Vec<Event>) {
        // In the order of time, since the last row of a device tells its facts.
        self.devices.sort_by_cached_key(|device| {
            (device.id.clone(), device.last_seen, device.node.clone(), format!("{device:?}"))
        });
        self.devices.dedup();
        self.events.sort_by_cached_key(|event| (event.ts, event.id, format!("{event:?}")));
        self.events.dedup();
        (self.owners.into_values().collect(), self.devices, self.events)
    }
}

fn owner(point: &Point<'_>) -> Result<OwnerRow, Reason> {
    let told = point.attributes.get(names::OWNER_ID).ok_or(Reason::Attribute)?;
    let kind = point.attributes.get(names::OWNER_KIND).ok_or(Reason::Attribute)?;
    let mut owner = Owner::of_kind(OwnerKind::parse(&kind).ok_or(Reason::OwnerId)?);
    // Of the point alone: the resource is the agent, which has a host, a service and an environment of its own.
    for (column, name) in OWNER_ATTRIBUTES {
        if let Some(value) = point.attributes.get(name) {
            owner.set(column, &value);
        }
    }
    let row = OwnerRow::from(&owner);
    if Uuid::parse_str(&told) == Ok(row.id) { Ok(row) } else { Err(Reason::OwnerId) }
}

fn device(point: &Point<'_>) -> Result<Device, Reason> {
    let attributes = point.attributes;
    let memory_bytes = match attributes.get(names::DEVICE_MEMORY) {
        None => 0,
        Some(bytes) => bytes.parse().map_err(|_| Reason::Attribute)?,
    };
    let mut device = Device {
        id: attributes.get(names::HW_ID).ok_or(Reason::Attribute)?.into_owned(),
        node: point.node(),
        vendor: attributes.owned(names::HW_VENDOR),
        model: attributes.owned(names::HW_MODEL),
        parent: attributes.owned(names::HW_PARENT),
        mig_profile: attributes.owned(names::MIG_PROFILE),
        pci_bus_id: attributes.owned(names::DEVICE_PCI),
        driver_version: attributes.owned(names::HW_DRIVER_VERSION),
        memory_bytes,
        simulated: point.simulated(),
        first_seen: point.millis(),
        last_seen: point.millis(),
        ..Device::default()
    };
    for (column, name) in DEVICE_FACTS {
        let (Some(value), Some(column)) = (attributes.get(name), Device::column(column)) else { continue };
        match column(&mut device) {
            Slot::Text(fact) => *fact = Some(value.into_owned()),
            Slot::U32(fact) => *fact = Some(value.parse().map_err(|_| Reason::Attribute)?),
            _ => return Err(Reason::Shape),
        }
    }
    Ok(device)
}

fn event(point: &Point<'_>) -> Result<Event, Reason> {
    const COLUMNS: [&str; 5] =
        [names::EVENT_ID, names::EVENT_KIND, names::EVENT_MESSAGE, names::HW_ID, names::HOST_NAME];
    let id = point.attributes.get(names::EVENT_ID).ok_or(Reason::Attribute)?;
    let attributes: BTreeMap<String, String> = point
        .attributes
        .iter()
        .filter(|(name, _)| !COLUMNS.contains(name))
        .map(|(name, value)| (name.to_owned(), value.into_owned()))
        .collect();
    Ok(Event {
        ts: point.millis(),
        id: Uuid::parse_str(&id).map_err(|_| Reason::Attribute)?,
        node: point.node(),
        device: point.attributes.owned(names::HW_ID),
        kind: point.attributes.get(names::EVENT_KIND).ok_or(Reason::Attribute)?.into_owned(),
        message: point.attributes.owned(names::EVENT_MESSAGE),
        attributes: attributes.into_iter().collect(),
    })
}
