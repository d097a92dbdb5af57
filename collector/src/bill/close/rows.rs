//! Facts and lines as rows of the store and back, exactly, and the hashes of them: SHA-256 over each row as JSON, one a line.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::{InvoiceFact, InvoiceLine};
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::bill::decimal::Millionths;
use crate::bill::facts::{Device, Fact, Facts, Item, OtherFact, Session};
use crate::bill::prices::{Consumption, hex};
use crate::bill::rate::{Category, Key, Payer};
use crate::bill::settle::{Amounts, Line};

/// What the item of a fact of a GPU is called.
const GPU: &str = "gpu";

/// Kind and attributes of an owner.
type Told = (String, Vec<(String, String)>);

/// Owners, devices and texts, each once.
#[derive(Default)]
struct Known {
    owners: HashMap<Told, Arc<Owner>>,
    devices: HashSet<Arc<Device>>,
    texts: HashSet<Arc<str>>,
}

impl Known {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    fn owner(&mut self, kind: String, attributes: Vec<(String, String)>) -> Result<Arc<Owner>, String> {
        let key = (kind, attributes);
        if let Some(known) = self.owners.get(&key) {
            return Ok(Arc::clone(known));
        }
        let mut owner = Owner::of_kind(parse_kind(&key.0)?);
        for (name, value) in &key.1 {
            if !owner.set(name, value) {
                return Err(format!("owner: unknown attribute {name:?}"));
            }
        }
        let owner = Arc::new(owner);
        self.owners.insert(key, Arc::clone(&owner));
        Ok(owner)
    }

    fn device(&mut self, device: Device) -> Arc<Device> {
        if let Some(known) = self.devices.get(&device) {
            return Arc::clone(known);
        }
        let device = Arc::new(device);
        self.devices.insert(Arc::clone(&device));
        device
    }
}

fn parse_kind(name: &str) -> Result<OwnerKind, String> {
    OwnerKind::parse(name).ok_or_else(|| format!("kind {name:?}: expected one of an owner's"))
}

