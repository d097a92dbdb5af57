//! The readers of the kernel that hand on a [`KernelSample`]: mounts, NFS, pressure, interfaces, RDMA and control groups.
//!
//! Each is registered with the node's sensors, and has a thread of its own. It is asked at every tick, and reads once in its own interval: [`LEAST`] or the agent's,
//! when that is longer, and NFS as often as mounts are probed; at other ticks its sample is empty. Mounts are looked at
//! more often than they are probed, so that what came back is handed on soon.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::config::Config;
use crate::outbox::encode::infos::Event;
use crate::outbox::send::chain;
use crate::sensors::{Cgroups, Change, KernelSample, Mounts, Network, Nfs, Pressure, Rdma};

/// No reader reads more often than this.
const LEAST: Duration = Duration::from_secs(1);

/// What a reader answers.
pub type KernelAnswer = Result<KernelSample, String>;

/// A reader: takes a sample for an instant in Unix milliseconds.
pub type Reader = Box<dyn FnMut(i64) -> KernelAnswer>;

/// Makes a reader, on the thread that it is to run on.
pub type Make = Arc<dyn Fn() -> Reader + Send + Sync>;

/// Each reader's name, and how it is made. `pids` are the processes that hold a GPU.
pub fn kernel_sensors(config: &Config, pids: &Arc<Mutex<Vec<u32>>>) -> Vec<(&'static str, Make)> {
    let every = config.interval.max(LEAST);
    let (mounts, excluded) = (config.mounts.clone(), config.mounts.exclude_points.clone());
    let nfs_every = every.max(mounts.interval);
    // Each of them owns what it needs.
    let proc = || config.roots.proc.clone();
    let sys = || config.roots.sys.clone();
    let (mounts_proc, nfs_proc, psi_proc, network_proc, cgroup_proc) = (proc(), proc(), proc(), proc(), proc());
    let (network_sys, rdma_sys, cgroup_sys) = (sys(), sys(), sys());
    let (cgroup, pids) = (config.roots.cgroup.clone(), Arc::clone(pids));
    vec![
        reader("mounts", every, move || {
            let mut reader = Mounts::new(mounts_proc.clone(), mounts.clone());
            move |ts_ms| reader.sample(ts_ms).map_err(|error| chain(&error))
        }),
        reader("nfs", nfs_every, move || {
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

/// `make` makes a reader that reads once in each span of `every` of the wall clock.
fn reader<M, F>(name: &'static str, every: Duration, make: M) -> (&'static str, Make)
where
    M: Fn() -> F + Send + Sync + 'static,
    F: FnMut(i64) -> KernelAnswer + 'static,
{
    let every_ms = i64::try_from(every.as_millis()).unwrap_or(i64::MAX).max(1);
    let make = move || -> Reader {
        let (mut read, mut last) = (make(), None);
        Box::new(move |ts_ms| {
            let span = Some(ts_ms.div_euclid(every_ms));
            if std::mem::replace(&mut last, span) == span {
                return Ok(KernelSample { ts_ms, ..KernelSample::default() });
            }
            read(ts_ms)
        })
    };
    (name, Arc::new(make))
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
        let (_, make) = reader("counting", Duration::from_secs(5), || {
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
