//! Slurm's jobs of this node: who they are, and which devices they hold.
//!
//! [`tree`] finds the jobs: those whose control groups have processes. [`environ`] reads from the environment of a job's
//! processes which devices it got, and [`gpus`] says which devices of this node those are. What the environment does not tell
//! (account, quality of service, comment, whether the job is suspended, how large a shard is) [`scontrol`] asks of Slurm's
//! controller, and [`told`] and [`gres`] read the answer. [`jobs`] joins all that to a [`Snapshot`](super::claim::Snapshot),
//! and says what is to be asked. [`watch`] drives it: one thread looks at the groups once a second, another one waits for the
//! controller, so that a controller that hangs delays no more than labels.
//!
//! - A job holds from when its first step has a process until its last one has none. Groups without processes, as a crash
//!   leaves them behind, and the step managers of Slurm hold nothing. A job that has no step on this node yet (`salloc`, where
//!   `PrologFlags` has no `Contain`) is not seen.
//! - A job holds what it was allocated, whatever of it a process has chosen to use.
//! - A suspended job holds nothing: its groups are frozen, or its tasks are stopped and the controller says that it is
//!   suspended. A job that only stops itself still holds.
//! - Without Slurm there are no such groups, and nothing is asked.

pub mod environ;
pub mod gpus;
pub mod gres;
pub mod jobs;
pub mod scontrol;
pub mod told;
pub mod tree;
pub mod watch;

pub use gpus::NodeDevice;
pub use scontrol::Scontrol;
pub use watch::{SlurmOptions, SlurmWatch};

use super::claim::Named;

/// The label that has a job's state, as the controller tells it; `SUSPENDED` also where the kernel shows it.
pub const STATE: &str = "slurm.state";

/// The state of a job that holds nothing for now.
pub const SUSPENDED: &str = "SUSPENDED";

/// Whether this is a job that is suspended: its processes are known, and hold nothing.
pub fn is_suspended(named: &Named) -> bool {
    named.labels.get(STATE).is_some_and(|state| state == SUSPENDED)
}
