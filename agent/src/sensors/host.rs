//! The machine.
/// The reader of `/proc/stat`, `/proc/meminfo` and `/proc/loadavg`.
#[derive(Debug)]
pub struct Host {}
