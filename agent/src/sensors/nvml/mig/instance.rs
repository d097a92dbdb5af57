//! One MIG instance at an instant: what it is asked, and what it cannot have.
//!
//! An instance has its memory, its processes, and its activity by `gpm`. Everything else of the registry is the board's, and
//! unsupported here: never 0.

use std::borrow::Cow;

use contador_schemas::names::{self, Group, Support};
use nvml_wrapper::{Device, Nvml};

use crate::sensors::nvml::answer::reading;
use crate::sensors::nvml::gpm::{Gpm, Part};
use crate::sensors::nvml::{gauges, processes};
use crate::sensors::sample::{GpuIdentity, GpuProcess, GpuSample, MigIdentity};
use crate::sensors::{Measures, Reading};

/// What an instance is, and what is kept of it from sample to sample.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) identity: GpuIdentity,
    pub(super) mig: MigIdentity,
    gpm: Gpm,
}

impl Instance {
    pub(super) fn new(identity: GpuIdentity, mig: MigIdentity) -> Self {
        Self { identity, mig, gpm: Gpm::default() }
    }

    /// Profile and UUID.
    pub(super) fn shown(&self) -> (String, String) {
        (self.mig.profile.clone(), self.identity.uuid.clone())
    }

    /// One sample, stamped `ts_ms` (Unix milliseconds). `gpu` is its GPU, `own` its own handle, and `processes` are all of the
    /// GPU's.
    pub(super) fn sample<'n>(
        &mut self,
        nvml: &'n Nvml,
        gpu: &Device<'n>,
        own: &Device<'n>,
        processes: &Reading<Vec<GpuProcess>>,
        ts_ms: i64,
    ) -> GpuSample {
        let (mut measures, mut rejected) = (Measures::default(), 0);
        gauges::memory(reading(own.memory_info()), &mut measures, &mut rejected);
        let part = Part::Instance(self.mig.gpu_instance);
        self.gpm.read(nvml, gpu, part, ts_ms, &mut measures, &mut rejected);
        let ids = (Some(self.mig.gpu_instance), Some(self.mig.compute_instance));
        let is_own = |process: &&GpuProcess| (process.gpu_instance, process.compute_instance) == ids;
        let processes = processes.clone().map(|all| all.iter().filter(is_own).cloned().collect::<Vec<_>>());
        measures.add(names::GPU_PROCESSES, processes::count(&processes));
        of_the_board(&mut measures);
        let parent = Some(self.mig.parent.clone());
        let (uuid, faults) = (self.identity.uuid.clone(), Vec::new());
        GpuSample { ts_ms, uuid, parent, measures, processes, faults, rejected }
    }

    /// A sample of which nothing can be had. The state of the board is the board's to say.
    pub(super) fn failed(&self, ts_ms: i64, reason: &str) -> GpuSample {
        let sample = GpuSample::failed(ts_ms, &self.identity.uuid, reason.to_owned());
        GpuSample { parent: Some(self.mig.parent.clone()), measures: Measures::default(), ..sample }
    }

    /// Gives what is kept back to the driver: to be called when it is gone, and before the library is closed.
    pub(super) fn release(&mut self, nvml: &Nvml) {
        self.gpm.release(nvml);
    }
}

/// Adds what the registry has for boards and not for their instances, as unsupported.
fn of_the_board(measures: &mut Measures) {
    for metric in names::metrics().filter(|metric| metric.group == Group::Gpu) {
        let of_board = |support| !matches!(support, Support::Always | Support::Gpm);
        for variant in metric.variants.iter().filter(|variant| of_board(variant.support)) {
            let reason = Reading::Unsupported(Cow::Borrowed("a MIG instance has none of its own"));
            measures.add_as(metric.name, variant.attributes, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_no_value_of_the_board() {
        let mut measures = Measures::default();
        of_the_board(&mut measures);
        assert!(measures.iter().all(|measure| matches!(measure.reading, Reading::Unsupported(_))));
        for metric in [names::GPU_UTILIZATION, names::POWER, names::ENERGY, names::TEMPERATURE, names::MIG_INSTANCES] {
            assert!(measures.reading(metric).is_some(), "{metric}");
        }
        for metric in [names::GPU_MEMORY_USAGE, names::GPM_SM, names::GPU_PROCESSES] {
            assert!(measures.reading(metric).is_none(), "{metric}");
        }
    }
}
