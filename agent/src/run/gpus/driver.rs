//! The thread that opens the driver, and then looks whether it is still the same.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use crate::errors::chain;
use crate::sensors::NvmlLibrary;
use crate::sensors::nvml::{Driver, Same};

/// What the thread has found. It holds the driver open itself; nobody else closes it by letting go of it.
#[derive(Debug)]
pub(super) enum Discovered {
    /// The driver was opened.
    Opened(Weak<Driver>),
    /// It can't be opened; with the reason.
    Failed(String),
    /// It is still the same.
    Same,
    /// It has other GPUs; with how many it counts.
    Changed(u32),
    /// It is of no use any more; with the reason.
    Lost(String),
}

/// What the thread does when it is asked. It holds the first driver that it opens until it ends.
pub(super) fn discover(library: NvmlLibrary, proc_root: PathBuf) -> impl FnMut(i64) -> Discovered {
    let mut open: Option<Arc<Driver>> = None;
    move |_| match &open {
        None => match Driver::open(&library, &proc_root) {
            Ok(driver) => Discovered::Opened(Arc::downgrade(open.insert(driver))),
            Err(error) => Discovered::Failed(chain(&error)),
        },
        Some(driver) => match driver.check() {
            Ok(Same::Yes) => Discovered::Same,
            Ok(Same::No(count)) => Discovered::Changed(count),
            Err(reason) => Discovered::Lost(reason),
        },
    }
}
