//! The readers of the kernel that hand on a [`KernelSample`]: mounts, NFS, pressure, interfaces, RDMA and control groups.
//!
//! Each has a thread of its own, and is asked once in its own interval: [`LEAST`] or the agent's, when that is longer, and
//! NFS as often as mounts are probed. Mounts are asked more often than they are probed, so that what came back is handed
//! on soon.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::RunError;
use super::sensors::Watched;
use crate::config::Config;
use crate::outbox::encode::infos::Event;
use crate::outbox::send::chain;
use crate::sensors::{Cgroups, Change, KernelSample, Mounts, Network, Nfs, Pressure, Rdma, SensorThread};
use crate::telemetry::Telemetry;

/// No reader is asked more often than this.
const LEAST: Duration = Duration::from_secs(1);

/// What a reader answers.
pub type KernelAnswer = Result<KernelSample, String>;

/// Starts a reader's thread.
pub type Spawn = Box<dyn Fn() -> std::io::Result<SensorThread<KernelAnswer>> + Send + Sync>;

/// The readers, and when each was last asked.
#[derive(Debug)]
pub struct KernelSensors(Vec<Paced>);

#[derive(Debug)]
struct Paced {
    name: &'static str,
    watched: Watched<KernelAnswer>,
    every_ms: i64,
    /// Which of its intervals had the last request.
    asked: Option<i64>,
}

/// Each reader's name, how often it is asked, and its thread. `pids` are the processes that hold a GPU.
pub fn kernel_sensors(config: &Config, pids: &Arc<Mutex<Vec<u32>>>) -> Vec<(&'static str, Duration, Spawn)> {
    let roots = config.roots.clone();
    let every = config.interval.max(LEAST);
    let (mounts, excluded) = (config.mounts.clone(), config.mounts.exclude_points.clone());
    let proc = || roots.proc.clone();
    let sys = || roots.sys.clone();
    let (mounts_proc, nfs_proc, psi_proc, network_proc, cgroup_proc) = (proc(), proc(), proc(), proc(), proc());
    let (network_sys, rdma_sys, cgroup_sys) = (sys(), sys(), sys());
    let (cgroup, pids) = (roots.cgroup.clone(), Arc::clone(pids));
    vec![
        (
            "mounts",
            every,
            spawn("mounts", move || {
                let mut reader = Mounts::new(mounts_proc.clone(), mounts.clone());
                move |ts_ms| reader.sample(ts_ms).map_err(|error| chain(&error))
            }),
        ),
        (
            "nfs",
            every.max(config.mounts.interval),
            spawn("nfs", move || {
                let mut reader = Nfs::new(nfs_proc.clone(), excluded.clone());
                move |ts_ms| reader.sample(ts_ms).map_err(|error| chain(&error))
            }),
        ),
        (
            "psi",
            every,
            spawn("psi", move || {
                let mut reader = Pressure::new(psi_proc.clone());
                move |ts_ms| Ok(reader.sample(ts_ms))
            }),
        ),
        (
            "network",
            every,
            spawn("network", move || {
                let mut reader = Network::new(network_proc.clone(), network_sys.clone());
                move |ts_ms| reader.sample(ts_ms).map_err(|error| chain(&error))
            }),
        ),
        (
            "rdma",
            every,
            spawn("rdma", move || {
                let mut reader = Rdma::new(rdma_sys.clone());
                move |ts_ms| Ok(reader.sample(ts_ms))
            }),
        ),
        (
            "cgroup",
            every,
            spawn("cgroup", move || {
                let mut reader = Cgroups::new(cgroup_proc.clone(), cgroup_sys.clone(), cgroup.clone());
                let pids = Arc::clone(&pids);
                move |ts_ms| {
                    let pids = pids.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    Ok(reader.sample(&pids, ts_ms))
                }
            }),
        ),
    ]
}

/// `make` makes a reader, each time that the thread is started.
fn spawn<M, F>(name: &'static str, make: M) -> Spawn
where
    M: Fn() -> F + Clone + Send + Sync + 'static,
    F: FnMut(i64) -> KernelAnswer + 'static,
{
    Box::new(move || {
        let make = make.clone();
        SensorThread::spawn(name, make)
    })
}

impl KernelSensors {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`RunError::Thread`].
    pub fn start(config: &Config, pids: &Arc<Mutex<Vec<u32>>>) -> Result<Self, RunError> {
        let readers = kernel_sensors(config, pids).into_iter().map(|(name, every, spawn)| {
            let every_ms = i64::try_from(every.as_millis()).unwrap_or(i64::MAX).max(1);
            Ok(Paced { name, watched: Watched::new(spawn)?, every_ms, asked: None })
        });
        Ok(Self(readers.collect::<Result<_, RunError>>()?))
    }

    /// Asks those whose turn it is at `ts_ms` (Unix milliseconds).
    pub fn request(&mut self, ts_ms: i64) {
        for reader in &mut self.0 {
            let span = Some(ts_ms.div_euclid(reader.every_ms));
            if std::mem::replace(&mut reader.asked, span) != span {
                reader.watched.request(ts_ms);
            }
        }
    }

    /// What they answered by `deadline`.
    pub async fn collect(
        &mut self,
        deadline: tokio::time::Instant,
        now_ms: i64,
        telemetry: &Telemetry,
    ) -> Vec<(&'static str, KernelAnswer)> {
        let mut answers = Vec::with_capacity(self.0.len());
        for reader in &mut self.0 {
            let answer = reader.watched.collect(deadline, now_ms, telemetry).await;
            answers.extend(answer.map(|answer| (reader.name, answer)));
        }
        answers
    }

    /// Those whose threads had panicked and were started again since the last call.
    pub(super) fn take_restarted(&mut self) -> impl Iterator<Item = &'static str> {
        self.0.iter_mut().filter_map(|reader| reader.watched.take_restarted())
    }
}

/// A change as an event; it is logged, too.
pub(super) fn event(ts_ms: i64, change: Change) -> Event {
    if change.kind == "mount_lost" {
        tracing::warn!(kind = change.kind, "{}", change.message);
    } else {
        tracing::info!(kind = change.kind, "{}", change.message);
    }
    let event = Event::new(ts_ms, change.kind, change.message);
    change.attributes.into_iter().fold(event, |event, (name, value)| event.with(name, value))
}
