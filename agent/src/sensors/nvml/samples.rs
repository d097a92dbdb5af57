//! Utilisation, memory activity and power inside the interval since the last sample, of the driver's own sample buffers.
//!
//! The driver samples several times a second and keeps some seconds of it. A cursor for each buffer says up to where it has
//! been seen, so that each of the driver's samples counts in exactly one of ours; the first time, all that the buffer holds
//! counts. Timestamps are good for nothing else: from when they count, and in which order samples come, is not documented.
//! An idle GPU has none: then what the driver's plain call reads stands for the interval.

use contador_schemas::names::{self, Fixed};
use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::Sample;

use super::answer::{self, known_32, reading};
use super::asking::Asking;
use crate::sensors::{Number, Reading};

const MIN: Fixed = &[(names::STATISTIC, "min")];
const MEAN: Fixed = &[(names::STATISTIC, "mean")];
const MAX: Fixed = &[(names::STATISTIC, "max")];

/// After so many answers without a new sample, it is looked whether the driver's timestamps have started again.
const SILENT_ANSWERS: u32 = 10;

/// Up to where one buffer has been seen.
#[derive(Debug, Default)]
struct Buffer {
    /// Timestamp of the newest sample; opaque.
    newest: Option<u64>,
    /// How many answers in a row had none that is newer.
    silent: u32,
}

impl Buffer {
    /// The samples that have not been seen, by asking for those after a timestamp.
    fn unseen(
        &mut self,
        mut after: impl FnMut(u64) -> Result<Vec<Sample>, NvmlError>,
    ) -> Result<Vec<Sample>, NvmlError> {
        let mut found = |from| match after(from) {
            Err(NvmlError::NotFound | NvmlError::NoData) => Ok(Vec::new()),
            answer => answer,
        };
        let mut samples = found(self.newest.unwrap_or(0))?;
        samples.retain(|sample| self.newest.is_none_or(|newest| sample.timestamp > newest));
        if samples.is_empty() {
            self.silent += 1;
            if self.newest.is_some() && self.silent.is_multiple_of(SILENT_ANSWERS) {
                let all = found(0)?;
                // The newest is the one that was seen, unless timestamps have started again.
                if all.iter().map(|sample| sample.timestamp).max() < self.newest {
                    samples = all;
                }
            }
        }
        if let Some(newest) = samples.iter().map(|sample| sample.timestamp).max() {
            (self.newest, self.silent) = (Some(newest), 0);
        }
        Ok(samples)
    }
}

/// Least, mean and greatest of some samples.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Statistics {
    min: u32,
    mean: f64,
    max: u32,
}

impl Statistics {
    #[expect(clippy::cast_precision_loss, reason = "some hundred 32-bit numbers stay far below 2^53")]
    fn of(values: &[u32]) -> Option<Self> {
        let (min, max) = (*values.iter().min()?, *values.iter().max()?);
        let sum: u64 = values.iter().map(|value| u64::from(*value)).sum();
        Some(Self { min, mean: sum as f64 / values.len() as f64, max })
    }
}

/// The buffers of one GPU.
#[derive(Debug, Default)]
pub(super) struct SampleBuffers {
    gpu: Buffer,
    memory: Buffer,
    power: Buffer,
}

impl SampleBuffers {
    /// Adds what happened since the last call; utilisation, memory activity and power must have been added.
    pub(super) fn read(&mut self, asking: &mut Asking<'_, '_>) {
        let percents = |value: Value| match value {
            Value::Least(percent) | Value::Greatest(percent) => answer::share(f64::from(percent)),
            Value::Mean(percent) => answer::share(percent),
        };
        let gpu = interval(asking, Sampling::GpuUtilization, &mut self.gpu, 100);
        add(asking, names::GPU_UTILIZATION_INTERVAL, gpu, names::GPU_UTILIZATION, percents);
        let memory = interval(asking, Sampling::MemoryUtilization, &mut self.memory, 100);
        add(asking, names::GPU_MEMORY_UTILIZATION_INTERVAL, memory, names::GPU_MEMORY_UTILIZATION, percents);
        let power = interval(asking, Sampling::Power, &mut self.power, u32::MAX);
        add(asking, names::GPU_POWER_INTERVAL, power, names::POWER, |value| match value {
            Value::Least(milliwatts) | Value::Greatest(milliwatts) => answer::thousandths(milliwatts),
            Value::Mean(milliwatts) => Number::Real(milliwatts / 1e3),
        });
    }
}

/// Of which statistic a value is.
enum Value {
    Least(u32),
    Mean(f64),
    Greatest(u32),
}

/// The statistics of the samples that have not been seen; none when there are none.
fn interval(
    asking: &mut Asking<'_, '_>,
    kind: Sampling,
    buffer: &mut Buffer,
    most: u32,
) -> Reading<Option<Statistics>> {
    let call = match kind {
        Sampling::GpuUtilization => "nvmlDeviceGetSamples, GPU_UTILIZATION",
        Sampling::MemoryUtilization => "nvmlDeviceGetSamples, MEMORY_UTILIZATION",
        _ => "nvmlDeviceGetSamples, TOTAL_POWER",
    };
    let samples = asking.ask(call, |device| {
        buffer.unseen(|from| match device.samples(kind, from) {
            // More have come between the question how many there are and the one for them.
            Err(NvmlError::InsufficientSize(_)) => device.samples(kind, from),
            answer => answer,
        })
    });
    samples.and_then(|samples| possible(samples, most, &mut asking.rejected))
}

