//! GPUs by NVML.
use std::path::PathBuf;

/// Which NVML library to load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NvmlLibrary {
    /// Path or name of the library; absent: the driver's own, `libnvidia-ml.so.1`.
    pub path: Option<PathBuf>,
    /// True when it is contador's simulator: every identity then says so.
    pub simulated: bool,
}

/// Why the GPUs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SensorError {}

/// The GPUs of this machine.
#[derive(Debug)]
pub struct Gpus {}
