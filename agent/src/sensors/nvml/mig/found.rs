//! Which MIG instances exist on a GPU now, and what each one is.

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::calls;
use super::instance::Instance;
use crate::sensors::Reading;
use crate::sensors::nvml::answer::wide;
use crate::sensors::sample::{GpuIdentity, MigIdentity};

/// Memory slices of a GPU.
const MEMORY_SLICES: u64 = 8;

/// The handle of an instance that exists, and what it is called.
pub(super) struct Found<'n> {
    pub(super) device: Device<'n>,
    uuid: String,
    name: String,
    gpu_instance: u32,
    compute_instance: u32,
}

/// The instances that exist, by the driver's index. An index without one is a hole; an instance that goes while it is
/// looked at is one as well.
pub(super) fn all<'n>(nvml: &Nvml, gpu: &Device<'n>) -> Result<Vec<Found<'n>>, NvmlError> {
    let mut all = Vec::new();
    for index in 0..gpu.mig_device_count()? {
        match gpu.mig_device_by_index(index).and_then(|device| Found::of(nvml, device)) {
            Ok(found) => all.push(found),
            Err(NvmlError::NotFound | NvmlError::InvalidArg) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

impl<'n> Found<'n> {
    fn of(nvml: &Nvml, device: Device<'n>) -> Result<Self, NvmlError> {
        let (uuid, name) = (device.uuid()?, device.name()?);
        let gpu_instance = calls::gpu_instance_id(nvml, &device)?;
        let compute_instance = calls::compute_instance_id(nvml, &device)?;
        Ok(Self { device, uuid, name, gpu_instance, compute_instance })
    }

    /// True when `instance` is the same, and not another one under its UUID.
    pub(super) fn is(&self, instance: &Instance) -> bool {
        let ids = (instance.mig.gpu_instance, instance.mig.compute_instance);
        self.uuid == instance.identity.uuid
            && self.name == instance.identity.name
            && ids == (self.gpu_instance, self.compute_instance)
    }

    /// What it is. It shares with its GPU what is the board's, and has no serial number or device node of its own.
    pub(super) fn identify(&self, nvml: &Nvml, gpu: &Device<'_>, parent: &GpuIdentity) -> Instance {
        let attributes = self.device.attributes().ok();
        let board = parent.memory_total_bytes.get();
        let place = calls::place(nvml, gpu, self.gpu_instance).ok();
        let by_size = || memory_slices_of(attributes.as_ref()?.memory_size_mb, board?);
        let mig = MigIdentity {
            parent: parent.uuid.clone(),
            profile: profile(&self.name).to_owned(),
            gpu_instance: self.gpu_instance,
            compute_instance: self.compute_instance,
            compute_slices: attributes.as_ref().map(|attributes| attributes.compute_instance_slice_count),
            memory_slices: place.map(|(_, slices)| slices).or_else(by_size),
            placement: place.map(|(placement, _)| placement),
        };
        let identity = GpuIdentity {
            uuid: self.uuid.clone(),
            name: self.name.clone(),
            minor: None,
            serial: None,
            memory_total_bytes: wide(self.device.memory_info().map(|memory| memory.total)),
            power_limit_mw: Reading::Unsupported("a MIG instance has none of its own".into()),
            mig: Some(mig.clone()),
            ..parent.clone()
        };
        Instance::new(identity, mig)
    }
}

/// The profile, in the driver's own words: what the name says after `MIG`. Names of bytes are not made up: 79 of them are
/// still a `7g.80gb`.
fn profile(name: &str) -> &str {
    name.rsplit_once(" MIG ").map_or(name, |(_, profile)| profile)
}

/// The memory slices of an instance of so many MiB, on a board of so many bytes. An instance has a little less than its
/// slices of the board.
fn memory_slices_of(mib: u64, board_bytes: u64) -> Option<u32> {
    let slice = board_bytes / 1_048_576 / MEMORY_SLICES;
    u32::try_from((mib + slice / 2).checked_div(slice)?.clamp(1, MEMORY_SLICES)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_what_the_driver_calls_it() {
        assert_eq!(profile("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me"), "1g.10gb+me");
        assert_eq!(profile("NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb"), "1c.3g.40gb");
        assert_eq!(profile("Something new"), "Something new");
    }

    #[test]
    fn memory_slices_follow_from_the_size_where_the_driver_does_not_tell_them() {
        let h100 = 81_559 * 1_048_576;
        assert_eq!([9_984, 20_096, 40_448, 81_152].map(|mib| memory_slices_of(mib, h100)), [1, 2, 4, 8].map(Some));
        assert_eq!(memory_slices_of(16_384, 143_771 * 1_048_576), Some(1));
        assert_eq!(memory_slices_of(1, 0), None);
    }
}
