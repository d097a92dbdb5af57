//! A process and all its children, as `/proc` tells them.
#![allow(dead_code, reason = "each benchmark uses its part")]

use std::fs;

/// Whether this program was started as a benchmark. Cargo runs benchmarks as tests too, without the word that says so: they
/// take minutes, and there is nothing to be tested.
pub fn is_benchmark() -> bool {
    std::env::args().any(|word| word == "--bench")
}

/// The processes of a tree at one instant.
pub struct Tree(Vec<u32>);

impl Tree {
    /// The process and everything below it.
    pub fn of(root: u32) -> Self {
        let mut found = vec![root];
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for task in tasks {
                let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
                found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
            next += 1;
        }
        Self(found)
    }

    /// The process alone.
    pub fn one(pid: u32) -> Self {
        Self(vec![pid])
    }

    /// CPU time that its living threads have used, in seconds.
    ///
    /// Of `schedstat`, in nanoseconds: `utime` and `stime` are counted by the timer's tick, which a program that wakes up by the
    /// same timer meets more often than chance would have it.
    pub fn cpu_seconds(&self) -> f64 {
        let tasks =
            self.0.iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten());
        let of_task = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        };
        tasks.filter_map(of_task).sum::<u64>() as f64 / 1e9
    }

    /// Resident memory in bytes; pages that several of them share count several times.
    pub fn rss_bytes(&self) -> u64 {
        let pages = self.stat(|fields| fields.get(21).and_then(|pages| pages.parse().ok()).unwrap_or(0));
        pages * rustix::param::page_size() as u64
    }

    /// Memory of its own that the root of the tree touches within `length`, in bytes; what the kernel does for it is not among it.
    pub fn touched_bytes(&self, length: std::time::Duration) -> u64 {
        let Some(root) = self.0.first() else { return 0 };
        if fs::write(format!("/proc/{root}/clear_refs"), "1").is_err() {
            return 0;
        }
        std::thread::sleep(length);
        let maps = fs::read_to_string(format!("/proc/{root}/smaps")).unwrap_or_default();
        let of_line = |line: &str| {
            let kib = line.strip_prefix("Referenced:")?.trim().strip_suffix(" kB")?;
            kib.trim().parse::<u64>().ok()
        };
        maps.lines().filter_map(of_line).sum::<u64>() * 1024
    }

    /// Threads.
    pub fn threads(&self) -> usize {
        self.0.iter().map(|pid| entries(&format!("/proc/{pid}/task"))).sum()
    }

    /// Open file descriptors.
    pub fn fds(&self) -> usize {
        self.0.iter().map(|pid| entries(&format!("/proc/{pid}/fd"))).sum()
    }

    fn stat(&self, read: impl Fn(&[&str]) -> u64) -> u64 {
        let of = |pid: &u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (_, fields) = text.rsplit_once(')')?;
            Some(read(&fields.split_whitespace().collect::<Vec<_>>()))
        };
        self.0.iter().filter_map(of).sum()
    }
}

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}
