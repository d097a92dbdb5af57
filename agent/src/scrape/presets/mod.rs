//! What the families of each server mean.
//!
//! [`tables`] lists them, for each preset; [`rules`] looks a sample's name up, among them and what a user names himself;
//! [`labels`] tells what the labels say: the model, the route, who measured, and what else tells series apart.

mod labels;
mod rules;
mod tables;

use std::collections::BTreeMap;
use std::str::FromStr;

pub(super) use labels::Identity;
pub use rules::{MOST_SERIES, Rules};
pub(super) use rules::{Meaning, Part, Shape, Timed, has_all};
pub(super) use tables::{Counted, What};

/// A server whose families are known.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Preset {
    /// vLLM, by itself and under Ray.
    Vllm,
    /// SGLang, in its old and new layout.
    Sglang,
    /// Text Generation Inference.
    Tgi,
    /// TensorRT-LLM.
    TensorRtLlm,
    /// The frontend of NVIDIA Dynamo.
    Dynamo,
    /// Triton Inference Server.
    Triton,
    /// Ray Serve.
    RayServe,
    /// Model servers of KServe.
    Kserve,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 8] = [
        Self::Vllm,
        Self::Sglang,
        Self::Tgi,
        Self::TensorRtLlm,
        Self::Dynamo,
        Self::Triton,
        Self::RayServe,
        Self::Kserve,
    ];

    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Tgi => "tgi",
            Self::TensorRtLlm => "tensorrt-llm",
            Self::Dynamo => "dynamo",
            Self::Triton => "triton",
            Self::RayServe => "ray-serve",
            Self::Kserve => "kserve",
        }
    }

    /// Whether it counts aborted requests among all requests, too.
    pub(super) fn counts_together(self) -> bool {
        let is_one = |table: &&tables::Table| table.preset == self;
        let mut counters = tables::TABLES.iter().filter(is_one).flat_map(|table| table.counters);
        counters.any(|counter| counter.what == What::RequestsAndAborted)
    }

    /// What it observes, beside whole requests, once for each request when it ends, also for those that were aborted inside.
    pub(super) fn at_end(self) -> &'static [&'static str] {
        tables::TABLES.iter().find(|table| table.preset == self).map_or(&[], |table| table.at_end)
    }
}

impl FromStr for Preset {
    type Err = RulesError;

    fn from_str(name: &str) -> Result<Self, RulesError> {
        Self::ALL.into_iter().find(|preset| preset.name() == name).ok_or_else(|| RulesError::Preset(name.to_owned()))
    }
}

/// A histogram that a user names. His names go before those of a preset for the same family; that it has aborted requests in it
/// stays known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Custom {
    /// Name of the family, without `_bucket`.
    pub family: String,
    /// What it times, as it is stored: `request_duration`, or any other name. Empty: the family's name.
    pub metric: String,
    /// Unit of its bounds: `ns`, `us`, `ms`, `s`, `min` or `h`. Empty: told by the end of the family's name
    /// (`_milliseconds`, `_ms`, `_microseconds`, `_us`, `_nanoseconds`, `_ns`), else seconds.
    pub unit: String,
    /// Label that is the model; empty: `model_name`, else `model`.
    pub model: String,
    /// Label that is the route; empty: `route`, else `endpoint`, else `handler`.
    pub route: String,
    /// More labels that only say which part of the server measured.
    pub source: Vec<String>,
    /// Labels, and the values that a series must have of them to be meant; none: all of the family.
    pub labels: BTreeMap<String, String>,
}

/// What is wrong with rules.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RulesError {
    /// No such preset.
    #[error("preset is {0:?}, expected one of vllm, sglang, tgi, tensorrt-llm, dynamo, triton, ray-serve, kserve")]
    Preset(String),
    /// No name of a family.
    #[error("histogram family is {0:?}, expected a metric's name, without _bucket")]
    Family(String),
    /// A family that is named twice for the same labels.
    #[error("histogram family {0:?} is named twice, expected each once, or for other labels")]
    Twice(String),
    /// A label that tells no series from others.
    #[error("a label of histogram family {family:?} is {label}, expected one that tells its series apart")]
    Label {
        /// The family.
        family: String,
        /// The label.
        label: &'static str,
    },
    /// No unit of time.
    #[error("unit of histogram family {family:?} is {unit:?}, expected ns, us, ms, s, min or h")]
    Unit {
        /// The family.
        family: String,
        /// Its unit.
        unit: String,
    },
}

#[cfg(test)]
mod tests;
