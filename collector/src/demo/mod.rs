//! `contador demo`: every part on this machine, each as the process that it is in production.
//!
//! [`processes`] starts the engine, the collector and the [`agent`] on ports of [`ports`]; [`workloads`] are labelled processes.
//! Without an NVIDIA driver they hold [`simulated`] GPUs, beside a simulated Slurm job and pods that a [`kubelet`] tells of.
//! [`service`] is a small HTTP service under the load of [`load`], whose latencies are pushed as histograms; [`sample`] imports
//! last month's allocations of a generated fleet and asks for its bill. Then [`live`] asks ClickHouse for what [`view`] shows,
//! [`visible`] measures how long a sample takes to be seen there, and [`restarts`] says when the agent is ended and started
//! again. At the end [`conserve`] checks what was stored, [`owners`] says who held what, and [`summary`] tells it.

mod agent;
mod conserve;
mod kubelet;
mod live;
mod load;
mod owners;
mod ports;
mod processes;
mod restarts;
mod sample;
mod service;
mod simulated;
mod summary;
mod view;
mod visible;
mod workloads;

mod run;

pub(crate) use processes::END_WITH_PARENT;
pub use run::{Options, run};
pub use summary::Summary;
