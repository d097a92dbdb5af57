//! What is: one reader for each interface of the driver or of the kernel.
//!
//! A reader turns one interface into plain values ([`sample`]), most of them [`measure`]s by the names of the registry, and
//! keeps nothing but cursors. What a device is, and is asked once, are [`facts`]. The GPUs are read
//! through NVML ([`nvml`]), block devices from `/proc/diskstats` and `/sys/block` ([`disks`]), the machine from
//! `/proc` ([`host`]), file systems by a thread for each mount ([`mounts`]), NFS from `/proc/self/mountstats` ([`nfs`]),
//! pressure from `/proc/pressure` ([`psi`]), interfaces from `/proc/net/dev` ([`network`]) and `/sys/class/infiniband`
//! ([`rdma`]), and what control groups read and write from cgroup v1 or v2 ([`cgroup`]); [`kernel`] is what these share.
//! Counters are passed on as the kernel and the driver keep them: rates are computed where
//! they are read. What a device cannot tell, what it failed to tell, and a zero are three different [`Reading`]s.
//! Each reader is a [`task`], which the run loop asks for a sample and never waits for longer than its deadline; it runs on a
//! thread of the [`crew`](crate::crew), alone on it as soon as it takes long: a driver that hangs stops its own sensor and no other.

pub mod cgroup;
pub mod disks;
pub mod facts;
pub mod host;
pub mod kernel;
pub mod measure;
pub mod mounts;
pub mod network;
pub mod nfs;
pub mod nvml;
pub mod psi;
pub mod rdma;
pub mod reading;
pub mod sample;
pub mod task;

pub use cgroup::Cgroups;
pub use disks::Disks;
pub use facts::Facts;
pub use host::Host;
pub use kernel::{Change, KernelError, KernelSample};
pub use measure::{Measure, Measures, Number};
pub use mounts::{MountOptions, Mounts};
pub use network::Network;
pub use nfs::Nfs;
pub use nvml::{Driver, GpuAnswer, GpuReader, Gpus, LayoutChange, NvmlLibrary, SensorError, throttle_reasons};
pub use psi::Pressure;
pub use rdma::Rdma;
pub use reading::Reading;
pub use sample::{DiskSample, GpuIdentity, GpuProcess, GpuSample, HostSample, MigIdentity, Placement, ProcessKind};
pub use task::{Answer, SensorTask};