/// The attributes of an owner that are known, in canonical order.
fn attributes(owner: &Owner) -> Vec<(String, String)> {
    let known = owner.attributes().into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Hash of rows in their order, whose own `hash` and place in the store are not part of it.
fn hash(what: &str, rows: impl Iterator<Item = impl Serialize>) -> Result<String, String> {
    let mut hash = Sha256::new();
    hash.update(format!("contador {what} 1\n"));
    for row in rows {
        hash.update(serde_json::to_vec(&row).map_err(|error| error.to_string())?);
        hash.update(b"\n");
    }
    Ok(hex(&hash.finalize()))
}

/// The rows of facts, in an order that does not depend on theirs, and their hash.
///
/// # Errors
/// When there are too many.
pub fn of_facts(facts: &Facts) -> Result<(String, Vec<InvoiceFact>), String> {
    let mut rows: Vec<InvoiceFact> =
        facts.facts.iter().map(fact_row).chain(facts.other.iter().map(other_row)).collect();
    rows.sort_unstable();
    for (number, row) in rows.iter_mut().enumerate() {
        row.number = u32::try_from(number).map_err(|_| "more than 4,294,967,295 facts".to_owned())?;
    }
    let snapshot = hash_of_facts(&rows)?;
    for row in &mut rows {
        row.snapshot.clone_from(&snapshot);
    }
    Ok((snapshot, rows))
}

/// Hash of the rows of facts, without what they say of it themselves.
///
/// # Errors
/// Does not happen: rows can be written as JSON.
pub fn hash_of_facts(rows: &[InvoiceFact]) -> Result<String, String> {
    hash("facts", rows.iter().map(|row| InvoiceFact { snapshot: String::new(), ..row.clone() }))
}

fn fact_row(fact: &Fact) -> InvoiceFact {
    let device = &fact.device;
    InvoiceFact {
        item: GPU.to_owned(),
        kind: fact.kind.as_str().to_owned(),
        owner: attributes(&fact.owner),
        owner_kind: fact.owner.kind.as_str().to_owned(),
        cost_centre: fact.cost_centre.to_string(),
        device: device.id.clone(),
        node: device.node.clone(),
        gpu_model: device.gpu_model.clone(),
        mig_profile: device.mig_profile.clone(),
        start_ms: fact.from,
        end_ms: fact.to,
        imported: fact.imported,
        simulated: fact.simulated,
        fraction: fact.fraction,
        held: fact.held,
        allocated: fact.allocated,
        unknown: fact.unknown,
        busy: fact.busy,
        greater: fact.greater,
        instance: fact.instance,
        memory_mib_ms: fact.memory_mib_ms,
        energy_mj: fact.energy_mj,
        session_start: fact.session.map(|session| session.start),
        session_before: fact.session.map(|session| session.before),
        rows: fact.rows,
        ..InvoiceFact::default()
    }
}

fn other_row(fact: &OtherFact) -> InvoiceFact {
    InvoiceFact {
        item: fact.item.as_str().to_owned(),
        class: fact.class.to_string(),
        owner: attributes(&fact.owner),
        owner_kind: fact.owner.kind.as_str().to_owned(),
        cost_centre: fact.cost_centre.to_string(),
        start_ms: fact.from,
        end_ms: fact.to,
        simulated: fact.simulated,
        quantity: fact.quantity,
        ..InvoiceFact::default()
    }
}

/// The facts of rows, without their counts.
///
/// # Errors
/// What is wrong with a row.
pub fn to_facts(rows: Vec<InvoiceFact>) -> Result<Facts, String> {
    let (mut facts, mut known) = (Facts::default(), Known::default());
    for row in rows {
        let number = row.number;
        let read = if row.item == GPU {
            fact(row, &mut known).map(|fact| facts.facts.push(fact))
        } else {
            other(row, &mut known).map(|other| facts.other.push(other))
        };
        read.map_err(|error| format!("fact {number}: {error}"))?;
    }
    Ok(facts)
}

fn fact(row: InvoiceFact, known: &mut Known) -> Result<Fact, String> {
    let device = Device { id: row.device, node: row.node, gpu_model: row.gpu_model, mig_profile: row.mig_profile };
    let session = row.session_start.zip(row.session_before);
    Ok(Fact {
        kind: parse_kind(&row.kind)?,
        owner: known.owner(row.owner_kind, row.owner)?,
        cost_centre: known.text(&row.cost_centre),
        device: known.device(device),
        from: row.start_ms,
        to: row.end_ms,
        imported: row.imported,
        simulated: row.simulated,
        fraction: row.fraction,
        held: row.held,
        allocated: row.allocated,
        unknown: row.unknown,
        busy: row.busy,
        greater: row.greater,
        instance: row.instance,
        memory_mib_ms: row.memory_mib_ms,
        energy_mj: row.energy_mj,
        session: session.map(|(start, before)| Session { start, before }),
        rows: row.rows,
    })
}

fn other(row: InvoiceFact, known: &mut Known) -> Result<OtherFact, String> {
    let item = [Item::Storage, Item::Network].into_iter().find(|item| item.as_str() == row.item);
    Ok(OtherFact {
        item: item.ok_or_else(|| format!("item {:?}: expected gpu, storage or network", row.item))?,
        class: known.text(&row.class),
        owner: known.owner(row.owner_kind, row.owner)?,
        cost_centre: known.text(&row.cost_centre),
        from: row.start_ms,
        to: row.end_ms,
        quantity: row.quantity,
        simulated: row.simulated,
    })
}

/// The rows of lines, in their order, and their hash.
///
/// # Errors
/// When an amount is too great for the store, or there are too many.
pub fn of_lines(lines: &[Line]) -> Result<(String, Vec<InvoiceLine>), String> {
    let rows: Result<Vec<InvoiceLine>, String> =
        lines.iter().enumerate().map(|(number, line)| line_row(number, line)).collect();
    let mut rows = rows?;
    let id = hash_of_lines(&rows)?;
    for row in &mut rows {
        row.lines.clone_from(&id);
    }
    Ok((id, rows))
}

/// Hash of the rows of lines, without what they say of it themselves.
///
/// # Errors
/// Does not happen: rows can be written as JSON.
pub fn hash_of_lines(rows: &[InvoiceLine]) -> Result<String, String> {
    hash("lines", rows.iter().map(|row| InvoiceLine { lines: String::new(), ..row.clone() }))
}

fn line_row(number: usize, line: &Line) -> Result<InvoiceLine, String> {
    let (key, mut amounts) = (&line.key, [0_i128; 10]);
    for (value, amount) in amounts.iter_mut().zip(line.amounts.all()) {
        let fits = |value: &i128| value.unsigned_abs() < 10_u128.pow(38);
        let too_great = || format!("{amount}: an amount of a line, expected at most 32 digits before the point");
        *value = amount.0.to_i128().filter(fits).ok_or_else(too_great)?;
    }
    let [gpu_hours, quantity, unpriced, busy, unknown, energy, site_energy, carbon, cost, effective] = amounts;
    Ok(InvoiceLine {
        lines: String::new(),
        number: u32::try_from(number).map_err(|_| "more than 4,294,967,295 lines".to_owned())?,
        payer: key.payer.kind.as_str().to_owned(),
        department: key.payer.department.to_string(),
        category: key.category.as_str().to_owned(),
        item: key.item.to_string(),
        owner_kind: key.owner.kind.as_str().to_owned(),
        owner: attributes(&key.owner),
        cost_centre: key.cost_centre.to_string(),
        gpu_model: key.gpu_model.to_string(),
        mig_profile: key.mig_profile.to_string(),
        consumption: key.consumption.map_or("", Consumption::as_str).to_owned(),
        unit_price: key.unit_price,
        day: key.day,
        origin_month: key.origin_month.as_deref().unwrap_or_default().to_owned(),
        imported: key.imported,
        simulated: key.simulated,
        gpu_hours,
        quantity,
        unpriced,
        busy,
        unknown,
        energy,
        site_energy,
        carbon,
        cost,
        effective,
    })
}

/// The lines of rows.
///
/// # Errors
/// What is wrong with a row.
pub fn to_lines(rows: Vec<InvoiceLine>) -> Result<Vec<Line>, String> {
    let mut known = Known::default();
    let line = |row: InvoiceLine| {
        let number = row.number;
        line(row, &mut known).map_err(|error| format!("line {number}: {error}"))
    };
    rows.into_iter().map(line).collect()
}

fn line(row: InvoiceLine, known: &mut Known) -> Result<Line, String> {
    let [gpu_hours, quantity, unpriced, busy, unknown, energy, site_energy, carbon, cost, effective] = [
        row.gpu_hours,
        row.quantity,
        row.unpriced,
        row.busy,
        row.unknown,
        row.energy,
        row.site_energy,
        row.carbon,
        row.cost,
        row.effective,
    ]
    .map(|value| Millionths(BigInt::from(value)));
    let category = Category::parse(&row.category);
    let consumption = Consumption::parse(&row.consumption);
    if consumption.is_none() && !row.consumption.is_empty() {
        return Err(format!("consumption {:?}: expected a consumption model, or nothing", row.consumption));
    }
    let key = Key {
        payer: Payer { kind: parse_kind(&row.payer)?, department: known.text(&row.department) },
        category: category.ok_or_else(|| format!("category {:?}: expected one of a bill's", row.category))?,
        owner: known.owner(row.owner_kind, row.owner)?,
        cost_centre: known.text(&row.cost_centre),
        gpu_model: known.text(&row.gpu_model),
        mig_profile: known.text(&row.mig_profile),
        consumption,
        item: known.text(&row.item),
        unit_price: row.unit_price,
        day: row.day,
        origin_month: (!row.origin_month.is_empty()).then(|| known.text(&row.origin_month)),
        imported: row.imported,
        simulated: row.simulated,
    };
    let amounts =
        Amounts { gpu_hours, quantity, unpriced, busy, unknown, energy, site_energy, carbon, cost, effective };
    Ok(Line { key, amounts })
}
