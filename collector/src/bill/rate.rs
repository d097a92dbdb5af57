//! Facts times prices, exactly, summed by what a report is grouped by.
//!
//! A fact's GPU time is a whole number of GPU-milliseconds times `10^-12`, and a rate a whole number of `10^-12` of a
//! currency unit for an hour. So every cost is a whole number over one denominator, [`cost_denominator`], and sums of costs
//! are sums of whole numbers: no order or batching can change them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};
use num_bigint::BigInt;
use num_traits::Zero;

use super::decimal::ONE;
use super::prices::Prices;

/// Who held how much of which model while one price was valid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fact {
    /// A workload's time, or nobody's.
    pub kind: OwnerKind,
    /// Whose, for a workload.
    pub owner: Arc<Owner>,
    /// As the driver names it; with its profile, for a partition.
    pub gpu_model: String,
    /// Whether it is a partition of a GPU, and not a whole one.
    pub partition: bool,
    /// Unix millisecond from which the price is valid that applies; at least the start of the period.
    pub since: i64,
    /// GPU-milliseconds times `10^12`.
    pub units: BigInt,
}

/// What [`Fact::units`] are an hour of one GPU.
pub fn hour() -> BigInt {
    BigInt::from(3_600_000) * ONE
}

/// What exact costs are over.
pub fn cost_denominator() -> BigInt {
    hour() * ONE
}

/// What a report is grouped by.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Dimension {
    /// Department that pays
    #[default]
    Department,
    /// Project
    Project,
    /// Experiment
    Experiment,
    /// User
    User,
    /// Service
    Service,
    /// GPU model, as the driver names it
    GpuModel,
}

impl Dimension {
    /// All dimensions.
    pub const ALL: [Self; 6] =
        [Self::Department, Self::Project, Self::Experiment, Self::User, Self::Service, Self::GpuModel];

    /// Its name on the command line and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Department => "department",
            Self::Project => "project",
            Self::Experiment => "experiment",
            Self::User => "user",
            Self::Service => "service",
            Self::GpuModel => "gpu-model",
        }
    }

    /// The fact's value in this dimension; a device that nobody's workload held has one only by model.
    fn of(self, fact: &Fact) -> &str {
        match self {
            Self::GpuModel => &fact.gpu_model,
            _ if fact.kind != OwnerKind::Workload => "",
            Self::Department => &fact.owner.department,
            Self::Project => &fact.owner.project,
            Self::Experiment => &fact.owner.experiment,
            Self::User => &fact.owner.user,
            Self::Service => &fact.owner.service,
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Who pays: a kind, and a department for workloads. The order is that of reports.
pub type Payer = (OwnerKind, String);

/// Exact sums.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Exact {
    /// GPU time over [`hour`].
    pub hours: BigInt,
    /// The part of it that has no price.
    pub unpriced: BigInt,
    /// Over [`cost_denominator`].
    pub cost: BigInt,
}

/// Everything of a period, rated: by payer, then by the value of the report's dimension.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rated {
    /// The exact sums.
    pub payers: BTreeMap<Payer, BTreeMap<String, Exact>>,
    /// GPU time without a price by model, over [`hour`].
    pub unpriced: BTreeMap<String, BigInt>,
}

/// Rates facts. What has no price costs nothing here, and is told apart as unpriced.
pub fn rate<'a>(facts: impl IntoIterator<Item = &'a Fact>, prices: &Prices, by: Dimension) -> Rated {
    let mut rated = Rated::default();
    for fact in facts {
        let department = if fact.kind == OwnerKind::Workload { fact.owner.department.clone() } else { String::new() };
        let keys = rated.payers.entry((fact.kind, department)).or_default();
        let sum = keys.entry(by.of(fact).to_owned()).or_default();
        sum.hours += &fact.units;
        match prices.rate(&fact.gpu_model, fact.partition, fact.since) {
            Some(rate) => sum.cost += &fact.units * rate,
            None if fact.units.is_zero() => {}
            None => {
                sum.unpriced += &fact.units;
                *rated.unpriced.entry(fact.gpu_model.clone()).or_default() += &fact.units;
            }
        }
    }
    rated
}
