//! Which column a point of a sample fills, and with what: both are told by the registry (`schemas::names`), so that a new
//! metric needs a line there and a column in its row.
//!
//! A point is one of a sample when its attributes are ones that the registry knows, and those that tell values or things
//! apart are exactly those of one of the metric's variants. Any other belongs to somebody else's metric of the same name,
//! and would be put together with others by mistake.

use std::collections::HashMap;
use std::sync::LazyLock;

use contador_schemas::names::{self, Fixed, Group, MetricName};
use contador_schemas::rows::{ByColumn, Column, Slot};

use super::attributes::Attributes;
use super::reject::Reason;
use super::value::{Number, put};

/// Attributes that name a thing. A point that says one that is not its sample's own is about a part of that.
const THINGS: &[&str] = &[
    names::HW_ID,
    names::SYSTEM_DEVICE,
    names::MOUNTPOINT,
    names::NETWORK_INTERFACE,
    names::RDMA_PORT,
    names::NVLINK_LINK,
    names::XID,
    names::CGROUP,
    names::SENSOR,
    names::OWNER_ID,
    names::EVENT_ID,
];

/// Every attribute of the registry, and whether it tells values or things apart.
static KNOWN: LazyLock<HashMap<&str, bool>> = LazyLock::new(|| {
    let mut known: HashMap<&str, bool> = names::ATTRIBUTES.iter().map(|attribute| (attribute.name, false)).collect();
    let fixed = names::metrics().flat_map(|metric| metric.variants).flat_map(|variant| variant.attributes);
    known.extend(fixed.map(|(name, _)| (*name, true)).chain(THINGS.iter().map(|name| (*name, true))));
    known
});

/// What a column holds, and how a point's value becomes that.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A share from 0 to 1.
    Share,
    /// A number that is not counted.
    Real,
    /// A whole number, of so many parts of the metric's unit.
    U64(u32),
    /// The same in 32 bits.
    U32(u32),
    /// A whole number that may be negative.
    I16,
    /// 1 or 0.
    Flag,
    /// The variant whose value is 1 says which word.
    Word(&'static str),
}

/// A value that fits its column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    F32(f32),
    U64(u64),
    U32(u32),
    I16(i16),
    Bool(bool),
    Word(&'static str),
    /// Not this word.
    NotThis,
}

/// Where the value of a metric's variant belongs.
pub(super) struct Place<R: ByColumn> {
    attributes: Fixed,
    column: Column<R>,
    kind: Kind,
    /// The value's name where a device can't tell it.
    pub(super) label: String,
}

/// The places of all metrics of one kind of row, by the metric's name.
pub(super) struct Columns<R: ByColumn> {
    places: HashMap<&'static str, Vec<Place<R>>>,
    /// Attributes that say which row it is.
    keys: &'static [&'static str],
}

impl<R: ByColumn> Columns<R> {
    /// The columns of the rows of `group`, which are told apart by `keys`. A variant whose column the row lacks has no
    /// place; a test of the rows finds that.
    pub(super) fn of(group: Group, keys: &'static [&'static str]) -> Self {
        let of_group = names::metrics().filter(|metric| metric.group == group);
        let places = of_group.map(|metric| {
            let places = metric.variants.iter().filter_map(|variant| {
                let column = R::column(variant.column)?;
                let word = variant.attributes.last().map_or("", |(_, value)| *value);
                let kind = kind(&column(&mut R::default()), metric.unit, variant.column, word);
                Some(Place { attributes: variant.attributes, column, kind, label: label(metric, variant.attributes) })
            });
            (metric.name, places.collect())
        });
        Self { places: places.collect(), keys }
    }

    /// Where a point of `metric` with these attributes belongs; `None` when it is somebody else's.
    pub(super) fn place(&self, metric: &MetricName, attributes: Attributes<'_>) -> Option<&Place<R>> {
        let mut telling = 0;
        for (name, _) in attributes.iter() {
            let tells = *KNOWN.get(name)?;
            telling += usize::from(tells && !self.keys.contains(&name));
        }
        let is_of = |place: &&Place<R>| {
            let mut fixed = place.attributes.iter();
            place.attributes.len() == telling
                && fixed.all(|(name, value)| attributes.get(name).is_some_and(|told| told == *value))
        };
        self.places.get(metric.name)?.iter().find(is_of)
    }
}

impl<R: ByColumn> Place<R> {
    /// A point's value as the column has it.
    ///
    /// # Errors
    /// What [`Number`] refuses, and [`Reason::OutOfRange`] for a flag that is neither 0 nor 1.
    pub(super) fn read(&self, value: Number) -> Result<Value, Reason> {
        Ok(match self.kind {
            Kind::Share => Value::F32(value.share()?),
            Kind::Real => Value::F32(value.f32()?),
            Kind::U64(scale) => Value::U64(value.u64(scale)?),
            Kind::U32(scale) => Value::U32(value.u32(scale)?),
            Kind::I16 => Value::I16(value.i16()?),
            Kind::Flag => Value::Bool(value.flag()?),
            Kind::Word(word) if value.flag()? => Value::Word(word),
            Kind::Word(_) => Value::NotThis,
        })
    }

    /// Puts a value that was [`read`](Self::read) into a row.
    ///
    /// # Errors
    /// [`Reason::Conflicting`] for the lesser of two different values.
    pub(super) fn put(&self, row: &mut R, value: Value) -> Result<(), Reason> {
        match ((self.column)(row), value) {
            (Slot::F32(column), Value::F32(value)) => put(column, value),
            (Slot::U64(column), Value::U64(value)) => put(column, value),
            (Slot::U32(column), Value::U32(value)) => put(column, value),
            (Slot::I16(column), Value::I16(value)) => put(column, value),
            (Slot::Bool(column), Value::Bool(value)) => put(column, value),
            (Slot::Text(column), Value::Word(word)) => put(column, word.to_owned()),
            (Slot::Text(_), Value::NotThis) => Ok(()),
            _ => Err(Reason::Shape),
        }
    }
}

/// What a column of this type holds. The end of its name says of what unit it counts the parts.
fn kind(slot: &Slot<'_>, unit: &str, column: &str, word: &'static str) -> Kind {
    let end = column.rsplit('_').next().unwrap_or_default();
    let scale = match end {
        "mw" | "mj" | "ms" => 1_000,
        "us" => 1_000_000,
        _ => 1,
    };
    match slot {
        // A board may drive its fan beyond what it calls the greatest speed.
        Slot::F32(_) if unit == "1" && column != "fan_speed" => Kind::Share,
        Slot::F32(_) => Kind::Real,
        Slot::U64(_) => Kind::U64(scale),
        Slot::U32(_) => Kind::U32(scale),
        Slot::I16(_) => Kind::I16,
        Slot::Bool(_) => Kind::Flag,
        Slot::Text(_) => Kind::Word(word),
    }
}

/// `hw.power`, or `hw.errors{error.type=xid}` for one value of several.
fn label(metric: &MetricName, attributes: Fixed) -> String {
    if attributes.is_empty() {
        return metric.name.to_owned();
    }
    let told: Vec<String> = attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{}{{{}}}", metric.name, told.join(","))
}
