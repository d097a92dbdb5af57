//! What a report is grouped by.

use std::borrow::Cow;
use std::fmt;

use contador_schemas::owner::OwnerKind;

use crate::bill::directory;
use crate::bill::rate::Key;

/// What a report is grouped by.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, clap::ValueEnum)]
pub enum Dimension {
    /// Department that pays
    #[default]
    Department,
    /// Cost centre, by the directory
    CostCentre,
    /// Project
    Project,
    /// Experiment
    Experiment,
    /// Job, or pod, container or program where there is none
    Job,
    /// User
    User,
    /// Service
    Service,
    /// Deployment environment
    Environment,
    /// Cluster
    Cluster,
    /// Namespace
    Namespace,
    /// GPU model, with the profile of a MIG instance
    GpuModel,
    /// Consumption model
    ConsumptionModel,
    /// What it is charged for
    Category,
    /// Local day
    Day,
}

impl Dimension {
    /// All dimensions.
    pub const ALL: [Self; 14] = [
        Self::Department,
        Self::CostCentre,
        Self::Project,
        Self::Experiment,
        Self::Job,
        Self::User,
        Self::Service,
        Self::Environment,
        Self::Cluster,
        Self::Namespace,
        Self::GpuModel,
        Self::ConsumptionModel,
        Self::Category,
        Self::Day,
    ];

    /// Its name on the command line and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Department => "department",
            Self::CostCentre => "cost-centre",
            Self::Project => "project",
            Self::Experiment => "experiment",
            Self::Job => "job",
            Self::User => "user",
            Self::Service => "service",
            Self::Environment => "environment",
            Self::Cluster => "cluster",
            Self::Namespace => "namespace",
            Self::GpuModel => "gpu-model",
            Self::ConsumptionModel => "consumption-model",
            Self::Category => "category",
            Self::Day => "day",
        }
    }

    /// The dimension of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dimension| dimension.as_str() == name)
    }

    /// Whether a line that nobody pays for has a value in it.
    pub const fn is_of_devices(self) -> bool {
        matches!(self, Self::GpuModel | Self::Category | Self::Day)
    }

    /// A line's value; empty if it has none.
    pub fn of(self, key: &Key) -> Cow<'_, str> {
        let owner = &key.owner;
        let text = match self {
            Self::GpuModel if key.mig_profile.is_empty() => &key.gpu_model,
            Self::GpuModel => return Cow::Owned(format!("{} MIG {}", key.gpu_model, key.mig_profile)),
            Self::Category => return Cow::Borrowed(key.category.as_str()),
            // What corrects another month is of none of this one's days.
            Self::Day if key.origin_month.is_some() => "",
            Self::Day => {
                return key.day.map_or(Cow::Borrowed(""), |day| Cow::Owned(directory::date(day).to_string()));
            }
            _ if key.payer.kind != OwnerKind::Workload => "",
            Self::Department => &key.payer.department,
            Self::CostCentre => &key.cost_centre,
            Self::Project => &owner.project,
            Self::Experiment => &owner.experiment,
            Self::Job => {
                let names = [&owner.job, &owner.pod, &owner.container, &owner.command];
                names.into_iter().find(|name| !name.is_empty()).map_or("", String::as_str)
            }
            Self::User => &owner.user,
            Self::Service => &owner.service,
            Self::Environment => &owner.environment,
            Self::Cluster => &owner.cluster,
            Self::Namespace => &owner.namespace,
            Self::ConsumptionModel => key.consumption.map_or("", |model| model.as_str()),
        };
        Cow::Borrowed(text)
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
