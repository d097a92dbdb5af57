//! Slurm's jobs of this node: who they are, and which devices they hold.
//!
//! [`tree`] finds the jobs: those whose control groups have processes. [`environ`] reads from the environment of a job's
//! processes which devices it got, and [`places`] and [`gpus`] say which devices of this node those are. What the environment does not tell
//! (account, quality of service, comment, whether the job is suspended, how large a shard is) [`scontrol`] asks of Slurm's
//! controller, and [`told`], [`gres`] and [`hosts`] read the answer. [`jobs`] joins all that to a [`Snapshot`](super::claim::Snapshot),
//! and says what is to be [`asked`]. [`watch`] drives it: each tick looks at the groups, and a thread waits for the controller, so
//! that a controller that hangs delays no more than labels.
//!
//! - A batch job holds, on the node of its script, from when its first step has a process until its last one has none. Groups
//!   without processes, as a crash leaves them behind, and the step managers of Slurm hold nothing.
//! - Any other job holds until the controller says that it no longer runs, and at most 5 minutes after its last word.
//! - When a job ended, or was suspended, that the controller alone knows of, it says afterwards, which counts as far as it is
//!   not booked yet: [`ends`].
//! - An allocation that has no process here, as `salloc` makes it where `PrologFlags` has no `Contain`, is known to the
//!   controller alone. Which devices of the node are allocated is asked once in a poll; only when the known jobs don't
//!   explain them, who runs here.
//! - A job holds what it was allocated, whatever of it a process has chosen to use.
//! - A suspended job holds nothing: its groups are frozen, or its tasks are stopped and the controller says that it is
//!   suspended. A job that only stops itself still holds.
//! - Without Slurm there are no such groups, and no more than the node is asked for.

pub mod asked;
mod ends;
pub mod environ;
#[cfg(test)]
pub mod fixture;
pub mod gpus;
pub mod gres;
pub mod hosts;
pub mod jobs;
pub mod places;
pub mod scontrol;
pub mod told;
pub mod tree;
pub mod watch;

pub use scontrol::Scontrol;
pub use watch::{SlurmOptions, SlurmWatch};

use super::claim::Named;

/// The label that has a job's state, as the controller tells it; `SUSPENDED` also where the kernel shows it.
pub const STATE: &str = "slurm.state";

/// The state of a job that holds what it was allocated.
pub const RUNNING: &str = "RUNNING";

/// The state of a job that holds nothing for now.
pub const SUSPENDED: &str = "SUSPENDED";

/// Whether this is a job that is suspended: its processes are known, and hold nothing.
pub fn is_suspended(named: &Named) -> bool {
    named.labels.get(STATE).is_some_and(|state| state == SUSPENDED)
}
