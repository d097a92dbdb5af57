//! The MIG instances of a GPU: which exist, what they are, and what each one tells at an instant.
//!
//! With MIG mode on, every instance is a device beside its GPU, which stays one with its board's own values. An instance is
//! known by its UUID, `MIG-…`, and by that alone: it is the key of its samples, and its profile and ids are attributes.
//!
//! A reconfiguration makes handles invalid, and the driver may use a handle, an index and even a UUID again for another
//! instance (it makes UUIDs of the ids). So nothing is kept but what instances are: handles are looked up at each sample,
//! and an instance is the same only if its UUID, name and ids all are.
//!
//! [`Mig`] keeps the instances; `found` looks them up and says what they are, by the wrapper's calls and its own `calls`;
//! `instance` asks each one for what it has.

mod calls;
mod found;
mod instance;

use std::borrow::Cow;

use contador_schemas::names;
use nvml_wrapper::{Device, Nvml};

use self::found::Found;
use self::instance::Instance;
use super::answer::reading;
use crate::sensors::sample::{GpuIdentity, GpuProcess, GpuSample};
use crate::sensors::{Measures, Number, Reading};

/// Other instances exist on a GPU than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutChange {
    /// UUID of the GPU.
    pub parent: String,
    /// Profile and UUID of each instance before, by the driver's index.
    pub before: Vec<(String, String)>,
    /// The same, now.
    pub after: Vec<(String, String)>,
}

/// The instances of one GPU.
#[derive(Debug, Default)]
pub(super) struct Mig {
    instances: Vec<Instance>,
    /// Why the board can't be split, if so: it is not asked again.
    incapable: Option<Cow<'static, str>>,
    change: Option<LayoutChange>,
}

impl Mig {
    /// What the instances are, as of the last look.
    pub(super) fn identities(&self) -> impl Iterator<Item = &GpuIdentity> {
        self.instances.iter().map(|instance| &instance.identity)
    }

    /// How the instances have changed since the last call.
    pub(super) fn take_change(&mut self) -> Option<LayoutChange> {
        self.change.take()
    }

    /// Looks up the instances of `gpu`, which is `parent`. Their handles are in the order of
    /// [`identities`](Self::identities). Unsupported where MIG is off or cannot be; what was known then goes. When the
    /// look fails, what was known stays.
    pub(super) fn look<'n>(
        &mut self,
        nvml: &'n Nvml,
        gpu: &Device<'n>,
        parent: &GpuIdentity,
    ) -> Reading<Vec<Device<'n>>> {
        if let Some(reason) = &self.incapable {
            return Reading::Unsupported(reason.clone());
        }
        let mode = reading(gpu.mig_mode());
        if let Reading::Unsupported(reason) = &mode {
            self.incapable = Some(reason.clone());
        }
        let is_on = mode.and_then(|mode| {
            if mode.current == 0 { Reading::Unsupported("MIG is off".into()) } else { Reading::Value(()) }
        });
        let found = is_on.and_then(|()| reading(found::all(nvml, gpu)));
        match found {
            Reading::Value(found) => Reading::Value(self.replace(nvml, gpu, parent, found)),
            Reading::Unsupported(reason) => {
                self.replace(nvml, gpu, parent, Vec::new());
                Reading::Unsupported(reason)
            }
            Reading::Failed(reason) => Reading::Failed(reason),
        }
    }

    /// Takes over which instances exist; those that were known stay what they were.
    fn replace<'n>(
        &mut self,
        nvml: &Nvml,
        gpu: &Device<'_>,
        parent: &GpuIdentity,
        found: Vec<Found<'n>>,
    ) -> Vec<Device<'n>> {
        let mut before = std::mem::take(&mut self.instances);
        let shown: Vec<_> = before.iter().map(Instance::shown).collect();
        let mut handles = Vec::new();
        for found in found {
            let known = before.iter().position(|instance| found.is(instance));
            let instance = match known {
                Some(at) => before.swap_remove(at),
                None => found.identify(nvml, gpu, parent),
            };
            self.instances.push(instance);
            handles.push(found.device);
        }
        before.iter_mut().for_each(|gone| gone.release(nvml));
        let after: Vec<_> = self.instances.iter().map(Instance::shown).collect();
        if shown != after {
            // Two changes before anyone has asked are one.
            let before = self.change.take().map_or(shown, |change| change.before);
            self.change = Some(LayoutChange { parent: parent.uuid.clone(), before, after });
        }
        handles
    }

    /// Adds to the GPU's `measures` how many instances exist, and gives a sample of each. `processes` are the GPU's.
    pub(super) fn sample<'n>(
        &mut self,
        nvml: &'n Nvml,
        gpu: &Device<'n>,
        parent: &GpuIdentity,
        processes: &Reading<Vec<GpuProcess>>,
        ts_ms: i64,
        measures: &mut Measures,
    ) -> Vec<GpuSample> {
        let (count, samples) = match self.look(nvml, gpu, parent) {
            Reading::Value(handles) => {
                let all = self.instances.iter_mut().zip(handles);
                let samples: Vec<_> =
                    all.map(|(instance, device)| instance.sample(nvml, gpu, &device, processes, ts_ms)).collect();
                (Reading::Value(Number::Whole(samples.len() as u64)), samples)
            }
            Reading::Unsupported(reason) => (Reading::Unsupported(reason), Vec::new()),
            Reading::Failed(reason) => {
                let samples = self.failed(ts_ms, &reason);
                (Reading::Failed(reason), samples)
            }
        };
        measures.add(names::MIG_INSTANCES, count);
        samples
    }

    /// A failed sample of each instance that was known: none is left out because its GPU does not answer.
    pub(super) fn failed(&self, ts_ms: i64, reason: &str) -> Vec<GpuSample> {
        self.instances.iter().map(|instance| instance.failed(ts_ms, reason)).collect()
    }

    /// Gives what is kept back to the driver, before the library is closed.
    pub(super) fn release(&mut self, nvml: &Nvml) {
        self.instances.iter_mut().for_each(|instance| instance.release(nvml));
    }
}
