//! What a file comes to: how many allocations, whose, and how much GPU time by model, exactly; and what was left out, and why.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use num_bigint::BigInt;
use num_rational::BigRational;
use serde_json::{Value, json};

use super::Parsed;
use crate::bill::apportion::{round, split};
use crate::bill::decimal::Millionths;
use crate::bill::rate::exact::{Amount, hour};

/// Why a record of a file is no allocation.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Skip {
    /// A step is a part of its job.
    Step,
    /// The job had not started, or never did.
    NotStarted,
    /// The job had no GPUs.
    WithoutGpus,
    /// The job had GPUs for no time.
    NoTime,
    /// The file has a later record of the same job.
    Repeated,
    /// The store has a later record of a job that ran when the file was written.
    Older,
}

impl Skip {
    /// Its name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "steps",
            Self::NotStarted => "not_started",
            Self::WithoutGpus => "without_gpus",
            Self::NoTime => "no_time",
            Self::Repeated => "repeated",
            Self::Older => "older",
        }
    }

    const fn told(self) -> &'static str {
        match self {
            Self::Step => "steps, which are in their jobs",
            Self::NotStarted => "jobs that did not start",
            Self::WithoutGpus => "jobs without GPUs",
            Self::NoTime => "jobs that had GPUs for no time",
            Self::Repeated => "records of a job that the file has another one of",
            Self::Older => "running jobs of which the store knows more",
        }
    }
}

/// What a file comes to.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Allocations of some time.
    pub allocations: usize,
    /// Different owners.
    pub owners: usize,
    /// Allocations that went on when the file was written.
    pub open: usize,
    /// GPU-hours times [`hour`].
    pub units: BigInt,
    /// GPU-hours.
    pub gpu_hours: Millionths,
    /// The first start and the last end, Unix milliseconds; none without allocations.
    pub span: Option<(i64, i64)>,
    /// By GPU model; the GPU-hours sum to those of all.
    pub models: Vec<Model>,
    /// What was left out, and how often.
    pub skipped: BTreeMap<Skip, u64>,
    /// Jobs whose end is not their start and the time that they took, and the line of the first one.
    pub disputed: Option<(u64, u64)>,
}

/// What a file has of one GPU model.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Model {
    /// As the price book calls it.
    pub gpu_model: String,
    /// Allocations of some time.
    pub allocations: usize,
    /// GPU-hours.
    pub gpu_hours: Millionths,
}

impl Figures {
    /// Those of a file.
    pub fn of(parsed: &Parsed) -> Self {
        let mut figures = Self {
            owners: parsed.owners().len(),
            skipped: parsed.skipped.clone(),
            disputed: parsed.disputed,
            ..Self::default()
        };
        let mut sums: BTreeMap<u32, (usize, BigInt)> = BTreeMap::new();
        for line in parsed.lines().iter().filter(|line| !line.is_void()) {
            let (count, sum) = sums.entry(line.gpu_model).or_default();
            *count += 1;
            *sum += line.units();
            figures.allocations += 1;
            figures.open += usize::from(line.is_open);
            let (first, last) = figures.span.unwrap_or((line.start, line.end));
            figures.span = Some((first.min(line.start), last.max(line.end)));
        }
        figures.units = sums.values().map(|(_, sum)| sum).sum();
        let hours = Amount::new(figures.units.clone(), &hour());
        figures.gpu_hours = Millionths(round(&hours, 1_000_000));
        let models: BTreeMap<String, (usize, BigInt)> =
            sums.into_iter().map(|(number, sum)| (parsed.name_of(number), sum)).collect();
        let parts: Vec<BigInt> = models.values().map(|(_, sum)| sum.clone()).collect();
        let hours = split(&figures.gpu_hours.0, &parts);
        figures.models = models
            .into_iter()
            .zip(hours)
            .map(|((gpu_model, (allocations, _)), hours)| Model {
                gpu_model,
                allocations,
                gpu_hours: Millionths(hours),
            })
            .collect();
        figures
    }

    /// As one JSON object. GPU-hours are decimal strings, and all of them an exact fraction too.
    pub fn to_json(&self, name: &str) -> Value {
        let models: Vec<Value> = self
            .models
            .iter()
            .map(|model| {
                json!({ "gpu_model": model.gpu_model, "allocations": model.allocations, "gpu_hours": model.gpu_hours })
            })
            .collect();
        let skipped: BTreeMap<&str, u64> = self.skipped.iter().map(|(why, count)| (why.as_str(), *count)).collect();
        json!({
            "file": name,
            "allocations": self.allocations,
            "owners": self.owners,
            "open": self.open,
            "gpu_hours": self.gpu_hours,
            "gpu_hours_exact": BigRational::new(self.units.clone(), hour()).to_string(),
            "first_start": self.span.map(|(first, _)| instant(first)),
            "last_end": self.span.map(|(_, last)| instant(last)),
            "gpu_models": models,
            "skipped": skipped,
            "disputed": self.disputed.map(|(jobs, line)| json!({ "jobs": jobs, "first_line": line })),
        })
    }
}

/// `3 allocations of 2 owners, …`, and a line for each GPU model and for each reason to leave something out.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} allocations of {} owners, {} GPU-hours", self.allocations, self.owners, self.gpu_hours)?;
        if let Some((first, last)) = self.span {
            write!(f, " from {} to {}", instant(first), instant(last))?;
        }
        for Model { gpu_model, allocations, gpu_hours } in &self.models {
            let gpu_model = if gpu_model.is_empty() { "(no model)" } else { gpu_model };
            write!(f, "\n  {gpu_model}: {allocations} allocations, {gpu_hours} GPU-hours")?;
        }
        if self.open > 0 {
            write!(f, "\n  {} of them still ran: import them again when they have ended", self.open)?;
        }
        for (why, count) in &self.skipped {
            write!(f, "\n  left out: {count} {}", why.told())?;
        }
        if let Some((jobs, line)) = self.disputed {
            write!(
                f,
                "\n  {jobs} jobs, the first in line {line}, whose End is not Start + Elapsed + Suspended, and which are \
                 billed by Elapsed; is --time-zone right?"
            )?;
        }
        Ok(())
    }
}

fn instant(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |instant| instant.to_string())
}
