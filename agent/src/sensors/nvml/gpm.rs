//! What GPM counts on Hopper and later: how busy the parts of a GPU, or of a MIG instance, were between two samples.
//!
//! The driver keeps counters; a metric is what two samples of them, more than 100 ms apart, make of it. One sample is
//! kept (`kept`) from tick to tick, so that a value is about the time since the last tick that had one:
//!
//! - The first sample of a device has nothing before it. Nothing went wrong and the device can tell: so its activity is
//!   not said to be failed or unsupported, and it is no 0 either. It is left out until there is a second sample.
//! - A tick that comes within 100 ms of the last sample takes none and leaves the values out as well. At 10 Hz every
//!   second tick has them.
//!
//! Shares are of the device's own part: 1 on a 2g instance says that all of *its* SMs were busy, which are 2/7 of the
//! board's. A share above 1 cannot be: it is dropped and counted, unless it is so by rounding alone, which is 1. Rates come in MiB/s and are handed on in bytes.
//!
//! An instance is asked by its GPU instance, so that compute instances that share one have the same values. What the board
//! has as a whole, its PCIe and NVLink, is not told of instances. What the driver tells of a GPU that is split is the
//! driver's to say: where it refuses, the parent has no activity of its own.

mod kept;

use std::borrow::Cow;

use contador_schemas::names::{self, Fixed};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::{Device, Nvml};

use self::kept::Kept;
use super::answer::reading;
use crate::sensors::{Measures, Number, Reading};

/// How far two samples must be apart, in milliseconds.
const REFRESH_MS: u64 = 100;

/// By how much more than 100 percent a share may be, by rounding.
const TOLERANCE: f64 = 0.01;

const MIB: f64 = 1_048_576.0;

/// A value of the driver's, and what it is in the registry.
type Metric = (GpmMetricId, &'static str, Fixed);

/// Percentages, of a GPU or of an instance.
const SHARES: [Metric; 9] = [
    (GpmMetricId::SmUtil, names::GPM_SM, &[]),
    (GpmMetricId::SmOccupancy, names::GPM_OCCUPANCY, &[]),
    (GpmMetricId::GraphicsUtil, names::GPM_GRAPHICS, &[]),
    (GpmMetricId::AnyTensorUtil, names::GPM_TENSOR, &[]),
    (GpmMetricId::DramBwUtil, names::GPM_DRAM, &[]),
    (GpmMetricId::Fp64Util, names::GPM_PIPE, &[(names::PIPE, "fp64")]),
    (GpmMetricId::Fp32Util, names::GPM_PIPE, &[(names::PIPE, "fp32")]),
    (GpmMetricId::Fp16Util, names::GPM_PIPE, &[(names::PIPE, "fp16")]),
    (GpmMetricId::IntegerUtil, names::GPM_PIPE, &[(names::PIPE, "integer")]),
];

/// MiB/s, of a board.
const RATES: [Metric; 4] = [
    (GpmMetricId::PcieTxPerSec, names::GPM_PCIE, &[(names::IO_DIRECTION, "transmit")]),
    (GpmMetricId::PcieRxPerSec, names::GPM_PCIE, &[(names::IO_DIRECTION, "receive")]),
    (GpmMetricId::NvlinkTotalTxPerSec, names::GPM_NVLINK, &[(names::IO_DIRECTION, "transmit")]),
    (GpmMetricId::NvlinkTotalRxPerSec, names::GPM_NVLINK, &[(names::IO_DIRECTION, "receive")]),
];

/// What is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The GPU.
    Board,
    /// The GPU instance of this id.
    Instance(u32),
}

/// GPM of one GPU or of one MIG instance.
#[derive(Debug, Default)]
pub(super) struct Gpm {
    kept: Option<Kept>,
    /// What the driver said when it was asked whether the board has GPM; a failure is asked again.
    support: Option<Reading<()>>,
}

