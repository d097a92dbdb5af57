//! What a price book says.

use std::collections::BTreeSet;

use contador_schemas::mapping::Glob;
use contador_schemas::owner::Owner;
use jiff::tz::TimeZone;

use super::{ANY, Consumption};

/// Everything that a department may have to pay for, dated.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceBook {
    /// ISO 4217.
    pub currency: String,
    /// Name of the time zone in which months and dates are meant.
    pub time_zone: String,
    /// Who issues the bill; empty if the book does not tell.
    pub issuer: String,
    /// Digits after the point of what a department pays, 0 to 6.
    pub decimals: u8,
    /// In canonical order: by key, then by the instant from which they are valid.
    pub rates: Vec<Rate>,
    /// Who consumes by which model; the first that matches counts.
    pub consumption: Vec<ConsumptionRule>,
    /// What energy costs, by the instant from which it is valid.
    pub energy: Vec<Energy>,
    /// Whether energy is charged for as a line, or is part of the rates.
    pub energy_is_a_line: bool,
    /// Storage rates.
    pub storage: Vec<StorageRate>,
    /// Network rates.
    pub network: Vec<NetworkRate>,
    /// Mark-ups, in the book's order.
    pub markups: Vec<Percentage>,
    /// Taxes, in the book's order.
    pub taxes: Vec<Percentage>,
    /// What becomes of time that nobody's workload held.
    pub policy: Policy,
}

/// What an hour costs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rate {
    /// As the driver names the whole GPU; `*` for any.
    pub gpu_model: String,
    /// For MIG instances: their profile, for an hour of the instance; or `*`, for an hour of the whole GPU times their share. `None` is for whole GPUs.
    pub mig_profile: Option<String>,
    /// Of this environment alone.
    pub environment: Option<String>,
    /// Of this consumption model alone.
    pub consumption: Option<Consumption>,
    /// Unix second; 0 is always.
    pub valid_from: u32,
    /// An hour, times `10^12` of a currency unit.
    pub hourly: i128,
    /// What is billed.
    pub basis: Basis,
    /// Sessions are billed in whole increments of so many milliseconds; 0 and 1 are none.
    pub increment_ms: u32,
    /// The least that a session is billed for, milliseconds.
    pub minimum_ms: u32,
    /// How `hourly` was derived, as text for people; empty where it was given.
    pub derivation: String,
    /// Where the price is from; empty if the book does not tell.
    pub source: String,
}

/// What a rate is multiplied with.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Basis {
    /// Time that was allocated.
    #[default]
    Allocated,
    /// Time in which it was busy; allocated where that is unknown.
    Used,
    /// The greater of both, minute by minute.
    Greater,
}

/// Owners that consume by a model. A field without a pattern matches anything.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumptionRule {
    /// By which.
    pub model: Consumption,
    /// Attribute of an owner (as [`Owner::attributes`] names it) or `gpu_model`, and the pattern that its value must match, by name.
    pub matches: Vec<(String, Glob)>,
}

/// What energy costs and causes, from an instant on.
#[derive(Clone, Debug, PartialEq)]
pub struct Energy {
    /// Unix second; 0 is always.
    pub valid_from: u32,
    /// Of these nodes alone; empty is all others.
    pub nodes: Vec<Glob>,
    /// A kWh, times `10^12` of a currency unit.
    pub tariff: i128,
    /// Power usage effectiveness, times `10^12`: at least 1.
    pub pue: i128,
    /// Grams of CO2 equivalent of a kWh, times `10^12`; `None` if unknown.
    pub carbon_g_per_kwh: Option<i128>,
    /// Where the figures are from; empty if the book does not tell.
    pub source: String,
}

/// What stored data costs.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageRate {
    /// Mount points, or classes that an import names.
    pub class: Glob,
    /// Who pays for it where nothing else says so; empty is nobody.
    pub department: String,
    /// Project that it belongs to; empty if unknown.
    pub project: String,
    /// Unix second; 0 is always.
    pub valid_from: u32,
    /// A GiB for a month of [`StorageRate::month_hours`], times `10^12`.
    pub per_gib_month: i128,
    /// Hours of the month that the rate is for.
    pub month_hours: u32,
}

/// What moved data costs.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkRate {
    /// Network interfaces, or classes that an import names.
    pub class: Glob,
    /// Who pays for it where nothing else says so; empty is nobody.
    pub department: String,
    /// Project that it belongs to; empty if unknown.
    pub project: String,
    /// Unix second; 0 is always.
    pub valid_from: u32,
    /// A GiB, times `10^12`.
    pub per_gib: i128,
}

