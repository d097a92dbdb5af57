//! With a GPU that hangs for ever the agent goes on, and stays as it is. Alone in its process, whose threads it counts.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::BTreeSet;

#[path = "../../agent/tests/common/mod.rs"]
mod collector;
mod nvml_support;
mod watch_support;

use watch_support::{Agent, scenario, uuid};

const ROUNDS: i64 = 10_000;

/// The GPUs, the driver, the owners and the readers of the kernel: when all are slow at once, each has a thread for a while.
const SENSORS: usize = 3 + 1 + 1 + 8;

/// How many threads there are, how many files are open, and resident memory in KiB.
fn size() -> (usize, usize, u64) {
    let entries = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    // The runtime's own pool for writing files grows and shrinks as it is used, within its bounds.
    let threads = names.filter(|name| !name.starts_with("tokio-")).count();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib = resident.trim().trim_end_matches(" kB").parse().unwrap();
    (threads, entries("/proc/self/fd"), kib)
}

#[tokio::test]
async fn with_a_call_that_hangs_for_ever_no_round_is_missed_and_nothing_grows() {
    let mut agent = Agent::start(&scenario(3));
    agent.ticks(2).await;
    agent
        .simulator
        .faults("[[fault]]\nkind = \"hang\"\ngpu = 1\n[[fault]]\nkind = \"hang\"\ngpu = 2\ncall = \"power_usage\"\n");
    // What is made once is made by then: the ledger has closed minutes, the checkpoint has its size.
    let warm = 1_000;
    let mut sampled = BTreeSet::new();
    let mut host = BTreeSet::new();
    let mut first = None;
    while agent.now() < ROUNDS {
        agent.tick().await;
        sampled.append(&mut agent.sampled(&uuid(0)));
        host.append(&mut agent.host_sampled());
        agent.received.clear();
        if agent.now() == warm {
            first = Some(size());
        }
    }
    let (threads, files, kib) = first.unwrap();
    let last = size();
    assert!(last.0 <= threads + SENSORS, "{threads} threads grew to {}", last.0);
    assert_eq!(last.1, files, "open files");
    assert!(last.2 < kib + 2_048, "{kib} KiB grew to {} KiB", last.2);
    let every: BTreeSet<i64> = (0..=ROUNDS).collect();
    assert_eq!(every.difference(&sampled).count(), 0, "the GPU that answers was sampled in every round");
    assert_eq!(every.difference(&host).count(), 0, "the machine was sampled in every round");
}