impl Gpm {
    /// Adds what happened since the last sample. `device` is the GPU, also for an instance of it. Every sample must come
    /// with the same open library.
    pub(super) fn read<'n>(
        &mut self,
        nvml: &'n Nvml,
        device: &Device<'n>,
        part: Part,
        ts_ms: i64,
        measures: &mut Measures,
        rejected: &mut u32,
    ) {
        let rates = if part == Part::Board { &RATES[..] } else { &[] };
        let wanted: Vec<Metric> = SHARES.iter().chain(rates).copied().collect();
        let mut missing = |reason: &Reading<Number>| {
            wanted.iter().for_each(|(_, metric, fixed)| measures.add_as(metric, fixed, reason.clone()));
        };
        if let Some(reason) = self.unsupported(device) {
            return missing(&reason);
        }
        if self.kept.as_ref().is_some_and(|kept| kept.ts_ms.abs_diff(ts_ms) <= REFRESH_MS) {
            return;
        }
        let sampled = match part {
            Part::Board => device.gpm_sample(),
            Part::Instance(id) => device.gpm_mig_sample(id),
        };
        let before = self.kept.take().map(|kept| kept.sample(nvml));
        let sample = match reading(sampled) {
            Reading::Value(sample) => sample,
            other => return missing(&other.map(|_| Number::Whole(0))),
        };
        if let Some(before) = before {
            let ids: Vec<_> = wanted.iter().map(|(id, _, _)| *id).collect();
            match reading(gpm_metrics_get(nvml, &before, &sample, &ids)) {
                Reading::Value(values) => {
                    for ((_, metric, fixed), value) in wanted.iter().zip(values) {
                        let value = value.map(|result| result.value);
                        let in_unit = if rates.iter().any(|(_, rate, _)| rate == metric) { bytes } else { share };
                        measures.add_as(metric, fixed, in_unit(value, rejected));
                    }
                }
                other => missing(&other.map(|_| Number::Whole(0))),
            }
        }
        self.kept = Some(Kept::new(sample, ts_ms));
    }

    /// Why there is no GPM; `None` when there is.
    fn unsupported(&mut self, device: &Device<'_>) -> Option<Reading<Number>> {
        let support = self.support.get_or_insert_with(|| match reading(device.gpm_support()) {
            Reading::Value(true) => Reading::Value(()),
            Reading::Value(false) => Reading::Unsupported(Cow::Borrowed("GPM is of Hopper and later")),
            other => other.map(|_| ()),
        });
        let reason = match support {
            Reading::Value(()) => return None,
            missing => missing.clone().map(|()| Number::Whole(0)),
        };
        if reason.is_failed() {
            self.support = None;
        }
        Some(reason)
    }

    /// Gives the kept sample back to the driver: to be called when the device is no longer read, and before the library
    /// is closed.
    pub(super) fn release(&mut self, nvml: &Nvml) {
        drop(self.kept.take().map(|kept| kept.sample(nvml)));
    }
}

/// A percentage as a share from 0 to 1; what is outside is dropped and counted.
fn share(percent: Result<f64, NvmlError>, rejected: &mut u32) -> Reading<Number> {
    checked(percent, rejected, |percent| percent <= 100.0 + TOLERANCE, "0 to 100 percent")
        .map(|percent| Number::Real(percent.min(100.0) / 100.0))
}

/// MiB a second as bytes a second; what is below 0 or no number is dropped and counted.
fn bytes(mib: Result<f64, NvmlError>, rejected: &mut u32) -> Reading<Number> {
    checked(mib, rejected, f64::is_finite, "a rate of at least 0 MiB/s").map(|mib| Number::Real(mib * MIB))
}

fn checked(
    value: Result<f64, NvmlError>,
    rejected: &mut u32,
    is_possible: impl Fn(f64) -> bool,
    expected: &str,
) -> Reading<f64> {
    reading(value).and_then(|value| {
        if value >= 0.0 && is_possible(value) {
            return Reading::Value(value);
        }
        *rejected += 1;
        Reading::Failed(format!("{value}: expected {expected}").into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_metric_of_gpm_is_asked_for_once() {
        let own: Vec<_> = SHARES.iter().chain(&RATES).map(|(_, metric, fixed)| (*metric, *fixed)).collect();
        let registered = names::metrics().flat_map(|metric| metric.variants.iter().map(move |v| (metric.name, v)));
        let mut registered: Vec<_> =
            registered.filter(|(_, variant)| variant.source.contains("nvmlGpmMetricsGet")).collect();
        assert_eq!(own.len(), registered.len());
        registered.retain(|(metric, variant)| !own.contains(&(*metric, variant.attributes)));
        assert_eq!(registered, []);
    }

    #[test]
    fn rates_are_bytes_and_nonsense_is_counted() {
        let mut rejected = 0;
        assert_eq!(bytes(Ok(2.5), &mut rejected), Reading::Value(Number::Real(2_621_440.0)));
        assert_eq!(share(Ok(0.0), &mut rejected), Reading::Value(Number::Real(0.0)));
        assert_eq!(rejected, 0);
        for nonsense in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(bytes(Ok(nonsense), &mut rejected).is_failed());
            assert!(share(Ok(nonsense), &mut rejected).is_failed());
        }
        assert_eq!(rejected, 6);
        assert!(matches!(share(Err(NvmlError::NotSupported), &mut rejected), Reading::Unsupported(_)));
        assert_eq!(rejected, 6, "what was not answered is not rejected");
    }

    #[test]
    fn a_share_that_is_above_1_by_rounding_is_1() {
        let mut rejected = 0;
        for percent in [100.0, 100.000_1, 100.009] {
            assert_eq!(share(Ok(percent), &mut rejected), Reading::Value(Number::Real(1.0)), "{percent}");
        }
        assert_eq!(rejected, 0);
        assert!(share(Ok(100.02), &mut rejected).is_failed());
        assert_eq!(rejected, 1);
    }

    proptest! {
        #[test]
        fn a_share_is_within_0_and_1_or_counted(percent in -10.0f64..1_000.0) {
            let mut rejected = 0;
            match share(Ok(percent), &mut rejected) {
                Reading::Value(value) => prop_assert!((0.0..=1.0).contains(&value.f64()) && rejected == 0),
                other => prop_assert!(other.is_failed() && !(0.0..=100.01).contains(&percent) && rejected == 1),
            }
        }
    }
}