/// A mark-up or a tax.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Percentage {
    /// What its line is called.
    pub name: String,
    /// Hundredths, times `10^12`.
    pub percent: i128,
    /// Of these departments alone; empty is all.
    pub departments: BTreeSet<String>,
    /// Unix second of the first period that it applies to: it applies to periods that start then or later.
    pub valid_from: u32,
    /// Unix second from which on it does not apply any more, if that is known.
    pub valid_to: Option<u32>,
}

/// What becomes of time that nobody's workload held.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Policy {
    /// Time in which nobody held a device.
    pub idle: Spread,
    /// What no MIG instance covers.
    pub stranded: Spread,
    /// Time of processes whose owner is unknown.
    pub unattributed: Spread,
    /// Time in which no agent was looking.
    pub unmetered: Spread,
    /// Before that: minutes without an agent belong to whom the device belonged to before and after, where that is the same.
    pub gaps_to_last_owner: bool,
    /// Imported claims of more than a device are reduced in proportion, instead of being charged and shown.
    pub split_over_allocation: bool,
    /// The department that pays for what is charged to the platform.
    pub platform: String,
}

/// Who bears a kind of nobody's time.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Spread {
    /// Nobody: it is a line of its own.
    #[default]
    Show,
    /// The departments that used the model, in proportion to their GPU time.
    Proportional,
    /// The departments that used the model, each as much.
    Even,
    /// [`Policy::platform`].
    Platform,
}

impl PriceBook {
    /// A book that says nothing but its currency.
    pub fn new(currency: impl Into<String>) -> Self {
        Self {
            currency: currency.into(),
            time_zone: "UTC".to_owned(),
            issuer: String::new(),
            decimals: 6,
            rates: Vec::new(),
            consumption: Vec::new(),
            energy: Vec::new(),
            energy_is_a_line: false,
            storage: Vec::new(),
            network: Vec::new(),
            markups: Vec::new(),
            taxes: Vec::new(),
            policy: Policy::default(),
        }
    }

    /// The book in which every GPU-hour costs the same, of MIG instances by their share.
    pub fn flat(rate: i128, currency: impl Into<String>) -> Self {
        let any = |mig_profile| Rate { mig_profile, ..Rate::of(ANY, rate) };
        let mut book = Self::new(currency);
        book.rates = vec![any(None), any(Some(ANY.to_owned()))];
        book
    }

    /// Adds a rate for whole GPUs of a model from a Unix second on.
    pub fn with(mut self, gpu_model: &str, valid_from: u32, hourly: i128) -> Self {
        self.rates.push(Rate { valid_from, ..Rate::of(gpu_model, hourly) });
        self
    }

    /// The time zone.
    pub fn zone(&self) -> TimeZone {
        TimeZone::get(&self.time_zone).unwrap_or(TimeZone::UTC)
    }

    /// The consumption model of an owner on a GPU model.
    pub fn consumption_of(&self, owner: &Owner, gpu_model: &str, is_part: bool) -> Consumption {
        let value = |name: &str| match name {
            "gpu_model" => gpu_model,
            name => owner.attributes().iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value),
        };
        let rule =
            self.consumption.iter().find(|rule| rule.matches.iter().all(|(name, glob)| glob.matches(value(name))));
        rule.map_or(if is_part { Consumption::Fraction } else { Consumption::TimeSharing }, |rule| rule.model)
    }
}

impl Rate {
    /// A plain rate, valid always.
    pub fn of(gpu_model: &str, hourly: i128) -> Self {
        Self {
            gpu_model: gpu_model.to_owned(),
            mig_profile: None,
            environment: None,
            consumption: None,
            valid_from: 0,
            hourly,
            basis: Basis::Allocated,
            increment_ms: 0,
            minimum_ms: 0,
            derivation: String::new(),
            source: String::new(),
        }
    }

    /// Whether sessions are rounded up.
    pub const fn is_by_session(&self) -> bool {
        self.increment_ms > 1 || self.minimum_ms > 0
    }

    /// Milliseconds that a session is billed for when it has lasted for so many: never less, and monotone.
    pub fn billed_ms(&self, lasted: i64) -> i64 {
        if lasted <= 0 {
            return 0;
        }
        let increment = i64::from(self.increment_ms.max(1));
        let whole = lasted.saturating_add(increment - 1) / increment * increment;
        whole.max(i64::from(self.minimum_ms))
    }
}
