//! One GPU at an instant: everything that it is asked, and in which order.

use std::path::Path;

use contador_schemas::names;
use nvml_wrapper::Nvml;

use super::asking::{Asking, Declined};
use super::links::Links;
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
}

impl DeviceReader {
    pub(super) fn new(identity: GpuIdentity) -> Self {
        Self {
            identity,
            declined: Declined::default(),
            samples: SampleBuffers::default(),
            links: Links::default(),
            process_cursor: 0,
        }
    }

    /// One sample, stamped `ts_ms` (Unix milliseconds). PIDs are looked up under `proc_root`.
    pub(super) fn sample(&mut self, nvml: &Nvml, ts_ms: i64, proc_root: &Path) -> GpuSample {
        let uuid = &self.identity.uuid;
        let device = match nvml.device_by_index(self.identity.index) {
            Ok(device) => device,
            Err(error) => return GpuSample::failed(ts_ms, uuid, format!("no handle of the GPU: {error}")),
        };
        let mut asking = Asking::begin(&device, &mut self.declined, ts_ms);
        let links = self.links.states(&mut asking);
        let wanted = [&gauges::FIELDS[..], &memory_errors::FIELDS, &self.links.fields()].concat();
        let fields = fields::ask(&device, &wanted, asking.declined);
        gauges::read(&mut asking, &fields);
        self.samples.read(&mut asking);
        self.links.read(&mut asking, links, &fields, ts_ms);
        memory_errors::read(&mut asking, &fields);
        let Asking { mut measures, mut rejected, .. } = asking;
        let processes = processes::read(&device, &mut self.process_cursor, proc_root, &mut rejected);
        measures.add(names::GPU_PROCESSES, processes.clone().map(|list| Number::Whole(list.len() as u64)));
        let faults = status::add(&mut measures);
        GpuSample { ts_ms, uuid: uuid.clone(), measures, processes, faults, rejected }
    }
}
