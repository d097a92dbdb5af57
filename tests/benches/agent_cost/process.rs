//! A process and all its children, as `/proc` tells them.
#![allow(dead_code, reason = "each benchmark uses its part")]

use std::fs;

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

    /// CPU time that it has used, in seconds; of its ended children, too.
    pub fn cpu_seconds(&self) -> f64 {
        // proc_pid_stat(5): utime, stime, cutime and cstime are the 14th to 17th field; the second can have blanks.
        let ticks = self.stat(|fields| (11..15).filter_map(|at| fields.get(at)?.parse::<u64>().ok()).sum());
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Resident memory in bytes; pages that several of them share count several times.
    pub fn rss_bytes(&self) -> u64 {
        let pages = self.stat(|fields| fields.get(21).and_then(|pages| pages.parse().ok()).unwrap_or(0));
        pages * rustix::param::page_size() as u64
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
