//! XIDs, by an event set of the driver.
//!
//! The wrapper's event set leaves out which instance an event is of, and borrows the library: here the calls are made raw,
//! and the set holds the library open. One thread at a time uses a set. Events before a GPU is registered are lost, and MIG
//! instances can't be registered: their events come by their GPU.
#![allow(unsafe_code)]

use std::sync::Arc;

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper_sys::bindings::{nvmlEventData_t, nvmlEventSet_t};

use super::Driver;
use super::answer::reading;
use crate::sensors::Reading;

/// What an event has in place of an instance's id when it is of none.
const NO_INSTANCE: u32 = u32::MAX;

/// One XID of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xid {
    /// UUID of the GPU.
    pub uuid: String,
    /// Its code.
    pub code: u64,
    /// The GPU instance, when it is of one.
    pub gpu_instance: Option<u32>,
    /// The compute instance, when it is of one.
    pub compute_instance: Option<u32>,
}

/// An event set; freed when dropped.
#[derive(Debug)]
pub struct XidSet {
    driver: Arc<Driver>,
    set: nvmlEventSet_t,
    /// The registered GPUs, by the address of their handles.
    gpus: Vec<(usize, String)>,
}

// SAFETY: the handle may be used by any thread, by one at a time, which a value without `Sync` makes sure of.
unsafe impl Send for XidSet {}

impl XidSet {
    /// An event set of nothing.
    ///
    /// # Errors
    /// Why there is none: unsupported, or failed.
    pub fn create(driver: Arc<Driver>) -> Result<Self, Reading<()>> {
        Self::try_create(driver).map_err(|error| reading(Err(error)))
    }

    fn try_create(driver: Arc<Driver>) -> Result<Self, NvmlError> {
        let mut set: nvmlEventSet_t = std::ptr::null_mut();
        let create = nvml_sym(driver.nvml.lib().nvmlEventSetCreate.as_ref())?;
        // SAFETY: the library is open, and the pointer is valid for writing a handle.
        nvml_try(unsafe { create(&raw mut set) })?;
        Ok(Self { driver, set, gpus: Vec::new() })
    }

    /// Has the XIDs of the GPU at the driver's `index` come to this set; or why not.
    pub fn register(&mut self, index: u32, uuid: &str) -> Reading<()> {
        reading(self.try_register(index, uuid))
    }

    fn try_register(&mut self, index: u32, uuid: &str) -> Result<(), NvmlError> {
        let nvml = &self.driver.nvml;
        let device = nvml.device_by_index(index)?;
        // SAFETY: it is used only while the library is open.
        let handle = unsafe { device.handle() };
        let register = nvml_sym(nvml.lib().nvmlDeviceRegisterEvents.as_ref())?;
        // SAFETY: the device and the set are of the open library.
        nvml_try(unsafe { register(handle, EventTypes::CRITICAL_XID_ERROR.bits(), self.set) })?;
        self.gpus.push((handle.addr(), uuid.to_owned()));
        Ok(())
    }

    /// The next XID, waited for at most so long. May block for longer, as every call of the driver.
    ///
    /// # Errors
    /// The driver's answer, other than that there was none in time.
    pub fn wait(&self, timeout_ms: u32) -> Result<Option<Xid>, NvmlError> {
        let wait = nvml_sym(self.driver.nvml.lib().nvmlEventSetWait_v2.as_ref())?;
        let mut data = nvmlEventData_t {
            device: std::ptr::null_mut(),
            eventType: 0,
            eventData: 0,
            gpuInstanceId: NO_INSTANCE,
            computeInstanceId: NO_INSTANCE,
        };
        // SAFETY: the set is of the open library, and the pointer is valid for writing an event.
        match nvml_try(unsafe { wait(self.set, &raw mut data, timeout_ms) }) {
            Ok(()) => {}
            Err(NvmlError::Timeout) => return Ok(None),
            Err(error) => return Err(error),
        }
        let gpu = self.gpus.iter().find(|(handle, _)| *handle == data.device.addr());
        let instance = |id| Some(id).filter(|id| *id != NO_INSTANCE);
        let is_xid = data.eventType & EventTypes::CRITICAL_XID_ERROR.bits() != 0;
        Ok(gpu.filter(|_| is_xid).map(|(_, uuid)| Xid {
            uuid: uuid.clone(),
            code: data.eventData,
            gpu_instance: instance(data.gpuInstanceId),
            compute_instance: instance(data.computeInstanceId),
        }))
    }
}

impl Drop for XidSet {
    fn drop(&mut self) {
        if let Ok(free) = self.driver.nvml.lib().nvmlEventSetFree.as_ref() {
            // SAFETY: the set is of the open library, and nobody uses it any more. The answer would change nothing.
            unsafe { free(self.set) };
        }
    }
}
