//! Whose it is: from the processes that a driver lists to owners.
//!
//! [`claim`] is what schedulers say, and [`device_id`] reads the names that they have for devices. [`kubernetes`] asks one,
//! [`slurm`] finds the jobs of this node. [`process`] asks the kernel for a process's ancestors, environment and control group,
//! as long as it is [`alive`]: [`labels`] reads from an environment what `contador-agent exec` or `OTEL_RESOURCE_ATTRIBUTES` say, [`label`] says what one
//! may be, [`cgroup`] reads whose work a control group is, and [`users`] names who runs it when nothing does. [`mapping`] finds
//! who pays for whoever was found, and [`identified`] is he with his id.

pub mod alive;
pub mod cgroup;
pub mod claim;
pub mod device_id;
pub mod identified;
pub mod kubernetes;
pub mod label;
pub mod labels;
pub mod mapping;
pub mod process;
pub mod slurm;
pub mod users;

pub use device_id::{DeviceId, NodeDevice};
pub use identified::Identified;
pub use process::ProcessOwners;
