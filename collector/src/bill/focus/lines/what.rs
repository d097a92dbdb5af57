//! What a line is, in the words of FOCUS.

use contador_schemas::owner::OwnerKind;

use crate::bill::focus::value::{ChargeCategory, ChargeFrequency, ServiceSubcategory};
use crate::bill::rate::{Category, Key};
use crate::bill::settle::Line;

/// What a line is for; commitments with their ids.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum What<'a> {
    /// Time on GPUs: used, shared, or nobody's.
    Gpus,
    /// Use that a commitment covers.
    Used(&'a str),
    /// What of a commitment was not used.
    Unused(&'a str),
    /// Nobody's time on GPUs of a commitment. That is the same time as what was not used of it, and paid for there.
    Resting(&'a str),
    /// A commitment.
    Purchase(&'a str),
    /// Energy, by the kWh.
    Energy,
    /// Storage of a class.
    Storage(&'a str),
    /// Traffic of a class.
    Network(&'a str),
    /// An amount without a quantity, and what it is called.
    Amount(ChargeCategory, &'a str),
}

/// The category and the item of a line; of a correction, those of the line that it corrects, both of which are in its item.
pub(super) fn original(key: &Key) -> (Category, &str) {
    if key.category == Category::Correction {
        let (category, item) = key.item.split_once(": ").unwrap_or((&key.item, ""));
        if let Some(category) = Category::parse(category) {
            return (category, item);
        }
    }
    (key.category, &key.item)
}

impl<'a> What<'a> {
    pub(super) fn of(line: &'a Line) -> Self {
        let (category, item) = original(&line.key);
        let nobodys = line.key.payer.kind != OwnerKind::Workload;
        match category {
            Category::Usage => Self::Gpus,
            Category::Covered if nobodys => Self::Resting(item),
            Category::Covered => Self::Used(item),
            Category::Unused => Self::Unused(item),
            Category::Commitment => Self::Purchase(item),
            Category::Share(_) if item.is_empty() => Self::Gpus,
            Category::Share(_) if item == "energy" => Self::Energy,
            Category::Share(_) => Self::Resting(item),
            Category::Energy => Self::Energy,
            Category::Storage => Self::Storage(item),
            Category::Network => Self::Network(item),
            Category::Tax => Self::Amount(ChargeCategory::Tax, item),
            Category::Credit => Self::Amount(ChargeCategory::Credit, item),
            Category::Markup | Category::Adjustment | Category::Correction => {
                Self::Amount(ChargeCategory::Adjustment, item)
            }
        }
    }

    /// The nature of the charge.
    pub(super) const fn charge(&self) -> ChargeCategory {
        match self {
            Self::Purchase(_) => ChargeCategory::Purchase,
            Self::Amount(category, _) => *category,
            _ => ChargeCategory::Usage,
        }
    }

    /// How often it comes: what somebody signed comes once, percentages and commitments each month.
    pub(super) const fn frequency(&self, category: Category) -> ChargeFrequency {
        match (self, category) {
            (Self::Purchase(_), _) | (_, Category::Markup | Category::Tax) => ChargeFrequency::Recurring,
            (Self::Amount(..), _) => ChargeFrequency::OneTime,
            _ => ChargeFrequency::UsageBased,
        }
    }

    /// The service's name and kind.
    pub(super) const fn service(&self) -> (&'static str, ServiceSubcategory) {
        match self {
            Self::Energy => ("GPU energy", ServiceSubcategory::OtherCompute),
            Self::Storage(_) => ("Storage", ServiceSubcategory::OtherStorage),
            Self::Network(_) => ("Network", ServiceSubcategory::OtherNetworking),
            Self::Amount(..) => ("Other charges", ServiceSubcategory::OtherOther),
            _ => ("GPUs", ServiceSubcategory::OtherCompute),
        }
    }

    /// The commitment that the charge is of; time that rests is in no charge of it.
    pub(super) const fn commitment(&self) -> Option<&'a str> {
        match *self {
            Self::Used(id) | Self::Unused(id) | Self::Purchase(id) => Some(id),
            _ => None,
        }
    }

    /// For people.
    pub(super) fn describe(&self, key: &Key) -> String {
        let (category, _) = original(key);
        let gpus = gpus(key);
        let whose = match (category, key.payer.kind) {
            (Category::Share(kind), _) => format!("share of {}: ", kind.as_str()),
            (_, OwnerKind::Workload) => String::new(),
            (_, kind) => format!("{}: ", kind.as_str()),
        };
        let what = match self {
            Self::Gpus if key.unit_price.is_none() => format!("{gpus}, without a price"),
            Self::Gpus => key.consumption.map_or_else(|| gpus.clone(), |model| format!("{gpus}, {model}")),
            Self::Used(id) => format!("{gpus}, covered by commitment {id}"),
            Self::Unused(id) => format!("{gpus}, left unused of commitment {id}"),
            Self::Resting(id) => format!("{gpus}, paid for by commitment {id}"),
            Self::Purchase(id) => format!("{gpus}, commitment {id}"),
            Self::Energy => format!("energy of {gpus}"),
            Self::Storage(class) => format!("storage {class}"),
            Self::Network(class) => format!("network {class}"),
            Self::Amount(_, name) => format!("{category} {name}").trim_end().to_owned(),
        };
        match &key.origin_month {
            Some(month) => format!("correction of {month}: {whose}{what}"),
            None => format!("{whose}{what}"),
        }
    }
}

/// The GPUs of a line, by model and profile.
pub(super) fn gpus(key: &Key) -> String {
    let model = if key.gpu_model.trim().is_empty() { "unknown model" } else { &key.gpu_model };
    if key.mig_profile.is_empty() { model.to_owned() } else { format!("{model} MIG {}", key.mig_profile) }
}
