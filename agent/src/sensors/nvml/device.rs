//! One GPU at an instant, and its MIG instances: everything that it is asked, and in which order.

use std::path::Path;

use contador_schemas::names;
use nvml_wrapper::{Device, Nvml};

use super::asking::{Asking, Declined};
use super::gpm::{Gpm, Part};
use super::links::Links;
use super::mig::{LayoutChange, Mig};
use super::samples::SampleBuffers;
use super::{fields, gauges, memory_errors, processes, status};
use crate::sensors::Number;
use crate::sensors::sample::{GpuIdentity, GpuSample};

/// Asks one GPU, and keeps up to where its buffers have been seen, and what it does not offer.
#[derive(Debug)]
pub(super) struct DeviceReader {
    identity: GpuIdentity,
    declined: Declined,
    samples: SampleBuffers,
    links: Links,
    /// Up to where its process samples have been seen.
    process_cursor: u64,
    gpm: Gpm,
    mig: Mig,
}

impl DeviceReader {
    /// A reader of the GPU `device`, which is `identity`, with what can be told of its instances now.
    pub(super) fn new(nvml: &Nvml, device: &Device<'_>, identity: GpuIdentity) -> Self {
        let mut mig = Mig::default();
        mig.look(nvml, device, &identity);
        // What is there at first has not changed.
        mig.take_change();
        Self {
            identity,
            declined: Declined::default(),
            samples: SampleBuffers::default(),
            links: Links::default(),
            process_cursor: 0,
            gpm: Gpm::default(),
            mig,
        }
    }

    /// The GPU, and then its MIG instances as of the last sample.
    pub(super) fn identities(&self) -> impl Iterator<Item = &GpuIdentity> {
        std::iter::once(&self.identity).chain(self.mig.identities())
    }

    /// How the MIG instances have changed since the last call.
    pub(super) fn take_change(&mut self) -> Option<LayoutChange> {
        self.mig.take_change()
    }

    /// One sample of the GPU, and then one of each MIG instance that exists, stamped `ts_ms` (Unix milliseconds). PIDs are
    /// looked up under `proc_root`.
    pub(super) fn sample(&mut self, nvml: &Nvml, ts_ms: i64, proc_root: &Path) -> Vec<GpuSample> {
        let uuid = &self.identity.uuid;
        let device = match self.handle(nvml) {
            Ok(device) => device,
            Err(reason) => {
                let mut samples = vec![GpuSample::failed(ts_ms, uuid, reason.clone())];
                samples.extend(self.mig.failed(ts_ms, &reason));
                return samples;
            }
        };
        let mut asking = Asking::begin(&device, &mut self.declined, ts_ms);
        let links = self.links.states(&mut asking);
        let wanted = [&gauges::FIELDS[..], &memory_errors::FIELDS, &self.links.fields(&links, ts_ms)].concat();
        let fields = fields::ask(&device, &wanted, asking.declined);
        gauges::read(&mut asking, &fields);
        self.samples.read(&mut asking);
        self.links.read(&mut asking, links, &fields, ts_ms);
        memory_errors::read(&mut asking, &fields);
        let vgpus = asking.ask("nvmlDeviceGetActiveVgpus", |device| device.active_vgpus().map(|running| running.len()));
        // A driver that is no vGPU host does not tell, which is not 0.
        asking.add(names::VGPU_INSTANCES, vgpus.map(|running| Number::Whole(running as u64)));
        let Asking { mut measures, mut rejected, .. } = asking;
        self.gpm.read(nvml, &device, Part::Board, ts_ms, &mut measures, &mut rejected);
        let processes = processes::read(&device, &mut self.process_cursor, proc_root, &mut rejected);
        measures.add(names::GPU_PROCESSES, processes::count(&processes));
        let instances = self.mig.sample(nvml, &device, &self.identity, &processes, ts_ms, &mut measures);
        let faults = status::add(&mut measures);
        let own = GpuSample { ts_ms, uuid: uuid.clone(), parent: None, measures, processes, faults, rejected };
        std::iter::once(own).chain(instances).collect()
    }

    /// The GPU's handle. When a GPU has gone, the driver may give its index to another, which is not taken for it.
    fn handle<'n>(&self, nvml: &'n Nvml) -> Result<Device<'n>, String> {
        let index = self.identity.index;
        let device = nvml.device_by_index(index).map_err(|error| format!("no handle of the GPU: {error}"))?;
        match device.uuid() {
            Ok(found) if found == self.identity.uuid => Ok(device),
            Ok(found) => Err(format!("the driver has {found} in its place")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Gives what is kept back to the driver, before the library is closed.
    pub(super) fn release(&mut self, nvml: &Nvml) {
        self.gpm.release(nvml);
        self.mig.release(nvml);
    }
}
