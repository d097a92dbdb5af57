//! The readers of the kernel: disks, the machine, mounts, NFS, pressure, interfaces, RDMA and control groups.
//!
//! Each is registered with the node's sensors. It is asked at every tick. Disks and the machine are read each time; the others
//! once in an interval of their own: [`LEAST`] or the agent's, when that is longer, and NFS as often as mounts are probed; at
//! other ticks their samples are empty. Mounts are looked at more often than they are probed, so that what came back is
//! handed on soon.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::config::Config;
use crate::errors::chain;
use crate::outbox::encode::infos::Event;
use crate::sensors::{Cgroups, Change, Disks, Host, KernelSample, Measures, Mounts, Network, Nfs, Pressure, Rdma};

/// Readers that have an interval of their own read no more often than this.
const LEAST: Duration = Duration::from_secs(1);

/// What a reader answers.
pub type KernelAnswer = Result<KernelSample, String>;

/// A reader: takes a sample for an instant in Unix milliseconds.
pub type Reader = Box<dyn FnMut(i64) -> KernelAnswer + Send>;

/// A kind of reader.
#[derive(Clone)]
pub struct KernelSensor {
    /// Its name.
    pub name: &'static str,
    /// How long its values hold before they are read again; 0 when they are at every tick.
    pub every: Duration,
    /// Makes a reader, on the thread that it is to run on.
    pub make: Arc<dyn Fn() -> Reader + Send + Sync>,
}

impl std::fmt::Debug for KernelSensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelSensor").field("name", &self.name).field("every", &self.every).finish_non_exhaustive()
    }
}

/// Every kind. `pids` are the processes that hold a GPU.
pub fn kernel_sensors(config: &Config, pids: &Arc<Mutex<Vec<u32>>>) -> Vec<KernelSensor> {
    let every = config.interval.max(LEAST);
    let (mounts, excluded) = (config.mounts.clone(), config.mounts.exclude_points.clone());
    // Mounts are probed this often, and looked at for what has come back each time.
    let probed = every.max(mounts.interval);
    // Each of them owns what it needs.
    let proc = || config.roots.proc.clone();
    let sys = || config.roots.sys.clone();
    let (disks_proc, host_proc, mounts_proc, nfs_proc) = (proc(), proc(), proc(), proc());
    let (psi_proc, network_proc, cgroup_proc) = (proc(), proc(), proc());
    let (disks_sys, network_sys, rdma_sys, cgroup_sys) = (sys(), sys(), sys(), sys());
    let (cgroup, pids) = (config.roots.cgroup.clone(), Arc::clone(pids));
    vec![
        reader("disks", Duration::ZERO, move || {
            let mut reader = Disks::new(disks_proc.clone(), disks_sys.clone());
            move |ts_ms| {
                let mut measures = Measures::default();
                let disks = reader.sample(ts_ms).map_err(|error| chain(&error))?;
                disks.iter().for_each(|disk| measures.append(disk.measures()));
                Ok(KernelSample { ts_ms, measures, ..KernelSample::default() })
            }
        }),
        reader("host", Duration::ZERO, move || {
            let mut reader = Host::new(host_proc.clone());
            move |ts_ms| {
                let measures = reader.sample(ts_ms).map_err(|error| chain(&error))?.measures();
                Ok(KernelSample { ts_ms, measures, ..KernelSample::default() })
            }
        }),
        KernelSensor {
            every: probed,
            ..reader("mounts", every, move || {
                let mut reader = Mounts::new(mounts_proc.clone(), mounts.clone());
                move |ts_ms| reader.sample(ts_ms).map_err(|error| chain(&error))
            })
        },
        reader("nfs", probed, move || {
            let mut reader = Nfs::new(nfs_proc.clone(), excluded.clone());
            move |ts_ms| reader.sample(ts_ms).map_err(|error| chain(&error))
        }),
        reader("psi", every, move || {
            let mut reader = Pressure::new(psi_proc.clone());
            move |ts_ms| Ok(reader.sample(ts_ms))
        }),
        reader("network", every, move || {
            let mut reader = Network::new(network_proc.clone(), network_sys.clone());
            move |ts_ms| reader.sample(ts_ms).map_err(|error| chain(&error))
        }),
        reader("rdma", every, move || {
            let mut reader = Rdma::new(rdma_sys.clone());
            move |ts_ms| Ok(reader.sample(ts_ms))
        }),
        reader("cgroup", every, move || {
            let mut reader = Cgroups::new(cgroup_proc.clone(), cgroup_sys.clone(), cgroup.clone());
            let pids = Arc::clone(&pids);
            move |ts_ms| {
                let pids = pids.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Ok(reader.sample(&pids, ts_ms))
            }
        }),
    ]
}

/// `make` makes a reader that reads once in each span of `every` of the wall clock, or each time when that is 0.
fn reader<M, F>(name: &'static str, every: Duration, make: M) -> KernelSensor
where
    M: Fn() -> F + Send + Sync + 'static,
    F: FnMut(i64) -> KernelAnswer + Send + 'static,
{
    let every_ms = i64::try_from(every.as_millis()).unwrap_or(i64::MAX);
    let make = move || -> Reader {
        let (mut read, mut last) = (make(), None);
        Box::new(move |ts_ms| {
            let span = ts_ms.checked_div_euclid(every_ms);
            if span.is_some() && std::mem::replace(&mut last, span) == span {
                return Ok(KernelSample { ts_ms, ..KernelSample::default() });
            }
            read(ts_ms)
        })
    };
    KernelSensor { name, every, make: Arc::new(make) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_reads_once_in_its_interval() {
        let KernelSensor { make, .. } = reader("counting", Duration::from_secs(5), || {
            let mut count = 0;
            move |ts_ms| {
                count += 1;
                let change = Change { kind: "read", message: format!("{count}"), attributes: Vec::new() };
                Ok(KernelSample { ts_ms, changes: vec![change], ..KernelSample::default() })
            }
        });
        let mut read = make();
        let mut reads = |ts_ms| {
            let sample = read(ts_ms).unwrap();
            assert_eq!(sample.ts_ms, ts_ms);
            !sample.changes.is_empty()
        };
        let at: Vec<bool> = [4_000, 5_000, 6_000, 9_999, 10_000, 3_000].into_iter().map(&mut reads).collect();
        assert_eq!(at, [true, true, false, false, true, true], "a clock that is set back begins anew");
    }
}
