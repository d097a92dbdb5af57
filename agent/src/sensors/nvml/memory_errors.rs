//! Errors of the device memory, and the rows that were put out of use for them.

use contador_schemas::names::{self, Fixed};
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError};
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_REMAPPED_COR, NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_PENDING, NVML_FI_DEV_REMAPPED_UNC,
};

use super::asking::Asking;
use super::fields::{Field, FieldAnswers};
use crate::sensors::{Number, Reading};

/// The fields that are read here.
pub(super) const FIELDS: [Field; 4] = [
    (NVML_FI_DEV_REMAPPED_COR, 0),
    (NVML_FI_DEV_REMAPPED_UNC, 0),
    (NVML_FI_DEV_REMAPPED_PENDING, 0),
    (NVML_FI_DEV_REMAPPED_FAILURE, 0),
];

/// Not corrected since the driver was loaded.
pub(super) const UNCORRECTED_VOLATILE: Fixed = &[(names::ERROR_TYPE, "ecc_uncorrected_volatile")];

/// Adds counts of errors and of remapped rows.
pub(super) fn read(asking: &mut Asking<'_, '_>, fields: &FieldAnswers) {
    for (call, kind, counter, fixed) in [
        (
            "nvmlDeviceGetTotalEccErrors, CORRECTED, VOLATILE",
            MemoryError::Corrected,
            EccCounter::Volatile,
            &[(names::ERROR_TYPE, "ecc_corrected_volatile")] as Fixed,
        ),
        (
            "nvmlDeviceGetTotalEccErrors, UNCORRECTED, VOLATILE",
            MemoryError::Uncorrected,
            EccCounter::Volatile,
            UNCORRECTED_VOLATILE,
        ),
        (
            "nvmlDeviceGetTotalEccErrors, CORRECTED, AGGREGATE",
            MemoryError::Corrected,
            EccCounter::Aggregate,
            &[(names::ERROR_TYPE, "ecc_corrected_aggregate")],
        ),
        (
            "nvmlDeviceGetTotalEccErrors, UNCORRECTED, AGGREGATE",
            MemoryError::Uncorrected,
            EccCounter::Aggregate,
            &[(names::ERROR_TYPE, "ecc_uncorrected_aggregate")],
        ),
    ] {
        let count = asking.wide(call, |device| device.total_ecc_errors(kind, counter));
        asking.add_as(names::ERRORS, fixed, count.map(Number::Whole));
    }
    let [corrected, uncorrected, pending, failed] = FIELDS.map(|field| fields.get(field).map(Number::Whole));
    asking.add_as(names::GPU_REMAPPED_ROWS, &[(names::ERROR_TYPE, "corrected")], corrected);
    asking.add_as(names::GPU_REMAPPED_ROWS, &[(names::ERROR_TYPE, "uncorrected")], uncorrected);
    let mut flag = |metric, reading: Reading<Number>| {
        asking.add(metric, reading.map(|value| Number::Whole(u64::from(value != Number::Whole(0)))));
    };
    flag(names::GPU_REMAP_PENDING, pending);
    flag(names::GPU_REMAP_FAILED, failed);
}