/// The statistics of the possible ones. Those above `most` are counted, and blank ones left out.
fn possible(samples: Vec<Sample>, most: u32, rejected: &mut u32) -> Reading<Option<Statistics>> {
    let mut values = Vec::with_capacity(samples.len());
    let mut impossible = None;
    for sample in samples {
        let value = match sample.value {
            SampleValue::U32(value) => Some(value),
            SampleValue::U64(value) => u32::try_from(value).ok(),
            _ => None,
        };
        match value.filter(|value| *value <= most) {
            Some(value) => values.extend(known_32(value).get()),
            None => {
                *rejected += 1;
                impossible = Some(sample.value);
            }
        }
    }
    match (Statistics::of(&values), impossible) {
        (None, Some(value)) => Reading::Failed(format!("samples such as {value:?}: expected at most {most}").into()),
        (statistics, _) => Reading::Value(statistics),
    }
}

/// Adds the three statistics, or `otherwise`'s reading for each of them where there was no sample.
fn add(
    asking: &mut Asking<'_, '_>,
    metric: &'static str,
    interval: Reading<Option<Statistics>>,
    otherwise: &str,
    number: impl Fn(Value) -> Number,
) {
    let plain = || asking.measures.reading(otherwise).cloned().unwrap_or_else(|| reading(Err(NvmlError::NoData)));
    let readings = match interval {
        Reading::Value(Some(of)) => [Value::Least(of.min), Value::Mean(of.mean), Value::Greatest(of.max)]
            .map(|value| Reading::Value(number(value))),
        Reading::Value(None) => [plain(), plain(), plain()],
        missing => {
            let missing = missing.map(|_| Number::Whole(0));
            [missing.clone(), missing.clone(), missing]
        }
    };
    for (fixed, reading) in [MIN, MEAN, MAX].into_iter().zip(readings) {
        asking.add_as(metric, fixed, reading);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(timestamp: u64, value: u32) -> Sample {
        Sample { timestamp, value: SampleValue::U32(value) }
    }

    /// A driver's ring of a few places, which is handed out in its own order.
    fn ring(taken: &[Sample], places: usize, from: u64) -> Result<Vec<Sample>, NvmlError> {
        let mut kept: Vec<Sample> = taken.iter().rev().take(places).cloned().collect();
        let turned = taken.len() % places.min(kept.len()).max(1);
        kept.rotate_left(turned);
        kept.retain(|sample| sample.timestamp > from);
        if kept.is_empty() { Err(NvmlError::NotFound) } else { Ok(kept) }
    }

    proptest! {
        #[test]
        fn the_mean_lies_between_the_least_and_the_greatest(values in proptest::collection::vec(any::<u32>(), 1..200)) {
            let of = Statistics::of(&values).expect("some");
            prop_assert!(f64::from(of.min) <= of.mean && of.mean <= f64::from(of.max));
            prop_assert!(values.contains(&of.min) && values.contains(&of.max));
            prop_assert!(values.iter().all(|value| (of.min..=of.max).contains(value)));
        }

        #[test]
        fn each_sample_of_the_driver_is_used_exactly_once(
            gaps in proptest::collection::vec(1u64..1_000_000, 1..60), cuts in proptest::collection::vec(0usize..8, 1..40),
        ) {
            let mut at = 0;
            let all: Vec<Sample> = gaps.iter().map(|gap| { at += gap; sample(at, 1) }).collect();
            let (mut buffer, mut taken, mut used) = (Buffer::default(), 0, Vec::new());
            for cut in cuts.into_iter().chain([all.len()]) {
                // No more than the ring holds between two calls, as otherwise the driver itself has lost some.
                taken = all.len().min(taken + cut.min(8));
                let unseen = buffer.unseen(|from| ring(&all[..taken], 8, from)).expect("an answer");
                used.extend(unseen.into_iter().map(|sample| sample.timestamp));
            }
            used.sort_unstable();
            prop_assert_eq!(used, all[..taken].iter().map(|sample| sample.timestamp).collect::<Vec<_>>());
        }
    }

    #[test]
    fn timestamps_that_start_again_are_noticed() {
        let mut buffer = Buffer::default();
        assert_eq!(buffer.unseen(|_| Ok(vec![sample(9_000, 1)])).expect("one").len(), 1);
        // The driver has only older ones: nothing newer, until it is looked at as a whole.
        let restarted = |from| ring(&[sample(10, 1), sample(20, 1)], 8, from);
        let lengths: Vec<usize> = (0..10).map(|_| buffer.unseen(restarted).expect("an answer").len()).collect();
        assert_eq!(lengths, [0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(buffer.newest, Some(20));
        // An idle one has nothing new either, and is not read again.
        let lengths: Vec<usize> = (0..30).map(|_| buffer.unseen(restarted).expect("an answer").len()).collect();
        assert!(lengths.iter().all(|length| *length == 0));
    }

    #[test]
    fn impossible_samples_are_counted_and_blank_ones_left_out() {
        let mut rejected = 0;
        let some = vec![sample(1, 40), sample(2, 2_619), sample(3, u32::MAX), sample(4, 60)];
        let of = possible(some, 100, &mut rejected);
        assert_eq!(of, Reading::Value(Some(Statistics { min: 40, mean: 50.0, max: 60 })));
        assert_eq!(rejected, 2);
        assert!(possible(vec![sample(1, 101)], 100, &mut rejected).is_failed());
        let power = vec![sample(1, u32::MAX), sample(2, 0x7fff_fff2), sample(3, 400_000)];
        let of = possible(power, u32::MAX, &mut rejected);
        assert_eq!(of, Reading::Value(Some(Statistics { min: 400_000, mean: 400_000.0, max: 400_000 })));
        assert_eq!(possible(vec![sample(1, u32::MAX)], u32::MAX, &mut rejected), Reading::Value(None));
        assert_eq!((possible(vec![], 100, &mut rejected), rejected), (Reading::Value(None), 3));
    }
}
