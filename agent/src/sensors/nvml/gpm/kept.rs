//! A GPM sample that outlives the borrow of the library that it is of.
//!
//! The wrapper's sample borrows the open library, and a reader that keeps one beside the library could not be written. So
//! the handle alone is kept, and is a sample again for as long as it takes to compare or to free it.
#![allow(unsafe_code)]

use nvml_wrapper::{GpmSample, Nvml};
use nvml_wrapper_sys::bindings::nvmlGpmSample_t;

/// A sample's handle. It is owned, and freed by way of [`sample`](Self::sample) alone.
#[derive(Debug)]
pub(super) struct Kept {
    handle: nvmlGpmSample_t,
    /// When the sample was taken, in Unix milliseconds.
    pub(super) ts_ms: i64,
}

// SAFETY: the handle is the driver's, which lets any thread use a sample as long as it is one at a time; the wrapper's own
// type says the same.
unsafe impl Send for Kept {}

impl Kept {
    pub(super) fn new(sample: GpmSample<'_>, ts_ms: i64) -> Self {
        Self { handle: sample.into_handle(), ts_ms }
    }

    /// The sample; dropping it frees it. `nvml` is the library that it was taken with.
    pub(super) fn sample(self, nvml: &Nvml) -> GpmSample<'_> {
        // SAFETY: the handle came from a sample that gave it up, nothing else has it, and a reader asks one open library
        // only: the one that it was made with.
        unsafe { GpmSample::from_handle(nvml, self.handle) }
    }
}
