//! One GPU at an instant: everything that it is asked, and in which order.

use std::path::Path;

use contador_schemas::names;
use nvml_wrapper::Nvml;

use super::{gauges, processes};
use crate::sensors::sample::{GpuIdentity, GpuSample};
use crate::sensors::{Measures, Number};

/// Asks one GPU, and keeps up to where its buffers have been seen.
#[derive(Debug)]
pub(super) struct DeviceReader {
    identity: GpuIdentity,
    /// Up to where its process samples have been seen.
    process_cursor: u64,
}

impl DeviceReader {
    pub(super) fn new(identity: GpuIdentity) -> Self {
        Self { identity, process_cursor: 0 }
    }

    /// The GPU's sample, and then one of each of its instances, stamped `ts_ms` (Unix milliseconds). PIDs are looked up
    /// under `proc_root`.
    pub(super) fn sample(&mut self, nvml: &Nvml, ts_ms: i64, proc_root: &Path) -> Vec<GpuSample> {
        let uuid = &self.identity.uuid;
        let device = match nvml.device_by_index(self.identity.index) {
            Ok(device) => device,
            Err(error) => return vec![GpuSample::failed(ts_ms, uuid, format!("no handle of the GPU: {error}"))],
        };
        // When a GPU has gone, the driver may give its index to another.
        match device.uuid() {
            Ok(found) if found != *uuid => {
                return vec![GpuSample::failed(ts_ms, uuid, format!("the driver has {found} in its place"))];
            }
            Ok(_) => {}
            Err(error) => return vec![GpuSample::failed(ts_ms, uuid, error.to_string())],
        }
        let (mut measures, mut rejected) = (Measures::default(), 0);
        gauges::read(&device, &mut measures, &mut rejected);
        let processes = processes::read(&device, &mut self.process_cursor, proc_root, &mut rejected);
        measures.add(names::GPU_PROCESSES, processes.clone().map(|list| Number::Whole(list.len() as u64)));
        vec![GpuSample { ts_ms, uuid: uuid.clone(), measures, processes, rejected }]
    }
}
