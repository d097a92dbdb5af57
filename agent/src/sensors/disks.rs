//! Block devices.
/// The reader of `/proc/diskstats`.
#[derive(Debug)]
pub struct Disks {}
