//! One look at what the kernel tells now, for a terminal: each reader on a thread of its own, with a common deadline.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::kernel::{KernelAnswer, kernel_sensors};
use crate::config::Config;
use crate::outbox::send::chain;
use crate::sensors::{KernelSample, Mounts};

/// Asks every reader once, at `ts_ms` (Unix milliseconds); `pids` are the processes that hold a GPU. A mount that has not
/// answered after half of `patience` is unreachable; a reader that has not after all of it is an error, and its thread is
/// left behind.
pub fn look(config: &Config, pids: &[u32], ts_ms: i64, patience: Duration) -> Vec<(&'static str, KernelAnswer)> {
    let pids = Arc::new(Mutex::new(pids.to_vec()));
    let asked: Vec<_> = kernel_sensors(config, &pids)
        .into_iter()
        .map(|(name, make)| match name {
            "mounts" => {
                let config = config.clone();
                (name, on_a_thread(name, move || mounts(&config, ts_ms, patience / 2)))
            }
            _ => (name, on_a_thread(name, move || make()(ts_ms))),
        })
        .collect();
    let deadline = Instant::now() + patience;
    let answers = asked.into_iter().map(|(name, answer)| {
        let left = deadline.saturating_duration_since(Instant::now());
        let silent = || Err(format!("no answer within {} ms", patience.as_millis()));
        (name, answer.recv_timeout(left).unwrap_or_else(|_| silent()))
    });
    answers.collect()
}

/// Mounts are asked by one sample, and answer by the next one.
fn mounts(config: &Config, ts_ms: i64, patience: Duration) -> KernelAnswer {
    let interval_ms = i64::try_from(config.mounts.interval.as_millis()).unwrap_or(i64::MAX);
    let mut reader = Mounts::new(config.roots.proc.clone(), config.mounts.clone());
    let first = reader.sample(ts_ms).map_err(|error| chain(&error))?;
    reader.settle(patience);
    let second = reader.sample(ts_ms.saturating_add(interval_ms)).map_err(|error| chain(&error))?;
    Ok(KernelSample { measures: second.measures, ..first })
}

fn on_a_thread(name: &'static str, read: impl FnOnce() -> KernelAnswer + Send + 'static) -> Receiver<KernelAnswer> {
    let (answer, answered) = sync_channel(1);
    let reading = answer.clone();
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || _ = reading.send(read()));
    if let Err(error) = spawned {
        let _ = answer.send(Err(format!("cannot start its thread: {error}")));
    }
    answered
}
