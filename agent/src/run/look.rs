//! One look at what the kernel tells now, for a terminal: each reader on a thread of its own, with a common deadline.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use super::kernel::KernelAnswer;
use crate::config::Config;
use crate::outbox::send::chain;
use crate::sensors::{Cgroups, KernelSample, Mounts, Network, Nfs, Pressure, Rdma};

/// Asks every reader once, at `ts_ms` (Unix milliseconds); `pids` are the processes that hold a GPU. A mount that has not
/// answered after half of `patience` is unreachable; a reader that has not after all of it is an error, and its thread is
/// left behind.
pub fn look(config: &Config, pids: &[u32], ts_ms: i64, patience: Duration) -> Vec<(&'static str, KernelAnswer)> {
    let (roots, mounts) = (&config.roots, config.mounts.clone());
    let (proc, sys, cgroup) = (roots.proc.clone(), roots.sys.clone(), roots.cgroup.clone());
    let pids = pids.to_vec();
    let mut readers = vec![
        on_a_thread("mounts", {
            let proc = proc.clone();
            move || {
                let settled = patience / 2;
                let later_ms = i64::try_from(mounts.interval.as_millis()).unwrap_or(i64::MAX);
                let mut reader = Mounts::new(proc, mounts);
                let first = reader.sample(ts_ms).map_err(|error| chain(&error))?;
                reader.settle(settled);
                // Those that have not answered are late by now.
                let second = reader.sample(ts_ms.saturating_add(later_ms)).map_err(|error| chain(&error))?;
                Ok(KernelSample { measures: second.measures, ..first })
            }
        }),
        on_a_thread("nfs", {
            let (proc, excluded) = (proc.clone(), config.mounts.exclude_points.clone());
            move || Nfs::new(proc, excluded).sample(ts_ms).map_err(|error| chain(&error))
        }),
        on_a_thread("psi", {
            let proc = proc.clone();
            move || Ok(Pressure::new(proc).sample(ts_ms))
        }),
        on_a_thread("network", {
            let (proc, sys) = (proc.clone(), sys.clone());
            move || Network::new(proc, sys).sample(ts_ms).map_err(|error| chain(&error))
        }),
        on_a_thread("rdma", {
            let sys = sys.clone();
            move || Ok(Rdma::new(sys).sample(ts_ms))
        }),
        on_a_thread("cgroup", move || Ok(Cgroups::new(proc, sys, cgroup).sample(&pids, ts_ms))),
    ];
    let deadline = Instant::now() + patience;
    readers
        .drain(..)
        .map(|(name, answer)| {
            let left = deadline.saturating_duration_since(Instant::now());
            let silent = || Err(format!("no answer within {} ms", patience.as_millis()));
            (name, answer.recv_timeout(left).unwrap_or_else(|_| silent()))
        })
        .collect()
}

fn on_a_thread(
    name: &'static str,
    read: impl FnOnce() -> KernelAnswer + Send + 'static,
) -> (&'static str, Receiver<KernelAnswer>) {
    let (answer, answered) = sync_channel(1);
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn({
        let answer = answer.clone();
        move || _ = answer.send(read())
    });
    if let Err(error) = spawned {
        let _ = answer.send(Err(format!("cannot start its thread: {error}")));
    }
    (name, answered)
}
