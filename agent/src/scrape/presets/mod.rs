//! What the families of each server mean.

use std::str::FromStr;

/// Most series that one server may have, unless it is said otherwise.
pub const MOST_SERIES: usize = 4_096;

/// A server whose families are known.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Preset {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// Text Generation Inference.
    Tgi,
    /// TensorRT-LLM.
    TrtLlm,
    /// NVIDIA Dynamo.
    Dynamo,
    /// Triton Inference Server.
    Triton,
    /// Ray Serve.
    RayServe,
    /// KServe.
    Kserve,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 8] =
        [Self::Vllm, Self::Sglang, Self::Tgi, Self::TrtLlm, Self::Dynamo, Self::Triton, Self::RayServe, Self::Kserve];

    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Tgi => "tgi",
            Self::TrtLlm => "tensorrt-llm",
            Self::Dynamo => "dynamo",
            Self::Triton => "triton",
            Self::RayServe => "ray-serve",
            Self::Kserve => "kserve",
        }
    }
}

impl FromStr for Preset {
    type Err = RulesError;

    fn from_str(name: &str) -> Result<Self, RulesError> {
        Self::ALL.into_iter().find(|preset| preset.name() == name).ok_or_else(|| RulesError::Preset(name.to_owned()))
    }
}

/// A histogram that a user names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Custom {
    /// Name of the family, without `_bucket`.
    pub family: String,
    /// What it times, as it is stored: `request_duration`, or any other name. Empty: the family's name.
    pub metric: String,
    /// Unit of its bounds: `ns`, `us`, `ms`, `s`, `min` or `h`. Empty: told by the end of its name (`_ms`,
    /// `_milliseconds`, `_us`, `_seconds` and so on), else seconds.
    pub unit: String,
    /// Label that is the model; empty: `model_name` or `model`.
    pub model: String,
    /// Label that is the route; empty: `route`.
    pub route: String,
    /// More labels that only tell replicas apart.
    pub source: Vec<String>,
    /// Labels to leave out: series that differ only by them are sources of one series.
    pub ignore: Vec<String>,
}

/// What is wrong with rules.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RulesError {
    /// No such preset.
    #[error("preset is {0:?}, expected one of vllm, sglang, tgi, tensorrt-llm, dynamo, triton, ray-serve, kserve")]
    Preset(String),
    /// No name of a family.
    #[error("histogram family is {0:?}, expected a metric's name")]
    Family(String),
    /// A family that is named twice.
    #[error("histogram family {0:?} is named twice")]
    Twice(String),
    /// No unit of time.
    #[error("unit of histogram {family:?} is {unit:?}, expected ns, us, ms, s, min or h")]
    Unit {
        /// The family.
        family: String,
        /// Its unit.
        unit: String,
    },
}

/// What families mean: of presets, and of histograms that a user names. The latter go first.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Most series of one server that are remembered.
    pub most_series: usize,
}

impl Rules {
    /// The rules of `presets` (all of [`Preset::ALL`] to find out by the families of a page) and of `custom` histograms.
    ///
    /// # Errors
    /// [`RulesError`].
    pub fn new(_presets: &[Preset], custom: &[Custom]) -> Result<Self, RulesError> {
        for rule in custom {
            if rule.family.is_empty() {
                return Err(RulesError::Family(rule.family.clone()));
            }
        }
        Ok(Self { most_series: MOST_SERIES })
    }
}
